"""The parts of ``gpu.py``: each makes random weights, does its work and gives its figures.

Operations are those that the rows need, counted as ``train --dry-run`` does, so padding lowers the
share of the peak.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpu_work import Machine, Rows, Work, plan_of, play, prompts_of, rows_of, sizes

Found = dict[str, Any]
ALGORITHMS = ("ppo", "capo", "sapo_ar")


def rollout(machine: Machine, work: Work) -> Found:
    """Reading prompts and decoding, and whether the engine's numbers are those of one forward."""
    import torch

    from agentgym_suite.trainers.durations import trunk_operations
    from agentgym_suite.trainers.hidden_states import boundary_states
    from agentgym_suite.trainers.logprobs import Forward, token_scores

    model, shape = machine.model(work), sizes(work)
    count = work.trajectories * work.steps
    short, seconds = replace(work, reply=1), {}
    play(machine, model, short, count, {})  # kernels are chosen and compiled
    play(machine, model, short, count, seconds)
    reading = seconds["rollout"]
    seconds = {}
    prompts, replies = play(machine, model, work, count, seconds)
    decoding = seconds["rollout"] - reading
    words = shape.vocabulary
    forward = Forward(banned_ids=(words - 2, words - 1))
    apart = []
    with torch.no_grad():
        for prompt, reply in list(zip(prompts, replies, strict=True))[:4]:
            states = boundary_states(model.base_model, [prompt], [reply.ids])[0, :-1]
            ids = torch.tensor(reply.ids, device=machine.device)
            scores = token_scores(states, model.get_output_embeddings(), ids, forward).logprobs
            told = torch.tensor(reply.logprobs, device=machine.device)
            apart.append(float((scores - told).abs().max()))
    peak, source = machine.peak_operations()
    read = sum(trunk_operations(shape, len(prompt)) for prompt in prompts)
    return {
        "peak_operations": peak,
        "peak_source": source,
        "matmul_operations": machine.matmul(),
        "prompt_tokens_per_s": sum(map(len, prompts)) / reading,
        "reading_share_of_peak": read / reading / peak,
        "reply_tokens_per_s": count * (work.reply - 1) / decoding,
        "ms_a_decoding_step": 1e3 * decoding / (work.reply - 1),
        "ms_a_layer_and_step": 1e3 * decoding / (work.reply - 1) / shape.layers,
        "rows": count,
        "logprobs_apart": max(apart),
        "peak_bytes": machine.peak_bytes,
    }


def update(machine: Machine, work: Work, side: str) -> Found:
    """Forward and backward over the same rows, padded, in buckets of one length, or packed."""
    import torch

    from agentgym_suite.trainers.durations import trunk_operations
    from agentgym_suite.trainers.hidden_states import boundary_states

    if side == "packed" and "packed" not in inspect.signature(boundary_states).parameters:
        return {"skipped": "rows cannot be packed"}
    model, shape = machine.model(work), sizes(work)
    prompts = prompts_of(work, work.compared)
    answers = [prompt[: work.reply] for prompt in reversed(prompts)]
    passes = {"padded": padded_pass, "bucketed": bucketed_pass, "packed": packed_pass}
    learn = passes[side]
    learn(model, prompts[:1], answers[:1], work)
    seconds: dict[str, float] = {}
    model.zero_grad(set_to_none=True)
    if machine.cuda:
        torch.cuda.reset_peak_memory_stats()
    with machine.timed(seconds, "update"):
        loss = learn(model, prompts, answers, work)
    norm = torch.stack(
        [w.grad.float().norm() for w in model.parameters() if w.grad is not None]
    ).norm()
    tokens = sum(map(len, prompts)) + sum(map(len, answers))
    needed = sum(
        3 * trunk_operations(shape, len(prompt) + len(answer)) + 6.0 * shape.embedding * len(answer)
        for prompt, answer in zip(prompts, answers, strict=True)
    )
    return {
        "seconds": seconds["update"],
        "tokens_per_s": tokens / seconds["update"],
        "operations_per_s": needed / seconds["update"],
        "peak_bytes": machine.peak_bytes,
        "loss": loss,
        "gradient_norm": float(norm),
    }


def padded_pass(model: Any, prompts: Rows, answers: Rows, work: Work) -> float:
    """Rows in the order they come, padded to the longest, with the logits of every position."""
    import torch

    whole = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    longest = max(map(len, whole))
    at_once = max(1, work.micro_tokens // longest)
    sampled, total = sum(map(len, answers)), 0.0
    for start in range(0, len(whole), at_once):
        rows = whole[start : start + at_once]
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=model.device)
        mask = torch.tensor(
            [[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=model.device
        )
        chosen = torch.zeros(ids.shape, dtype=torch.bool, device=model.device)
        for number, row in enumerate(rows):
            chosen[number, len(row) - len(answers[start + number]) : len(row)] = True
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float()
        logprobs = logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
        loss = -logprobs[chosen[:, 1:]].sum() / sampled
        loss.backward()
        total += float(loss.detach())
    return total


def bucketed_pass(model: Any, prompts: Rows, answers: Rows, work: Work) -> float:
    """What the trainer does."""
    return _response_pass(model, prompts, answers, work)


def packed_pass(model: Any, prompts: Rows, answers: Rows, work: Work) -> float:
    """The same with rows one behind the other."""
    return _response_pass(model, prompts, answers, work, packed=True)


def _response_pass(model: Any, prompts: Rows, answers: Rows, work: Work, **how: bool) -> float:
    import torch

    from agentgym_suite.trainers.hidden_states import boundary_states, length_buckets
    from agentgym_suite.trainers.logprobs import Forward, token_scores

    lengths = [len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True)]
    sampled, total = sum(map(len, answers)), 0.0
    for numbers in length_buckets(lengths, work.micro_tokens):
        chosen = [answers[number] for number in numbers]
        trunk = model.base_model
        states = boundary_states(trunk, [prompts[number] for number in numbers], chosen, **how)
        flat = torch.cat([states[n, : len(answer)] for n, answer in enumerate(chosen)])
        ids = torch.tensor([token for answer in chosen for token in answer], device=model.device)
        scores = token_scores(flat, model.get_output_embeddings(), ids, Forward()).logprobs
        loss = -scores.sum() / sampled
        loss.backward()
        total += float(loss.detach())
    return total


def iteration(machine: Machine, work: Work, name: str) -> Found:
    """One iteration of an algorithm over the same rows as any other's, with the same reference."""
    import torch

    from agentgym_suite.trainers.batch import collate
    from agentgym_suite.trainers.logprobs import Forward
    from agentgym_suite.trainers.minibatch import minibatches
    from agentgym_suite.trainers.models import frozen_copy, make_critic
    from agentgym_suite.trainers.passes import critic_pass, old_policy_pass, reference_pass
    from agentgym_suite.trainers.registry import make_algorithm
    from agentgym_suite.trainers.stats import OneRank
    from agentgym_suite.trainers.update import Learner, Tally, update_critic, update_policy
    from agentgym_suite.trainers.value_basis import equalise_value_rows

    algorithm = make_algorithm(
        name, kl_coef=1e-3, entropy_coef=0.0, minibatch_rows=work.minibatch_rows
    )
    needs, settings = algorithm.needs, algorithm.config
    model, words = machine.model(work), work.model["vocab_size"]
    values = (words - 2, words - 1)
    if needs.value_tokens:
        equalise_value_rows(model.get_output_embeddings().weight, values)
    forward = Forward(
        banned_ids=values,
        value_ids=values if needs.value_tokens else None,
        entropy=needs.entropy,
    )
    learner = Learner.make(model, 1e-6, warmup=0, grad_clip=1.0, decay=0.01)
    reference = frozen_copy(model)
    critic = None
    if needs.critic != "none":
        critic = Learner.make(make_critic(model), 1e-5, warmup=0, grad_clip=1.0, decay=0.01)
    play(machine, model, replace(work, reply=2), 2, {})
    seconds: dict[str, float] = {}
    count, alone, tokens = work.trajectories * work.steps, OneRank(), work.micro_tokens
    prompts, replies = play(machine, model, work, count, seconds)
    batch = collate(rows_of(work, prompts, replies))
    with machine.timed(seconds, "passes"):
        batch = old_policy_pass(batch, model, algorithm, forward, tokens)
        batch = reference_pass(batch, reference, forward, tokens)
        if critic is not None:
            batch = critic_pass(batch, critic.model, needs.critic, tokens)
    assert batch.old_logprobs is not None
    old = float(batch.old_logprobs.sum() / batch.response_mask.sum())
    batch = algorithm.prepare(batch, alone).batch
    import numpy as np

    tally, chance = Tally(), np.random.Generator(np.random.PCG64(0))
    unit, rows = settings.minibatch_unit, settings.minibatch_rows
    for numbers in minibatches(batch, unit=unit, rows=rows, chance=chance):
        part = batch.select(numbers)
        with machine.timed(seconds, "policy"):
            update_policy(learner, part, algorithm, forward, alone, most_tokens=tokens, tally=tally)
        if critic is not None:
            with machine.timed(seconds, "critic"):
                update_critic(critic, part, algorithm, alone, most_tokens=tokens, tally=tally)
    plan = plan_of(machine, work, algorithm)
    from agentgym_suite.trainers.durations import operations
    from agentgym_suite.trainers.memory import memory

    work_done = operations(plan)
    sampled = json.dumps([list(reply.ids) for reply in replies]).encode()
    learned = work_done.policy + work_done.critic + work_done.passes
    return {
        "seconds": seconds,
        "total_seconds": sum(seconds.values()),
        "learning_operations_per_s": learned / (sum(seconds.values()) - seconds["rollout"]),
        "peak_bytes": machine.peak_bytes,
        "estimated_bytes": memory(plan).peak,
        "replies_digest": hashlib.sha256(sampled).hexdigest()[:16],
        "old_logprob": old,
        "gradient_norm": tally.summary()["grad/policy"],
        "weights_finite": all(bool(torch.isfinite(w).all()) for w in model.parameters()),
    }


PARTS: dict[str, Callable[[Machine, Work], Found]] = {
    "rollout": rollout,
    **{
        side: lambda machine, work, side=side: update(machine, work, side)
        for side in ("padded", "bucketed", "packed")
    },
    **{
        name: lambda machine, work, name=name: iteration(machine, work, name) for name in ALGORITHMS
    },
}

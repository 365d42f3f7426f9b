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
from functools import partial
from typing import Any

from gpu_work import (
    VALUE_ROWS,
    Machine,
    Work,
    plan_of,
    play,
    prompts_of,
    rows_of,
    sizes,
    value_rows,
)

Found = dict[str, Any]
ALGORITHMS = ("ppo", "capo", "sapo_ar")
PHASES = {
    "old policy": "passes",
    "reference": "passes",
    "values of the critic": "passes",
    "update of the policy": "policy",
    "update of the critic": "critic",
}
"""Steps of an iteration -> what they are told as; advantages take no device."""


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
    forward = Forward(banned_ids=value_rows(work))
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
    from learning_passes import padded_pass, response_pass

    from agentgym_suite.trainers.durations import trunk_operations
    from agentgym_suite.trainers.hidden_states import boundary_states

    if side == "packed" and "packed" not in inspect.signature(boundary_states).parameters:
        return {"skipped": "rows cannot be packed"}
    model, shape = machine.model(work), sizes(work)
    prompts = prompts_of(work, work.compared)
    answers = [prompt[: work.reply] for prompt in reversed(prompts)]
    passes = {
        "padded": padded_pass,
        "bucketed": response_pass,
        "packed": partial(response_pass, packed=True),
    }
    learn = passes[side]
    learn(model, prompts[:1], answers[:1], work.micro_tokens)
    seconds: dict[str, float] = {}
    model.zero_grad(set_to_none=True)
    if machine.cuda:
        torch.cuda.reset_peak_memory_stats()
    with machine.timed(seconds, "update"):
        loss = learn(model, prompts, answers, work.micro_tokens)
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


def iteration(machine: Machine, work: Work, name: str) -> Found:
    """One iteration of an algorithm over the same rows as any other's, with the same reference."""
    import torch
    from iterations import Iteration

    from agentgym_suite.trainers.batch import collate
    from agentgym_suite.trainers.durations import operations
    from agentgym_suite.trainers.memory import memory
    from agentgym_suite.trainers.registry import make_algorithm

    algorithm = make_algorithm(
        name, kl_coef=1e-3, entropy_coef=0.0, minibatch_rows=work.minibatch_rows
    )
    model, words = machine.model(work), work.model["vocab_size"] - VALUE_ROWS
    taken = Iteration(
        algorithm, model, words, micro_tokens=work.micro_tokens, clock=machine.seconds
    )
    play(machine, model, replace(work, reply=2), 2, {})
    seconds: dict[str, float] = {}
    prompts, replies = play(machine, model, work, work.trajectories * work.steps, seconds)
    batch = taken.score(collate(rows_of(work, prompts, replies)))
    assert batch.old_logprobs is not None
    old = float(batch.old_logprobs.sum() / batch.response_mask.sum())
    learned = taken.learn(taken.prepare(batch))
    for phase, spent in taken.seconds.items():
        if phase in PHASES:
            seconds[PHASES[phase]] = seconds.get(PHASES[phase], 0.0) + spent
    plan = plan_of(machine, work, algorithm)
    needed = operations(plan)
    sampled = json.dumps([list(reply.ids) for reply in replies]).encode()
    return {
        "seconds": seconds,
        "total_seconds": sum(seconds.values()),
        "learning_operations_per_s": (needed.policy + needed.critic + needed.passes)
        / (sum(seconds.values()) - seconds["rollout"]),
        "peak_bytes": machine.peak_bytes,
        "estimated_bytes": memory(plan).peak,
        "replies_digest": hashlib.sha256(sampled).hexdigest()[:16],
        "old_logprob": old,
        "gradient_norm": learned["grad/policy"],
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

"""Each algorithm, driven by its protocol alone, learns a world of four states.

In state s the right action is the two tokens (s, 3 - s); each right token pays a half. Chance
scores 0.75 of 3. A teacher knows the answers, not surely.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from agentgym_suite.trainers.algorithm import Algorithm, PolicyOutputs, Sums
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.losses import full_divergence
from agentgym_suite.trainers.registry import ALGORITHMS, make_algorithm
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.stats import OneRank
from agentgym_suite.trainers.value_basis import (
    kept_logits,
    restricted_entropy,
    restricted_logprobs,
    value_margin,
)

STATES, WORDS, STEPS, TOKENS = 4, 4, 3, 2
CHANCE = 0.75
VALUE_IDS = (4, 5)
ALONE = OneRank()
# rates and clips for a world this small; everything else is the paper's
SETTINGS: dict[str, dict[str, Any]] = {
    "capo": {"clip_low": 0.2, "clip_high": 0.2},
    "sapo_ar": {"r_max": 3.0},
    "gspo": {"clip_low": 0.2, "clip_high": 0.2},
}


def network(outputs: int) -> nn.Module:
    """Two layers over (state, the token before)."""
    return nn.Sequential(
        nn.Linear(STATES + WORDS + 1, 24), nn.Tanh(), nn.Linear(24, outputs)
    ).double()


def seen(states: Tensor, before: Tensor) -> Tensor:
    """One-hot of the state and of the token before, WORDS meaning none."""
    state = nn.functional.one_hot(states, STATES)
    token = nn.functional.one_hot(before, WORDS + 1)
    return torch.cat([state, token], -1).double()


def places(batch: StepBatch) -> tuple[Tensor, Tensor]:
    """State of each row, and the token before each place ``[n, TOKENS + 1]``, ends included."""
    states = torch.tensor([row.prompt_ids[0] for row in batch.rows])
    none = torch.full((len(batch), 1), WORDS)
    return states, torch.cat([none, batch.response_ids], 1)


def logits_of(policy: nn.Module, batch: StepBatch) -> Tensor:
    """``[n, TOKENS + 1, vocabulary]``: before each token and behind the last."""
    states, before = places(batch)
    found: Tensor = policy(seen(states.unsqueeze(1).expand(before.shape), before))
    return found


def told(logits: Tensor, batch: StepBatch) -> Tensor:
    """The teacher's logits: the right token is two nats likelier."""
    states, _ = places(batch)
    right = torch.stack([states, STATES - 1 - states], 1)
    return logits[:, :-1] + 2.0 * nn.functional.one_hot(right, logits.shape[-1])


def chosen(logits: Tensor, batch: StepBatch) -> Tensor:
    logprobs = restricted_logprobs(logits, VALUE_IDS)
    return logprobs.gather(-1, batch.response_ids.unsqueeze(-1)).squeeze(-1)


def play(policy: nn.Module, tasks: int, rollouts: int, dice: torch.Generator) -> StepBatch:
    rows = []
    starts = torch.randint(STATES, (tasks,), generator=dice).repeat_interleave(rollouts)
    for step in range(STEPS):
        states = (starts + step) % STATES
        before = torch.full_like(states, WORDS)
        tokens, logprobs = [], []
        for _ in range(TOKENS):
            with torch.no_grad():
                said = restricted_logprobs(policy(seen(states, before)), VALUE_IDS)
            before = torch.multinomial(said.exp(), 1, generator=dice).squeeze(1)
            tokens.append(before)
            logprobs.append(said.gather(1, before.unsqueeze(1)).squeeze(1))
        for number, state in enumerate(states.tolist()):
            first, second = (int(t[number]) for t in tokens)
            group = number // rollouts
            rows.append(
                StepRow(
                    prompt_ids=(state,),
                    response_ids=(first, second),
                    response_mask=(1, 1),
                    rollout_logprobs=tuple(float(lp[number]) for lp in logprobs),
                    reward=0.5 * (first == state) + 0.5 * (second == STATES - 1 - state),
                    group_id=f"{group}",
                    trajectory_id=f"{group}/{number % rollouts}",
                    step_index=step,
                    n_steps=STEPS,
                    terminated=step == STEPS - 1,
                    anchor=f"{state}",
                    pi_text="- the right words",
                    action_mask=(1, 1),
                )
            )
    return collate(rows, reserved_ids=VALUE_IDS)


def outputs_of(policy: nn.Module, batch: StepBatch, frozen: nn.Module) -> PolicyOutputs:
    logits = logits_of(policy, batch)
    with torch.no_grad():
        teacher = told(logits_of(frozen, batch), batch)
    return PolicyOutputs(
        logprobs=chosen(logits[:, :-1], batch),
        entropy=restricted_entropy(logits[:, :-1], VALUE_IDS),
        divergence=full_divergence(
            kept_logits(logits[:, :-1], VALUE_IDS), kept_logits(teacher, VALUE_IDS)
        ),
        v_margin=value_margin(logits[:, 0], VALUE_IDS),
        q_margin=value_margin(logits[:, -1], VALUE_IDS),
    )


def values_of(critic: nn.Module, batch: StepBatch, kind: str) -> Tensor:
    states, before = places(batch)
    table = critic(seen(states.unsqueeze(1).expand(before.shape), before)).squeeze(-1)[:, :-1]
    found: Tensor = table[:, 0] if kind == "boundary" else table
    return found


def frozen_columns(
    algorithm: Algorithm, batch: StepBatch, policy: nn.Module, critic: nn.Module, start: nn.Module
) -> StepBatch:
    needs = algorithm.needs
    with torch.no_grad():
        logits = logits_of(policy, batch)
        batch = batch.with_columns(
            old_logprobs=chosen(logits[:, :-1], batch),
            ref_logprobs=chosen(logits_of(start, batch)[:, :-1], batch),
            teacher_logprobs=chosen(told(logits, batch), batch),
        )
        if needs.value_tokens:
            batch = batch.with_columns(
                v_old=algorithm.read_out(value_margin(logits[:, 0], VALUE_IDS)),
                q_old=algorithm.read_out(value_margin(logits[:, -1], VALUE_IDS)),
            )
        elif needs.critic == "boundary":
            batch = batch.with_columns(v_old=values_of(critic, batch, "boundary"))
        elif needs.critic == "token":
            batch = batch.with_columns(token_values=values_of(critic, batch, "token"))
    return batch


def copy_of(policy: nn.Module) -> nn.Module:
    frozen = network(WORDS + 2)
    frozen.load_state_dict(policy.state_dict())
    return frozen


def train(algorithm: Algorithm, iterations: int) -> list[float]:
    """Mean score of each iteration's trajectories."""
    torch.manual_seed(0)
    policy, critic = network(WORDS + 2), network(1)
    start = copy_of(policy)
    optimizer = torch.optim.Adam(policy.parameters(), 0.02)
    critic_optimizer = torch.optim.Adam(critic.parameters(), 0.02)
    dice = torch.Generator().manual_seed(1)
    tasks, rollouts = (8, 8) if algorithm.needs.group else (64, 1)
    scores = []
    for _ in range(iterations):
        batch = play(policy, tasks, rollouts, dice)
        scores.append(float(batch.rewards.sum()) / (tasks * rollouts))
        frozen = copy_of(policy)
        batch = frozen_columns(algorithm, batch, policy, critic, start)
        batch = algorithm.prepare(batch, ALONE).batch
        order = torch.randperm(len(batch), generator=dice).tolist()
        half = len(order) // 2
        for part in (order[:half], order[half:]):
            micros = [batch.select(part[::2]), batch.select(part[1::2])]
            sums = Sums()
            for micro in micros:
                sums += algorithm.count(micro)
                if algorithm.needs.log_ratio_pass:
                    with torch.no_grad():
                        sums += algorithm.measure(micro, outputs_of(policy, micro, frozen))
            optimizer.zero_grad()
            if algorithm.needs.clip_bias_pass:
                for micro in micros:
                    away = algorithm.clip_bias(micro, outputs_of(policy, micro, frozen), sums)
                    away.backward()  # type: ignore[no-untyped-call]
                grads = [p.grad.flatten() for p in policy.parameters() if p.grad is not None]
                sums = sums.with_clip_bias_norm(float(torch.cat(grads).norm()))
                optimizer.zero_grad()
            critic_optimizer.zero_grad()
            for micro in micros:
                loss = algorithm.loss(micro, outputs_of(policy, micro, frozen), sums)
                loss.total.backward()  # type: ignore[no-untyped-call]
                if algorithm.needs.critic != "none":
                    values = values_of(critic, micro, algorithm.needs.critic)
                    share = algorithm.critic_loss(micro, values, sums)
                    share.total.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            critic_optimizer.step()
    return scores


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_learning(name: str) -> None:
    algorithm = make_algorithm(name, **SETTINGS.get(name, {}))
    scores = train(algorithm, 30)
    assert scores[0] < 1.2
    assert sum(scores[-3:]) / 3 > 2 * CHANCE

"""Rewards put on steps and tokens, and sums of them backwards in time.

Time is (trajectory, step, token), read from the rows' identity and never from their order.
Everything is float64 on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.losses import sampled_kl

Scope = Literal["trajectory", "row"]
RowReward = Literal["step", "episode"]


def discounted_returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """G_k = ρ_k + γ G_{k+1}, with 0 behind the last."""
    result = [0.0] * len(rewards)
    running = 0.0
    for k in range(len(rewards) - 1, -1, -1):
        running = rewards[k] + gamma * running
        result[k] = running
    return result


def gae(
    rewards: Sequence[float],
    values: Sequence[float],
    *,
    gamma: float,
    lam: float,
    bootstrap: float = 0.0,
) -> list[float]:
    """Generalised advantage estimation along one chain of steps, or of tokens.

    δ_k = ρ_k + γ V_{k+1} - V_k and A_k = δ_k + γλ A_{k+1}, backwards; ``bootstrap`` is the value
    behind the end (0 when the chain is over). Source: arXiv 1506.02438, eq. 16; over actions:
    CAPO (arXiv 2604.18401) and SAPO (arXiv 2608.19842).
    """
    result = [0.0] * len(rewards)
    running, following = 0.0, bootstrap
    for k in range(len(rewards) - 1, -1, -1):
        delta = rewards[k] + gamma * following - values[k]
        running = delta + gamma * lam * running
        result[k] = running
        following = values[k]
    return result


def row_rewards(batch: StepBatch, config: AlgorithmConfig) -> Tensor:
    """r_t as the algorithm sees it: scaled, without penalties that belong into the reward.

    Returns:
        float64 ``[N]``; 0 in pads.

    Raises:
        UsageError: the divergence belongs into the reward and log-probabilities are missing.
    """
    rewards = batch.rewards.double() * config.reward_scale
    if config.invalid_penalty and config.invalid_penalty_place == "reward":
        rewards = rewards - config.invalid_penalty * invalid_rows(batch)
    if config.kl_coef and config.kl_place == "reward":
        rewards = rewards - _token_penalties(batch, config).sum(1)
    return rewards.masked_fill(batch.is_pad, 0.0)


def token_rewards(
    batch: StepBatch, config: AlgorithmConfig, row_reward: RowReward = "step"
) -> Tensor:
    """ρ: the reward of a step on its last sampled token, divergence penalties on each token.

    A step in which nothing was sampled gives its reward to the token sampled before it in the
    trajectory; without one it has no action to credit.

    Args:
        batch: whole trajectories.
        config: scale and penalties.
        row_reward: ``step`` is r_t; ``episode`` gives every row the trajectory's whole sum, as
            the PPO of verl-agent's code does.

    Returns:
        float64 ``[N, R]``; 0 outside the mask.

    Raises:
        UsageError: the divergence belongs into the reward and log-probabilities are missing.
    """
    placed = torch.zeros(batch.response_mask.shape, dtype=torch.float64)
    rewards = row_rewards(batch, config)
    if config.kl_coef and config.kl_place == "reward":
        penalties = _token_penalties(batch, config)
        placed -= penalties
        rewards = rewards + penalties.sum(1)
    for chain in batch.trajectories():
        last: tuple[int, int] | None = None
        whole = rewards[list(chain)].sum()
        for number in chain:
            columns = batch.response_mask[number].nonzero().flatten()
            if len(columns):
                last = (number, int(columns[-1]))
                placed[last] += whole if row_reward == "episode" else rewards[number]
            elif last is not None and row_reward == "step":
                placed[last] += rewards[number]
    return placed


def _token_penalties(batch: StepBatch, config: AlgorithmConfig) -> Tensor:
    old, ref = required(batch, "old_logprobs"), required(batch, "ref_logprobs")
    penalties = sampled_kl(old.double(), ref, batch.response_mask, config.kl_estimator)
    return config.kl_coef * penalties


def invalid_rows(batch: StepBatch) -> Tensor:
    """1 on rows whose action was invalid, float64 ``[N]``."""
    flags = [not row.valid_action and not row.is_pad for row in batch.rows]
    return torch.tensor(flags, dtype=torch.float64)


def required(batch: StepBatch, column: str) -> Tensor:
    """A column that must have been computed.

    Raises:
        UsageError: it is missing.
    """
    found = getattr(batch, column)
    if found is None:
        raise UsageError(f"the batch has no {column}; fill it with with_columns before preparing")
    value: Tensor = found
    return value


def over_tokens(per_row: Tensor, mask: Tensor) -> Tensor:
    """A number of each row on all its sampled tokens: ``[N]`` to ``[N, R]``, 0 outside."""
    return per_row.unsqueeze(1).expand(mask.shape).masked_fill(~mask, 0.0)


def token_means(per_token: Tensor, mask: Tensor) -> Tensor:
    """Mean over the sampled tokens of each row, ``[N]``; 0 for a row without tokens."""
    return per_token.masked_fill(~mask, 0.0).sum(1) / mask.sum(1).clamp(min=1)


def step_gae(batch: StepBatch, rewards: Tensor, gamma: float, lam: float) -> Tensor:
    """A_t of every row over the steps of its trajectory, from ``v_old``.

    Returns:
        float64 ``[N]``; 0 in pads.

    Raises:
        UsageError: ``v_old`` is missing.
    """
    values = required(batch, "v_old").double()
    result = torch.zeros(len(batch), dtype=torch.float64)
    for chain in batch.trajectories():
        places = list(chain)
        steps = gae(
            rewards[places].tolist(),
            values[places].tolist(),
            gamma=gamma,
            lam=lam,
            bootstrap=value_behind(batch, chain),
        )
        result[places] = torch.tensor(steps, dtype=torch.float64)
    return result


def step_returns(batch: StepBatch, rewards: Tensor, gamma: float) -> Tensor:
    """G_t = Σ_k γ^(k-t) r_k of every row over the steps of its trajectory, float64 ``[N]``."""
    result = torch.zeros(len(batch), dtype=torch.float64)
    for chain in batch.trajectories():
        places = list(chain)
        steps = discounted_returns(rewards[places].tolist(), gamma)
        result[places] = torch.tensor(steps, dtype=torch.float64)
    return result


def token_gae(
    batch: StepBatch, rewards: Tensor, gamma: float, lam: float, scope: Scope = "trajectory"
) -> Tensor:
    """A_k of every sampled token, from ``token_values``; γ counts tokens.

    The time line is the sampled tokens alone, in order, across the steps of a trajectory (or
    inside each row): what was not sampled neither advances nor resets the recursion.

    Args:
        batch: with ``token_values``.
        rewards: ρ ``[N, R]`` from ``token_rewards``.
        gamma: discount of a token.
        lam: λ.
        scope: where the recursion ends.

    Returns:
        float64 ``[N, R]``; 0 outside the mask.

    Raises:
        UsageError: ``token_values`` is missing.
    """
    values = required(batch, "token_values").double()
    result = torch.zeros(batch.response_mask.shape, dtype=torch.float64)
    for chain in _chains(batch, scope):
        rows, columns = _time_line(batch, chain)
        tokens = gae(
            rewards[rows, columns].tolist(),
            values[rows, columns].tolist(),
            gamma=gamma,
            lam=lam,
            bootstrap=value_behind(batch, chain),
        )
        result[rows, columns] = torch.tensor(tokens, dtype=torch.float64)
    return result


def token_returns(
    batch: StepBatch, rewards: Tensor, gamma: float, scope: Scope = "trajectory"
) -> Tensor:
    """G_k of every sampled token, float64 ``[N, R]``; the time line is that of ``token_gae``."""
    result = torch.zeros(batch.response_mask.shape, dtype=torch.float64)
    for chain in _chains(batch, scope):
        rows, columns = _time_line(batch, chain)
        tokens = discounted_returns(rewards[rows, columns].tolist(), gamma)
        result[rows, columns] = torch.tensor(tokens, dtype=torch.float64)
    return result


def _chains(batch: StepBatch, scope: Scope) -> tuple[tuple[int, ...], ...]:
    chains = batch.trajectories()
    if scope == "trajectory":
        return chains
    return tuple((number,) for chain in chains for number in chain)


def _time_line(batch: StepBatch, chain: Sequence[int]) -> tuple[Tensor, Tensor]:
    """(rows, columns) of the sampled tokens of a chain, in the order of time."""
    places = torch.tensor(list(chain))
    order, columns = batch.response_mask[places].nonzero(as_tuple=True)
    return places[order], columns


def value_behind(batch: StepBatch, chain: Sequence[int]) -> float:
    """The value behind the end of a chain of rows: 0 unless the batch holds one for the last."""
    return 0.0 if batch.bootstrap is None else float(batch.bootstrap[chain[-1]])

"""Advantages that compare trajectories: by group (GRPO, RLOO, REINFORCE++) and by state (GiGPO).

A trajectory's score is S = Σ_t r_t. Groups may lie on several ranks: the scores of all ranks are
gathered, the token columns are not.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal

import torch
from torch import Tensor

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.stats import (
    GROUP_EPS,
    Reducer,
    Spread,
    centred_by_group,
    group_normalised,
)

EpisodeStatistics = Literal["trajectories", "rows"]


def trajectory_scores(batch: StepBatch, rewards: Tensor) -> dict[str, float]:
    """S of each trajectory: the sum of its rows' rewards."""
    return {
        batch.rows[chain[0]].trajectory_id: float(rewards[list(chain)].sum())
        for chain in batch.trajectories()
    }


def group_advantages(
    batch: StepBatch,
    rewards: Tensor,
    reducer: Reducer,
    *,
    divide: bool = True,
    spread: Spread = "unbiased",
    eps: float = GROUP_EPS,
    statistics: EpisodeStatistics = "trajectories",
) -> Tensor:
    """GRPO: A = (S - mean) / (std + eps) over the trajectories of the group, on every row.

    Source: DeepSeekMath (arXiv 2402.03300), section 4.1.2; without the division Dr. GRPO (arXiv
    2503.20783). A group of one and equal scores give exactly 0.

    Args:
        batch: whole trajectories.
        rewards: r_t ``[N]``.
        reducer: gathers the scores of all ranks.
        divide: whether to divide by the deviation.
        spread: the deviation's denominator.
        eps: added to the deviation.
        statistics: mean and deviation over trajectories, or over step rows as the code of
            verl-agent has it, where long trajectories weigh more.

    Returns:
        float64 ``[N]``; 0 in pads.
    """
    names, groups, scores = _scored(batch, rewards)
    lengths = [len(chain) if statistics == "rows" else 1 for chain in batch.trajectories()]
    counted = [
        (group, score)
        for group, score, length in zip(groups, scores, lengths, strict=True)
        for _ in range(length)
    ]
    normalised = group_normalised(
        scores, groups, reducer.gather(counted), divide=divide, spread=spread, eps=eps
    )
    return _on_rows(batch, dict(zip(names, normalised, strict=True)))


def leave_one_out_advantages(batch: StepBatch, rewards: Tensor, reducer: Reducer) -> Tensor:
    """RLOO: S minus the mean of the group's others, n/(n-1)·(S - mean); a group of one gives 0.

    Source: arXiv 2402.14740.

    Returns:
        float64 ``[N]``, the trajectory's on each of its rows.
    """
    names, groups, scores = _scored(batch, rewards)
    everyone = reducer.gather(list(zip(groups, scores, strict=True)))
    sizes: dict[Hashable, int] = defaultdict(int)
    for group, _ in everyone:
        sizes[group] += 1
    centred = centred_by_group(scores, groups, everyone)
    values = {
        name: value * sizes[group] / max(sizes[group] - 1, 1)
        for name, group, value in zip(names, groups, centred, strict=True)
    }
    return _on_rows(batch, values)


def centred_advantages(batch: StepBatch, rewards: Tensor, reducer: Reducer) -> Tensor:
    """S minus its group's mean on every row, float64 ``[N]``; a group of one gives 0.

    REINFORCE++ with a group baseline (arXiv 2501.03262) whitens this over tokens.
    """
    names, groups, scores = _scored(batch, rewards)
    everyone = reducer.gather(list(zip(groups, scores, strict=True)))
    centred = centred_by_group(scores, groups, everyone)
    return _on_rows(batch, dict(zip(names, centred, strict=True)))


def centred_token_returns(batch: StepBatch, returns: Tensor, reducer: Reducer) -> Tensor:
    """Token returns minus the group's mean of its trajectories' mean return; ``[N, R]``.

    With γ = 1 and a reward at the end alone this equals ``centred_advantages``. The words of
    CAPO's paper for its REINFORCE++ ("discounted returns over valid tokens, the group as
    baseline"); which mean is the baseline is our reading. A group of one gives 0.
    """
    mask = batch.response_mask
    groups, means = [], []
    for chain in batch.trajectories():
        places = list(chain)
        sampled = returns[places][mask[places]]
        groups.append(batch.rows[chain[0]].group_id)
        means.append(float(sampled.mean()) if len(sampled) else 0.0)
    everyone = reducer.gather(list(zip(groups, means, strict=True)))
    members: dict[Hashable, list[float]] = defaultdict(list)
    for group, value in everyone:
        members[group].append(value)
    result = torch.zeros_like(returns)
    for chain, group in zip(batch.trajectories(), groups, strict=True):
        known = sorted(members[group])
        if len(known) > 1:
            places = list(chain)
            baseline = sum(known) / len(known)
            result[places] = (returns[places] - baseline).masked_fill(~mask[places], 0.0)
    return result


def state_advantages(
    batch: StepBatch,
    returns: Tensor,
    reducer: Reducer,
    *,
    divide: bool = True,
    similarity: float | None = None,
    eps: float = GROUP_EPS,
) -> Tensor:
    """GiGPO's step term: returns-to-go compared among rows of a group in the same state.

    Source: GiGPO (arXiv 2505.10978). Rows of one group with equal ``anchor`` are a
    cluster; G minus the cluster's mean, divided by (std + eps). A cluster of one gives 0.

    Args:
        batch: whole trajectories.
        returns: G_t of every row ``[N]``.
        reducer: gathers (state, return) of all ranks.
        divide: whether to divide by the deviation.
        similarity: least difflib ratio of two anchors that are one state; None asks equality.
        eps: added to the deviation.

    Returns:
        float64 ``[N]``; 0 in pads.
    """
    numbers = [number for chain in batch.trajectories() for number in chain]
    places: list[tuple[Hashable, str]] = [
        (batch.rows[n].group_id, batch.rows[n].anchor) for n in numbers
    ]
    if similarity is not None:
        known = sorted(set(reducer.gather(places)), key=repr)
        representative = _representatives(known, similarity)
        places = [(group, representative[group, anchor]) for group, anchor in places]
    values = returns[numbers].tolist()
    everyone = reducer.gather(list(zip(places, values, strict=True)))
    compared = group_normalised(values, places, everyone, divide=divide, eps=eps)
    result = torch.zeros(len(batch), dtype=torch.float64)
    result[numbers] = torch.tensor(compared, dtype=torch.float64)
    return result


def _scored(batch: StepBatch, rewards: Tensor) -> tuple[list[str], list[str], list[float]]:
    """Trajectory, group and score of each trajectory, in one order."""
    scores = trajectory_scores(batch, rewards)
    group_of = {row.trajectory_id: row.group_id for row in batch.rows if not row.is_pad}
    return list(scores), [group_of[name] for name in scores], list(scores.values())


def _on_rows(batch: StepBatch, values: dict[str, float]) -> Tensor:
    return torch.tensor(
        [values.get(row.trajectory_id, 0.0) if not row.is_pad else 0.0 for row in batch.rows],
        dtype=torch.float64,
    )


def _representatives(
    known: Sequence[tuple[Hashable, str]], similarity: float
) -> dict[tuple[Hashable, str], str]:
    """The first anchor in order that is close enough to each anchor of its group."""
    firsts: dict[Hashable, list[str]] = defaultdict(list)
    result = {}
    for group, anchor in known:
        close = (
            first
            for first in firsts[group]
            if difflib.SequenceMatcher(None, first, anchor).ratio() >= similarity
        )
        chosen = next(close, None)
        if chosen is None:
            firsts[group].append(anchor)
            chosen = anchor
        result[group, anchor] = chosen
    return result

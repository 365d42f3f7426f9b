"""Sums over all ranks, whitening and group statistics, in float64 on the host.

This is the only file of the algorithms that may talk to other ranks, and only through the
reducer that is passed in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, Protocol, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Spread = Literal["unbiased", "biased"]

WHITEN_EPS = 1e-8
GROUP_EPS = 1e-6
LEAST_DEVIATION = 1e-6  # of a group's scores


class Reducer(Protocol):
    """What statistics ask of the other ranks; every rank asks the same in the same order."""

    def sum(self, values: Tensor) -> Tensor:
        """Elementwise sum over ranks."""
        ...

    def gather(self, values: Sequence[T]) -> tuple[T, ...]:
        """The values of every rank, in the order of ranks."""
        ...

    def most(self, count: int) -> int:
        """The largest of the ranks' counts."""
        ...


class OneRank:
    """The reducer of a process that trains alone."""

    def sum(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def gather(self, values: Sequence[T]) -> tuple[T, ...]:
        """The values themselves."""
        return tuple(values)

    def most(self, count: int) -> int:
        """The count itself."""
        return count


class AllRanks:
    """The reducer of a process group (gloo, or NCCL with ``device``).

    Attributes:
        group: a ``torch.distributed`` process group, None for the default one.
        device: where the backend can reduce; sums come back on the host.
    """

    def __init__(
        self,
        group: torch.distributed.ProcessGroup | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.group = group
        self.device = torch.device(device)

    def sum(self, values: Tensor) -> Tensor:
        """Elementwise sum over the group."""
        total = values.detach().to(self.device, copy=True)
        torch.distributed.all_reduce(total, group=self.group)
        return total.to(values.device)

    def gather(self, values: Sequence[T]) -> tuple[T, ...]:
        """The values of the whole group, in the order of ranks."""
        size = torch.distributed.get_world_size(self.group)
        shares: list[tuple[T, ...]] = [()] * size
        torch.distributed.all_gather_object(shares, tuple(values), group=self.group)
        return tuple(value for share in shares for value in share)

    def most(self, count: int) -> int:
        """The largest count of the group."""
        largest = torch.tensor(count, device=self.device)
        torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX, group=self.group)
        return int(largest)


ALONE = OneRank()
"""The reducer of whoever is not told of other ranks; it holds nothing."""


def added(values: Mapping[str, float], reducer: Reducer) -> dict[str, float]:
    """Numbers by name, added over ranks; a rank may lack a name."""
    totals: dict[str, float] = defaultdict(float)
    for name, value in reducer.gather(tuple(values.items())):
        totals[name] += value
    return dict(totals)


def mean_and_spread(
    values: Tensor, reducer: Reducer, spread: Spread = "unbiased"
) -> tuple[float, float, int]:
    """Mean, standard deviation and number of all values of all ranks, in two passes.

    Args:
        values: any shape; flattened.
        reducer: sums over ranks.
        spread: divide by n-1 (unbiased) or n.

    Returns:
        (mean, deviation, n); the deviation of fewer than two values is 0.
    """
    values = values.detach().double().flatten()
    first = torch.tensor([float(values.numel()), float(values.sum())], dtype=torch.float64)
    count, total = reducer.sum(first).tolist()
    mean = total / count if count else 0.0
    squares = float(reducer.sum(((values - mean) ** 2).sum().reshape(1)))
    below = count - 1 if spread == "unbiased" else count
    deviation = (squares / below) ** 0.5 if count > 1 else 0.0
    return mean, deviation, int(count)


def whiten(
    values: Tensor, mask: Tensor, reducer: Reducer, *, spread: Spread = "unbiased"
) -> Tensor:
    """(x - mean) / (std + 1e-8) over the masked values of the whole iteration, all ranks.

    Values whose spread is float residue (below 1e-12 of their size) and a single value give
    exactly 0; so does everything outside the mask.

    Args:
        values: float tensor.
        mask: bool tensor of the same shape: steps for statistics over steps, tokens for tokens.
        reducer: sums over ranks.
        spread: the deviation's denominator.
    """
    mean, deviation, count = mean_and_spread(values[mask], reducer, spread)
    if count < 2 or deviation <= 1e-12 * abs(mean):
        return torch.zeros_like(values)
    return torch.where(mask, (values - mean) / (deviation + WHITEN_EPS), torch.zeros_like(values))


def group_normalised(
    scores: Sequence[float],
    groups: Sequence[Hashable],
    everyone: Sequence[tuple[Hashable, float]],
    *,
    divide: bool = True,
    spread: Spread = "unbiased",
    eps: float = GROUP_EPS,
) -> list[float]:
    """(x - mean) / (std + eps) inside each group; GRPO's normalisation.

    A group of one gives 0, and so does a group whose deviation lies below 1e-6: what is left of
    equal rewards is float residue, not a signal.

    Args:
        scores: the values to normalise.
        groups: the group of each.
        everyone: (group, score) of all ranks.
        divide: whether to divide by the deviation.
        spread: the deviation's denominator.
        eps: added to the deviation.
    """
    centred = centred_by_group(scores, groups, everyone)
    members = _members(everyone)
    result = []
    for value, group in zip(centred, groups, strict=True):
        known = torch.tensor(members[group], dtype=torch.float64)
        if len(known) < 2:
            result.append(0.0)
            continue
        deviation = float(known.std(correction=1 if spread == "unbiased" else 0))
        if deviation < LEAST_DEVIATION:
            result.append(0.0)
        else:
            result.append(value / (deviation + eps) if divide else value)
    return result


def centred_by_group(
    scores: Sequence[float],
    groups: Sequence[Hashable],
    everyone: Sequence[tuple[Hashable, float]],
) -> list[float]:
    """Scores less the mean of their group; equal scores and a group of one give exactly 0.

    Arguments as in ``group_normalised``.
    """
    means: dict[Hashable, float | None] = {}
    for group, values in _members(everyone).items():
        differ = values[0] < values[-1]
        means[group] = float(torch.tensor(values, dtype=torch.float64).mean()) if differ else None
    return [
        0.0 if (mean := means[group]) is None else score - mean
        for score, group in zip(scores, groups, strict=True)
    ]


def _members(everyone: Sequence[tuple[Hashable, float]]) -> dict[Hashable, list[float]]:
    members: dict[Hashable, list[float]] = defaultdict(list)
    for group, score in everyone:
        members[group].append(score)
    # sorted: a sum in one fixed order is the same on every rank and for every order of rows
    return {group: sorted(values) for group, values in members.items()}

"""An iteration's rows cut into optimizer mini-batches, and these into micro-batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.hidden_states import Ids, computed_tokens, row_buckets
from agentgym_suite.trainers.stats import ALONE, Reducer

Unit = Literal["rows", "trajectories"]


def minibatches(
    batch: StepBatch,
    *,
    unit: Unit,
    rows: int,
    chance: np.random.Generator,
    reducer: Reducer = ALONE,
) -> list[list[int]]:
    """Row numbers of each optimizer mini-batch; every real row of every rank is in one of them.

    Args:
        batch: the iteration, or this rank's share of it.
        unit: "rows" cuts a random order of rows into pieces of ``rows``, the last one smaller;
            "trajectories" takes whole trajectories in a random order until a mini-batch has at
            least ``rows`` rows; what is left at the end joins the last one if it is less than
            half of that.
        rows: of a mini-batch, those of all ranks together.
        chance: draws the order, the same on every rank.
        reducer: tells ranks of each other's rows.

    Returns:
        This rank's rows of each; none, where all of a mini-batch's rows lie elsewhere.
    """
    here = {
        (batch.rows[number].trajectory_id, batch.rows[number].step_index): number
        for chain in batch.trajectories()
        for number in chain
    }
    chains: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for place in sorted(reducer.gather(tuple(here))):
        chains[place[0]].append(place)
    parts = _cut_rows(chains, rows, chance) if unit == "rows" else _cut(chains, rows, chance)
    return [[here[place] for place in part if place in here] for part in parts]


def microbatches(
    batch: StepBatch, most_tokens: int, reducer: Reducer = ALONE, *, merge_append_only: bool = False
) -> list[StepBatch]:
    """The rows of a mini-batch, put together as ``row_buckets`` does, so many tokens at a time.

    Every rank gets the same number of them, since each is one exchange of weights: those of a
    rank with less to do are ``idle``.
    """
    buckets = row_buckets(*_ids(batch), most_tokens, merge_append_only=merge_append_only)
    found = [batch.select(numbers) for numbers in buckets]
    return found + [idle(batch)] * (reducer.most(len(found)) - len(found))


def idle(batch: StepBatch) -> StepBatch:
    """One row without weight, with the columns of a batch."""
    return batch.select(()).with_pads(1)


_Place = tuple[str, int]


def _cut_rows(
    chains: Mapping[str, list[_Place]], rows: int, chance: np.random.Generator
) -> list[list[_Place]]:
    places = [place for chain in chains.values() for place in chain]
    drawn = [places[number] for number in chance.permutation(len(places))]
    return [drawn[start : start + rows] for start in range(0, len(drawn), rows)]


def _cut(
    chains: Mapping[str, list[_Place]], rows: int, chance: np.random.Generator
) -> list[list[_Place]]:
    whole = list(chains.values())
    found: list[list[_Place]] = [[]]
    for number in chance.permutation(len(whole)).tolist():
        if len(found[-1]) >= rows:
            found.append([])
        found[-1] += whole[number]
    if len(found) > 1 and len(found[-1]) < rows / 2:
        rest = found.pop()
        found[-1] += rest
    return found


def padding_share(
    batch: StepBatch, most_tokens: int, reducer: Reducer = ALONE, *, merge_append_only: bool = False
) -> float:
    """Share of computed tokens of all ranks that are padding, from 0 to below 1."""
    counted = computed_tokens(*_ids(batch), most_tokens, merge_append_only=merge_append_only)
    local = torch.tensor(counted, dtype=torch.float64)
    real, all_computed = reducer.sum(local).tolist()
    return 1.0 - float(real) / float(all_computed)


def _ids(batch: StepBatch) -> tuple[list[Ids], list[Ids]]:
    return [row.prompt_ids for row in batch.rows], [row.response_ids for row in batch.rows]

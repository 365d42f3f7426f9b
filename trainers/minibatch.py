"""An iteration's rows cut into optimizer mini-batches, and these into micro-batches."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.hidden_states import length_buckets

Unit = Literal["rows", "trajectories"]


def minibatches(
    batch: StepBatch, *, unit: Unit, rows: int, chance: np.random.Generator
) -> list[list[int]]:
    """Row numbers of each optimizer mini-batch; every real row is in one of them.

    Args:
        batch: the iteration.
        unit: "rows" cuts a random order of rows into pieces of ``rows``, the last one smaller;
            "trajectories" takes whole trajectories in a random order until a mini-batch has at
            least ``rows`` rows; what is left at the end joins the last one if it is less than
            half of that.
        rows: of a mini-batch.
        chance: draws the order.
    """
    chains = batch.trajectories()
    if unit == "rows":
        numbers = chance.permutation(sorted(number for chain in chains for number in chain))
        return [part.tolist() for part in np.split(numbers, range(rows, len(numbers), rows))]
    found: list[list[int]] = [[]]
    for place in chance.permutation(len(chains)).tolist():
        if len(found[-1]) >= rows:
            found.append([])
        found[-1] += chains[place]
    if len(found) > 1 and len(found[-1]) < rows / 2:
        rest = found.pop()
        found[-1] += rest
    return found


def microbatches(batch: StepBatch, most_tokens: int) -> list[StepBatch]:
    """The rows of a mini-batch, put together by length, so many padded tokens at a time."""
    sizes = [len(row.prompt_ids) + len(row.response_ids) for row in batch.rows]
    return [batch.select(numbers) for numbers in length_buckets(sizes, most_tokens)]


def padding_share(batch: StepBatch, most_tokens: int) -> float:
    """Share of computed tokens that are padding, from 0 to below 1."""
    sizes = [len(row.prompt_ids) + len(row.response_ids) for row in batch.rows]
    computed = sum(
        len(numbers) * max(sizes[number] for number in numbers)
        for numbers in length_buckets(sizes, most_tokens)
    )
    return 1.0 - sum(sizes) / computed

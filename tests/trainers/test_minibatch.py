"""Mini-batches and micro-batches: every row once, trajectories whole."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.minibatch import (
    microbatches,
    minibatches,
    padding_share,
)
from tests.trainers.small_batches import row


def batch_of(lengths: list[int]) -> StepBatch:
    """One trajectory of each length, and two rows of padding."""
    rows = [
        row(f"t{number}/0", step, steps, 1 + step % 3)
        for number, steps in enumerate(lengths)
        for step in range(steps)
    ]
    return collate(rows).with_pads(2)


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    size=st.integers(1, 20),
    unit=st.sampled_from(["rows", "trajectories"]),
    seed=st.integers(0, 5),
)
def test_every_real_row_is_in_one_minibatch(
    lengths: list[int], size: int, unit: Literal["rows", "trajectories"], seed: int
) -> None:
    batch = batch_of(lengths)
    chance = np.random.Generator(np.random.PCG64(seed))
    parts = minibatches(batch, unit=unit, rows=size, chance=chance)
    assert sorted(number for part in parts for number in part) == list(range(sum(lengths)))
    assert all(parts)
    if unit == "rows":
        assert all(len(part) == size for part in parts[:-1])
        return
    homes = [{batch.rows[number].trajectory_id for number in part} for part in parts]
    assert sum(map(len, homes)) == len(lengths), "a trajectory was torn apart"
    assert all(len(part) >= size for part in parts[:-1])
    assert len(parts) == 1 or len(parts[-1]) >= size / 2


def test_the_order_is_drawn_and_repeats_for_its_seed() -> None:
    batch = batch_of([3] * 10)

    def drawn(seed: int) -> list[list[int]]:
        chance = np.random.Generator(np.random.PCG64(seed))
        return minibatches(batch, unit="rows", rows=7, chance=chance)

    assert drawn(1) == drawn(1) != drawn(2)


def test_microbatches_hold_the_rows_of_their_minibatch() -> None:
    batch = batch_of([4, 2, 5])
    micros = microbatches(batch, 16)
    assert len(micros) > 1
    found = sorted((r.trajectory_id, r.step_index) for m in micros for r in m.rows)
    assert found == sorted((r.trajectory_id, r.step_index) for r in batch.rows)
    assert padding_share(batch, 1) == 0.0
    assert 0 < padding_share(batch, 10_000) < 1

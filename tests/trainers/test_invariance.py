"""No algorithm may notice how rows are ordered, padded, split, stored or spread over ranks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from agentgym_suite.trainers.algorithm import Algorithm
from agentgym_suite.trainers.batch import Side, StepBatch, collate
from agentgym_suite.trainers.batch_files import load_batch, save_batch
from agentgym_suite.trainers.registry import ALGORITHMS, make_algorithm
from agentgym_suite.trainers.stats import OneRank
from tests.trainers.small_batches import mixed_batch, mixed_rows, row, with_frozen_columns
from tests.trainers.toy_policy import Update, update
from tests.trainers.variants import VARIANTS

CASES = [pytest.param(name, settings, id=label) for label, name, settings in VARIANTS]
every_algorithm = pytest.mark.parametrize(("name", "settings"), CASES)


def prepared(algorithm: Algorithm, batch: StepBatch) -> StepBatch:
    return algorithm.prepare(batch, OneRank()).batch


def whole(batch: StepBatch) -> list[list[int]]:
    return [list(range(len(batch)))]


def split(batch: StepBatch, parts: int) -> list[list[int]]:
    """Parts of uneven sizes."""
    numbers = list(range(len(batch)))
    sizes = [1] * (parts - 1)
    sizes.append(len(numbers) - sum(sizes))
    cut = [sum(sizes[:n]) for n in range(parts + 1)]
    return [numbers[a:b] for a, b in zip(cut, cut[1:], strict=False)]


def same(one: Update, other: Update, dtype: torch.dtype = torch.float64) -> None:
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    for field in ("loss", "gradient", "critic_loss", "critic_gradient"):
        mine, theirs = getattr(one, field), getattr(other, field)
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def test_every_algorithm_is_here() -> None:
    assert {name for _, name, _ in VARIANTS} == set(ALGORITHMS)


@every_algorithm
def test_the_reference_update_moves_and_is_finite(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = prepared(algorithm, mixed_batch())
    result = update(algorithm, batch, whole(batch))
    assert torch.isfinite(result.gradient).all() and result.gradient.abs().max() > 1e-6
    assert torch.isfinite(result.loss).all()
    if algorithm.needs.critic != "none":
        assert torch.isfinite(result.critic_gradient).all() and result.critic_loss > 0
    assert all(value == value for value in result.metrics.values())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@every_algorithm
def test_splitting_into_micro_batches(
    name: str, settings: dict[str, Any], dtype: torch.dtype
) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = prepared(algorithm, mixed_batch())
    one = update(algorithm, batch, whole(batch), dtype=dtype)
    for parts in (2, 3, 7):
        same(update(algorithm, batch, split(batch, parts), dtype=dtype), one, dtype)


@every_algorithm
def test_metrics_of_micro_batches_add_up(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = prepared(algorithm, mixed_batch())
    one = update(algorithm, batch, whole(batch)).metrics
    many = update(algorithm, batch, split(batch, 7)).metrics
    assert many == pytest.approx(one, rel=1e-9, abs=1e-12)


@every_algorithm
def test_buckets_by_length(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = prepared(algorithm, mixed_batch())
    order = sorted(range(len(batch)), key=lambda n: len(batch.rows[n].response_ids))
    buckets = [order[n : n + 4] for n in range(0, len(order), 4)]
    same(update(algorithm, batch, buckets), update(algorithm, batch, whole(batch)))


@every_algorithm
def test_the_order_of_rows(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    rows = mixed_rows()
    batch = prepared(algorithm, with_frozen_columns(collate(rows)))
    random.Random(0).shuffle(rows)
    shuffled = prepared(algorithm, with_frozen_columns(collate(rows)))
    same(update(algorithm, shuffled, whole(shuffled)), update(algorithm, batch, whole(batch)))


@pytest.mark.parametrize(("width", "side"), [(11, "right"), (5, "left"), (9, "left")])
@every_algorithm
def test_padding(name: str, settings: dict[str, Any], width: int, side: Side) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = prepared(algorithm, mixed_batch())
    wide = prepared(algorithm, mixed_batch(width=width, side=side))
    same(update(algorithm, wide, whole(wide)), update(algorithm, batch, whole(batch)))


@every_algorithm
def test_added_pad_rows(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = prepared(algorithm, mixed_batch())
    one = update(algorithm, batch, whole(batch))
    before = prepared(algorithm, mixed_batch().with_pads(5))
    same(update(algorithm, before, split(before, 3)), one)
    after = batch.with_pads(2)
    same(update(algorithm, after, [*whole(batch), [len(batch), len(batch) + 1]]), one)


@every_algorithm
def test_reading_the_batch_from_its_file(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    algorithm = make_algorithm(name, **settings)
    save_batch(mixed_batch(), tmp_path / "b.npz")
    batch = prepared(algorithm, mixed_batch())
    loaded = prepared(algorithm, load_batch(tmp_path / "b.npz"))
    one = update(algorithm, batch, whole(batch))
    other = update(algorithm, loaded, whole(loaded))
    assert torch.equal(one.gradient, other.gradient) and torch.equal(one.loss, other.loss)


GROUPED = [
    pytest.param(name, settings, id=label)
    for label, name, settings in VARIANTS
    if make_algorithm(name, **settings).needs.group and name != "reinforce_pp_baseline"
]


@pytest.mark.parametrize(("name", "settings"), GROUPED)
def test_a_trajectory_of_another_group(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    rows = mixed_rows()
    stranger = [row("z/0", step, 2, 2, reward=0.7, anchor="a 0") for step in range(2)]
    few = prepared(algorithm, with_frozen_columns(collate(rows)))
    more = prepared(algorithm, with_frozen_columns(collate([*stranger, *rows])))
    assert few.targets is not None and more.targets is not None
    assert torch.equal(more.targets.advantages[2:], few.targets.advantages)


@every_algorithm
def test_targets_are_constants(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = prepared(algorithm, mixed_batch())
    targets = batch.targets
    assert targets is not None
    for tensor in (targets.advantages, targets.row_weights, targets.values, targets.q_values):
        assert tensor is None or not tensor.requires_grad


@every_algorithm
def test_a_micro_batch_of_pads_alone_can_go_backward(name: str, settings: dict[str, Any]) -> None:
    algorithm = make_algorithm(name, **settings)
    batch = prepared(algorithm, mixed_batch().with_pads(2))
    pads: Sequence[int] = [len(batch) - 2, len(batch) - 1]
    result = update(algorithm, batch, [pads])
    assert result.loss.tolist() == [0.0] and not result.gradient.any()

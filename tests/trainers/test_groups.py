"""Groups whose rewards say nothing, states that are one, and scores of whole trajectories."""

from __future__ import annotations

import pytest
import torch

from agentgym_suite.trainers.advantages import (
    group_advantages,
    leave_one_out_advantages,
    state_advantages,
    trajectory_scores,
)
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.stats import OneRank
from tests.trainers.small_batches import row

ALONE = OneRank()


def test_scores_are_sums_over_a_trajectory() -> None:
    rows = [row("g/1", 0, 1, 1, reward=2.0), row("g/0", 1, 2, 1, reward=1.0), row("g/0", 0, 2, 1)]
    batch = collate(rows)
    assert trajectory_scores(batch, batch.rewards) == {"g/0": 1.0, "g/1": 2.0}


def test_a_group_of_one_says_nothing_however_many_rows_it_has() -> None:
    batch = collate([row("g/0", n, 3, 1, reward=1 / 3) for n in range(3)])
    for statistics in ("trajectories", "rows"):
        found = group_advantages(batch, batch.rewards, ALONE, statistics=statistics)  # type: ignore[arg-type]
        assert not found.any()


def test_leave_one_out_is_the_mean_of_the_others() -> None:
    scores = [3.0, 1.0, 2.0, 7.0]
    batch = collate([row(f"g/{n}", 0, 1, 1, reward=s) for n, s in enumerate(scores)])
    found = leave_one_out_advantages(batch, batch.rewards, ALONE).tolist()
    wanted = [s - (sum(scores) - s) / 3 for s in scores]
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize(("similarity", "together"), [(None, False), (0.9, True), (0.999, False)])
def test_states_may_be_nearly_the_same(similarity: float | None, together: bool) -> None:
    rows = [
        row("g/0", 0, 1, 1, anchor="You see a mug and a plate on the table."),
        row("g/1", 0, 1, 1, anchor="You see a mug and a plate on the table!", reward=1.0),
    ]
    batch = collate(rows)
    found = state_advantages(
        batch, batch.rewards, ALONE, divide=False, similarity=similarity
    ).tolist()
    assert found == ([-0.5, 0.5] if together else [0.0, 0.0])


def test_states_differ_by_their_white_space() -> None:
    rows = [row("g/0", 0, 1, 1, anchor="a b"), row("g/1", 0, 1, 1, anchor="a  b", reward=1.0)]
    batch = collate(rows)
    assert not state_advantages(batch, batch.rewards, ALONE).any()


def test_the_same_text_in_two_groups_is_two_states() -> None:
    rows = [row("g/0", 0, 1, 1, anchor="hall"), row("h/0", 0, 1, 1, anchor="hall", reward=1.0)]
    batch = collate(rows)
    assert not state_advantages(batch, batch.rewards, ALONE).any()


@pytest.mark.parametrize(
    ("statistics", "wanted"),
    [("trajectories", [0.5, 0.5, 0.5, -0.5]), ("rows", [0.25, 0.25, 0.25, -0.75])],
)
def test_gigpo_takes_the_groups_statistics_as_told(statistics: str, wanted: list[float]) -> None:
    rows = [row("g/0", n, 3, 1, reward=float(n == 2), anchor=f"{n}") for n in range(3)]
    batch = collate([*rows, row("g/1", 0, 1, 1, anchor="elsewhere")])
    algorithm = make_algorithm("gigpo", episode_stat=statistics, norm_by_std=False)
    targets = algorithm.prepare(batch, ALONE).batch.targets
    assert targets is not None
    assert targets.advantages[:, 0].tolist() == pytest.approx(wanted)


def test_gigpo_adds_both_terms() -> None:
    rows = [
        row("g/0", 0, 2, 1, anchor="hall"),
        row("g/0", 1, 2, 1, anchor="kitchen", reward=1.0),
        row("g/1", 0, 1, 1, anchor="hall"),
    ]
    algorithm = make_algorithm("gigpo", norm_by_std=False, step_weight=2.0)
    targets = algorithm.prepare(collate(rows), ALONE).batch.targets
    assert targets is not None
    wanted = [0.5 + 2 * 0.475, 0.5, -0.5 - 2 * 0.475]
    assert targets.advantages[:, 0].tolist() == pytest.approx(wanted)


def test_two_visits_of_one_state_in_one_trajectory_are_compared() -> None:
    rows = [row("g/0", step, 2, 1, anchor="hall", reward=float(step)) for step in range(2)]
    batch = collate(rows)
    returns = torch.tensor([0.5, 1.0], dtype=torch.float64)
    assert state_advantages(batch, returns, ALONE, divide=False).tolist() == [-0.25, 0.25]

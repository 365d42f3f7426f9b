"""Groups of equal scores: left out, drawn again from the tasks that follow, counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.episodes import Episode
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.collector import Collection
from agentgym_suite.trainers.dapo import DapoConfig
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.resampling import equal_groups, play_groups
from agentgym_suite.trainers.stats import OneRank
from agentgym_suite.trainers.task_lists import drawn_tasks
from agentgym_suite.trainers.trainer import Trainer
from tests.trainers.small_batches import row
from tests.trainers.tiny_training import TASKS, trainer

DAPO = DapoConfig()


def episode(group: str, trial: int) -> Episode:
    return Episode(
        task_id=group,
        trial=trial,
        seed=0,
        group_id=group,
        task_family="",
        split="",
        steps=(),
        score=0.0,
        success=False,
        outcome="failure",
        failure=None,
        metrics={},
        provenance="",
    )


class Player:
    """Plays groups whose scores are written down; keeps what it was asked."""

    def __init__(self, scores: Sequence[Sequence[float]]) -> None:
        self.scores = scores
        self.asked: list[tuple[int, int]] = []

    def __call__(self, first: int, count: int) -> Collection:
        self.asked.append((first, count))
        groups = range(first, first + count)
        rows = [
            row(f"{group}/{trial}", 0, 1, 2, reward=score)
            for group in groups
            for trial, score in enumerate(self.scores[group])
        ]
        return Collection(
            rows=tuple(rows),
            episodes=tuple(
                episode(str(group), trial)
                for group in groups
                for trial in range(len(self.scores[group]))
            ),
            env_steps=len(rows),
        )


def kept(collection: Collection) -> list[str]:
    return list(dict.fromkeys(row.group_id for row in collection.rows))


def test_only_what_is_lacking_is_drawn_again_and_everything_counts() -> None:
    play = Player([(1, 1), (0, 1), (0, 0), (1, 1), (1, 0), (0, 1)])
    found = play_groups(play, 3, rounds=10, config=DAPO, reducer=OneRank())
    assert play.asked == [(0, 3), (3, 2), (5, 1)]
    assert kept(found) == ["1", "4", "5"]
    assert (found.groups, found.env_steps) == (6, 12)
    assert {one.group_id for one in found.filtered} == {"0", "2", "3"}
    assert {one.group_id for one in found.episodes} == {"1", "4", "5"}


def test_rounds_are_bounded_and_fewer_groups_are_trained_on() -> None:
    play = Player([(0, 1)] + [(1, 1)] * 9)
    found = play_groups(play, 3, rounds=2, config=DAPO, reducer=OneRank())
    assert play.asked == [(0, 3), (3, 2), (5, 2)]
    assert kept(found) == ["0"]


def test_where_no_group_differs_the_last_round_stays() -> None:
    found = play_groups(Player([(1, 1)] * 9), 2, rounds=1, config=DAPO, reducer=OneRank())
    assert kept(found) == ["2", "3"]
    assert found.env_steps == 8 and len(found.filtered) == 4


def test_without_rounds_every_group_stays() -> None:
    play = Player([(1, 1), (0, 1)])
    found = play_groups(play, 2, rounds=0, config=DAPO, reducer=OneRank())
    assert play.asked == [(0, 2)] and kept(found) == ["0", "1"] and not found.filtered


def test_scores_are_sums_of_rewards_as_the_algorithm_sees_them() -> None:
    rows = [
        row("a/0", 0, 2, 1, reward=0.25),
        row("a/0", 1, 2, 1, reward=0.75),
        row("a/1", 0, 1, 1, reward=1.0),
        row("b/0", 0, 1, 1, reward=1.0, valid_action=False),
        row("b/1", 0, 1, 1, reward=1.0),
        row("c/0", 0, 1, 1, reward=0.0),
        row("residue/0", 0, 2, 1, reward=0.1),
        row("residue/0", 1, 2, 1, reward=0.2),
        row("residue/1", 0, 1, 1, reward=0.3),
        row("mixed/0", 0, 1, 1, reward=1.0),
        row("mixed/1", 0, 1, 1),
    ]
    assert equal_groups(rows, DAPO) == {"a", "b", "c", "residue"}
    assert equal_groups(rows, DapoConfig(invalid_penalty=0.1)) == {"a", "c", "residue"}
    outside = DapoConfig(invalid_penalty=0.1, invalid_penalty_place="advantage")
    assert equal_groups(rows, outside) == {"a", "b", "c", "residue"}
    diverging = DapoConfig(kl_coef=0.1, kl_place="reward")
    assert equal_groups(rows, diverging) == {"a", "b", "c", "residue"}


def test_groups_of_one_cannot_be_filtered() -> None:
    with pytest.raises(UsageError, match="filter_groups is set and rollouts is 1"):
        DapoConfig(filter_groups=True, rollouts=1)
    with pytest.raises(UsageError, match="filter_rounds is 0"):
        DapoConfig(filter_rounds=0)


def filtering(out: Path, budget: int, **more: Any) -> Trainer:
    given = {"filter_groups": True, "filter_rounds": 2, "budget_steps": budget}
    return trainer("dapo", out, **(given | more))


def test_the_loop_goes_on_in_the_order_of_tasks_and_spends_its_budget(tmp_path: Path) -> None:
    training = filtering(tmp_path, 250)
    played: list[str] = []
    spent: list[int] = []
    trained: list[int] = []
    rollouts = training.rollouts

    class Watched:
        evaluation = rollouts.evaluation

        def iteration(self, number: int, tasks_drawn: int) -> Collection:
            found = rollouts.iteration(number, tasks_drawn)
            order = drawn_tasks(TASKS, found.groups, seed=41, start=tasks_drawn)
            everything = (*found.episodes, *found.filtered)
            spent.append(sum(len(one.steps) for one in everything))
            trained.append(len(found.rows))
            seen = {(one.group_id, one.task_id) for one in everything}
            assert seen == {(f"{number}.{group}", task) for group, task in enumerate(order)}
            played.extend(order)
            return found

    training.rollouts = Watched()  # type: ignore[assignment]
    progress = training.run()
    lines = read_metrics(tmp_path / METRICS_FILE)[:-1]
    assert progress.tasks_drawn == len(played) > 2 * progress.iteration
    assert progress.episodes == 2 * len(played)
    assert any(line["rollout/filtered"] for line in lines)
    assert progress.env_steps == sum(spent) > sum(trained)


def test_a_stopped_run_draws_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    def weights(training: Trainer) -> list[torch.Tensor]:
        return [weight.clone() for weight in training.policy.parameters()]

    whole = filtering(tmp_path / "whole", 250)
    whole.run()
    filtering(tmp_path / "parts", 60).run()
    resumed = filtering(tmp_path / "parts", 250)
    resumed.run()
    assert resumed.progress.tasks_drawn == whole.progress.tasks_drawn
    pairs = zip(weights(whole), weights(resumed), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_group_that_broke_when_it_was_drawn_again_ends_nothing() -> None:
    """The first round needs a trajectory; a later one may have none, and counts its steps."""
    player = Player([[0.0, 1.0], [1.0, 1.0]])

    def play(first: int, count: int) -> Collection:
        if first == 0:
            return player(first, count)
        return Collection((), (), (), dropped=2, env_steps=7)

    found = play_groups(play, 2, rounds=3, config=DAPO, reducer=OneRank())
    assert {row.group_id for row in found.rows} == {"0"}
    assert found.dropped == 2 and found.env_steps == player(0, 2).env_steps + 7
    player.scores = [[0.0, 0.0], [1.0, 1.0]]
    assert kept(play_groups(play, 2, rounds=3, config=DAPO, reducer=OneRank())) == ["0", "1"]

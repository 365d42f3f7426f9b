"""The privileged information of an iteration, from episodes of several groups to texts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest

from agentgym_suite.agents import ReplayAgent, agent_factory
from agentgym_suite.episodes import Episode, EpisodeRequest
from agentgym_suite.errors import AnalyzerError, UsageError
from agentgym_suite.playing import run_episode
from agentgym_suite.trainers.analyzer import AnalyzerSettings
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.offline_analyzers import NullAnalyzer, RuleAnalyzer
from agentgym_suite.trainers.rows import trajectory_id
from tests.trainers.traced import Scripted, down, payload


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    """Two tasks of ALFWorld: one solved twice and left once, one left by all."""
    env = gym.make("ALFWorld-v0")
    played = []
    for group, solvers in (("0.0", (True, True, False)), ("0.1", (False, False, False))):
        _, info = env.reset(seed=int(group[-1]))
        for trial, solves in enumerate(solvers):
            request = EpisodeRequest(str(info["task_id"]), 5, trial, group)
            idle = ReplayAgent({request.task_id: ["look", "inventory"] * 25})
            agent = agent_factory("oracle") if solves else (lambda _env, _seed, idle=idle: idle)
            played.append(run_episode(env, agent, request))
    env.close()
    return played


def test_every_trajectory_has_a_text_by_the_name_of_its_rows(
    episodes: list[Episode], tmp_path: Path
) -> None:
    hints = Hinting(RuleAnalyzer(), audit=tmp_path).hints(episodes, 7)
    assert list(hints.texts) == ["0.0/0", "0.0/1", "0.0/2", "0.1/0", "0.1/1", "0.1/2"]
    assert trajectory_id(episodes[1]) == "0.0/1"
    assert hints.texts["0.0/2"].startswith("- In a success this action had an effect: go to ")
    assert not any(hints.texts[f"0.1/{trial}"] for trial in range(3))
    assert hints.metrics["coverage"] == 0.5 and hints.metrics["no_hint/no_success"] == 3
    (audit,) = tmp_path.iterdir()
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(one["group_uid"], one["iteration"]) for one in records] == [("0.0", 7), ("0.1", 7)]


def test_the_order_of_episodes_does_not_matter(episodes: list[Episode]) -> None:
    hinting = Hinting(RuleAnalyzer())
    assert hinting.hints(episodes[::-1], 0) == hinting.hints(episodes, 0)


def test_the_other_sources_ask_no_analyzer(episodes: list[Episode], tmp_path: Path) -> None:
    nobody = Scripted()
    near = Hinting(nobody, source="nearest_success", audit=tmp_path).hints(episodes, 0)
    assert not nobody.asked and not near.analyses and not list(tmp_path.iterdir())
    assert near.metrics == {"coverage": 0.5} and near.texts["0.0/2"].startswith("> go to ")
    assert Hinting(nobody, source="none").hints(episodes, 0).metrics == {"coverage": 0.0}
    skills = Hinting(nobody, source="generic_skill").hints(episodes, 0)
    assert skills.metrics == {"coverage": 1.0} and all(skills.texts.values())
    draws = [
        Hinting(nobody, source="random_success", seed=seed).hints(episodes, iteration).texts
        for seed, iteration in ((0, 3), (3, 0))
    ]
    assert draws[0] == draws[1]


def test_a_failing_analyzer_leaves_no_text_unless_it_is_required(episodes: list[Episode]) -> None:
    failing = Hinting(Scripted(extraction=[down()]))
    hints = failing.hints(episodes, 0)
    assert not any(hints.texts.values()) and hints.metrics["error/connection"] == 1
    with pytest.raises(AnalyzerError):
        replace(failing, settings=AnalyzerSettings(required=True)).hints(episodes, 0)


def test_the_task_is_told_in_the_words_of_choice(episodes: list[Episode]) -> None:
    for task_of, begins in ((None, "-= Welcome"), (lambda episode: episode.task_id, "train/")):
        asked = Scripted(extraction=[{"evidence": []}])
        Hinting(asked, task_of=task_of).hints(episodes, 0)
        shown = payload(asked.asked[0])["successful_trajectories"]
        assert [one["traj_uid"] for one in shown] == ["0.0/0", "0.0/1"]
        assert shown[0]["task"].startswith(begins)


def test_what_cannot_be_grouped_is_refused(episodes: list[Episode]) -> None:
    hinting = Hinting(NullAnalyzer())
    with pytest.raises(UsageError, match="has no group"):
        hinting.hints([replace(episodes[0], group_id="")], 0)
    with pytest.raises(UsageError, match="two trajectories of one name"):
        hinting.hints([episodes[0], episodes[0]], 0)
    assert hinting.hints([], 0).texts == {}

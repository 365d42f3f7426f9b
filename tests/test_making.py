"""Environments made of what was typed: one sentence for whatever is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agentgym_suite  # noqa: F401
from agentgym_suite.cli import main
from agentgym_suite.errors import AgentGymSuiteError, UsageError
from agentgym_suite.making import make_environment
from agentgym_suite.registry import ENV_IDS

WRONG = (
    {"foo": 1}, {"data": 5}, {"data": True}, {"data": ["a", 5]}, {"data": {}}, {"split": 5},
    {"server_url": 5}, {"server_url": "x" * 10_000}, {"server_url": "\ud800"}, {"render_mode": 5},
    {"server_url": "http://localhost:1", "token": 5},
    {"server_url": "http://localhost:1", "timeout_s": "soon"},
    {"server_url": "http://localhost:1", "split": {"a"}},
    {"max_episode_steps": 0}, {"max_episode_steps": "many"}, {"id": "x"},
    {"additional_wrappers": 3},
)  # fmt: skip


@pytest.mark.parametrize("env_id", ENV_IDS)
@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_every_wrong_argument_is_one_short_sentence(env_id: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(AgentGymSuiteError) as refused:
        make_environment(env_id, arguments)
    message = str(refused.value)
    assert "\n" not in message and len(message) < 500


def test_an_environment_that_is_not_there() -> None:
    with pytest.raises(
        UsageError, match="'Nowhere-v0' is not registered; see `agentgym-suite list`"
    ):
        make_environment("Nowhere-v0", {})


OWN = """
import gymnasium as gym

gym.register("Own-v0", entry_point="tests.counting:CountingEnv", max_episode_steps=8)
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module in the current directory that registers an environment."""
    (tmp_path / "own_module_of_a_user.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    yield "own_module_of_a_user"
    gym.registry.pop("Own-v0", None)
    sys.modules.pop("own_module_of_a_user", None)


def test_commands_play_an_environment_of_ones_own(
    own_module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{own_module}:Own-v0"
    assert main(["list", "--tasks", "--env", name, "--split", "test"]) == 0
    assert capsys.readouterr().out.split() == [f"count-{number}" for number in range(10)]
    assert main(["play", name, "--agent", "oracle", "--task", "count-1"]) == 0
    assert "success, score 1.000" in capsys.readouterr().out
    words = ["evaluate", "--env", name, "--agent", "oracle", "--episodes", "2", "--out", "runs/own"]
    assert main(words) == 0
    assert "100.0 (2/2)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module_here:Own-v0", "cannot be imported (No module named"),
        (":Own-v0", "':Own-v0' cannot be imported"),
        (".own:Own-v0", "'.own:Own-v0' cannot be imported"),
        ("own_module_of_a_user:Other-v0", "not registered; register it in own_module_of_a_user"),
    ],
)
def test_a_name_of_ones_own_that_is_none(
    name: str, words: str, own_module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ["list", "--tasks", "--env", name],
        ["play", name],
        ["evaluate", "--env", name],
    ):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1


def test_a_fault_of_the_environment_is_not_the_callers() -> None:
    def fails() -> None:
        raise ValueError("no physics")

    gym.register("Broken-v0", entry_point=fails)
    try:
        with pytest.raises(ValueError, match="no physics"):
            make_environment("Broken-v0", {})
    finally:
        del gym.registry["Broken-v0"]


def test_the_horizon_of_the_caller_wins() -> None:
    env = make_environment("WebShop-v0", {}, max_episode_steps=3)
    assert env.spec is not None and env.spec.max_episode_steps == 3


@pytest.mark.parametrize(
    "words",
    ["task_types=1.5", "foo=1", "library=1", "data=5", "normalise=no", "max_episode_steps=0"],
)
def test_playing_with_a_wrong_argument_is_one_sentence(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", "alfworld", "--set", words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("agentgym-suite: ") and said.count("\n") == 1


@pytest.mark.parametrize("option", ["--data", "--split", "--task"])
@pytest.mark.parametrize("env", ["alfworld", "webshop"])
def test_an_empty_option_is_refused_and_means_no_default(
    env: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", env, option, "", "--agent", "oracle"]) == 2
    assert "''" in capsys.readouterr().err

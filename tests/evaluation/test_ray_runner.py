"""``--runner ray``: what can be wrong with its options, and that its runs equal local ones."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentgym_suite import evaluation
from agentgym_suite.agents import agent_factory
from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.errors import MissingExtra, UsageError
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.evaluation.run_directory import ATTEMPTS, EPISODES, read_records
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions

TIMED = ("latency_s", "latency", "wall_s", "started_at", "git")
Command = Callable[[Sequence[str]], int]


def untimed(value: Any) -> Any:
    """A record or result without what depends on the clock."""
    if isinstance(value, Mapping):
        return {key: untimed(item) for key, item in value.items() if key not in TIMED}
    return [untimed(item) for item in value] if isinstance(value, list) else value


def records(folder: Path) -> dict[tuple[str, str, int], Any]:
    found = {}
    for record in read_records(folder / EPISODES):
        key = record["key"]
        found[key["env_id"], key["task_id"], key["trial"]] = untimed(record)
    return found


# ------------------------------------------------------------------------- without Ray


@pytest.mark.parametrize(
    "wrong",
    [
        {"runner": "cloud"},
        {"runner": "ray", "num_workers": 0},
        {"num_workers": 4},
        {"ray_address": "auto"},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=list(wrong)[-1]):
        RunOptions(**wrong)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--num-workers", "2"], "--num-workers goes with --runner ray"),
        (["--ray-address", "auto"], "--ray-address goes with --runner ray"),
        (["--runner", "ray", "--num-workers", "0"], "--num-workers is 0"),
        (["--runner", "ray"], "pip install 'agentgym-suite[ray]'"),
    ],
)
def test_the_command_refuses_them_in_one_sentence(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "run"
    assert command(["evaluate", "--env", "Counting-v0", "--out", str(out), *options]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1
    assert not out.exists()


def test_a_run_without_ray_installed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counting_env: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "run"
    with pytest.raises(MissingExtra):
        evaluation.run(
            ad_hoc_suite(counting_env), "oracle", out=out, options=RunOptions(runner="ray")
        )
    assert not out.exists()


# ---------------------------------------------------------------------------- with Ray


@pytest.fixture(scope="module")
def ray() -> Any:
    return pytest.importorskip("ray", reason="Ray is not installed: no actors to play in")


@pytest.mark.parametrize("agent", ["oracle", "random"])
def test_runs_equal_local_ones_over_a_whole_suite(ray: Any, tmp_path: Path, agent: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    here = evaluation.run("smoke", agent, out=tmp_path / "here")
    options = RunOptions(runner="ray", num_workers=2)
    away = evaluation.run("smoke", agent, out=tmp_path / "away", options=options)
    assert records(tmp_path / "away") == records(tmp_path / "here")
    played, local = untimed(away.as_dict()), untimed(here.as_dict())
    assert (played["run"].pop("runner"), local["run"].pop("runner")) == ("ray", "local")
    assert played == local and away.status == "complete"
    assert not ray.is_initialized() and signal.getsignal(signal.SIGTERM) == before


def test_an_episode_whose_worker_is_killed_is_played_again(ray: Any, tmp_path: Path) -> None:
    suite = ad_hoc_suite("WebShop-v0", episodes=5)
    doomed = suite.suite.envs[0].tasks[2]
    killed: list[int] = []

    class Killing:
        def __init__(self, env: gym.Env[str, str], seed: int) -> None:
            self._oracle: Any = agent_factory("oracle")(env, seed)
            self._env: Any = env

        def act(self, turn: Turn) -> Reply:
            if turn.task.id == doomed and turn.step_index == 1 and not killed:
                handle = self._env._worker._handle
                killed.append(ray.get(handle.__ray_call__.remote(lambda stage: os.getpid())))
                os.kill(killed[0], signal.SIGKILL)
            reply: Reply = self._oracle.act(turn)
            return reply

        def close(self) -> None:
            pass

    here = evaluation.run(suite, "oracle", out=tmp_path / "here")
    away = evaluation.run(
        suite,
        AgentSpec("oracle", Killing),
        out=tmp_path / "away",
        options=RunOptions(runner="ray", num_workers=2),
    )
    assert (away.status, away.errors, away.retries) == ("complete", {}, 1)
    assert away.envs["WebShop-v0"].successes == here.envs["WebShop-v0"].successes == 5
    (lost,) = read_records(tmp_path / "away" / ATTEMPTS)
    assert (lost["failure"]["kind"], lost["failure"]["origin"]) == ("worker_lost", "infra")
    played = records(tmp_path / "away")
    assert played.pop(("WebShop-v0", doomed, 0))["attempts"] == 2
    expected = records(tmp_path / "here")
    expected.pop(("WebShop-v0", doomed, 0))
    assert played == expected

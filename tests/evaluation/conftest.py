"""A tiny environment for the harness's tests: count up to the task's number."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import pytest

from agentgym_suite.calls import CallCodec, Tool
from agentgym_suite.data import canonical_json
from agentgym_suite.env import TextEnv, Transition
from agentgym_suite.errors import AgentGymSuiteError
from agentgym_suite.evaluation import cli
from agentgym_suite.tasks import NumberedIds, Task, TaskSet

COUNTING_ID = "Counting-v0"


class CountingGame(TextEnv):
    """Task ``count-i`` is solved by saying ``add[1]`` exactly ``i % 5 + 1`` times, then ``stop[]``.

    ``hostile`` puts markup into the observations, ``pause_s`` slows every step, ``breaks`` lists
    task ids whose first step raises.
    """

    codec = CallCodec((Tool("add", "Add a number", "n", "the number"), Tool("stop", "Stop")))
    policies = {"oracle": lambda env: env._oracle}

    def __init__(
        self,
        data: str | None = None,
        split: str = "train",
        hostile: bool = False,
        pause_s: float = 0.0,
        breaks: tuple[str, ...] = (),
        n: int = 60,
        long: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(split=split, **kwargs)
        self._hostile, self._pause_s, self._breaks = hostile, pause_s, tuple(breaks)
        self._n, self._long = n, long
        self._count, self._target, self._stopped = 0, 1, False

    def _load_tasks(self) -> TaskSet:
        n = self._n
        splits = {"test": range(n // 2), "train": range(n // 2, n)}
        return TaskSet(
            NumberedIds("count", n), splits, family=lambda i: "even" if i % 2 == 0 else "odd"
        )

    def _begin(self, task: Task) -> Transition:
        self._count, self._target, self._stopped = 0, task.index % 5 + 1, False
        return Transition(self._text())

    def _play(self, action: str) -> Transition:
        if self._task.id in self._breaks:
            raise RuntimeError("the abacus is broken")
        time.sleep(self._pause_s)
        if action == "stop[]":
            self._stopped = True
            solved = float(self._count == self._target)
            return Transition("done", solved, terminated=True, parsed_action=action)
        if action == "add[1]":
            self._count += 1
            return Transition(self._text(), parsed_action=action)
        return self._refuse(action, "say add[1] or stop[]")

    def _refuse(self, action: str, error: str) -> Transition:
        return Transition(self._text(), error=error, parsed_action=action)

    def _text(self) -> str:
        text = f"count {self._count} of {self._target}"
        if self._hostile:
            text += "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>"
        return text + "é" * self._long

    def _admissible_actions(self) -> tuple[str, ...]:
        return ("add[1]", "stop[]")

    def _score(self) -> tuple[float, bool]:
        solved = self._stopped and self._count == self._target
        return (1.0 if solved else min(self._count / self._target, 1.0) / 2), solved

    def _metrics(self) -> dict[str, float]:
        return {"count": float(self._count)}

    def _details(self) -> dict[str, Any]:
        return {}

    def _state(self) -> str:
        return canonical_json([self._task.id, self._count, self._stopped])

    def _provenance(self) -> Mapping[str, Any]:
        return {"n": self._n}

    def _oracle(self, observation: str, info: Mapping[str, Any]) -> str:
        return "add[1]" if self._count < self._target else "stop[]"


def run_command(argv: Sequence[str]) -> int:
    """The exit code of an evaluation command, as the whole command line gives it."""
    parser = argparse.ArgumentParser()
    cli.register(parser.add_subparsers(required=True))
    args = parser.parse_args(argv)
    try:
        return int(args.run(args))
    except AgentGymSuiteError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def register_counting() -> None:
    if COUNTING_ID not in gym.registry:
        gym.register(COUNTING_ID, entry_point=CountingGame, max_episode_steps=10)


@pytest.fixture
def counting_env() -> Iterator[str]:
    """The id of the counting game, registered for one test."""
    register_counting()
    yield COUNTING_ID
    gym.registry.pop(COUNTING_ID, None)


@pytest.fixture
def command(counting_env: str) -> Callable[[Sequence[str]], int]:
    """Runs an evaluation command beside the counting game."""
    return run_command


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        opened = driver.chromium.launch(executable_path=path, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def seen(chromium: Any) -> Iterator[Any]:
    from tests.evaluation.browser import Seen  # this file also runs outside of the tests

    one = Seen(chromium)
    yield one
    one.page.close()

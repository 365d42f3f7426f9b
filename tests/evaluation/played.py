"""Runs of the counting game whose agents solve chosen tasks, and their records to be altered."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym_suite import evaluation
from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.evaluation.run_directory import EPISODES
from agentgym_suite.evaluation.settings import AgentSpec
from agentgym_suite.evaluation.suites import EnvEntry, Suite

ENV = "Counting-v0"
Solved = Mapping[str, Collection[int]]


class Choosing:
    """Solves a task in the trials that were chosen for it, and gives up at once in the others.

    The trial is known by the seed: the environment makes one agent for each episode.
    """

    def __init__(self, env: gym.Env[str, str], solved: bool) -> None:
        self._policy: Any = env.unwrapped.policy("oracle")  # type: ignore[attr-defined]
        self._solved = solved

    def act(self, turn: Turn) -> Reply:
        if not self._solved:
            return Reply("stop[]")
        return Reply(self._policy(turn.observation, turn.info))

    def close(self) -> None:
        """Nothing is held."""


class Solver(Choosing):
    """Solves every task, as an agent of somebody's own."""

    def __init__(self, env: gym.Env[str, str], seed: int) -> None:
        super().__init__(env, True)


def counting_suite(
    tasks: int = 12, *, trials: int = 1, id: str = "counting", max_steps: int | None = None
) -> Suite:
    ids = tuple(f"count-{i}" for i in range(tasks))
    return Suite(id, 1, (EnvEntry(ENV, ids, trials=trials, max_steps=max_steps),), title="Counting")


def play(
    folder: Path, solved: Solved, *, name: str = "chooser", suite: Suite | None = None
) -> Path:
    """A run in which each task succeeds in the trials that are named for it."""
    suite = suite or counting_suite()
    wins = {
        evaluation.episode_seed(suite.id, suite.version, ENV, task, trial)
        for task, trials in solved.items()
        for trial in trials
    }
    opened = evaluation.open_suite(suite, {}, allow_missing=False)
    spec = AgentSpec(name, lambda env, seed: Choosing(env, seed in wins), {}, None, "raw")
    evaluation.run(opened, spec, out=folder)
    return folder


def first(tasks: int, trials: int = 1) -> dict[str, range]:
    """The first tasks, solved in all of the first trials."""
    return {f"count-{i}": range(trials) for i in range(tasks)}


def some(*numbers: int, trials: int = 1) -> dict[str, range]:
    """These tasks, solved in all of the first trials."""
    return {f"count-{i}": range(trials) for i in numbers}


def records_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / EPISODES).read_bytes().splitlines()]


def write_records(run: Path, records: Collection[Mapping[str, Any]]) -> None:
    lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in records]
    (run / EPISODES).write_text("".join(lines), "utf-8")

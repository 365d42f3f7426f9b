"""Where a training plays, which tasks, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agentgym_suite.arguments import offers
from agentgym_suite.errors import UsageError
from agentgym_suite.game import Game, env_id_of, game_of
from agentgym_suite.making import make_environment
from agentgym_suite.rollouts import MakeEnv
from agentgym_suite.trainers.run_settings import RunSettings


@dataclass(frozen=True, slots=True)
class Played:
    """What is trained on and what is looked at beside it.

    Attributes:
        make_env: makes one environment.
        tasks: ids of the training tasks.
        unseen: ids of tasks that are evaluated only.
        watched: the training tasks that are evaluated; all of them when empty.
    """

    make_env: MakeEnv
    tasks: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()


def environments(run: RunSettings) -> MakeEnv:
    """Makes the environment that the settings of a run name."""
    arguments = {**run.kwargs, **({"data": run.data} if run.data else {})}
    return lambda: make_environment(run.env, arguments, max_episode_steps=run.horizon or None)


def read_task_list(path: Path) -> list[str]:
    """The task ids of a file, one a line; empty lines and lines that begin with # are none.

    Raises:
        UsageError: it cannot be read, or has no id.
    """
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"task_list {path} cannot be read ({error}); write task ids into it, one a line, as "
            "`agentgym-suite list --tasks --env ID` does"
        ) from error
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise UsageError(f"task_list {path} has no task id; write one a line")
    return list(dict.fromkeys(found))


def select_tasks(
    make_env: MakeEnv,
    split: str,
    most_admissible: int = 0,
    most: int = 0,
    *,
    listed: Sequence[str] = (),
) -> list[str]:
    """The full ids of a split's tasks, in order.

    Args:
        make_env: makes one environment.
        split: a split of its tasks.
        listed: tasks that are taken instead of all of the split, by id or number.
        most_admissible: keep tasks that start with at most so many admissible actions, such as
            small rooms; 0 keeps all.
        most: keep only the first so many of those; 0 keeps all.

    Raises:
        UsageError: no such split or task, no task is kept, or the environment is no game with
            tasks.
    """
    with closing(make_env()) as env:
        if not offers(env.unwrapped, Game):
            raise UsageError(
                f"environment {env_id_of(env)!r} has no tasks to train on; take one of "
                "`agentgym-suite list`"
            )
        tasks = game_of(env).tasks
        positions = map(tasks.resolve, listed) if listed else tasks.split(split)
        ids = [tasks.ids[position] for position in positions]
        if most_admissible:
            ids = [
                task_id
                for task_id in ids
                if len(env.reset(seed=0, options={"task_id": task_id})[1]["admissible_actions"])
                <= most_admissible
            ]
        if not (listed or tasks.split(split)):
            raise UsageError(f"split {split!r} has no task; choose another one")
    if not ids:
        origin = "task_list" if listed else f"split {split!r}"
        raise UsageError(
            f"no task of {origin} starts with at most {most_admissible} admissible actions; raise "
            "most_admissible"
        )
    return ids[:most] if most else ids


def spread(task_ids: Sequence[str], most: int) -> tuple[str, ...]:
    """At most so many tasks, evenly over the whole list; 0 takes all."""
    count = min(most, len(task_ids)) if most else len(task_ids)
    return tuple(task_ids[number * len(task_ids) // count] for number in range(count))


def drawn_tasks(task_ids: Sequence[str], count: int, *, seed: int, start: int) -> list[str]:
    """The next tasks of an endless order in which every task comes once before any again.

    Args:
        task_ids: all tasks.
        count: tasks wanted.
        seed: of the order.
        start: tasks drawn before; so a resumed run goes on where it stopped.
    """
    found: list[str] = []
    while len(found) < count:
        epoch, place = divmod(start + len(found), len(task_ids))
        order = np.random.Generator(np.random.PCG64([seed, epoch])).permutation(len(task_ids))
        chosen = order[place : place + count - len(found)]
        found += [task_ids[number] for number in chosen]
    return found

"""Where a training plays, which tasks, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

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


def select_tasks(
    make_env: MakeEnv, split: str, most_admissible: int = 0, most: int = 0
) -> list[str]:
    """The full ids of a split's tasks, in order.

    Args:
        make_env: makes one environment.
        split: a split of its tasks.
        most_admissible: keep tasks that start with at most so many admissible actions, such as
            small rooms; 0 keeps all.
        most: keep only the first so many of those; 0 keeps all.

    Raises:
        UsageError: no such split, no task is kept, or the environment is no game with tasks.
    """
    with closing(make_env()) as env:
        if not offers(env.unwrapped, Game):
            raise UsageError(
                f"environment {env_id_of(env)!r} has no tasks to train on; take one of "
                "`agentgym-suite list`"
            )
        tasks = game_of(env).tasks
        ids = [tasks.ids[position] for position in tasks.split(split)]
        if most_admissible:
            ids = [
                task_id
                for task_id in ids
                if len(env.reset(seed=0, options={"task_id": task_id})[1]["admissible_actions"])
                <= most_admissible
            ]
        if not tasks.split(split):
            raise UsageError(f"split {split!r} has no task; choose another one")
    if not ids:
        raise UsageError(
            f"no task of split {split!r} starts with at most {most_admissible} admissible "
            "actions; raise most_admissible"
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

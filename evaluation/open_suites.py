"""The environments of a suite over their data: opened once, checked, made again and again.

Opening is timed apart, because the first use of an environment may build its generated world,
its store and its index.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym_suite.arguments import shown
from agentgym_suite.errors import MissingExtra, UnknownTask, UsageError
from agentgym_suite.evaluation.suites import EnvEntry, Suite, check_entry, shown_ids
from agentgym_suite.game import game_of
from agentgym_suite.making import make_environment
from agentgym_suite.spaces import without_surrogates
from agentgym_suite.tasks import TaskSet

#: splits that measure an agent, in the order in which one is taken where nobody chose
_MEASURING = ("named", "test", "valid_unseen", "valid_seen")


@dataclass(frozen=True, slots=True)
class OpenEnvironment:
    """An opened environment.

    Attributes:
        entry: what the suite says of it.
        data: path of its official files; None for the embedded world.
        tasks: every task of its data.
        provenance: what identifies data, indexes and numbers behind it.
        metrics: names of its metrics.
        setup_s: seconds of its first make and reset, one-off builds included.
    """

    entry: EnvEntry
    data: str | None
    tasks: TaskSet
    provenance: Mapping[str, Any]
    metrics: tuple[str, ...]
    setup_s: float

    def make(self) -> gym.Env[str, str]:
        """A new environment."""
        return make_env(self.entry, self.data)


def make_env(entry: EnvEntry, data: str | None) -> gym.Env[str, str]:
    """The environment of an entry.

    Raises:
        UsageError: it is not registered, cannot be made, or an argument is wrong.
    """
    kwargs: dict[str, Any] = dict(entry.kwargs)
    if entry.split:
        kwargs["split"] = entry.split
    if data is not None:
        kwargs["data"] = data
    return make_environment(entry.id, kwargs, max_episode_steps=entry.max_steps)


def open_environment(entry: EnvEntry, data: str | None) -> OpenEnvironment:
    """Make and reset the environment once, so that everything it needs is built.

    Raises:
        UsageError: it cannot be made, or is none of this suite's kind.
    """
    started = time.perf_counter()
    env = make_env(entry, data)
    try:
        if not hasattr(type(env.unwrapped), "tasks"):
            raise UsageError(
                f"{entry.id} is not an environment of this suite; see `agentgym-suite list`"
            )
        tasks = game_of(env).tasks
        options = {"task_id": tasks.ids[0]} if len(tasks) else {}
        _, info = env.reset(seed=0, options=options)
        provenance, metrics = json.loads(info["provenance"]), tuple(info["metrics"])
    finally:
        env.close()
    setup_s = time.perf_counter() - started
    return OpenEnvironment(entry, data, tasks, provenance, metrics, setup_s)


def open_suite(suite: Suite, data: Mapping[str, str], *, allow_missing: bool) -> OpenSuite:
    """Open every environment of a suite and check the suite against its data.

    Environments that are not installed are left out and named in the suite's departures.

    Args:
        suite: the suite.
        data: environment id -> path of its official files.
        allow_missing: play what is there instead of refusing when tasks are missing.

    Raises:
        UsageError: data for an environment that the suite lacks, no environment at all, or
            data that does not fit the suite.
    """
    stray = sorted(set(data) - {entry.id for entry in suite.envs})
    if stray:
        names = ", ".join(entry.id for entry in suite.envs)
        raise UsageError(f"data is given for {shown(stray[0])}; suite {suite.id} has {names}")
    environments, absent = [], []
    for entry in suite.envs:
        if entry.id not in gym.registry:
            absent.append(f"{entry.id} is not installed")
            continue
        try:
            environments.append(open_environment(entry, data.get(entry.id)))
        except MissingExtra as error:
            absent.append(f"{entry.id} is not installed: {error}")
    if not environments:
        raise UsageError(f"suite {suite.id} cannot be played: {'; '.join(absent)}")
    checked, departures = [], absent
    for environment in environments:
        _check_primary(suite, environment)
        entry, faults = _fit(environment.entry, environment.tasks, suite.id, allow_missing)
        checked.append(replace(environment, entry=entry))
        departures += faults
    entries = tuple(environment.entry for environment in checked)
    played = replace(suite, envs=entries, departures=(*suite.departures, *departures))
    return OpenSuite(played, suite.digest, tuple(checked))


@dataclass(frozen=True, slots=True)
class OpenSuite:
    """A suite as it can be played on this machine.

    Attributes:
        suite: with missing tasks and environments left out and named in its departures.
        digest: digest of the suite as it was given.
        environments: its environments, opened.
    """

    suite: Suite
    digest: str
    environments: tuple[OpenEnvironment, ...]

    @property
    def setup_s(self) -> dict[str, float]:
        """Seconds that opening took, by environment."""
        return {environment.entry.id: environment.setup_s for environment in self.environments}


def ad_hoc_suite(
    env_id: str,
    *,
    data: str | None = None,
    split: str = "",
    tasks: Sequence[str] = (),
    trials: int = 1,
    max_steps: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
    episodes: int | None = None,
) -> OpenSuite:
    """A suite of one environment, for a look: a whole split, or chosen tasks; never rankable.

    Args:
        env_id: Gymnasium id.
        data: path of official files; None for the embedded world.
        split: the split; "" takes the one that measures agents, see ``measuring_split``.
        tasks: task ids or numbers; empty takes the whole split.
        trials: how often each task is played.
        max_steps: horizon; None keeps the environment's own.
        kwargs: further arguments of the environment.
        episodes: play only so many of these tasks, the first ones.

    Raises:
        UsageError: an unknown environment, split or task, or an empty split.
    """
    entry = EnvEntry(env_id, (), split, trials, max_steps, dict(kwargs or {}))
    environment = open_environment(entry, data)
    if tasks:
        ids = [environment.tasks.ids[environment.tasks.resolve(task)] for task in tasks]
        label = split or "tasks"
    else:
        label = split or measuring_split(environment.tasks)
        ids = [environment.tasks.ids[place] for place in environment.tasks.split(label)]
        entry = replace(entry, split=label)
    entry = replace(entry, tasks=tuple(ids[:episodes]))
    check_entry(entry, f"{env_id} ({label})")
    suite = Suite(
        id=f"{env_id}-{label}",
        version=1,
        envs=(entry,),
        title=f"{env_id}, {label}"
        + (f", data {without_surrogates(Path(data).name)}" if data else ""),
        departures=("ad-hoc suite, none of the published ones",),
    )
    return OpenSuite(suite, suite.digest, (replace(environment, entry=entry),))


def measuring_split(tasks: TaskSet) -> str:
    """The split that is played where nobody chose one: held-out tasks, if the data have any.

    Games that were named one by one, else test, valid_unseen or valid_seen, else the last split
    that has a task.

    Raises:
        UsageError: the data have no task at all.
    """
    filled = [name for name, members in tasks.splits.items() if len(members)]
    if not filled:
        raise UsageError("no split of the data has a task; give other data")
    return next((name for name in _MEASURING if name in filled), filled[-1])


def _fit(
    entry: EnvEntry, tasks: TaskSet, suite_id: str, allow_missing: bool
) -> tuple[EnvEntry, list[str]]:
    """The entry reduced to what its data hold, and in what the data do not fit it."""
    there = [task for task in entry.tasks if _is_task(tasks, task)]
    missing = [task for task in entry.tasks if not _is_task(tasks, task)]
    faults = []
    if missing:
        faults.append(
            f"{len(missing)} of {len(entry.tasks)} tasks of {entry.id} are missing in the data: "
            + shown_ids(missing)
        )
    if entry.data_digest not in ("any", tasks.digest):
        faults.append(f"the data of {entry.id} have digest {tasks.digest}, not {entry.data_digest}")
    faults += _count_faults(entry, tasks, there)
    if faults and not allow_missing:
        raise UsageError(
            f"suite {suite_id} does not fit the data: {'; '.join(faults)}; give the right data, "
            "or --allow-missing to play what is there, not rankable"
        )
    if not there:
        raise UsageError(f"suite {suite_id} has no task of {entry.id} in the data; give other data")
    return replace(entry, tasks=tuple(there)), faults


def _check_primary(suite: Suite, environment: OpenEnvironment) -> None:
    known = ("success", "score", *environment.metrics)
    if suite.primary not in known:
        raise UsageError(
            f"suite {suite.id} is ordered by {suite.primary!r}, which {environment.entry.id} does "
            f"not measure; use {', '.join(known)}"
        )


def _is_task(tasks: TaskSet, task_id: str) -> bool:
    try:
        # Exactly the id: a number, which resolve() takes as well, would name another task.
        return tasks.ids[tasks.resolve(task_id)] == task_id
    except UnknownTask:
        return False


def _count_faults(entry: EnvEntry, tasks: TaskSet, there: Sequence[str]) -> list[str]:
    faults = []
    wanted = entry.expected.get("tasks", len(entry.tasks))
    if wanted != len(entry.tasks):
        faults.append(f"{entry.id} lists {len(entry.tasks)} tasks and expects {wanted}")
    families = entry.expected.get("families")
    if families is not None:
        found = Counter(tasks.task(tasks.resolve(task)).family for task in there)
        if dict(found) != dict(families):
            faults.append(f"{entry.id} has families {dict(found)}, expected {dict(families)}")
    return faults

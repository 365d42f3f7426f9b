"""The environments of a suite over their data: opened once, checked, made again and again.

Opening is timed apart, because the first use of an environment may build its generated world,
its store and its index.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym_suite.errors import DataMissing, MissingExtra, UsageError
from agentgym_suite.evaluation.missing_data import absence, absent_data, data_of, refuse_stray_data
from agentgym_suite.evaluation.suite_fit import fit
from agentgym_suite.evaluation.suites import EnvEntry, Suite, check_entry
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
        data: data set or environment -> path of its official files; data sets that are in the
            data home need none.
        allow_missing: play what is there instead of refusing when tasks are missing.

    Raises:
        DataMissing: the data that the suite needs are absent; the sentence says how to get them.
        UsageError: data for an environment that the suite lacks, no environment at all, or
            data that do not fit the suite.
    """
    refuse_stray_data([suite], data, f"suite {suite.id}")
    lacking = absent_data(suite, data)
    if lacking:
        raise DataMissing(f"suite {suite.id} cannot be played: {absence(lacking)}")
    environments, absent = [], []
    for entry in suite.envs:
        if entry.id not in gym.registry:
            absent.append(f"{entry.id} is not installed")
            continue
        try:
            environments.append(open_environment(entry, data_of(entry, data)))
        except MissingExtra as error:
            absent.append(f"{entry.id} is not installed: {error}")
    if not environments:
        raise UsageError(f"suite {suite.id} cannot be played: {'; '.join(absent)}")
    checked, departures = [], absent
    for environment in environments:
        _check_primary(suite, environment)
        entry, faults = fit(
            environment.entry, environment.tasks, suite.id, allow_missing=allow_missing
        )
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


def _check_primary(suite: Suite, environment: OpenEnvironment) -> None:
    known = ("success", "score", *environment.metrics)
    if suite.primary not in known:
        raise UsageError(
            f"suite {suite.id} is ordered by {suite.primary!r}, which {environment.entry.id} does "
            f"not measure; use {', '.join(known)}"
        )

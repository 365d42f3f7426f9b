"""Suites: named, versioned lists of tasks with the settings they are played with.

A suite is a TOML file. The SHA-256 of its canonical
content goes into every result, and the seed of an episode is a function of its key alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from agentgym_suite.arguments import LONGEST_SHOWN, check_count, shown
from agentgym_suite.decoding import Decoding
from agentgym_suite.errors import DataMissing, UsageError
from agentgym_suite.evaluation.suite_tasks import (
    LARGEST_COUNT,
    TASK_KEYS,
    SplitTasks,
    check_numbers,
    read_expected,
    read_tasks,
)
from agentgym_suite.evaluation.toml_fields import read_toml, refuse_unknown, text_of, typed
from agentgym_suite.files import json_digest
from agentgym_suite.json_bounds import keepable
from agentgym_suite.prompts import prompt_template

SUITES_FOLDER = Path(__file__).with_name("suites")
_SUITE_KEYS = ("id", "version", "title", "env", "prompt", "decoding", "metrics")
_ENV_KEYS = (
    *TASK_KEYS,
    "id",
    "data",
    "split",
    "trials",
    "max_steps",
    "kwargs",
    "expected",
    "data_digest",
)
_SHOWN_IDS = 10


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """The tasks of one environment in a suite.

    Attributes:
        id: Gymnasium id.
        tasks: task ids, explicit and distinct; of ``split_tasks`` () until data are opened.
        split: the split they belong to; "" leaves it to the environment.
        trials: how often each task is played.
        max_steps: horizon; None keeps the environment's own.
        kwargs: keyword arguments of the environment, beside its data.
        expected: what the data must show: ``tasks``, their number; ``ids``, the digest of their
            ids; ``prefixes`` and ``families``, tasks by the beginning of the id and by family.
        data_digest: digest the task set must have; "any" for generated data.
        data: name of the data set that the tasks are of; "" for the embedded world.
        split_tasks: the split that stands for the tasks; None where they are listed.
    """

    id: str
    tasks: tuple[str, ...]
    split: str = ""
    trials: int = 1
    max_steps: int | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)
    data_digest: str = "any"
    data: str = ""
    split_tasks: SplitTasks | None = None

    @property
    def count(self) -> int:
        """How many tasks it has; of a split whose data were not opened yet, how many it expects."""
        waits = self.split_tasks is not None and not self.tasks
        return int(self.expected.get("tasks", 0)) if waits else len(self.tasks)

    def content(self) -> dict[str, Any]:
        """What ``Suite.content`` says of it."""
        content: dict[str, Any] = {
            "id": self.id,
            "split": self.split,
            "tasks": list(self.tasks),
            "trials": self.trials,
            "max_steps": self.max_steps,
            "kwargs": dict(self.kwargs),
            "expected": dict(self.expected),
            "data_digest": self.data_digest,
        }
        if self.data:
            content["data"] = self.data
        if self.split_tasks is not None:
            content["split_tasks"] = asdict(self.split_tasks)
        return content

    def part(self, tasks: Sequence[str], first: int | None, trials: int) -> EnvEntry:
        """The entry with fewer tasks; see ``Suite.part``."""
        if self.split_tasks is None:
            kept = tuple(task for task in self.tasks if not tasks or task in tasks)[:first]
            expected = self.expected if kept == self.tasks else {}
            return replace(self, tasks=kept, trials=trials, expected=expected)
        if tasks:  # whether the split has them is known when the data are opened
            named = tuple(dict.fromkeys(tasks))[:first]
            return replace(self, tasks=named, trials=trials, expected={}, split_tasks=None)
        if first is None or first >= self.count:
            return replace(self, trials=trials)
        rule = replace(self.split_tasks, first=first)
        return replace(self, trials=trials, expected={"tasks": first}, split_tasks=rule)


@dataclass(frozen=True, slots=True)
class Suite:
    """A named, versioned list of tasks and settings.

    Attributes:
        id: its name; part of every episode's seed.
        version: raised with any change of tasks or settings; part of every seed.
        envs: the environments with their tasks; each environment once.
        title: one line for people.
        prompt_format: prompt template of agents that take messages; "" leaves it to them.
        primary: metric that orders tables: "success", "score" or one of every environment's.
        departures: why runs of it are not rankable; empty for a suite as it was published.
        decoding: how agents with a model sample; None leaves it to them.
    """

    id: str
    version: int
    envs: tuple[EnvEntry, ...]
    title: str = ""
    prompt_format: str = ""
    primary: str = "success"
    departures: tuple[str, ...] = ()
    decoding: Decoding | None = None

    @property
    def planned(self) -> int:
        """Episodes of one run: tasks times trials, over all environments."""
        return sum(entry.count * entry.trials for entry in self.envs)

    def content(self) -> dict[str, Any]:
        """Everything that defines the suite, as JSON values; task lists stand as their ids.

        Settings that came with later versions stand there only where a suite has them, so that
        other suites keep their digests.
        """
        content: dict[str, Any] = {
            "id": self.id,
            "version": self.version,
            "env": [entry.content() for entry in self.envs],
            "prompt": {"format": self.prompt_format} if self.prompt_format else {},
            "metrics": {"primary": self.primary},
        }
        if self.decoding is not None:
            content["decoding"] = asdict(self.decoding)
        return content

    @property
    def digest(self) -> str:
        """The digest of ``content()``, see ``suite_digest``."""
        return suite_digest(self.content())

    def part(
        self,
        *,
        tasks: Sequence[str] = (),
        episodes: int | None = None,
        trials: int | None = None,
    ) -> Suite:
        """The same suite with fewer tasks or other trials: equal seeds, no longer rankable.

        Args:
            tasks: ids to keep; empty keeps all.
            episodes: how many tasks of each environment to keep, the first ones.
            trials: how often each task is played; None keeps the suite's number.

        Raises:
            UsageError: a task that the suite lacks, or nothing left of an environment.
        """
        listed = {task for entry in self.envs for task in entry.tasks}
        stray = sorted(set(tasks) - listed)
        if stray and all(entry.split_tasks is None for entry in self.envs):
            raise UsageError(f"suite {self.id} has no task {shown_ids(stray)}; leave them out")
        parts = [entry.part(tasks, episodes, trials or entry.trials) for entry in self.envs]
        entries = tuple(part for part in parts if part.tasks or part.split_tasks)
        if entries == self.envs:
            return self
        for entry in entries:
            check_entry(entry, f"suite {self.id}, {entry.id}")
        reason = "tasks or trials differ from the suite's"
        return replace(self, envs=entries, departures=(*self.departures, reason))

    def searching(self, indexes: Mapping[str, str]) -> Suite:
        """The same suite over other indexes: equal tasks and seeds, no longer rankable.

        Args:
            indexes: environment -> folder of an index, or address of a retrieval server.

        Raises:
            UsageError: an environment that the suite lacks.
        """
        known = [entry.id for entry in self.envs]
        stray = sorted(set(indexes) - set(known))
        if stray:
            raise UsageError(
                f"an index is given for {shown(stray[0])}; suite {self.id} has {', '.join(known)}"
            )
        entries = tuple(
            replace(entry, kwargs={**entry.kwargs, "index": indexes[entry.id]})
            if entry.id in indexes
            else entry
            for entry in self.envs
        )
        reasons = tuple(f"{env_id} searches another index" for env_id in indexes)
        return replace(self, envs=entries, departures=(*self.departures, *reasons))


def suite_digest(content: Mapping[str, Any]) -> str:
    """``sha256:`` + hex of the canonical JSON of a suite's content.

    The ids of a split do not count, so that the suite is the same before it has seen the data.
    """
    entries = [
        entry if entry.get("split_tasks") is None else {**entry, "tasks": []}
        for entry in content["env"]
    ]
    return json_digest({**content, "env": entries})


def episode_seed(suite: str, version: int, env_id: str, task_id: str, trial: int) -> int:
    """The seed of one episode, in [0, 2**63): a function of its key, of nothing else."""
    return _seed(suite, str(version), env_id, task_id, str(trial))


def decoding_seed(
    suite: str, version: int, env_id: str, task_id: str, trial: int, step: int
) -> int:
    """The seed of the reply to one step: the episode's key with the step as a further field."""
    return _seed(suite, str(version), env_id, task_id, str(trial), str(step))


def _seed(*fields: str) -> int:
    digest = hashlib.sha256("\x1f".join(("agentgym-eval", *fields)).encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def shipped_suites() -> tuple[str, ...]:
    """The ids of the suites that come with the package."""
    return tuple(sorted(path.stem for path in SUITES_FOLDER.glob("*.toml")))


def load_suite(name: str | Path) -> Suite:
    """A suite by its id, or from a TOML file.

    Raises:
        UsageError: no such suite, or the file is not a suite.
        DataError: no such file, or one that cannot be read.
    """
    text = str(name)
    if isinstance(name, Path) or text.endswith(".toml") or "/" in text:
        path = Path(name)
        if not path.is_file():
            raise DataMissing(f"there is no suite file {path}: check the path")
        return parse_suite(text_of(path), source=str(path), folder=path.parent)
    known = shipped_suites()
    if (SUITES_FOLDER / "unions" / f"{text}.toml").is_file():
        raise UsageError(f"suite {text} is a union of suites; play it with `run_union`")
    if text not in known:
        raise UsageError(
            f"suite {shown(text)} does not exist; use {', '.join(known)} or a .toml file"
        )
    toml = text_of(SUITES_FOLDER / f"{text}.toml")
    return parse_suite(toml, source=f"suite {text}", folder=SUITES_FOLDER)


def parse_suite(text: str, *, source: str, folder: Path | None = None) -> Suite:
    """A suite from its TOML text.

    Args:
        text: the TOML.
        source: what the text is, for error messages.
        folder: where ``task_list`` files lie; None forbids them.

    Raises:
        UsageError: naming what is wrong with it.
    """
    raw = read_toml(text, source)
    refuse_unknown(raw, _SUITE_KEYS, source)
    suite = Suite(
        id=typed(raw, "id", str, source),
        version=typed(raw, "version", int, source),
        envs=tuple(
            _parse_entry(entry, f"{source}, [[env]] {number}", folder)
            for number, entry in enumerate(typed(raw, "env", list, source), 1)
        ),
        title=typed(raw, "title", str, source, ""),
        prompt_format=_inner(raw, "prompt", "format", source, ""),
        primary=_inner(raw, "metrics", "primary", source, "success"),
        decoding=_decoding(raw, source),
    )
    check_count(f"{source}, version", suite.version, 0, LARGEST_COUNT)
    if suite.prompt_format:
        prompt_template(suite.prompt_format)
    repeated = [env_id for env_id, count in Counter(e.id for e in suite.envs).items() if count > 1]
    if repeated:
        raise UsageError(
            f"{source} has {repeated[0]} more than once; merge its tasks in one [[env]]"
        )
    if not suite.envs:
        raise UsageError(f"{source} has no [[env]]; name at least one environment")
    return suite


def _parse_entry(raw: Any, source: str, folder: Path | None) -> EnvEntry:
    if not isinstance(raw, dict):
        raise UsageError(f"{source} is {shown(raw)}; write a table")
    refuse_unknown(raw, _ENV_KEYS, source)
    tasks, split_tasks = read_tasks(raw, source, folder)
    entry = EnvEntry(
        id=typed(raw, "id", str, source),
        tasks=tasks,
        split=typed(raw, "split", str, source, ""),
        trials=typed(raw, "trials", int, source, 1),
        max_steps=typed(raw, "max_steps", int, source, None),
        kwargs=typed(raw, "kwargs", dict, source, {}),
        expected=read_expected(raw, source),
        data_digest=typed(raw, "data_digest", str, source, "any"),
        data=typed(raw, "data", str, source, ""),
        split_tasks=split_tasks,
    )
    check_entry(entry, source)
    return entry


def check_entry(entry: EnvEntry, source: str) -> None:
    """Check what can be checked without the data.

    Raises:
        UsageError: no tasks, a duplicate task, a split without its name or number of tasks, a
            count below 1, or arguments that no JSON holds.
    """
    if entry.split_tasks is not None and not (entry.split and entry.count):
        raise UsageError(
            f"{source} has split_tasks without a split and its number of tasks; add split and "
            "expected = { tasks = … }"
        )
    if not entry.count:
        raise UsageError(f"{source} has no tasks; list at least one task id")
    twice = [task for task, count in Counter(entry.tasks).items() if count > 1]
    if twice:
        raise UsageError(
            f"{source} lists tasks more than once: {shown_ids(twice)}; keep one of each"
        )
    check_numbers(entry.count, entry.trials, entry.max_steps, source)
    try:
        json_digest(entry.kwargs)
        if not keepable(entry.kwargs):
            raise ValueError("a number beyond 64 bits, or too many levels")
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{source} has arguments that JSON cannot hold ({error}); use texts, finite numbers, "
            "lists and tables"
        ) from error


def shown_ids(ids: Sequence[str]) -> str:
    """Ids in a sentence: all of a few, the first of many with the count of the rest."""
    some = ", ".join(map(_shown_id, ids[:_SHOWN_IDS]))
    rest = len(ids) - _SHOWN_IDS
    return f"{some} and {rest} more" if rest > 0 else some


def _shown_id(task: str) -> str:
    """An id as it is, unless it is long or holds what no terminal shows."""
    return task if len(task) <= LONGEST_SHOWN and task.isprintable() else shown(task)


def _decoding(raw: Mapping[str, Any], source: str) -> Decoding | None:
    table = typed(raw, "decoding", dict, source, {})
    place = f"{source}, [decoding]"
    refuse_unknown(table, ("temperature", "top_p", "max_tokens"), place)
    if not table:
        return None
    return Decoding(
        temperature=typed(table, "temperature", float, place, 0.0),
        top_p=typed(table, "top_p", float, place, 1.0),
        max_tokens=typed(table, "max_tokens", int, place, None),
    )


def _inner(raw: Mapping[str, Any], table: str, key: str, source: str, default: str) -> str:
    """The one key that a table of the suite may have."""
    inner = typed(raw, table, dict, source, {})
    refuse_unknown(inner, {key}, f"{source}, [{table}]")
    return str(typed(inner, key, str, f"{source}, [{table}]", default))

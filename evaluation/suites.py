"""Suites: named, versioned lists of tasks with the settings they are played with.

A suite is a TOML file (evaluation specification, section 3). The SHA-256 of its canonical
content goes into every result, and the seed of an episode is a function of its key alone.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentgym_suite.arguments import shown
from agentgym_suite.errors import DataError, DataMissing, UsageError
from agentgym_suite.files import json_digest
from agentgym_suite.prompts import prompt_template

_SUITE_KEYS = {"id", "version", "title", "env", "prompt", "metrics"}
_EXPECTED_KEYS = {"tasks", "families"}
_ENV_KEYS = {
    "id",
    "split",
    "tasks",
    "task_list",
    "trials",
    "max_steps",
    "kwargs",
    "expected",
    "data_digest",
}
_SHOWN_IDS = 10


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """The tasks of one environment in a suite.

    Attributes:
        id: Gymnasium id.
        tasks: task ids, explicit and distinct.
        split: the split they belong to; "" leaves it to the environment.
        trials: how often each task is played.
        max_steps: horizon; None keeps the environment's own.
        kwargs: keyword arguments of the environment, beside its data.
        expected: counts that the data must show: ``tasks``, and ``families`` by name.
        data_digest: digest the task set must have; "any" for generated data.
    """

    id: str
    tasks: tuple[str, ...]
    split: str = ""
    trials: int = 1
    max_steps: int | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)
    data_digest: str = "any"


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
    """

    id: str
    version: int
    envs: tuple[EnvEntry, ...]
    title: str = ""
    prompt_format: str = ""
    primary: str = "success"
    departures: tuple[str, ...] = ()

    @property
    def planned(self) -> int:
        """Episodes of one run: tasks times trials, over all environments."""
        return sum(len(entry.tasks) * entry.trials for entry in self.envs)

    def content(self) -> dict[str, Any]:
        """Everything that defines the suite, as JSON values; task lists stand as their ids."""
        return {
            "id": self.id,
            "version": self.version,
            "env": [
                {
                    "id": entry.id,
                    "split": entry.split,
                    "tasks": list(entry.tasks),
                    "trials": entry.trials,
                    "max_steps": entry.max_steps,
                    "kwargs": dict(entry.kwargs),
                    "expected": dict(entry.expected),
                    "data_digest": entry.data_digest,
                }
                for entry in self.envs
            ],
            "prompt": {"format": self.prompt_format} if self.prompt_format else {},
            "metrics": {"primary": self.primary},
        }

    @property
    def digest(self) -> str:
        """``sha256:`` + hex of the canonical JSON of ``content()``."""
        return json_digest(self.content())

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
        stray = sorted(set(tasks) - {task for entry in self.envs for task in entry.tasks})
        if stray:
            raise UsageError(f"suite {self.id} has no task {shown_ids(stray)}; leave them out")
        entries = []
        for entry in self.envs:
            kept = tuple(task for task in entry.tasks if not tasks or task in tasks)[:episodes]
            if kept:
                expected = {} if kept != entry.tasks else entry.expected
                entries.append(
                    replace(entry, tasks=kept, trials=trials or entry.trials, expected=expected)
                )
        if tuple(entries) == self.envs:
            return self
        for entry in entries:
            check_entry(entry, f"suite {self.id}, {entry.id}")
        reason = "tasks or trials differ from the suite's"
        return replace(self, envs=tuple(entries), departures=(*self.departures, reason))


def episode_seed(suite: str, version: int, env_id: str, task_id: str, trial: int) -> int:
    """The seed of one episode, in [0, 2**63): a function of its key, of nothing else."""
    fields = ("agentgym-eval", suite, str(version), env_id, task_id, str(trial))
    digest = hashlib.sha256("\x1f".join(fields).encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def shipped_suites() -> tuple[str, ...]:
    """The ids of the suites that come with the package."""
    folder = files("agentgym_suite.evaluation").joinpath("suites")
    names = [entry.name for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return tuple(sorted(name.removesuffix(".toml") for name in names))


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
        return parse_suite(_text_of(path), source=str(path), folder=path.parent)
    known = shipped_suites()
    if text not in known:
        raise UsageError(
            f"suite {shown(text)} does not exist; use {', '.join(known)} or a .toml file"
        )
    resource = files("agentgym_suite.evaluation").joinpath("suites", f"{text}.toml")
    return parse_suite(resource.read_text("utf-8"), source=f"suite {text}")


def parse_suite(text: str, *, source: str, folder: Path | None = None) -> Suite:
    """A suite from its TOML text.

    Args:
        text: the TOML.
        source: what the text is, for error messages.
        folder: where ``task_list`` files lie; None forbids them.

    Raises:
        UsageError: naming what is wrong with it.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML ({error}); correct it") from error
    except RecursionError as error:
        raise UsageError(f"{source} is nested too deeply; write it flat") from error
    if "decoding" in raw:
        raise UsageError(
            f"{source} has [decoding], which no agent of this version obeys; leave it out and "
            "set the decoding in the agent"
        )
    _refuse_unknown(raw, _SUITE_KEYS, source)
    suite = Suite(
        id=_typed(raw, "id", str, source),
        version=_typed(raw, "version", int, source),
        envs=tuple(
            _parse_entry(entry, f"{source}, [[env]] {number}", folder)
            for number, entry in enumerate(_typed(raw, "env", list, source), 1)
        ),
        title=_typed(raw, "title", str, source, ""),
        prompt_format=_inner(raw, "prompt", "format", source, ""),
        primary=_inner(raw, "metrics", "primary", source, "success"),
    )
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
    _refuse_unknown(raw, _ENV_KEYS, source)
    entry = EnvEntry(
        id=_typed(raw, "id", str, source),
        tasks=_task_ids(raw, source, folder),
        split=_typed(raw, "split", str, source, ""),
        trials=_typed(raw, "trials", int, source, 1),
        max_steps=_typed(raw, "max_steps", int, source, None),
        kwargs=_typed(raw, "kwargs", dict, source, {}),
        expected=_expected(raw, source),
        data_digest=_typed(raw, "data_digest", str, source, "any"),
    )
    check_entry(entry, source)
    return entry


def check_entry(entry: EnvEntry, source: str) -> None:
    """Check what can be checked without the data.

    Raises:
        UsageError: no tasks, a duplicate task, a count below 1, or arguments that no JSON holds.
    """
    if not entry.tasks:
        raise UsageError(f"{source} has no tasks; list at least one task id")
    twice = [task for task, count in Counter(entry.tasks).items() if count > 1]
    if twice:
        raise UsageError(
            f"{source} lists tasks more than once: {shown_ids(twice)}; keep one of each"
        )
    if entry.trials < 1 or (entry.max_steps is not None and entry.max_steps < 1):
        raise UsageError(
            f"{source} has trials = {entry.trials}, max_steps = {entry.max_steps}; use at least 1"
        )
    try:
        json_digest(entry.kwargs)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{source} has arguments that JSON cannot hold ({error}); use texts, finite numbers, "
            "lists and tables"
        ) from error


def shown_ids(ids: Sequence[str]) -> str:
    """Ids in a sentence: all of a few, the first of many with the count of the rest."""
    shown = ", ".join(ids[:_SHOWN_IDS])
    rest = len(ids) - _SHOWN_IDS
    return f"{shown} and {rest} more" if rest > 0 else shown


def _task_ids(raw: Mapping[str, Any], source: str, folder: Path | None) -> tuple[str, ...]:
    if ("tasks" in raw) == ("task_list" in raw):
        raise UsageError(f"{source} needs either tasks or task_list; give exactly one of them")
    if "tasks" in raw:
        tasks = _typed(raw, "tasks", list, source)
        wrong = [task for task in tasks if not isinstance(task, str)]
        if wrong:
            raise UsageError(f"{source} has the task {shown(wrong[0])}; write task ids as strings")
        return tuple(tasks)
    name = _typed(raw, "task_list", str, source)
    path = None if folder is None else folder / name
    if path is None or not path.is_file():
        raise UsageError(
            f"{source} names the task list {name!r}, which is not there; add that file"
        )
    lines = (line.strip() for line in _text_of(path).splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def _text_of(path: Path) -> str:
    """The text of a file of a suite."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}); save it as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); make it readable") from error


def _expected(raw: Mapping[str, Any], source: str) -> dict[str, Any]:
    expected: dict[str, Any] = _typed(raw, "expected", dict, source, {})
    place = f"{source}, expected"
    _refuse_unknown(expected, _EXPECTED_KEYS, place)
    _typed(expected, "tasks", int, place, None)
    families = _typed(expected, "families", dict, place, {})
    for name in families:
        _typed(families, name, int, f"{place}, families")
    return expected


def _inner(raw: Mapping[str, Any], table: str, key: str, source: str, default: str) -> str:
    """The one key that a table of the suite may have."""
    inner = _typed(raw, table, dict, source, {})
    _refuse_unknown(inner, {key}, f"{source}, [{table}]")
    return str(_typed(inner, key, str, f"{source}, [{table}]", default))


def _refuse_unknown(raw: Mapping[str, Any], known: set[str], source: str) -> None:
    unknown = sorted(set(raw) - known)
    if unknown:
        raise UsageError(
            f"{source} has the unknown key {shown(unknown[0])}; use {', '.join(sorted(known))}"
        )


def _typed(raw: Mapping[str, Any], key: str, kind: type, source: str, *default: Any) -> Any:
    if key not in raw and default:
        return default[0]
    value = raw.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = {str: "a string", int: "an integer", list: "a list", dict: "a table"}[kind]
        raise UsageError(f"{source} has {key} = {shown(value)}; give {wanted}")
    return value

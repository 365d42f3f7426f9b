"""Which tasks a suite means: listed, in a file of ids, numbered, or a whole split.

A split is for data whose ids cannot be known before they are here: the suite then states how
many tasks there are, and is the same suite before and after it has seen them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.arguments import check_count, shown
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.toml_fields import counts_in, refuse_unknown, text_of, typed
from agentgym_suite.tasks import NumberedIds, TaskSet

TASK_KEYS = ("tasks", "task_list", "task_range", "split_tasks")
"""The keys of an ``[[env]]`` that say which tasks; exactly one of them is given."""

MOST_EPISODES = 1_000_000
"""Episodes of one environment that a run can hold in memory."""

LARGEST_COUNT = 2**31 - 1
"""Of what is stored as a number of a suite."""

_EXPECTED_KEYS = {"tasks", "ids", "prefixes", "families"}


@dataclass(frozen=True, slots=True)
class SplitTasks:
    """All tasks of a split, in the order of the data.

    Attributes:
        prefix: how their ids begin; "" takes every task of the split.
        first: only so many of them; None for all, which is what a published suite says.
    """

    prefix: str = ""
    first: int | None = None

    def of(self, tasks: TaskSet, split: str) -> tuple[str, ...]:
        """The ids.

        Raises:
            UnknownSplit: the data have no such split.
        """
        ids = [tasks.ids[position] for position in tasks.split(split)]
        return tuple(task for task in ids if task.startswith(self.prefix))[: self.first]


def read_tasks(
    raw: Mapping[str, Any], source: str, folder: Path | None
) -> tuple[tuple[str, ...], SplitTasks | None]:
    """The ids that an ``[[env]]`` names, or the split that stands for them.

    Args:
        raw: the table.
        source: what it is, for error messages.
        folder: where ``task_list`` files lie; None forbids them.

    Raises:
        UsageError: none of ``TASK_KEYS`` is given, several are, or one is wrong.
        DataError: the list cannot be read.
    """
    given = [key for key in TASK_KEYS if key in raw]
    if len(given) != 1:
        raise UsageError(
            f"{source} needs either {', '.join(TASK_KEYS[:-1])} or {TASK_KEYS[-1]}; give exactly "
            "one of them"
        )
    if given == ["split_tasks"]:
        return (), SplitTasks(typed(raw, "split_tasks", str, source))
    if given == ["tasks"]:
        tasks = typed(raw, "tasks", list, source)
        wrong = [task for task in tasks if not isinstance(task, str)]
        if wrong:
            raise UsageError(f"{source} has the task {shown(wrong[0])}; write task ids as strings")
        return tuple(tasks), None
    if given == ["task_range"]:
        return _numbered(typed(raw, "task_range", dict, source), f"{source}, task_range"), None
    return _listed(typed(raw, "task_list", str, source), source, folder), None


def _numbered(raw: Mapping[str, Any], source: str) -> tuple[str, ...]:
    """``{ prefix = "human", count = 500 }``: human-0 to human-499."""
    refuse_unknown(raw, {"prefix", "count"}, source)
    count = typed(raw, "count", int, source)
    if count > MOST_EPISODES:
        raise UsageError(f"{source} has count = {shown(count)}; give at most {MOST_EPISODES:,}")
    return tuple(NumberedIds(typed(raw, "prefix", str, source), max(0, count)))


def _listed(name: str, source: str, folder: Path | None) -> tuple[str, ...]:
    path = None if folder is None else folder / name
    # A suite is somebody else's file: no other file of this machine is read for it.
    if path and folder and not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"{source} names the task list {shown(name)}, which does not lie beside the suite; "
            "give a path below its folder"
        )
    if path is None or not path.is_file():
        raise UsageError(
            f"{source} names the task list {shown(name)}, which is not there; add that file"
        )
    lines = (line.strip() for line in text_of(path).splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def check_numbers(count: int, trials: int, max_steps: int | None, source: str) -> None:
    """Check the numbers of an ``[[env]]``.

    Raises:
        UsageError: one is below 1, or there are more episodes than a run holds.
    """
    if trials < 1 or (max_steps is not None and max_steps < 1):
        raise UsageError(f"{source} has trials = {trials}, max_steps = {max_steps}; use at least 1")
    if count * trials > MOST_EPISODES:
        raise UsageError(
            f"{source} has {count:,} tasks of {shown(trials)} trials; plan at most "
            f"{MOST_EPISODES:,} episodes"
        )
    check_count(f"{source}, max_steps", max_steps or 1, 1, LARGEST_COUNT)


def read_expected(raw: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What the data of an ``[[env]]`` must show, see ``EnvEntry.expected``.

    Raises:
        UsageError: a key is unknown, or a value of another kind.
    """
    expected: dict[str, Any] = typed(raw, "expected", dict, source, {})
    place = f"{source}, expected"
    refuse_unknown(expected, _EXPECTED_KEYS, place)
    typed(expected, "tasks", int, place, None)
    typed(expected, "ids", str, place, "")
    for table in ("prefixes", "families"):
        counts_in(expected, table, place)
    return expected


def expectation_faults(
    expected: Mapping[str, Any], ids: Sequence[str], families: Iterable[str]
) -> list[str]:
    """In what tasks differ from what is expected of them, one clause each.

    Args:
        expected: as ``read_expected`` gives it.
        ids: their ids.
        families: the family of each; looked at only where families are expected.
    """
    faults = []
    wanted = expected.get("tasks", len(ids))
    if wanted != len(ids):
        faults.append(f"lists {len(ids)} tasks and expects {wanted}")
    if expected.get("ids", ids_digest(ids)) != ids_digest(ids):
        faults.append(f"has tasks of the digest {ids_digest(ids)}, expected {expected['ids']}")
    for prefix, count in expected.get("prefixes", {}).items():
        found = sum(task.startswith(prefix) for task in ids)
        if found != count:
            faults.append(f"has {found} tasks {prefix}…, expected {count}")
    if "families" in expected:
        counts = dict(Counter(families))
        if counts != dict(expected["families"]):
            faults.append(f"has families {counts}, expected {dict(expected['families'])}")
    return faults


def ids_digest(ids: Iterable[str]) -> str:
    """``sha256:`` + hex over the ids, each with a line feed: the digest of a list of tasks."""
    digest = hashlib.sha256()
    for task in ids:
        digest.update(task.encode("utf-8", "surrogatepass") + b"\n")
    return f"sha256:{digest.hexdigest()}"

"""Whether the data of an environment hold what a suite says of it."""

from __future__ import annotations

from dataclasses import replace

from agentgym_suite.errors import UnknownTask, UsageError
from agentgym_suite.evaluation.suite_tasks import expectation_faults
from agentgym_suite.evaluation.suites import EnvEntry, shown_ids
from agentgym_suite.tasks import TaskSet


def fit(
    entry: EnvEntry, tasks: TaskSet, suite_id: str, *, allow_missing: bool
) -> tuple[EnvEntry, list[str]]:
    """An entry with the tasks that its data hold, and in what the data do not fit it.

    Args:
        entry: what the suite says.
        tasks: every task of the data.
        suite_id: the suite, for error messages.
        allow_missing: go on where something does not fit.

    Raises:
        UsageError: the data do not fit and that is not allowed, or hold no task at all.
        UnknownSplit: the data lack the split that stands for the tasks.
    """
    if entry.split_tasks is not None:
        entry = replace(entry, tasks=entry.split_tasks.of(tasks, entry.split))
    there, faults = _present(entry, tasks)
    if entry.data_digest not in ("any", tasks.digest):
        faults.append(f"the data of {entry.id} have digest {tasks.digest}, not {entry.data_digest}")
    families = (tasks.task(tasks.resolve(task)).family for task in there)
    found = expectation_faults(entry.expected, entry.tasks, families)
    faults += [f"{entry.id} {fault}" for fault in found]
    if faults and not allow_missing:
        raise UsageError(
            f"suite {suite_id} does not fit the data: {'; '.join(faults)}; give the right data, "
            "or --allow-missing to play what is there, not rankable"
        )
    if not there:
        raise UsageError(f"suite {suite_id} has no task of {entry.id} in the data; give other data")
    return replace(entry, tasks=there), faults


def _present(entry: EnvEntry, tasks: TaskSet) -> tuple[tuple[str, ...], list[str]]:
    """The tasks of an entry that are where it says, and sentences on the others."""
    if entry.split_tasks is not None:
        return entry.tasks, []
    members = set(tasks.split(entry.split)) if entry.split else None
    there, missing, elsewhere = [], [], []
    for task in entry.tasks:
        position = _position(tasks, task)
        if position is None:
            missing.append(task)
        elif members is not None and position not in members:
            elsewhere.append(task)
        else:
            there.append(task)
    faults = []
    of = f"of {len(entry.tasks)} tasks of {entry.id}"
    if missing:
        faults.append(f"{len(missing)} {of} are missing in the data: {shown_ids(missing)}")
    if elsewhere:
        faults.append(
            f"{len(elsewhere)} {of} are of another split than {entry.split}: {shown_ids(elsewhere)}"
        )
    return tuple(there), faults


def _position(tasks: TaskSet, task_id: str) -> int | None:
    try:
        position = tasks.resolve(task_id)
    except UnknownTask:
        return None
    # Exactly the id: a number, which resolve() takes as well, would name another task.
    return position if tasks.ids[position] == task_id else None

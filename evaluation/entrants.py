"""The runs that a comparison's folders name, each with what it is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.labels import labels
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.scored_runs import find_runs
from agentgym_suite.evaluation.union_folder import is_union


@dataclass(frozen=True, slots=True)
class Entrant:
    """One agent's run, or its runs of the suites of a union.

    Attributes:
        label: what it is called.
        agent: its agent.
        folder: where it lies.
        runs: suite -> directory of its run; one suite unless it is of a union.
        union: whether it is of a union.
    """

    label: str
    agent: str
    folder: Path
    runs: Mapping[str, Path]
    union: bool


def find_entrants(folders: Sequence[Path]) -> list[Entrant]:
    """What each folder names: a run, every run of a folder of runs, or the agents of a union.

    Raises:
        RunError: a folder holds no run, or other things beside.
        UsageError: they name fewer than two runs.
    """
    found = [one for folder in folders for one in _entrants(folder)]
    if len(found) < 2:
        names = ", ".join(str(folder) for folder in folders) or "nothing"
        raise UsageError(f"{names} names fewer than two runs; name two to compare")
    return _labelled(found)


def _entrants(folder: Path) -> list[Entrant]:
    found = [_of_run(path) for path in find_runs(folder)]
    if not is_union(folder):
        return found
    by_agent: dict[str, dict[str, Path]] = {}
    for one in found:
        by_agent.setdefault(one.agent, {}).update(one.runs)
    return [Entrant(agent, agent, folder, runs, True) for agent, runs in sorted(by_agent.items())]


def _of_run(path: Path) -> Entrant:
    header = read_run(path)
    return Entrant(header["agent"], header["agent"], path, {header["suite"]["id"]: path}, False)


def _labelled(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Agents of one name are told apart by their folders, one folder named twice by a number."""
    seen: Counter[tuple[str, Path]] = Counter()
    numbers = []
    for one in entrants:
        seen[one.agent, one.folder] += 1
        numbers.append(f" #{seen[one.agent, one.folder]}")
    folders = [f" ({one.folder.as_posix()})" for one in entrants]
    told = labels([one.agent for one in entrants], folders, numbers)
    return [replace(one, label=label) for one, label in zip(entrants, told, strict=True)]

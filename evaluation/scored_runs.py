"""Runs with their results, as tables and reports take them: found, scored and ranked."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.labels import labels
from agentgym_suite.evaluation.results import EnvResults, RunResults
from agentgym_suite.evaluation.run_directory import OWN_FILES, holds_records
from agentgym_suite.evaluation.run_header import RUN, read_run
from agentgym_suite.evaluation.scoring import score_run
from agentgym_suite.evaluation.suites import shown_ids
from agentgym_suite.evaluation.union_folder import UNION_FILES, is_union, read_union
from agentgym_suite.evaluation.verdicts import with_verdict


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run as a report needs it.

    Attributes:
        folder: its directory.
        header: what ``run.json`` says.
        results: its results.
        label: what tables call it: its agent, with the folder where that alone is ambiguous.
    """

    folder: Path
    header: dict[str, Any]
    results: RunResults
    label: str = ""

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.results.run.agent

    @property
    def wall_s(self) -> float:
        """Seconds of playing, over all the times that the run was gone on with."""
        return float(self.header["wall_s"])


def find_runs(folder: Path) -> list[Path]:
    """The run directories that a path names: itself, those in it, those of a union.

    In it they lie directly, or in the folders that ``evaluate`` made for several agents. A folder
    of runs holds nothing else: runs that merely lie about in a home or in a place for
    temporary files were not meant, and their results would be written again.

    Raises:
        RunError: there is none, or other things are there.
    """
    if is_union(folder):
        return _runs_of_union(folder)
    inner = sorted(path.parent for path in folder.glob(f"*/{RUN}"))
    groups = [] if (folder / RUN).is_file() else _groups(folder)
    found = [folder, *inner] if (folder / RUN).is_file() else inner
    if inner or groups:
        _refuse_strangers(folder, {*OWN_FILES, *(path.name for path in (*inner, *groups))})
    found = [*found, *(path for group in groups for path in find_runs(group))]
    # A header without records is what a refused command left, unless nothing else is there.
    found = [path for path in found if holds_records(path)] or found
    if not found:
        raise RunError(f"{folder} holds no run; give a directory that `evaluate` wrote")
    return found


def _groups(folder: Path) -> list[Path]:
    """The folders in it that hold the runs of several agents, or of a union."""
    inner = (path for path in sorted(folder.glob("*/")) if not path.name.startswith("."))
    return [
        path
        for path in inner
        if not (path / RUN).is_file() and (is_union(path) or any(path.glob(f"*/{RUN}")))
    ]


def _runs_of_union(folder: Path) -> list[Path]:
    suites = [member.suite for member in read_union(folder).plan.members]
    _refuse_strangers(folder, {*UNION_FILES, *suites})
    found = [
        path for suite in suites if (folder / suite).is_dir() for path in find_runs(folder / suite)
    ]
    if not found:
        raise RunError(f"{folder} holds a union of which nothing is played; `evaluate` plays it")
    return found


def _refuse_strangers(folder: Path, own: set[str]) -> None:
    names = sorted(path.name for path in folder.iterdir())
    strange = [name for name in names if name not in own and not name.startswith(".")]
    if strange:
        raise RunError(
            f"{folder} holds more than runs ({shown_ids(strange)}); give a run, or a folder with "
            "nothing but runs in it"
        )


def load_runs(folders: Sequence[Path]) -> list[ScoredRun]:
    """The runs, scored from their records, best first.

    Raises:
        RunError: a folder holds no run, or the runs are of different suites.
    """
    return ranked(
        [ScoredRun(path, read_run(path), with_verdict(path, score_run(path))) for path in folders]
    )


def ranked(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """The runs of one suite, labelled, best first.

    Raises:
        RunError: the runs are of different suites.
    """
    suites = {run.results.suite.digest: run.results.suite for run in runs}
    if len(suites) > 1:
        names = sorted({f"{suite.id} v{suite.version}" for suite in suites.values()})
        what = "different suites" if len(names) > 1 else "different tasks of one suite"
        raise RunError(f"these runs are of {what} ({', '.join(names)}); report them apart")
    return sorted(_labelled(runs), key=lambda run: place(run, run.results.envs.values()))


def place(run: ScoredRun, envs: Iterable[EnvResults]) -> tuple[bool, float, float, float, str]:
    """What orders runs, best first: the primary metric, then success, score and name.

    Args:
        run: the run.
        envs: its environments that count, each weighing the same; incomplete ones come last.
    """
    chosen = list(envs)
    primary = _mean(env.primary.estimate for env in chosen)
    success = _mean(env.success.estimate for env in chosen)
    score = _mean(env.score.estimate for env in chosen)
    return primary is None, -(primary or 0.0), -(success or 0.0), -(score or 0.0), run.label


def _mean(values: Iterable[float | None]) -> float | None:
    known = list(values)
    if not known or None in known:
        return None
    return math.fsum(value for value in known if value is not None) / len(known)


def _labelled(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Agents of one name are told apart by their folders, from where these part."""
    if not runs:
        return []
    paths = [run.folder.absolute() for run in runs]
    above = Path(os.path.commonpath(paths)).parent
    folders = [f" ({path.relative_to(above).as_posix()})" for path in paths]
    told = labels([run.agent for run in runs], folders)
    return [replace(run, label=label) for run, label in zip(runs, told, strict=True)]

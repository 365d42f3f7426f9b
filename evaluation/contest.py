"""Several agents on one suite: a run each, then one leaderboard and one report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.report import ScoredRun, ranked, write_report
from agentgym_suite.evaluation.run_directory import read_run
from agentgym_suite.evaluation.runner import run_suite
from agentgym_suite.evaluation.settings import AgentSpec, OnStanding, RunOptions, Stop
from agentgym_suite.evaluation.worlds import OpenSuite


@dataclass(frozen=True, slots=True)
class Contest:
    """What became of it.

    Attributes:
        runs: the runs, best first.
        report: path of the page that shows them together.
        complete: whether every run holds every episode.
    """

    runs: tuple[ScoredRun, ...]
    report: Path
    complete: bool


def run_contest(
    opened: OpenSuite,
    agents: Sequence[AgentSpec],
    out: Path,
    *,
    options: RunOptions | None = None,
    on_standing: OnStanding | None = None,
) -> Contest:
    """Run each agent and write the reports.

    One agent's run lies in ``out`` itself; the runs of several lie in folders of their names,
    each with a report of its own, and the report of all of them in ``out``.

    Raises:
        UsageError: no agent, or the same one twice.
        RunError: a directory cannot be used.
    """
    folders = run_folders(out, [agent.name for agent in agents])
    stop = Stop()
    done = []
    for agent, folder in zip(agents, folders, strict=True):
        if stop.requested:
            break
        results = run_suite(
            opened, agent, folder, options=options, on_standing=on_standing, stop=stop
        )
        run = ScoredRun(folder, read_run(folder), results)
        if folder != out:
            write_report(folder, [run])
        done.append(run)
    runs = ranked(done)
    report = write_report(out, runs)
    complete = len(runs) == len(agents) and all(r.results.status == "complete" for r in runs)
    return Contest(tuple(runs), report, complete)


def run_folders(out: Path, agents: Sequence[str]) -> list[Path]:
    """Where the run of each agent lies.

    Raises:
        UsageError: no agent, or two whose folders would be the same.
    """
    if not agents:
        raise UsageError("no agent is given; name at least one")
    if len(agents) == 1:
        return [out]
    folders = [out / re.sub(r"[^\w.@+-]", "_", agent) for agent in agents]
    if len(set(folders)) < len(folders):
        raise UsageError(f"the agents {', '.join(agents)} are not distinct; name each once")
    return folders

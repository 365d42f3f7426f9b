"""Several agents on one suite: a run each, then one leaderboard and one report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.errors import RunError, UsageError
from agentgym_suite.evaluation.open_suites import OpenSuite
from agentgym_suite.evaluation.report import write_report
from agentgym_suite.evaluation.run_directory import holds_records
from agentgym_suite.evaluation.run_header import RUN, read_run
from agentgym_suite.evaluation.runner import run_suite
from agentgym_suite.evaluation.scored_runs import ScoredRun, ranked
from agentgym_suite.evaluation.settings import AgentSpec, OnProgress, RunOptions, Stop


@dataclass(frozen=True, slots=True)
class AgentRuns:
    """What became of it.

    Attributes:
        runs: the runs, best first.
        report: path of the page that shows them together.
        complete: whether every run holds every episode.
    """

    runs: tuple[ScoredRun, ...]
    report: Path
    complete: bool


def run_agents(
    opened: OpenSuite,
    agents: Sequence[AgentSpec],
    out: Path,
    *,
    options: RunOptions | None = None,
    on_progress: OnProgress | None = None,
    stop: Stop | None = None,
) -> AgentRuns:
    """Run each agent and write the reports.

    One agent's run lies in ``out`` itself; the runs of several lie in folders of their names,
    each with a report of its own, and the report of all of them in ``out``.

    Args:
        opened: the suite.
        agents: the agents.
        out: the folder.
        options: how to carry the runs out.
        on_progress: called after every episode.
        stop: set to end the runs early; of several calls that share it, one signal ends all.

    Raises:
        UsageError: no agent, or the same one twice.
        RunError: a directory cannot be used, or holds runs of the other layout.
    """
    folders = run_folders(out, [agent.name for agent in agents])
    _refuse_mixture(out, folders)
    stop = stop or Stop()
    done = []
    for agent, folder in zip(agents, folders, strict=True):
        if stop.requested:
            break
        results = run_suite(
            opened, agent, folder, options=options, on_progress=on_progress, stop=stop
        )
        run = ScoredRun(folder, read_run(folder), results)
        if folder != out:
            write_report(folder, ranked([run]))
        done.append(run)
    runs = ranked(done)
    report = write_report(out, runs)
    complete = len(runs) == len(agents) and all(r.results.status == "complete" for r in runs)
    return AgentRuns(tuple(runs), report, complete)


def run_folders(out: Path, agents: Sequence[str]) -> list[Path]:
    """Where the run of each agent lies.

    Raises:
        UsageError: no agent, or two whose folders would be the same.
    """
    if not agents:
        raise UsageError("no agent is given; name at least one")
    if len(agents) == 1:
        return [out]
    folders = [out / folder_name(agent) for agent in agents]
    if len(set(folders)) < len(folders):
        raise UsageError(f"the agents {', '.join(agents)} are not distinct; name each once")
    return folders


def folder_name(agent: str) -> str:
    """An agent's name as the name of a folder, on any system."""
    return re.sub(r"[^\w.@+-]", "_", agent)


def _refuse_mixture(out: Path, folders: Sequence[Path]) -> None:
    """One folder holds the run of one agent, or the runs of several: never both."""
    if folders != [out] and holds_records(out):
        raise RunError(
            f"{out} holds the run of one agent, {read_run(out)['agent']}; choose another directory "
            "for several agents"
        )
    inner = [path.parent for path in sorted(out.glob(f"*/{RUN}")) if holds_records(path.parent)]
    if folders == [out] and inner:
        names = ", ".join(path.name for path in inner)
        raise RunError(
            f"{out} holds runs in folders of their own ({names}); choose another directory, or "
            "name several agents to go on with theirs"
        )

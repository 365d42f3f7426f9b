"""A leaderboard in the terminal, and the bars of a run: ``evaluate`` and ``report`` draw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from agentgym_suite.evaluation.scored_runs import ScoredRun
from agentgym_suite.evaluation.settings import OnProgress, RunProgress
from agentgym_suite.evaluation.tables import EnvRow, EnvTable, env_tables, number, percent, span

_LEFT_OUT_FIRST = ("time", "steps", "tasks", "interval", "score")
_GAP = 2  # blanks between two columns
_NAMES = ("agent", "environment")  # these columns fold
_LEAST_NAME, _USUAL_NAME = 6, 24  # characters they always get, and before a number is left out


def leaderboard(runs: Sequence[ScoredRun], width: int) -> Table:
    """The runs of one suite, best first.

    Args:
        runs: as ``ranked`` gives them.
        width: characters of a line; what does not fit is left out and named below the table.
    """
    suite = runs[0].results.suite
    environments = env_tables(runs)
    methods = {row.results.success.method for env in environments for row in env.rows}
    headings = {"interval": "Wilson 95 %" if methods == {"wilson"} else "95 %"}
    sections = [[_cells(env, row) for row in env.rows] for env in environments]
    remarks = []
    if len(environments) > 1:  # a run's time is one, and no row's
        times = {row["agent"]: row["time"] for rows in sections for row in rows}
        remarks = [f"time: {', '.join(f'{agent} {time}' for agent, time in times.items())}"]
        sections = [[_without_time(row) for row in rows] for rows in sections]
    columns, left_out = _fitting([row for rows in sections for row in rows], headings, width)
    if left_out:
        remarks.append(f"left out in this width: {', '.join(left_out)}")
    metric = runs[0].results.metric
    order = "" if metric == "success" else f", best {metric} first"
    table = Table(
        title=f"{suite.title or suite.id} (suite {suite.id}, version {suite.version}{order})",
        caption="\n".join(remarks) or None,
        box=SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
    )
    for name in columns:
        if name in _NAMES:
            table.add_column(name, overflow="fold", min_width=_LEAST_NAME)
        else:
            table.add_column(headings.get(name, name), justify="right", no_wrap=True)
    for rows in sections:
        for row in rows:
            table.add_row(*(row[name] for name in columns))
        table.add_section()
    return table


def _without_time(row: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in row.items() if name != "time"}


def _cells(env: EnvTable, row: EnvRow) -> dict[str, str]:
    results = row.results
    return {
        "agent": row.agent,
        "environment": env.env_id,
        "tasks": str(env.n_tasks),
        "score": percent(results.score.estimate),
        "success": f"{percent(results.success.estimate)} ({row.counts})",
        "interval": span(row.success_bounds or results.success),
        "steps": number(row.steps, 1),
        "time": f"{row.run.wall_s:.1f} s",
    }


def _fitting(
    rows: Sequence[dict[str, str]], headings: dict[str, str], width: int
) -> tuple[list[str], list[str]]:
    """The columns that a line has room for beside names, and those left out."""
    widths = {
        name: max(cell_len(text) for text in (headings.get(name, name), *(r[name] for r in rows)))
        for name in rows[0]
    }
    widths.update({name: min(widths[name], _USUAL_NAME) for name in _NAMES})
    columns, left_out = list(widths), []
    for name in _LEFT_OUT_FIRST:
        if sum(widths[column] + _GAP for column in columns) - _GAP <= width:
            break
        columns.remove(name)
        left_out.append(headings.get(name, name))
    return columns, left_out


@contextmanager
def live_bars(err: Console) -> Iterator[OnProgress]:
    """A bar for each agent and suite, with the score and the time left; yields what a run calls."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}", markup=False),
    )
    bars = Progress(*columns, console=err)
    tasks: dict[tuple[str, str], TaskID] = {}

    def draw(progress: RunProgress) -> None:
        key = progress.suite, progress.agent
        if key not in tasks:
            bars.start()  # only now: a run that is refused draws nothing
            tasks[key] = bars.add_task(progress.agent, total=progress.planned, text="")
            if progress.resumed:
                bars.console.print(_going_on(progress))
        if progress.stopping:
            bars.console.print(
                "stopping: the episodes in flight are finished; a second Ctrl-C ends them"
            )
        bars.update(
            tasks[key],
            completed=progress.done,
            description=f"{progress.agent} · {progress.env_id}",
            text=_bar_text(progress),
        )

    try:
        yield draw
    finally:
        if tasks:
            bars.stop()


def _going_on(progress: RunProgress) -> str:
    done = f"{progress.resumed} of {progress.planned} done"
    if progress.resumed == progress.planned:
        return f"{progress.agent}: {done}, nothing is played again"
    return f"{progress.agent}: going on: {done}"


def _bar_text(progress: RunProgress) -> str:
    if progress.score is None:
        return ""
    parts = [
        f"score {100 * progress.score:.1f}",
        f"success {progress.successes}/{progress.done}",
    ]
    if progress.lost:
        parts.append(f"lost {progress.lost}")
    if progress.left_s is not None:
        minutes, seconds = divmod(round(progress.left_s), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    return ", ".join(parts)

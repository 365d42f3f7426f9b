"""Progress of long work, drawn as bars on stderr; for commands only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from agentgym_suite import data

_REDRAW_S = 0.1


@contextmanager
def progress_bars() -> Iterator[data.Progress]:
    """One bar a phase, while the block runs; yields what library functions call."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[amount]}"),
        TimeElapsedColumn(),
    )
    bars = Progress(*columns, console=Console(stderr=True))
    tasks: dict[str, tuple[TaskID, float]] = {}

    def report(phase: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if phase not in tasks:
            tasks[phase] = (bars.add_task(phase, total=total, amount=""), now - _REDRAW_S)
        task, drawn = tasks[phase]
        # A call comes for every element of a million: only ten a second are worth drawing.
        if now - drawn < _REDRAW_S and done != total:
            return
        tasks[phase] = (task, now)
        amount = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        bars.update(task, completed=done, total=total, amount=amount)

    with bars:
        yield report

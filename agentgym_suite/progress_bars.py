"""Progress of long work on stderr: bars on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from agentgym_suite import data

_REDRAW_S = 0.1
_LINE_S = 10.0


@contextmanager
def progress_bars() -> Iterator[data.Progress]:
    """What library functions call while the block runs; for commands only.

    One bar a phase where stderr is a terminal. Elsewhere (a log, a batch job) a plain line about
    every ten seconds, so that short work says nothing and long work is seen to go on.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield progress_lines(_write_line)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[amount]}"),
        TimeElapsedColumn(),
    )
    bars = Progress(*columns, console=console)
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
        bars.update(task, completed=done, total=total, amount=_amount(done, total))

    with bars:
        yield report


def progress_lines(
    write: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    *,
    every_s: float = _LINE_S,
) -> data.Progress:
    """Progress as plain lines, one at a time over all phases together.

    Args:
        write: takes each line, without its end.
        clock: tells the seconds; tests replace it.
        every_s: least seconds between two lines.
    """
    begun = last = clock()

    def report(phase: str, done: int, total: int | None) -> None:
        nonlocal last
        now = clock()
        if now - last >= every_s:
            last = now
            amount = _amount(done, total) if done or total else ""
            write(f"{phase}{amount and ': '}{amount} after {now - begun:.0f} s")

    return report


def _amount(done: int, total: int | None) -> str:
    return f"{done:,}" if total is None else f"{done:,} of {total:,}"


def _write_line(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()

"""A training on the terminal: one line an iteration, and what is being done now."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agentgym_suite.console import console
from agentgym_suite.progress_bars import progress_lines
from agentgym_suite.trainers.checkpoints import checkpoints
from agentgym_suite.trainers.cloning import CloningStep
from agentgym_suite.trainers.iteration_notes import PATIENCE, iteration_notes
from agentgym_suite.trainers.metrics import FINAL
from agentgym_suite.trainers.run_settings import Configuration, RunSettings

COLUMNS = {
    "steps": "env_steps",
    "success": "rollout/success",
    "invalid": "rollout/invalid",
    "length": "rollout/steps",
    "loss": "loss/policy",
    "out of range": "clip/out_of_range",
    "explained": "value/explained_variance",
    "T=1": "evaluation/seen/temperature_1",
    "greedy": "evaluation/seen/temperature_0",
    "unseen": "evaluation/unseen/temperature_0",
    "seconds": "wall_s",
}
"""What a column or a line calls a metric; docs/training.md explains each."""
_WHOLE = ("steps", "seconds")
_SHOWN = 20
_CLONING_STRIDE = 50
_LINE_S = 60.0


class TrainingView:
    """Told what a training does; a table on a terminal, plain lines elsewhere.

    A reason for concern is told once.

    Args:
        run: the run's settings.
        title: of the table.
        target: where it is shown.
        clock: tells the seconds; tests replace it.
    """

    def __init__(
        self,
        run: RunSettings,
        title: str,
        target: Console,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._in_a_row: Counter[str] = Counter()
        self._title = title
        self._console = target
        self._clock = clock
        self._line = progress_lines(self._plain, clock, every_s=_LINE_S)
        self._rows: list[list[str]] = []
        self._phase = ""
        self._amount: tuple[int, int | None] = (0, None)
        self._begun = clock()

    def doing(self, phase: str, done: int, total: int | None) -> None:
        """What is being done now; a line about every minute where there is no table."""
        if phase != self._phase:
            self._begun = self._clock()
        self._phase, self._amount = phase, (done, total)
        if not self._console.is_terminal:
            self._line(phase, done, total)

    def waits(self, why: str) -> None:
        """Nothing is done for now."""
        self._console.print(why, soft_wrap=True)

    def taught(self, lessons: int, of: int, demonstrations: int) -> None:
        """A list of tasks that the teacher has shown."""
        self._console.print(f"lesson {lessons} of {of}: {demonstrations:,} demonstrations")

    def cloned(self, step: CloningStep) -> None:
        """One step of cloning; told where success was looked at, and now and then."""
        self.doing("start: cloning steps", step.step, None)
        won = "" if step.success is None else f", success {step.success:.3f}"
        if won or step.step % _CLONING_STRIDE == 0:
            self._console.print(f"cloning step {step.step}: loss {step.loss:.3f}{won}")

    def stopped(self, out: Path) -> None:
        """The run in this folder was stopped by its user: where it will go on."""
        found = checkpoints(out / "checkpoints")
        where = f"after iteration {int(found[-1].name)}" if found else "at its start"
        self._plain(f"{out} has no end yet; the same command goes on {where}")

    def over(self) -> None:
        """Nothing is being done any more."""
        self._phase = ""

    def iterated(self, iteration: int, values: Mapping[str, float]) -> None:
        """One iteration."""
        ended = FINAL in values
        numbers = (_number(column, values.get(name)) for column, name in COLUMNS.items())
        row = ["end" if ended else str(iteration), *numbers]
        self._rows = [*self._rows[1 - _SHOWN :], row]  # drawn by another thread
        self._tell(iteration, iteration_notes(values, self._run))
        if not self._console.is_terminal:
            told = zip(("at the" if ended else "iteration", *COLUMNS), row, strict=True)
            self._plain("  ".join(f"{name} {value}" for name, value in told if value))

    def __rich__(self) -> Group:
        """The table of the last iterations, and a line of what is being done."""
        parts: list[Table | Text] = [self._table()] if self._rows else []
        if self._phase:
            done, total = self._amount
            amount = f", {done:,}" if done or total else ""
            amount += f" of {total:,}" if total else ""
            parts.append(Text(f"{self._phase}{amount}, {self._clock() - self._begun:.0f} s"))
        return Group(*parts)

    def _tell(self, iteration: int, notes: Mapping[str, str]) -> None:
        for about in self._in_a_row.keys() - notes.keys():
            if self._in_a_row[about] < PATIENCE.get(about, 1):
                del self._in_a_row[about]
        for about, note in notes.items():
            self._in_a_row[about] += 1
            if self._in_a_row[about] == PATIENCE.get(about, 1):
                self._plain(f"iteration {iteration}: {note}")

    def _plain(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def _table(self) -> Table:
        """Without columns that the algorithm has no value for."""
        table = Table(title=self._title)
        columns = zip(("iteration", *COLUMNS), zip(*self._rows, strict=True), strict=True)
        shown = {name: cells for name, cells in columns if any(cells)}
        for name in shown:
            table.add_column(name)
        for row in zip(*shown.values(), strict=True):
            table.add_row(*row)
        return table


@contextmanager
def live_view(configuration: Configuration, *, shown: bool = True) -> Iterator[TrainingView]:
    """The view of one run while the block runs.

    Args:
        configuration: of the run.
        shown: false for a process beside the one that tells.
    """
    target = console(stderr=True, highlight=False, quiet=not shown)
    title = f"{configuration.algorithm} in {configuration.run.env}"
    view = TrainingView(configuration.run, title, target)
    if not target.is_terminal:
        yield view
        return
    with Live(view, console=target, refresh_per_second=4):
        try:
            yield view
        finally:
            view.over()


def _number(column: str, value: float | None) -> str:
    if value is None:
        return ""
    if column in _WHOLE or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) >= 0.001 or not value else f"{value:.0e}"

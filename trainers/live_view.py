"""A training on the terminal: one line an iteration, and what is being done now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from agentgym_suite.console import console
from agentgym_suite.trainers.cloning import CloningStep
from agentgym_suite.trainers.iteration_notes import PATIENCE, iteration_notes
from agentgym_suite.trainers.run_settings import Configuration, RunSettings

_COLUMNS = {
    "steps": "env_steps",
    "success": "rollout/success",
    "invalid": "rollout/invalid",
    "length": "rollout/steps",
    "loss": "loss/policy",
    "out of range": "clip/out_of_range",
    "explained": "value/explained_variance",
    "T=1": "evaluation/seen/temperature_1",
    "greedy": "evaluation/seen/temperature_0",
    "seconds": "wall_s",
}
_SHOWN = 20
_CLONING_STRIDE = 50


class TrainingView:
    """Told what a training does; a table on a terminal, plain lines elsewhere.

    A reason for concern is told once.
    """

    def __init__(self, run: RunSettings, title: str, target: Console, live: Live | None) -> None:
        self._run = run
        self._in_a_row: Counter[str] = Counter()
        self._title = title
        self._console = target
        self._live = live
        self._rows: list[list[str]] = []

    def waits(self, why: str) -> None:
        """Nothing is done for now."""
        self._console.print(why, soft_wrap=True)

    def taught(self, lessons: int, of: int, demonstrations: int) -> None:
        """A list of tasks that the teacher has shown."""
        self._console.print(f"lesson {lessons} of {of}: {demonstrations:,} demonstrations")

    def cloned(self, step: CloningStep) -> None:
        """One step of cloning; told where success was looked at, and now and then."""
        won = "" if step.success is None else f", success {step.success:.3f}"
        if won or step.step % _CLONING_STRIDE == 0:
            self._console.print(f"cloning step {step.step}: loss {step.loss:.3f}{won}")

    def iterated(self, iteration: int, values: Mapping[str, float]) -> None:
        """One iteration."""
        row = [str(iteration), *(_number(values.get(name)) for name in _COLUMNS.values())]
        self._rows.append(row)
        self._tell(iteration, iteration_notes(values, self._run))
        if self._live is not None:
            self._live.update(self._table())
            return
        told = zip(("iteration", *_COLUMNS), row, strict=True)
        self._console.print(
            "  ".join(f"{name} {value}" for name, value in told if value), soft_wrap=True
        )

    def _tell(self, iteration: int, notes: Mapping[str, str]) -> None:
        for about in self._in_a_row.keys() - notes.keys():
            if self._in_a_row[about] < PATIENCE.get(about, 1):
                del self._in_a_row[about]
        for about, note in notes.items():
            self._in_a_row[about] += 1
            if self._in_a_row[about] == PATIENCE.get(about, 1):
                self._console.print(f"iteration {iteration}: {note}", soft_wrap=True)

    def _table(self) -> Table:
        table = Table("iteration", *_COLUMNS, title=self._title)
        for row in self._rows[-_SHOWN:]:
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
    if not target.is_terminal:
        yield TrainingView(configuration.run, title, target, None)
        return
    with Live(console=target, refresh_per_second=4) as live:
        yield TrainingView(configuration.run, title, target, live)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}"

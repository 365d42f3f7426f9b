"""What a training logs: one JSON line an iteration, and TensorBoard where it is wanted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agentgym_suite.errors import MissingExtra, TrainingError
from agentgym_suite.files import explain_full_disk, make_folder, write_atomic
from agentgym_suite.machine import peak_gpu_memory_mib, peak_memory_mib

METRICS_FILE = "metrics.jsonl"
FINAL = "final"
"""Marks the last line of a finished run: the evaluation of what it exports."""


class MetricsLog:
    """The lines of a run's ``metrics.jsonl``.

    Args:
        folder: of the run.
        tensorboard: write TensorBoard's event files, too.

    Raises:
        MissingExtra: TensorBoard is wanted and not installed.
    """

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        make_folder(folder)
        self._path = folder / METRICS_FILE
        self._events = _board_writer(folder / "tensorboard") if tensorboard else None
        self._board: Any = None

    def keep(self, iteration: int) -> None:
        """Forget the end, and what came after an iteration: a resumed run writes it anew."""
        if self._events is not None:
            self.close()
            self._board = self._events(purge_step=iteration + 1)
        lines = [
            line
            for line in read_metrics(self._path)
            if line["iteration"] <= iteration and FINAL not in line
        ]
        text = "".join(_line(line) for line in lines)
        write_atomic(self._path, text.encode("utf-8"))

    def write(self, iteration: int, values: Mapping[str, float]) -> None:
        """One iteration, with the most memory that this process has held, here and on its GPU.

        Raises:
            DiskFull: no space is left; a resumed run forgets what was written of the line.
        """
        peak = peak_memory_mib()
        if peak is not None:
            values = {**values, "peak_memory_mib": peak}
        on_gpu = peak_gpu_memory_mib()
        if on_gpu is not None:
            values = {**values, "peak_gpu_memory_mib": on_gpu}
        with explain_full_disk(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_line({"iteration": iteration, **values}))
        if self._board is not None:
            # the end is behind its iteration, so that a resumed run forgets it here, too
            step = iteration + (FINAL in values)
            for name, value in values.items():
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Finish TensorBoard's files."""
        if self._board is not None:
            self._board.close()


class NoLog:
    """The log of a rank that writes none."""

    def keep(self, iteration: int) -> None:
        """Nothing."""

    def write(self, iteration: int, values: Mapping[str, float]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a ``metrics.jsonl``; a last one that was cut off is none.

    Raises:
        TrainingError: a line is none of an iteration's.
    """
    if not path.is_file():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [_read(line, path, at) for at, line in enumerate(lines, 1) if line.endswith(b"\n")]


def _read(line: bytes, path: Path, at: int) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(line)
        int(values["iteration"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TrainingError(
            f"line {at} of {path} is damaged ({type(error).__name__}); remove it, and run the "
            "same command again"
        ) from error
    return values


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True) + "\n"


def _board_writer(folder: Path) -> Callable[..., Any]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("train", "TensorBoard") from error
    return partial(SummaryWriter, str(folder))


@contextmanager
def timed(metrics: dict[str, float], name: str) -> Iterator[None]:
    """Add what a block took to ``seconds/NAME``, and of the processor to ``cpu/NAME``."""
    began, cpu = time.perf_counter(), time.process_time()
    yield
    for kind, spent in (
        ("seconds", time.perf_counter() - began),
        ("cpu", time.process_time() - cpu),
    ):
        key = f"{kind}/{name}"
        metrics[key] = metrics.get(key, 0.0) + spent

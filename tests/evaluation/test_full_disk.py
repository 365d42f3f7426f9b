"""A disk that fills at any write: one sentence, an exit code, nothing lost, and it goes on."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.evaluation.run_directory import EPISODES, RESULTS, read_records

Command = Callable[[Sequence[str]], int]
PLAY = ["evaluate", "--env", "Counting-v0", "--agent", "oracle", "--episodes", "4"]
MOST_WRITES = 60
ASIDE = ("latency", "verification")


class FillingDisk:
    """Every write is brought to the disk by ``fsync``; the n-th one and all later ones fail."""

    def __init__(self, patch: pytest.MonkeyPatch, n: int) -> None:
        self._real, self._n, self.calls = os.fsync, n, 0
        patch.setattr(os, "fsync", self)

    def __call__(self, descriptor: int) -> None:
        self.calls += 1
        if self.calls >= self._n:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._real(descriptor)

    @property
    def full(self) -> bool:
        return self.calls >= self._n


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: untimed(inner) for name, inner in value.items() if name not in ASIDE}
    return value


def results(out: Path) -> Any:
    return untimed(json.loads((out / RESULTS).read_bytes()))


def episodes(out: Path) -> Counter[str]:
    return Counter(record["key"]["task_id"] for record in read_records(out / EPISODES))


def test_the_disk_may_fill_at_any_write(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*PLAY, "--out", str(tmp_path / "whole")]) == 0
    expected = results(tmp_path / "whole")
    for n in range(1, MOST_WRITES):
        out = tmp_path / f"run-{n}"
        capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            disk = FillingDisk(patch, n)
            code = command([*PLAY, "--out", str(out)])
        if not disk.full:
            assert code == 0 and n > 8  # run.json twice, four episodes, three derived files
            return
        told = capsys.readouterr().err
        assert code == 2 and told.count("no space left") == 1, (n, told)
        assert "Traceback" not in told
        kept = episodes(out)
        assert command([*PLAY, "--out", str(out)]) == 0
        assert results(out) == expected
        assert kept <= episodes(out) == Counter({f"count-{i}": 1 for i in range(4)})
        assert not [path.name for path in out.iterdir() if path.name.startswith(".tmp")]
    pytest.fail(f"more than {MOST_WRITES} writes")


@pytest.mark.parametrize("name", ["report", "verify"])
def test_what_was_there_stays_when_it_cannot_be_written_again(
    name: str, tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*PLAY, "--out", str(tmp_path)]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for n in range(1, MOST_WRITES):
        capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            disk = FillingDisk(patch, n)
            code = command([name, str(tmp_path)])
        if not disk.full:
            assert code == 0 and n > 1
            return
        assert code == 2 and "no space left" in capsys.readouterr().err
        assert (tmp_path / EPISODES).read_bytes() == before[EPISODES]
        assert results(tmp_path) == untimed(json.loads(before[RESULTS]))
    pytest.fail(f"more than {MOST_WRITES} writes")

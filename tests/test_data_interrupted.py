"""Builds that are killed, run twice at once, or meet a full disk: nothing finished is lost."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agentgym_suite import data
from agentgym_suite.data import Contents, Manifest
from agentgym_suite.errors import DiskFull
from agentgym_suite.files import explain_full_disk, write_array
from tests.small_store import build

PARTS = 12
BUILDER = """
import sys, time
from pathlib import Path
from agentgym_suite import data

folder, log, pause = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])

def note(line):
    with log.open("a") as stream:
        stream.write(line + "\\n")

def write(partial):
    for number in range(12):
        part = partial / "parts" / f"{number}.bin"
        if part.exists():
            note(f"kept {number}")
            continue
        part.parent.mkdir(exist_ok=True)
        with (partial / "half-done").open("wb") as stream:
            stream.write(b"x" * 1000)
        time.sleep(pause)
        data.write_atomic(part, bytes([number]) * 5000)
        note(f"wrote {number}")
    (partial / "half-done").unlink(missing_ok=True)
    return data.Contents({"parts": 12}, {})

waited = lambda message: note("waiting")
manifest = data.publish(folder, kind="parts", version=1, inputs={"n": 12}, write=write,
                        on_wait=waited)
note("done " + manifest.digest)
"""


def failing(error: Exception, leave: str = "part") -> Callable[[Path], Contents]:
    def write(partial: Path) -> Contents:
        (partial / leave).write_text("finished part")
        (partial / ".tmp-123").write_text("half a file")
        raise error

    return write


def publish(folder: Path, write: Callable[[Path], Contents], x: int = 1) -> Manifest:
    return data.publish(folder, kind="test-store", version=1, inputs={"x": x}, write=write)


def test_leftovers_are_offered_only_to_equal_inputs(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with pytest.raises(KeyboardInterrupt):
        publish(folder, failing(KeyboardInterrupt()))  # type: ignore[arg-type]
    assert not folder.exists()
    seen: list[list[str]] = []
    manifest = build(folder, seen=seen)
    assert seen == [["inputs.json", "part"]]
    assert set(manifest.files) == {"part", "deep/a.txt", "b.bin"}

    other = tmp_path / "other"
    with pytest.raises(RuntimeError):
        publish(other, failing(RuntimeError("boom")))
    build(other, inputs={"x": 2}, seen=seen)
    assert seen[1] == ["inputs.json"]


def test_a_run_killed_just_before_its_last_rename_is_finished_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    seen: list[list[str]] = []
    replace = os.replace

    def killed(source: Path, target: Path) -> None:
        if Path(target) == folder:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        build(folder, seen=seen)
    monkeypatch.undo()
    build(folder, seen=seen)
    assert len(seen) == 1
    data.verify_folder(folder)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_one_sentence_and_keeps_what_was_finished(tmp_path: Path, code: int) -> None:
    folder = tmp_path / "store"
    with pytest.raises(DiskFull) as caught:
        publish(folder, failing(OSError(code, "full")))
    message = str(caught.value)
    assert str(folder) in message
    assert "MB free" in message
    assert "run the same command again; finished parts are kept" in message
    seen: list[list[str]] = []
    build(folder, seen=seen)
    assert seen == [["inputs.json", "part"]]


def test_full_disk_as_sqlite_says_it(tmp_path: Path) -> None:
    def write(partial: Path) -> Contents:
        base = sqlite3.connect(partial / "base.sqlite")
        try:
            base.execute("PRAGMA max_page_count = 3")
            base.execute("CREATE TABLE t (x)")
            for _ in range(100):
                base.execute("INSERT INTO t VALUES (?)", ("y" * 1000,))
        finally:
            base.close()
        return Contents({}, {})

    with pytest.raises(DiskFull):
        publish(tmp_path / "store", write)


def test_other_errors_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="strange"):
        publish(tmp_path / "store", failing(OSError(errno.EIO, "strange")))


@pytest.fixture
def tiny_disk(tmp_path: Path) -> object:
    place = tmp_path / "tiny"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small disk needs more rights")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_really_full(tiny_disk: Path) -> None:
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(b"\0" * 100_000)
    rounds: list[list[str]] = []

    def write(partial: Path) -> Contents:
        rounds.append(sorted(path.name for path in partial.iterdir()))
        for number in range(3):
            part = partial / f"part{number}"
            if not part.exists():
                data.write_atomic(part, b"z" * 60_000)
        return Contents({}, {})

    with pytest.raises(DiskFull, match="finished parts are kept"):
        publish(tiny_disk / "store", write)
    ballast.unlink()
    publish(tiny_disk / "store", write)
    assert rounds == [["inputs.json"], ["inputs.json", "part0", "part1"]]
    data.verify_folder(tiny_disk / "store")


def test_an_array_that_does_not_fit_is_a_full_disk(tiny_disk: Path) -> None:
    with pytest.raises(DiskFull, match="no space left"), explain_full_disk(tiny_disk):
        write_array(tiny_disk / "a.npy", np.zeros(100_000))


def start_builder(folder: Path, log: Path, pause: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(folder), str(log), str(pause)], stderr=subprocess.PIPE
    )


def finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()


def test_two_builders_at_once_build_once(tmp_path: Path) -> None:
    folder, log = tmp_path / "store", tmp_path / "log"
    builders = [start_builder(folder, log, 0.05) for _ in range(3)]
    for process in builders:
        finish(process)
    lines = log.read_text().splitlines()
    assert sorted(line for line in lines if line.startswith("wrote")) == sorted(
        f"wrote {number}" for number in range(PARTS)
    )
    done = [line for line in lines if line.startswith("done")]
    assert len(done) == 3
    assert len(set(done)) == 1
    data.verify_folder(folder)


def test_the_second_builder_is_told_that_it_waits(tmp_path: Path) -> None:
    folder, log = tmp_path / "store", tmp_path / "log"
    first = start_builder(folder, log, 0.1)
    deadline = time.monotonic() + 60
    while not (log.exists() and "wrote" in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = start_builder(folder, log, 0.1)
    finish(first)
    finish(second)
    assert log.read_text().splitlines().count("waiting") == 1


def test_kill_9_at_random_moments_then_the_same_command(tmp_path: Path) -> None:
    folder, log = tmp_path / "store", tmp_path / "log"
    rng = random.Random(5)
    for _ in range(6):
        before = log.read_text().count("wrote") if log.exists() else 0
        process = start_builder(folder, log, 0.03)
        deadline = time.monotonic() + 60
        # The clock of the kill starts at the first part, whatever the start of Python took.
        while process.poll() is None and time.monotonic() < deadline:
            if log.exists() and log.read_text().count("wrote") > before:
                break
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.06))
        process.kill()
        process.communicate()
        if folder.exists():
            data.verify_folder(folder)
    finish(start_builder(folder, log, 0))
    assert data.verify_folder(folder).counts == {"parts": PARTS}
    names = {f"parts/{number}.bin" for number in range(PARTS)}
    assert set(data.verify_folder(folder).files) == names
    lines = log.read_text().splitlines()
    wrote = [line for line in lines if line.startswith("wrote")]
    assert any(line.startswith("kept") for line in lines)
    assert len(wrote) <= PARTS + 6  # a kill costs one part at most: the note of it or its work
    assert not (tmp_path / "store.partial").exists()

from __future__ import annotations

import errno
import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.episodes import Episode
from agentgym_suite.errors import DiskFull, RunError
from agentgym_suite.evaluation.appending import append_whole
from agentgym_suite.evaluation.episode_keys import EpisodeKey
from agentgym_suite.evaluation.long_texts import LONG_BYTES, LongTexts
from agentgym_suite.evaluation.records import SCHEMA_VERSION
from agentgym_suite.evaluation.run_directory import (
    ATTEMPTS,
    EPISODES,
    OBSERVATIONS,
    RunDirectory,
    read_records,
)
from agentgym_suite.evaluation.run_header import RUN
from agentgym_suite.evaluation.step_records import TextReference

ENTRY = {
    "id": "Counting-v0",
    "split": "test",
    "tasks": ["a", "b"],
    "trials": 1,
    "max_steps": None,
    "kwargs": {},
}
HEADER: dict[str, Any] = {
    "schema_version": SCHEMA_VERSION,
    "suite": {
        "id": "tiny",
        "version": 1,
        "digest": "sha256:0",
        "title": "",
        "departures": [],
        "content": {"env": [ENTRY], "metrics": {"primary": "success"}},
    },
    "agent": "oracle",
    "policy_version": None,
    "config": {
        "agent": {"name": "oracle"},
        "environments": {},
        "package_version": "0",
        "version": "1",
    },
    "config_digest": "sha256:0",
    "options": {"runner": "local", "data": {}},
    "packages": {},
    "git": {"commit": None, "dirty": None},
    "setup_s": {},
    "wall_s": 0.0,
}


def open_run(folder: Path, **config: Any) -> RunDirectory:
    header = {**HEADER, "config": {**HEADER["config"], **config}}
    return RunDirectory(folder, header, resume="auto")


def key(task: str) -> EpisodeKey:
    return EpisodeKey("Counting-v0", task, 0)


def episode(task: str) -> Episode:
    return Episode(task, 0, 1, "", "", "test", (), 0.0, False, "failure", None, {}, "{}")


def write(folder: Path, *tasks: str) -> None:
    with open_run(folder) as run:
        for task in tasks:
            run.finish(key(task), episode(task))


def tasks_in(folder: Path) -> list[str]:
    return [record["key"]["task_id"] for record in read_records(folder / EPISODES)]


def test_finished_episodes_are_remembered(tmp_path: Path) -> None:
    write(tmp_path / "run", "a", "b")
    with open_run(tmp_path / "run") as run:
        assert set(run.finished) == {key("a"), key("b")}


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    write(tmp_path, "a", "b")
    path = tmp_path / EPISODES
    path.write_bytes(path.read_bytes()[:-cut])
    assert tasks_in(tmp_path) == ["a"]
    with open_run(tmp_path) as run:
        assert set(run.finished) == {key("a")}
        run.finish(key("b"), episode("b"))
    assert tasks_in(tmp_path) == ["a", "b"]
    assert path.read_bytes().endswith(b"}\n")


def test_a_last_line_of_zeros_is_cut_off(tmp_path: Path) -> None:
    write(tmp_path, "a")
    with (tmp_path / EPISODES).open("ab") as stream:
        stream.write(b"\0" * 50 + b"\n")
    with open_run(tmp_path) as run:
        assert set(run.finished) == {key("a")}


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "c")
    path = tmp_path / EPISODES
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:20] + b"\n" + lines[2])
    with pytest.raises(RunError, match="line 2"), open_run(tmp_path):
        pass


def test_a_repeated_episode_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a")
    path = tmp_path / EPISODES
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(RunError, match="twice"), open_run(tmp_path):
        pass


def test_another_configuration_is_refused_with_its_keys(tmp_path: Path) -> None:
    write(tmp_path, "a")
    with pytest.raises(RunError, match=r"version: 1 -> 2") as raised:
        open_run(tmp_path, version="2").__enter__()
    assert "agent" not in str(raised.value)
    assert tasks_in(tmp_path) == ["a"]


def test_a_directory_where_nothing_was_played_takes_any_run(tmp_path: Path) -> None:
    write(tmp_path)
    with open_run(tmp_path, version="2") as run:
        run.finish(key("a"), episode("a"))
    with pytest.raises(RunError, match="another configuration"), open_run(tmp_path):
        pass


def test_resuming_can_be_forbidden(tmp_path: Path) -> None:
    write(tmp_path, "a")
    with pytest.raises(RunError, match="resuming is off"):
        RunDirectory(tmp_path, HEADER, resume="never").__enter__()


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a")
    header = json.loads((tmp_path / RUN).read_text())
    (tmp_path / RUN).write_text(json.dumps({**header, "schema_version": 1}))
    with pytest.raises(RunError, match="schema version 1"), open_run(tmp_path):
        pass


def test_records_without_a_header_are_not_touched(tmp_path: Path) -> None:
    write(tmp_path, "a")
    (tmp_path / RUN).unlink()
    with pytest.raises(RunError, match=RUN), open_run(tmp_path):
        pass


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    refused: list[RunError] = []

    def second() -> None:
        try:
            write(tmp_path, "b")
        except RunError as error:
            refused.append(error)

    with open_run(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1 and "another process" in str(refused[0])
    write(tmp_path, "b")


def test_a_full_disk_leaves_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a")
    with open_run(tmp_path) as run:
        monkeypatch.setattr(os, "write", _FillingDisk(os.write))
        with pytest.raises(DiskFull, match="no space left"):
            run.finish(key("b"), episode("b"))
    monkeypatch.undo()
    assert (tmp_path / EPISODES).read_bytes().endswith(b"}\n")
    write(tmp_path, "b")
    assert tasks_in(tmp_path) == ["a", "b"]


def test_keys_outside_the_plan_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a", "z")
    with (
        open_run(tmp_path) as run,
        pytest.raises(RunError, match=r"the episode z of Counting-v0 \(trial 0\), which is none"),
    ):
        run.check_keys([key("a"), key("b")])


def test_attempts_are_counted(tmp_path: Path) -> None:
    with open_run(tmp_path) as run:
        run.lose(key("a"), episode("a"), 1)
        run.lose(key("a"), episode("a"), 2)
    with open_run(tmp_path) as run:
        assert run.attempts == {key("a"): [1, 2]}
        assert run.finish(key("a"), episode("a")).attempts == 3
    assert len(list(read_records(tmp_path / ATTEMPTS))) == 2


def test_long_texts_are_kept_apart(tmp_path: Path) -> None:
    texts = LongTexts(tmp_path / OBSERVATIONS)
    assert texts.keep("é" * (LONG_BYTES // 2)) is None
    first, second = "é" * (LONG_BYTES // 2 + 1), "x" * 200_000
    references = [texts.keep(first), texts.keep(second)]
    assert all(references)
    assert [texts.read(r) for r in references if r] == [first, second]
    lines = gzip.decompress((tmp_path / OBSERVATIONS).read_bytes()).splitlines()
    assert [json.loads(line)["text"] for line in lines] == [first, second]


def test_a_full_disk_leaves_no_half_of_a_long_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = LongTexts(tmp_path / OBSERVATIONS)
    first = texts.keep("a" * 70_000)
    monkeypatch.setattr(os, "write", _FillingDisk(os.write))
    with pytest.raises(OSError, match="No space left"):
        texts.keep(os.urandom(40_000).hex())
    monkeypatch.undo()
    later = texts.keep("b" * 70_000)
    lines = gzip.decompress((tmp_path / OBSERVATIONS).read_bytes()).splitlines()
    assert [json.loads(line)["text"][0] for line in lines] == ["a", "b"]
    texts.cut_torn_end()
    assert first and later and texts.read(later) == "b" * 70_000


class _FillingDisk:
    """One write comes short, the next one fails."""

    def __init__(self, real_write: Callable[[int, Any], int]) -> None:
        self._real_write = real_write
        self._writes = 0

    def __call__(self, descriptor: int, data: Any) -> int:
        self._writes += 1
        if self._writes > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._real_write(descriptor, data[:100])


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_appending_tells_where(tmp_path: Path, size: int) -> None:
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        assert append_whole(descriptor, b"x" * size) == 0
        assert append_whole(descriptor, b"yy") == size
    finally:
        os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"x" * size + b"yy"


def test_writes_that_come_in_parts_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    monkeypatch.setattr(os, "write", lambda d, data: real_write(d, data[:7]))
    append_whole(descriptor, b"0123456789" * 3)
    monkeypatch.undo()
    os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"0123456789" * 3


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_torn_long_text_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / OBSERVATIONS
    texts = LongTexts(path)
    texts.keep("a" * 70_000)
    size = path.stat().st_size
    texts.keep(os.urandom(40_000).hex())
    os.truncate(path, path.stat().st_size - cut)
    texts.cut_torn_end()
    assert path.stat().st_size == size


def test_a_wrong_reference_is_named(tmp_path: Path) -> None:
    texts = LongTexts(tmp_path / OBSERVATIONS)
    reference = texts.keep("a" * 70_000)
    assert reference is not None
    with pytest.raises(RunError, match="another text"):
        texts.read(TextReference("0" * 64, reference.offset))
    with pytest.raises(RunError, match="no readable text"):
        texts.read(TextReference(reference.sha256, 3))

"""Runs that are killed, stopped or doubled lose nothing and repeat nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.evaluation.run_directory import EPISODES, RESULTS, read_records

WORKER = Path(__file__).with_name("evaluate_counting.py")
ARGUMENTS = ["evaluate", "--env", "Counting-v0", "--agent", "oracle", "--concurrency", "2"]


def start(out: Path, pause_s: float = 0.01) -> subprocess.Popen[str]:
    pause = ["--set", f"pause_s={pause_s}"]
    command = [sys.executable, str(WORKER), *ARGUMENTS, *pause, "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, stderr = process.communicate(timeout=120)
    return process.returncode, stderr


def wait_for_episodes(out: Path, n: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (out / EPISODES).exists() and len(list(read_records(out / EPISODES))) >= n:
            return
        time.sleep(0.005)
    pytest.fail(f"no {n} episodes within a minute")


def without_latency(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: without_latency(v) for key, v in value.items() if key not in ("latency", "git")
        }
    return value


def results(out: Path) -> Any:
    return without_latency(json.loads((out / RESULTS).read_bytes()))


def keys(out: Path) -> list[str]:
    return [record["key"]["task_id"] for record in read_records(out / EPISODES)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("whole") / "run"
    code, stderr = finish(start(out))
    assert code == 0, stderr
    return results(out)


@pytest.mark.parametrize("seed", range(2))
def test_kill_and_resume_equals_an_uninterrupted_run(
    tmp_path: Path, uninterrupted: Any, seed: int
) -> None:
    rng = random.Random(seed)
    out = tmp_path / "run"
    for _ in range(2):
        process = start(out)
        wait_for_episodes(out, rng.randrange(1, 12) if not out.exists() else len(keys(out)) + 2)
        time.sleep(rng.random() * 0.05)
        process.kill()
        process.communicate()
    killed = keys(out)
    assert 0 < len(killed) < 30
    code, stderr = finish(start(out))
    assert code == 0, stderr
    assert keys(out)[: len(killed)] == killed
    assert sorted(keys(out)) == sorted(f"count-{i}" for i in range(30))
    assert results(out) == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_and_the_run_goes_on_later(
    tmp_path: Path, uninterrupted: Any, number: signal.Signals
) -> None:
    out = tmp_path / "run"
    process = start(out)
    wait_for_episodes(out, 3)
    process.send_signal(number)
    code, stderr = finish(process)
    assert code == 1, stderr
    assert "stopping: the episodes in flight are finished" in " ".join(stderr.split())
    stopped = results(out)
    assert stopped["status"] == "incomplete"
    assert 3 <= stopped["finished"] == len(keys(out)) < 30
    assert (out / "report.html").exists()
    assert finish(start(out))[0] == 0
    assert results(out) == uninterrupted


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = start(out, pause_s=1.0)
    try:
        wait_for_episodes(out, 1)
        code, stderr = finish(start(out, pause_s=1.0))
    finally:
        first.kill()
        first.communicate()
    assert (code, "another process" in stderr.replace("\n", " ")) == (2, True)
    assert keys(out)

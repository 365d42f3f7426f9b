"""The examples of docs/interop.md, run as a reader runs them; ``make test-trl``."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
NUMBER = r"-?\d+\.\d+"


def lines_of(script: str, *arguments: str) -> list[dict[str, float]]:
    """What an example prints, a line a step."""
    command = [sys.executable, str(ROOT / "examples" / script), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return [
        {name: float(value) for name, value in re.findall(rf"(\S+) ({NUMBER})", line)}
        for line in done.stdout.splitlines()
        if re.match(rf"(?:step|iteration) {NUMBER}", line)
    ]


@contextmanager
def served() -> Iterator[str]:
    """An OpenEnv server of the household: its address."""
    command = [sys.executable, "-m", "agentgym_suite", "serve", "env", "--port", "0"]
    command += ["--env", "ALFWorld-v0", "--compat", "openenv"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "http://" in line)
        found = re.search(r"http://[\d.]+:\d+", said)
        assert found is not None
        with httpx.Client(trust_env=False) as client:
            while not client.get(f"{found[0]}/readyz").is_success:
                assert process.poll() is None
        yield f"{found[0]}/compat/openenv/alfworld"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def test_trl_learns_from_a_rollout_function() -> None:
    if importlib.util.find_spec("trl") is None:
        pytest.skip("TRL is not installed: make test-trl")
    lines = lines_of("trl_grpo.py", "--steps", "3", "--cloning", "40")
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert max(line["reward"] for line in lines) > 0
    assert max(line["reward_std"] for line in lines) > 0
    assert max(line["grad_norm"] for line in lines) > 0


def test_a_loop_learns_over_openenv() -> None:
    if importlib.util.find_spec("openenv") is None:
        pytest.skip("openenv-core is not installed: make test-trl")
    with served() as url:
        lines = lines_of("openenv_grpo.py", "--url", url, "--iterations", "2", "--cloning", "40")
    assert [line["iteration"] for line in lines] == [1, 2]
    assert max(line["advantage"] for line in lines) > 0
    assert max(line["gradient"] for line in lines) > 0

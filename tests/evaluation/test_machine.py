from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from agentgym_suite import evaluation
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.machine import git_state, package_folder


def test_the_commit_is_the_suite_s_own(
    counting_env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "m"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    own = git_state(package_folder())
    monkeypatch.chdir(tmp_path)
    evaluation.run(ad_hoc_suite(counting_env, tasks=["count-0"]), "oracle", out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["git"] == own
    installed = tmp_path / "site-packages"  # in a virtual environment that git does not track
    installed.mkdir()
    assert git_state(installed) == {"commit": None, "dirty": None}

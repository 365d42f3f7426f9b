"""The suite that docs/suites.md shows as one of your own, played as it is written there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from agentgym_suite.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "suites.md"


def test_the_suite_of_your_own_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    part = PAGE.read_text("utf-8").partition("## A suite of your own")[2]
    written = dict(re.findall(r"```(toml|text|sh)\n(.*?)```", part, re.DOTALL))
    Path("my-rooms.toml").write_text(written["toml"], "utf-8")
    Path("rooms.txt").write_text(written["text"], "utf-8")
    listing, playing = (shlex.split(line)[1:] for line in written["sh"].splitlines())
    assert main(listing) == 0
    listed = capsys.readouterr().out.splitlines()
    chosen = [line for line in written["text"].splitlines() if not line.startswith("#")]
    assert len(listed) == 48 and len(chosen) == 2 and set(chosen) < set(listed)
    assert main(playing) == 0
    results = json.loads(Path("runs/my-rooms/results.json").read_bytes())
    assert (results["planned"], results["finished"]) == (2, 2)
    assert results["envs"]["ALFWorld-v0"]["success"]["est"] == 1.0

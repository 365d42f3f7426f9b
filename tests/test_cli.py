"""The command line: composition, errors in one sentence, and the commands of floor 4."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from agentgym_suite import doctor
from agentgym_suite.cli import main
from agentgym_suite.errors import UsageError
from agentgym_suite.play import _env_id


def test_version_and_help_exit_zero(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--version", "--help"):
        with pytest.raises(SystemExit) as stop:
            main([flag])
        assert stop.value.code == 0
    assert "evaluate" in capsys.readouterr().out


def test_an_unknown_command_exits_two() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["conquer"])
    assert stop.value.code == 2


def test_user_errors_are_one_sentence_and_exit_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "Chess-v0"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "Chess-v0" in captured.err and not captured.out


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "agentgym_suite", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.startswith("agentgym-suite "), done.stderr


def test_list_counts_the_tasks_of_the_embedded_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--tasks", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    shop = next(row for row in rows if row["id"] == "WebShop-v0")
    assert shop["horizon"] == 15 and all(n > 0 for n in shop["splits"].values())
    assert main(["list"]) == 0
    assert "WebShop-v0" in capsys.readouterr().out


def test_doctor_finds_the_core_and_names_what_mends_the_rest(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    assert main(["doctor", "--json"]) == 0
    findings = {f["subject"]: f for f in json.loads(capsys.readouterr().out)}
    assert findings["gymnasium"]["state"][0].isdigit() and not findings["gymnasium"]["mend"]
    assert findings["WebShop-v0"]["state"] == "plays"
    assert main(["doctor"]) == 0
    assert "pip install 'agentgym-suite[lucene]'" in capsys.readouterr().out


def test_doctor_fails_on_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda *args: False)
    (finding,) = doctor._data_home()
    assert finding.required and "AGENTGYM_SUITE_HOME" in finding.mend


@pytest.mark.parametrize("name", ["WebShop-v0", "webshop", "WEBSHOP-V0"])
def test_environments_are_found_by_id_or_short_name(name: str) -> None:
    assert _env_id(name) == "WebShop-v0"
    with pytest.raises(UsageError, match="WebShop-v0"):
        _env_id("nowhere")


def test_watching_the_oracle_play_ends_in_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "webshop", "--agent", "oracle", "--seed", "3"]) == 0
    assert "success, score 1.000" in capsys.readouterr().out


def test_a_person_plays_by_number_and_by_action(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter(["?\n", "search[red shoes]\n", "?\n", "1\n", "jump\n", "!\n"])
    monkeypatch.setattr(sys.stdin, "readline", lambda: next(lines, "\n"))
    assert main(["play", "webshop", "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    assert "click[back to search]" in printed and "Total results" in printed
    assert "success, score 1.000" in printed

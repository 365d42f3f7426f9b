"""The command line: composition, errors in one sentence, and the commands of floor 4."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import pytest

from agentgym_suite import doctor
from agentgym_suite.arguments import settings
from agentgym_suite.cli import main
from agentgym_suite.errors import UsageError
from agentgym_suite.play import _env_id, read_action


def test_version_and_help_exit_zero(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--version", "--help"):
        with pytest.raises(SystemExit) as stop:
            main([flag])
        assert stop.value.code == 0
    assert "evaluate" in capsys.readouterr().out


def test_the_bare_command_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "evaluate" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="pipes are POSIX")
def test_a_reader_of_warnings_that_goes_away_ends_nothing() -> None:
    script = """
import warnings
from agentgym_suite.console import plain_warnings, tell_error
with plain_warnings():
    for number in range(3):
        warnings.warn(f"warning {number}")
    tell_error("wrong")
print("went on")
"""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=writer, check=False
        )
    finally:
        os.close(writer)
    assert (ended.returncode, ended.stdout) == (0, b"went on\n")


def test_an_unknown_command_exits_two() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["conquer"])
    assert stop.value.code == 2


def test_user_errors_are_one_sentence_and_exit_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "Chess-v0"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "Chess-v0" in captured.err and not captured.out


def test_a_file_that_cannot_be_used_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> str:
        raise PermissionError(13, "Permission denied", "/locked")

    monkeypatch.setattr("agentgym_suite.play._env_id", refuse)
    assert main(["play"]) == 2
    expected = "agentgym-suite: cannot read or write /locked: Permission denied\n"
    assert capsys.readouterr().err == expected


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_plain_line_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(name: str) -> str:
        for _ in range(3):
            with warnings.catch_warnings():  # forgets which warnings were shown
                warnings.warn("the data are\n not complete", stacklevel=1)
        gym.logger.warn("an old id")
        raise UsageError("nowhere to play")

    shown_by = warnings.showwarning
    monkeypatch.setattr("agentgym_suite.play._env_id", warn)
    assert main(["play"]) == 2
    assert capsys.readouterr().err == (
        "agentgym-suite: warning: the data are not complete\n"
        "agentgym-suite: warning: an old id\n"
        "agentgym-suite: nowhere to play\n"
    )
    assert warnings.showwarning is shown_by


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


def test_list_names_the_tasks_of_an_environment(capsys: pytest.CaptureFixture[str]) -> None:
    shop = ["list", "--tasks", "--env", "WebShop-v0"]
    assert main([*shop, "--split", "test"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"human-{i}" for i in range(26)]
    assert main(shop) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# test" and lines[1] == "human-0" and "# train" in lines
    assert main([*shop, "--split", "eval", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"id": "WebShop-v0", "splits": {"eval": [f"human-{i}" for i in range(26, 52)]}}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tasks", "--env", "WebShop-v0", "--split", "tset"], "split 'tset' does not exist"),
        (["--tasks", "--env", "Chess-v0"], "environment 'Chess-v0' is not registered"),
        (["--tasks", "--split", "test"], "--split goes with --env ID"),
        (["--data", "here"], "--data goes with --env ID"),
    ],
)
def test_list_refuses_what_it_cannot_list(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", *arguments]) == 2
    assert sentence in capsys.readouterr().err


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


def test_doctor_looks_for_every_package_of_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"peft", "tensorboard", "torch"} <= set(doctor.extra_modules("train"))
    assert {"vllm", "peft"} <= set(doctor.extra_modules("vllm"))  # an extra in an extra
    for module in doctor.extra_modules("retrieval"):
        assert module.isidentifier(), module

    def finding(*absent: str) -> doctor.Finding:
        def look(module: str) -> str | None:
            return None if module in absent else module

        with monkeypatch.context() as patch:
            patch.setattr(doctor.importlib.util, "find_spec", look)
            return next(one for one in doctor._extras() if one.subject == "extra train")

    assert finding() == doctor.Finding("extra train", "installed", False)
    lacking = finding("tensorboard")
    assert (lacking.state, lacking.required) == ("lacks tensorboard", False)
    assert lacking.mend == "pip install 'agentgym-suite[train]'"
    assert finding(*doctor.extra_modules("train")).state == "not installed"


def test_doctor_fails_on_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda *args: False)
    (finding,) = doctor._data_home()
    assert finding.required and "AGENTGYM_SUITE_HOME" in finding.mend


def test_doctor_says_who_cannot_build_a_world(
    fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda *args: False)
    built = fresh_home / "webshop" / "embedded-1" / "manifest.json"
    built.parent.mkdir(parents=True)
    built.write_text("{}")
    states = {finding.subject: finding for finding in doctor._environments()}
    assert states["WebShop-v0"].state == "plays" and not states["WebShop-v0"].mend
    household = states["ALFWorld-v0"]
    assert household.state == "cannot build its embedded world"
    assert household.required and "AGENTGYM_SUITE_HOME" in household.mend


@pytest.mark.parametrize("name", ["WebShop-v0", "webshop", "WEBSHOP-V0"])
def test_environments_are_found_by_id_or_short_name(name: str) -> None:
    assert _env_id(name) == "WebShop-v0"
    with pytest.raises(UsageError, match="WebShop-v0"):
        _env_id("nowhere")


def test_watching_the_oracle_play_ends_in_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "webshop", "--agent", "oracle", "--seed", "3"]) == 0
    assert "success, score 1.000" in capsys.readouterr().out


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    waiting = iter(lines)

    def answer(prompt: str) -> str:
        try:
            return next(waiting)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)


def test_a_person_plays_by_number_words_and_actions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "red shoes", "?", "4", "description", "< prev", "click[buy now]")
    assert main(["play", "webshop", "--seed", "3", "--set", "strict=false"]) == 0
    printed = capsys.readouterr().out
    assert "Total results" in printed and "click[back to search]" in printed
    assert "what counted" in printed and "purchases" in printed


def test_typing_errors_cost_no_step_and_the_oracle_can_take_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "shoes", "99", "\x1b[A", "jump up", "1", "!")
    assert main(["play", "webshop", "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("is no action here") == 3
    assert "step 2, 13 left" in printed and "success, score 1.000" in printed


@pytest.mark.parametrize("line", ["", "q", "quit"])
def test_leaving_ends_the_game(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, line)
    assert main(["play", "webshop", "--seed", "3"]) == 0
    assert "what counted" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("1", None),
        ("2", "click[buy now]"),
        ("3", None),
        ("buy now", "click[buy now]"),
        ("click[Red]", "click[Red]"),
        ("red shoes", "search[red shoes]"),
        ("\x1b[A", None),
    ],
)
def test_what_a_person_types_becomes_an_action(line: str, action: str | None) -> None:
    assert read_action(line, ("search[<query>]", "click[buy now]")) == action
    assert read_action(line, ()) == line


def test_settings_are_json_where_they_can_be() -> None:
    assert settings(["strict=false", "split=test", "n=3"]) == {
        "strict": False,
        "split": "test",
        "n": 3,
    }
    for wrong in ("strict", "=x", "x="):
        with pytest.raises(UsageError, match="NAME=VALUE"):
            settings([wrong])

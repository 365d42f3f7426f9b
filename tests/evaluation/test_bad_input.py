"""What a person may hand to the commands by mistake: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agentgym_suite.evaluation.run_directory import EPISODES, RESULTS
from agentgym_suite.evaluation.run_header import RUN
from agentgym_suite.evaluation.suites import shown_ids

Command = Callable[[Sequence[str]], int]
PLAY = ["evaluate", "--env", "Counting-v0", "--agent", "oracle", "--episodes", "6"]
SUITE = """
id = "mine"
version = 1
[[env]]
id = "Counting-v0"
tasks = [{tasks}]
max_steps = 6
[metrics]
primary = "success"
"""


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ('"count-1", "count-2", "count-1"', "lists tasks more than once: count-1"),
        (
            '"count-1", "count-999"',
            "1 of 2 tasks of Counting-v0 are missing in the data: count-999",
        ),
        ("", "mine.toml, [[env]] 1 has no tasks; list at least one task id"),
    ],
)
def test_a_suite_with_wrong_tasks(
    tasks: str, told: str, tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "mine.toml"
    suite.write_text(SUITE.format(tasks=tasks))
    out = tmp_path / "out"
    assert command(["evaluate", "--suite", str(suite), "--agent", "oracle", "--out", str(out)]) == 2
    assert told in capsys.readouterr().err and not out.exists()


def test_a_run_of_another_version(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*PLAY, "--out", str(tmp_path)]) == 0
    header = json.loads((tmp_path / RUN).read_bytes())
    (tmp_path / RUN).write_text(json.dumps({**header, "schema_version": 99}))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words in ([*PLAY, "--out"], ["report"], ["verify"]):
        capsys.readouterr()
        assert command([*words, str(tmp_path)]) == 2
        assert "has schema version 99, this version of the suite reads" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_torn_last_line_is_named_and_played_again(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*PLAY, "--out", str(tmp_path)]) == 0
    path = tmp_path / EPISODES
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    capsys.readouterr()
    assert command(["report", str(tmp_path)]) == 1
    assert "episodes.jsonl ends in a torn line" in capsys.readouterr().err
    assert json.loads((tmp_path / RESULTS).read_bytes())["finished"] == 5
    assert command([*PLAY, "--out", str(tmp_path)]) == 0
    assert "torn" not in capsys.readouterr().err
    kept = whole[: whole[:-9].rfind(b"\n") + 1]
    assert path.read_bytes().startswith(kept) and path.read_bytes().count(b"\n") == 6


def test_results_are_no_input(tmp_path: Path, command: Command) -> None:
    assert command([*PLAY, "--out", str(tmp_path)]) == 0
    before = (tmp_path / RESULTS).read_bytes()
    (tmp_path / RESULTS).write_text('{"schema_version": 1}')
    assert command(["report", str(tmp_path)]) == 0
    assert (tmp_path / RESULTS).read_bytes() == before
    (tmp_path / RESULTS).unlink()
    assert command(["verify", str(tmp_path)]) == 2
    assert command(["report", str(tmp_path)]) == 0
    assert command(["verify", str(tmp_path)]) == 0


def test_scripts_in_observations_are_no_scripts(tmp_path: Path, command: Command) -> None:
    assert command([*PLAY, "--set", "hostile=true", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("</script>") == 2 and "<script>document.title" not in page
    assert "\\u003c/script>\\u003cscript>document.title='pwned'" in page


# ------------------------------------------------------------------ numbers and files beyond bounds


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--request", "a=NaN"], "the field 'a' of a request is nan"),
        (["--request", "a=1e999"], "the field 'a' of a request is inf"),
        (["--request", "a=99999999999999999999"], "the field 'a' of a request is 9999"),
        (["--max-tokens", "99999999999999999999"], "max_tokens is 99999999999999999999"),
        (["--temperature", "1e308"], "temperature is 1e+308"),
        (["--request-timeout", "inf"], "request_timeout_s is inf"),
        (["--history-length", "-2"], "history_length is -2"),
        (["--token-budget", "0"], "token_budget is 0"),
        (["--endpoint", "http://127.0.0.1:99999/v1"], "port is 99999"),
        (["--trials", "1000000000"], "plan at most 1,000,000 episodes"),
    ],
)
def test_a_number_out_of_its_range_is_named(
    words: list[str],
    told: str,
    tmp_path: Path,
    command: Command,
    capsys: pytest.CaptureFixture[str],
) -> None:
    play = ["evaluate", "--env", "Counting-v0", "--agent", "openai", "--model", "m"]
    at = [] if "--endpoint" in words else ["--endpoint", "http://127.0.0.1:9/v1"]
    out = tmp_path / "out"
    assert command([*play, *at, *words, "--out", str(out)]) == 2
    assert told in " ".join(capsys.readouterr().err.split()) and not out.exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("version = 1", "version = 99999999999999999999", "version is 99999999999999999999"),
        (
            'tasks = ["count-1"]',
            'task_range = { prefix = "count", count = 999999999999 }',
            "has count = 999999999999; give at most 1,000,000",
        ),
        ("max_steps = 6", "trials = 2000000", "plan at most 1,000,000 episodes"),
        ("max_steps = 6", "kwargs = { long = 99999999999999999999 }", "a number beyond 64 bits"),
        ("max_steps = 6", "max_steps = 99999999999999999999", "max_steps is 9999"),
        ('tasks = ["count-1"]', 'task_list = "/etc/hostname"', "does not lie beside the suite"),
        ('tasks = ["count-1"]', 'task_list = "../secret"', "does not lie beside the suite"),
        ('tasks = ["count-1"]', 'task_list = "link"', "does not lie beside the suite"),
    ],
)
def test_a_suite_beyond_its_bounds_is_named(
    old: str,
    new: str,
    told: str,
    tmp_path: Path,
    command: Command,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "secret").write_text("root:hash")
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    suite = folder / "mine.toml"
    suite.write_text(SUITE.format(tasks='"count-1"').replace(old, new))
    out = tmp_path / "out"
    assert command(["evaluate", "--suite", str(suite), "--agent", "oracle", "--out", str(out)]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert told in err and "root:hash" not in err and not out.exists()


def test_ids_in_a_sentence_are_cut_and_readable() -> None:
    assert shown_ids(["count-1", "a\x1bb"]) == "count-1, 'a\\x1bb'"
    assert len(shown_ids(["x" * 5000])) < 120


@pytest.mark.parametrize(
    ("name", "reported"), [(EPISODES, "is no regular file"), (RUN, "holds no run")]
)
def test_a_pipe_among_the_files_of_a_run_is_refused(
    name: str,
    reported: str,
    tmp_path: Path,
    command: Command,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command([*PLAY, "--out", str(tmp_path)]) == 0
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    for words, told in ((["report"], reported), ([*PLAY, "--out"], "is no regular file")):
        capsys.readouterr()
        assert command([*words, str(tmp_path)]) == 2
        assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", ["--record", "--price-table"])
def test_a_device_is_no_file_of_a_model(
    option: str, tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    play = [*PLAY[:4], "openai", "--model", "m", "--endpoint", "http://127.0.0.1:9/v1"]
    assert command([*play, option, "/dev/null", "--out", str(tmp_path / "out")]) == 2
    assert "/dev/null is no regular file" in " ".join(capsys.readouterr().err.split())


def test_records_of_another_schema_are_no_mismatch(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*PLAY, "--out", str(tmp_path)]) == 0
    path = tmp_path / EPISODES
    record = json.loads(path.read_bytes().splitlines()[0])
    path.write_text(json.dumps({**record, "schema_version": 99}) + "\n")
    told = []
    for word in ("report", "verify"):
        capsys.readouterr()
        assert command([word, str(tmp_path)]) == 2
        told.append(capsys.readouterr().err)
    assert told[0] == told[1] and "has schema version 99 in line 1" in " ".join(told[0].split())


def test_a_whole_last_line_that_is_no_record_is_damaged(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*PLAY, "--out", str(tmp_path)]) == 0
    with (tmp_path / EPISODES).open("ab") as stream:
        stream.write(b'{"half": \n')
    for words in (["report"], [*PLAY, "--out"]):
        capsys.readouterr()
        assert command([*words, str(tmp_path)]) == 2
        assert "is damaged in line 7" in " ".join(capsys.readouterr().err.split())

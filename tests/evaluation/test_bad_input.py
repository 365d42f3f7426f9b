"""What a person may hand to the commands by mistake: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agentgym_suite.evaluation.run_directory import EPISODES, RESULTS
from agentgym_suite.evaluation.run_header import RUN

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

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Command = Callable[[Sequence[str]], int]
ENV = ["--env", "Counting-v0"]


def test_a_leaderboard_of_two_agents(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "board"
    assert command(["evaluate", *ENV, "--agent", "random,oracle", "--out", str(out)]) == 0
    shown, remarks = capsys.readouterr()
    assert "100.0 (30/30)" in shown and "88.6 – 100.0" in shown and "Wilson 95 %" in shown
    assert shown.index("oracle") < shown.index("random")
    assert "set-up of Counting-v0" in remarks and "not rankable" in remarks
    for name in ("report.html", "report.md", "oracle/results.json", "random/episodes.jsonl"):
        assert (out / name).is_file(), name


def test_machine_output_is_json_alone(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", *ENV, "--agent", "oracle", "--out", str(tmp_path / "run"), "--json"]
    assert command(arguments) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["runs"][0]["results"]["envs"]["Counting-v0"]["success"]["est"] == 1.0
    assert Path(value["report"]).is_file()


def test_the_default_folder_names_suite_and_agents(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(["evaluate", *ENV, "--episodes", "3"]) == 0
    assert (tmp_path / "runs" / "Counting-v0-test-random+oracle" / "report.html").is_file()


def test_suite_files_are_played(command: Command, tmp_path: Path) -> None:
    suite = tmp_path / "tiny.toml"
    suite.write_text(
        'id = "tiny"\nversion = 1\n[[env]]\nid = "Counting-v0"\ntasks = ["count-0", "count-1"]\n'
    )
    out = tmp_path / "run"
    arguments = ["evaluate", "--suite", str(suite), "--agent", "oracle", "--out", str(out)]
    assert command(arguments) == 0
    assert json.loads((out / "results.json").read_bytes())["rankable"] is True
    assert command([*arguments, "--tasks", "count-1"]) == 2
    assert command([*arguments[:-1], str(tmp_path / "part"), "--tasks", "count-1"]) == 0
    results = json.loads((tmp_path / "part" / "results.json").read_bytes())
    assert (results["planned"], results["rankable"]) == (1, False)


def test_an_incomplete_run_exits_1(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    breaks = ["--set", 'breaks=["count-2"]', "--max-retries", "0"]
    arguments = ["evaluate", *ENV, "--agent", "oracle", "--out", out, *breaks]
    assert command(arguments) == 1
    shown = capsys.readouterr().out
    assert "96.7 – 100.0" in shown and "29 of 30 episodes" in shown
    assert command(["report", out]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*ENV, "--agent", "nobody"], "nobody"),
        ([*ENV, "--agent", "oracle,oracle"], "distinct"),
        ([*ENV, "--agent", ","], "no agent"),
        ([*ENV, "--data", "nonsense"], "NAME=VALUE"),
        ([*ENV, "--data", "Other-v0=x"], "Other-v0"),
        ([*ENV, "--split", "night"], "night"),
        ([*ENV, "--tasks", "count-99"], "count-99"),
        ([*ENV, "--episodes", "0"], "--episodes"),
        ([*ENV, "--trials", "0"], "--trials"),
        ([*ENV, "--max-retries", "-1"], "max_retries"),
        ([*ENV, "--concurrency", "0"], "concurrency"),
        (["--env", "Nowhere-v0"], "Nowhere-v0"),
        (["--suite", "nothing"], "nothing"),
        (["--suite", "nowhere.toml"], "nowhere.toml"),
        (["--suite", "smoke", "--split", "test"], "--split"),
    ],
)
def test_usage_errors_exit_2_with_one_sentence(
    command: Command,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert command(["evaluate", *arguments, "--out", str(tmp_path / "run")]) == 2
    stderr = capsys.readouterr().err
    assert message in stderr and "Traceback" not in stderr


def test_resume_never_refuses_a_run(command: Command, tmp_path: Path) -> None:
    arguments = ["evaluate", *ENV, "--agent", "oracle", "--out", str(tmp_path / "run")]
    assert command([*arguments, "--resume", "never"]) == 0
    assert command(arguments) == 0
    assert command([*arguments, "--resume", "never"]) == 2


def test_report_makes_the_same_files_again(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "board"
    command(["evaluate", *ENV, "--out", str(out)])
    names = ["report.html", "report.md", "oracle/results.json", "random/results.json"]
    before = [(out / name).read_bytes() for name in names]
    for name in names:
        (out / name).unlink()
    assert command(["report", str(out)]) == 0
    assert [(out / name).read_bytes() for name in names] == before
    assert command(["report", str(tmp_path)]) == 2


OPTIONS = (
    "--suite --env --data --tasks --split --set --agent --out --concurrency --trials "
    "--max-retries --timeout --episodes --allow-missing --resume --json"
)


def test_every_option_is_documented(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command(["evaluate", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert not [option for option in OPTIONS.split() if option not in text]


def test_the_harness_needs_nothing_heavy() -> None:
    code = "import sys, agentgym_suite.evaluation.cli; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"torch", "transformers", "ray", "vllm", "jpype", "agentgym_suite.trainers"}
    assert not heavy & set(modules)

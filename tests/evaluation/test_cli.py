from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agentgym_suite import Reply, Turn, evaluation
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.evaluation.settings import AgentSpec, named_agent
from agentgym_suite.evaluation.suites import load_suite

Command = Callable[[Sequence[str]], int]
ENV = ["--env", "Counting-v0"]
SOLVER = "tests.evaluation.played:Solver"


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
    arguments = ["evaluate", "--suite", str(suite), "--agent", SOLVER, "--out", str(out)]
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
        ([*ENV, "--max-retries", "-1"], "--max-retries"),
        ([*ENV, "--concurrency", "0"], "--concurrency"),
        ([*ENV, "--timeout", "0"], "--timeout is 0; give seconds above 0"),
        ([*ENV, "--timeout", "nan"], "--timeout"),
        ([*ENV, "--timeout", "inf"], "--timeout"),
        ([*ENV, "--set", "hostil=true"], "no argument 'hostil'; did you mean 'hostile'?"),
        ([*ENV, "--agent", "scripted"], "scripted"),
        ([*ENV, "--agent", "my_agents:"], "MODULE:CLASS"),
        ([*ENV, "--agent", "no_such_module:Agent"], "no_such_module"),
        ([*ENV, "--agent", "json:JSONEncode"], "did you mean 'JSONEncoder'?"),
        (["--env", "Nowhere-v0"], "Nowhere-v0"),
        (["--env", "CartPole-v1"], "CartPole-v1 is not an environment of this suite"),
        (["--suite", "nothing"], "nothing"),
        (["--suite", "nowhere.toml"], "nowhere.toml"),
        (["--suite", "smoke", "--split", "test"], "--split"),
        ([*ENV, "--split", ""], "--split is empty"),
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
    assert not list(tmp_path.iterdir())


def test_an_empty_path_is_refused(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["report", ""]) == 2
    assert command(["evaluate", *ENV, "--out", ""]) == 2
    assert capsys.readouterr().err.count("is empty; give the path of a folder") == 2


@pytest.mark.parametrize("json_option", [[], ["--json"]])
@pytest.mark.parametrize(("breaks", "code"), [("[]", 0), ('["count-1"]', 1)])
def test_a_reader_that_goes_away_changes_no_exit_code(
    tmp_path: Path, json_option: list[str], breaks: str, code: int
) -> None:
    script = str(Path(__file__).with_name("evaluate_counting.py"))
    few = ["evaluate", *ENV, "--episodes", "3", "--max-retries", "0", "--set", f"breaks={breaks}"]
    arguments = [*few, "--agent", "oracle", "--out", str(tmp_path), *json_option]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, script, *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (ended.returncode, b"BrokenPipe" in ended.stderr) == (code, False), ended.stderr


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
    assert command(["report", str(tmp_path)]) == 0  # folders of several agents are found in it
    (tmp_path / "empty").mkdir()
    assert command(["report", str(tmp_path / "empty")]) == 2


def test_one_agent_and_several_do_not_share_a_folder(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for first, second in (("oracle", "oracle,random"), ("oracle,random", "random")):
        out = ["--out", str(tmp_path / first)]
        assert command(["evaluate", *ENV, "--agent", first, *out]) == 0
        assert command(["evaluate", *ENV, "--agent", second, *out]) == 2
        assert "choose another directory" in capsys.readouterr().err
        assert command(["evaluate", *ENV, "--agent", first, *out]) == 0


def test_report_drops_no_run_of_a_folder(
    command: Command,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    folders = [tmp_path / "res", tmp_path / "res" / "later", tmp_path / "res" / "random"]
    for folder, agent in zip(folders, ["oracle", "oracle", "random"], strict=True):
        evaluation.run(ad_hoc_suite("Counting-v0"), agent, out=folder)
    for number, folder in enumerate(folders, 1):
        header = json.loads((folder / "run.json").read_bytes())
        (folder / "run.json").write_text(json.dumps({**header, "wall_s": 100.0 * number}))
    assert command(["report", str(folders[0])]) == 0
    shown = capsys.readouterr().out
    times = {"oracle (res)": "100.0 s", "oracle (res/later)": "200.0 s", "random": "300.0 s"}
    for label, time in times.items():
        assert [time in line for line in shown.splitlines() if label in line] == [True], label
    page = (folders[0] / "report.html").read_text("utf-8")
    assert all(f'<th scope="row">{label}</th>' in page for label in times)


@pytest.mark.parametrize("width", [40, 50, 60, 72, 80, 120])
def test_a_narrow_terminal_keeps_names_and_success(
    command: Command,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    command(["evaluate", *ENV, "--agent", "oracle,random", "--out", str(tmp_path / "run")])
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.strip().startswith("oracle"))
    assert "Counting-v0" in row and "100.0 (30/30)" in row
    assert all(len(line.rstrip()) <= width for line in shown.splitlines() if "report:" not in line)
    assert ("left out in this width: time" in shown) == (width < 80)
    assert ("Wilson 95 %" in row + shown.partition("left out")[0]) == (width >= 60)


def test_names_and_messages_are_shown_as_they_are(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def made(env: object, seed: int) -> object:
        raise ImportError("pip install agentgym-suite[lucene] :smile: [/red]")

    agent = AgentSpec("a[red]b", made)  # type: ignore[arg-type]
    evaluation.run(ad_hoc_suite("Counting-v0", episodes=2), agent, out=tmp_path)
    assert command(["report", str(tmp_path)]) == 0
    shown, remarks = capsys.readouterr()
    assert "a[red]b" in shown
    assert (
        "a[red]b: 2 episodes of Counting-v0 ended in agent_exception: ImportError: pip install "
        "agentgym-suite[lucene] :smile: [/red]" in remarks
    )


OWN_AGENT = """
from agentgym_suite import Reply, StepPrompt

class Stops:
    def __init__(self, env, seed):
        assert seed > 0

    def act(self, turn):
        if turn.task.id == "count-4":
            raise ValueError("my model died")
        return Reply("stop[]")

    def close(self):
        pass

class Reads(Stops):
    prompt = StepPrompt("capo")
"""


def test_an_agent_of_one_s_own(
    command: Command,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    Path("own_agents.py").write_text(OWN_AGENT)
    arguments = ["evaluate", *ENV, "--agent", "own_agents:Stops,own_agents:Reads"]
    assert command(arguments) == 0
    shown, remarks = capsys.readouterr()
    assert "own_agents:Stops" in shown and "0.0 (0/30)" in shown
    assert "1 episode of Counting-v0 ended in agent_exception: ValueError: my model" in remarks
    folder = Path("runs/Counting-v0-test-own_agents_Stops+own_agents_Reads")
    config = json.loads((folder / "own_agents_Reads" / "run.json").read_bytes())["config"]
    assert (config["prompt"]["template"], config["reply_format"]) == ("capo", "hermes")
    assert config["agent"]["source"].startswith("sha256:")
    with Path("own_agents.py").open("a") as module:
        module.write("# another version\n")
    assert command(arguments) == 2
    assert "agent.source: " in capsys.readouterr().err


def test_going_on_is_told(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", *ENV, "--agent", "oracle", "--out", str(tmp_path)]
    command(arguments)
    assert "going on" not in capsys.readouterr().err
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:13]))
    command(arguments)
    remarks = capsys.readouterr().err
    assert "oracle: going on: 13 of 30 done" in remarks and "success 30/30" in remarks
    command(arguments)
    remarks = capsys.readouterr().err
    assert "30 of 30 done, nothing is played again" in remarks and "success 30/30" in remarks


def test_a_stopped_run_shows_what_is_finished(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", *ENV, "--agent", "oracle", "--out", str(tmp_path)]
    command(arguments)
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:13]))
    capsys.readouterr()
    assert command(["report", str(tmp_path)]) == 1
    assert "– (13/13 of 30)" in capsys.readouterr().out
    for name in ("report.md", "report.html"):
        assert "13/13 of 30" in (tmp_path / name).read_text("utf-8"), name


def test_a_suite_s_primary_metric_orders_the_table(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'id = "tiny"\nversion = 1\n[[env]]\nid = "Counting-v0"\ntasks = ["count-1"]\n'
    for primary, first in (("success", "oracle"), ("count", "adds")):
        suite = tmp_path / "tiny.toml"
        suite.write_text(f'{text}[metrics]\nprimary = "{primary}"\n')
        opened = evaluation.open_suite(load_suite(suite), {}, allow_missing=False)
        adds = AgentSpec("adds", lambda env, seed: Adds())
        for agent in (adds, named_agent("oracle")):
            evaluation.run(opened, agent, out=tmp_path / primary / agent.name)
        assert command(["report", str(tmp_path / primary)]) == 0
        shown = capsys.readouterr().out
        assert min(("oracle", "adds"), key=shown.index) == first
        assert ("best count first" in shown) == (primary == "count")


class Adds:
    """Counts on and never stops."""

    def act(self, turn: Turn) -> Reply:
        return Reply("add[1]")

    def close(self) -> None:
        """Nothing is held."""


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
    words = " ".join(text.split())
    for shown in ("strict=false", "MODULE:CLASS", "default: test, else valid_unseen"):
        assert shown in words


def test_the_harness_needs_nothing_heavy() -> None:
    code = "import sys, agentgym_suite.evaluation.cli; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"torch", "transformers", "ray", "vllm", "jpype", "agentgym_suite.trainers"}
    assert not heavy & set(modules)

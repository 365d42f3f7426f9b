"""Runs whose files are JSON and yet not what a run holds: one sentence, no traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.evaluation.run_directory import ATTEMPTS, EPISODES
from agentgym_suite.evaluation.run_header import RUN, read_run
from agentgym_suite.evaluation.scoring import score_run
from agentgym_suite.evaluation.settings import RunOptions
from agentgym_suite.evaluation.viewer import viewer_data

Command = Callable[[Sequence[str]], int]


@pytest.fixture
def run(tmp_path: Path, counting_env: str) -> Path:
    """A run of four episodes, one of which was lost."""
    opened = ad_hoc_suite(counting_env, kwargs={"breaks": ["count-2"]}, episodes=4)
    evaluation.run(opened, "oracle", out=tmp_path, options=RunOptions(max_retries=1))
    return tmp_path


def put(value: Any, keys: Sequence[Any], new: Any) -> None:
    """Replace a field of a JSON value; ``...`` removes it."""
    for key in keys[:-1]:
        value = value[key]
    if new is ...:
        del value[keys[-1]]
    else:
        value[keys[-1]] = new


def change_line(path: Path, keys: Sequence[Any], new: Any) -> None:
    """Change a field of the last record, whose line is whole and therefore not torn."""
    lines = path.read_bytes().splitlines(keepends=True)
    record = json.loads(lines[-1])
    put(record, keys, new)
    path.write_bytes(b"".join(lines[:-1]) + json.dumps(record).encode() + b"\n")


BAD_FIELDS: list[tuple[str, list[Any], Any, str]] = [
    (EPISODES, ["key"], ..., "key is missing"),
    (EPISODES, ["key"], None, "key is None"),
    (EPISODES, ["key"], [], r"key is \[\]"),
    (EPISODES, ["key", "trial"], "0", "key.trial is '0'"),
    (EPISODES, ["key", "task_id"], ["count-0"], "key.task_id"),
    (EPISODES, ["key", "task_id"], ..., "key.task_id is missing"),
    (EPISODES, ["score"], ..., "score is missing"),
    (EPISODES, ["score"], "high", "score is 'high'"),
    (EPISODES, ["score"], float("nan"), "score is nan"),
    (EPISODES, ["score"], 1e308, "score is 1e"),
    (EPISODES, ["wall_s"], -1.0, "wall_s is -1.0"),
    (EPISODES, ["cost", "usd"], -0.5, "cost.usd is -0.5"),
    (EPISODES, ["started_at"], "soon", "started_at is 'soon'"),
    (EPISODES, ["steps", 0, "tokens", "prompt"], -3, "steps.0.tokens.prompt is -3"),
    (ATTEMPTS, ["attempt"], -1, "attempt is -1"),
    (EPISODES, ["success"], 1, "success is 1"),
    (EPISODES, ["steps"], None, "steps is None"),
    (EPISODES, ["steps", 0, "tokens"], {}, "steps.0.tokens.prompt is missing"),
    (EPISODES, ["steps", 0, "latency_s", "disk"], 1.0, "unknown field 'disk'"),
    (EPISODES, ["n_steps"], 1.5, "n_steps is 1.5"),
    (EPISODES, ["n_steps"], 10**400, "n_steps is 1000"),
    (EPISODES, ["metrics"], {"count": "3"}, "metrics.count is '3'"),
    (EPISODES, ["failure"], "broken", "failure is 'broken'"),
    (EPISODES, ["failure"], {"kind": "x", "origin": "agent"}, "failure.message is missing"),
    (EPISODES, ["outcome"], "draw", "outcome is 'draw'"),
    (EPISODES, ["task_family"], "\ud800", "task_family"),
    (ATTEMPTS, ["attempt"], None, "attempt is None"),
    (ATTEMPTS, ["failure"], None, "failure is None"),
    (ATTEMPTS, ["key", "env_id"], 7, "key.env_id is 7"),
]


@pytest.mark.parametrize(("name", "keys", "new", "told"), BAD_FIELDS)
def test_a_record_with_a_bad_field_is_damaged(
    run: Path, name: str, keys: list[Any], new: Any, told: str
) -> None:
    path = run / name
    change_line(path, keys, new)
    before, line = path.read_bytes(), len(path.read_bytes().splitlines())
    opened = ad_hoc_suite("Counting-v0", kwargs={"breaks": ["count-2"]}, episodes=4)
    with pytest.raises(RunError, match=rf"is damaged in line {line} \(.*{told}"):
        evaluation.run(opened, "oracle", out=run)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", [EPISODES, ATTEMPTS])
@pytest.mark.parametrize(
    ("field", "new", "told"), [("suite", "other", "'other' version 1"), ("version", 9, "version 9")]
)
def test_a_record_of_another_suite_is_refused(
    run: Path, name: str, field: str, new: Any, told: str
) -> None:
    change_line(run / name, ["key", field], new)
    opened = ad_hoc_suite("Counting-v0", kwargs={"breaks": ["count-2"]}, episodes=4)
    for use in (
        lambda: score_run(run),
        lambda: evaluation.run(opened, "oracle", out=run, options=RunOptions(max_retries=1)),
    ):
        with pytest.raises(RunError, match=f"{told}, the run is of Counting-v0-test version 1"):
            use()


def test_a_record_that_is_nested_too_deeply_is_damaged(run: Path, command: Command) -> None:
    path = run / EPISODES
    path.write_bytes(b"[" * 200_000 + b"\n" + path.read_bytes())
    assert command(["report", str(run)]) == 2


def test_records_of_another_version_are_named_with_their_kind(run: Path) -> None:
    change_line(run / EPISODES, ["schema_version"], "1")
    with pytest.raises(RunError, match="schema version '1' in line 3, .* reads 3;"):
        score_run(run)


BAD_HEADERS: list[tuple[list[Any], Any, str]] = [
    (["suite"], {}, "suite.id is missing"),
    (["suite"], ..., "suite is missing"),
    (["suite", "content"], None, "suite.content is None"),
    (["suite", "content", "env"], [], "plans no episode"),
    (["suite", "content", "env", 0, "tasks"], [], "plans no episode"),
    (["suite", "content", "env", 0, "trials"], 0, "plans no episode"),
    (["suite", "content", "env", 0, "tasks"], ..., "env.0.tasks is missing"),
    (["suite", "content", "metrics"], {}, "primary is missing"),
    (["suite", "departures"], "none", "suite.departures is 'none'"),
    (["config"], None, "config is None"),
    (["config", "agent"], ..., "config.agent is missing"),
    (["config_digest"], 5, "config_digest is 5"),
    (["options", "data"], ..., "options.data is missing"),
    (["git"], ..., "git is missing"),
    (["setup_s"], {"Counting-v0": None}, "setup_s.Counting-v0 is None"),
    (["wall_s"], ..., "wall_s is missing"),
    (["wall_s"], float("inf"), "wall_s is inf"),
    (["packages", "numpy"], 2, "packages.numpy is 2"),
    (["schema_version"], ..., "schema_version is missing"),
]


@pytest.mark.parametrize(("keys", "new", "told"), BAD_HEADERS)
def test_a_header_with_a_bad_field_is_damaged(
    run: Path,
    command: Command,
    capsys: pytest.CaptureFixture[str],
    keys: list[Any],
    new: Any,
    told: str,
) -> None:
    header = json.loads((run / RUN).read_bytes())
    put(header, keys, new)
    (run / RUN).write_text(json.dumps(header))
    assert command(["report", str(run)]) == 2
    words = capsys.readouterr().err
    assert "run.json is damaged" in words and told in words


@pytest.mark.parametrize("text", ['{"schema_version": 3}', "[]", "7", "{", "", "[" * 200_000])
def test_a_header_that_is_none_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN).write_text(text)
    with pytest.raises(RunError, match="is damaged"):
        read_run(tmp_path)


def test_another_version_is_told_from_a_text(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text('{"schema_version": "1"}')
    with pytest.raises(RunError, match="schema version '1', this version .* reads 3;"):
        read_run(tmp_path)


def test_a_header_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / RUN).mkdir()
    with pytest.raises(RunError, match="cannot be read"):
        read_run(tmp_path)


def test_messages_name_episodes_in_words(run: Path) -> None:
    path = run / EPISODES
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(RunError, match=r"the episode count-\d of Counting-v0 \(trial 0\) twice"):
        score_run(run)
    change_line(path, ["key", "task_id"], "count-99")
    with pytest.raises(RunError, match=r"the episode count-99 of Counting-v0 \(trial 0\), which"):
        score_run(run)


def test_a_reference_to_another_text_is_named(tmp_path: Path, counting_env: str) -> None:
    opened = ad_hoc_suite(counting_env, kwargs={"long": 40_000}, tasks=["count-0"])
    evaluation.run(opened, "oracle", out=tmp_path)
    record = json.loads((tmp_path / EPISODES).read_bytes())
    change_line(tmp_path / EPISODES, ["steps", 0, "messages_ref"], record["steps"][0]["obs_ref"])
    with pytest.raises(RunError, match="holds no messages"):
        viewer_data([("oracle", tmp_path)])


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such names")
def test_names_that_utf_8_cannot_carry_are_shown(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = os.path.join(tmp_path, "r\udcff")
    few = ["evaluate", "--env", "Counting-v0", "--agent", "oracle", "--episodes", "2"]
    data = ["--data", "Counting-v0=/d\udcff"]
    assert command([*few, *data, "--out", out]) == 0
    assert "r\ufffd" in capsys.readouterr().out
    assert command([*few, *data, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == os.path.join(out, "report.html")
    assert command([*few, "--out", out + "2", "--set", "data=\udcff"]) == 2
    assert "JSON cannot hold" in capsys.readouterr().err

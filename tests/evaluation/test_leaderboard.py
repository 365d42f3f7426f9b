"""Leaderboards: what is ranked, in which order, and what is said of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentgym_suite import evaluation
from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.admission import Candidate, candidate
from agentgym_suite.evaluation.declarations import read_declaration
from agentgym_suite.evaluation.leaderboard import Board, Leaderboard, build_boards
from agentgym_suite.evaluation.leaderboard_files import (
    REFERENCE_TITLE,
    html_leaderboard,
    leaderboard_values,
    markdown_leaderboard,
    write_leaderboard,
)
from agentgym_suite.evaluation.primary_values import EnvValues, paired_p, primary_metric
from agentgym_suite.evaluation.reference_rows import reference_rows
from agentgym_suite.evaluation.run_directory import DECLARATION, EPISODES, RESULTS, VERIFICATION
from agentgym_suite.evaluation.scoring import results_bytes, score_run
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions, named_agent
from agentgym_suite.evaluation.suites import EnvEntry, Suite
from agentgym_suite.evaluation.verify import verify_run

Command = Callable[[Sequence[str]], int]
ENV = "Counting-v0"
OFFICIAL = Suite(
    id="counting-official",
    version=1,
    envs=(EnvEntry(ENV, tuple(f"count-{i}" for i in range(30)), "test"),),
    title="Counting",
)
DECLARED = """
trained_on_split = "train"
tuned_on_test = false
pretraining_cutoff = 2024-06-01
uses_privileged_info_at_test = false
training_seeds = [0]
contact = "{contact}"

[model]
name = "{model}"
size = "7B"
weights = "public"

[trainer]
name = "capo"
config_digest = "sha256:0"
"""


@pytest.fixture(autouse=True)
def official(monkeypatch: pytest.MonkeyPatch, counting_env: str) -> Iterator[None]:
    """Counting is an official suite for one test."""
    place = "agentgym_suite.evaluation.admission."
    monkeypatch.setattr(place + "shipped_suites", lambda: (OFFICIAL.id,))
    monkeypatch.setattr(place + "load_suite", lambda name: OFFICIAL)
    yield


class Solving:
    """Solves the tasks below a number, and stops at once in the others."""

    def __init__(self, env: gym.Env[str, str], below: int) -> None:
        self._policy: Any = env.unwrapped.policy("oracle")  # type: ignore[attr-defined]
        self._below = below

    def act(self, turn: Turn) -> Reply:
        solved = int(turn.task.id.removeprefix("count-")) < self._below
        return Reply(self._policy(turn.observation, turn.info) if solved else "add[7]")

    def close(self) -> None:
        """Nothing is held."""


def play(
    folder: Path,
    below: int,
    *,
    model: str = "Model",
    weights: str = "w0",
    suite: Suite = OFFICIAL,
    contact: str = "someone",
    declare: bool = True,
    verify: bool = True,
    options: RunOptions | None = None,
) -> Path:
    opened = evaluation.open_suite(suite, {}, allow_missing=False)
    spec = AgentSpec(f"solves{below}", lambda env, seed: Solving(env, below), {}, None, "raw")
    spec = AgentSpec(spec.name, spec.make, {}, None, "raw", weights)
    evaluation.run(opened, spec, out=folder, options=options)
    if declare:
        (folder / DECLARATION).write_text(DECLARED.format(model=model, contact=contact), "utf-8")
    if verify:
        assert verify_run(folder).verdict == "verified"
    return folder


def the_board(*folders: Path) -> Board:
    (board,) = build_boards(folders)
    return board


def faults(folder: Path) -> tuple[str, ...]:
    return candidate(folder).faults


# ------------------------------------------------------------------ admission


def test_a_run_that_keeps_every_rule_is_ranked(tmp_path: Path) -> None:
    run = candidate(play(tmp_path, 20))
    assert run.ranked and run.submission_type == "standard" and run.faults == ()


def test_unverified_and_changed_runs_are_not_ranked(tmp_path: Path) -> None:
    play(tmp_path, 20, verify=False)
    assert faults(tmp_path) == ("it has not been verified",)
    verify_run(tmp_path, sample=10)
    assert faults(tmp_path) == ("its verification ended in verified-sample 10 of 30",)
    verify_run(tmp_path)
    assert candidate(tmp_path).ranked
    data = (tmp_path / EPISODES).read_bytes()
    (tmp_path / EPISODES).write_bytes(data.replace(b'"reward":1.0', b'"reward":0.5', 1))
    assert faults(tmp_path) == ("episodes.jsonl changed after it was verified",)
    verify_run(tmp_path)
    assert faults(tmp_path) == ("its verification ended in mismatch",)
    (board,) = build_boards([tmp_path])
    assert not board.ranked and board.unranked[0].estimate is None


def test_incomplete_runs_are_not_ranked(tmp_path: Path) -> None:
    play(tmp_path, 20, verify=False)
    lines = (tmp_path / EPISODES).read_bytes().splitlines(keepends=True)
    (tmp_path / EPISODES).write_bytes(b"".join(lines[:-2]))
    (tmp_path / RESULTS).write_bytes(results_bytes(score_run(tmp_path)))
    assert verify_run(tmp_path).verdict == "verified"
    assert faults(tmp_path) == ("2 of 30 episodes are missing",)
    assert the_board(tmp_path).unranked[0].estimate is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"id": "my-own"}, "suite my-own is none of the official ones"),
        ({"version": 2}, "is not the official one of this version, v1"),
        ({"departures": ("ten tasks only",)}, "ten tasks only"),
    ],
)
def test_custom_runs_have_a_table_of_their_own(
    tmp_path: Path, changes: dict[str, Any], fault: str
) -> None:
    values = {"id": OFFICIAL.id, "version": 1, "envs": OFFICIAL.envs, **changes}
    play(tmp_path, 20, suite=Suite(**values))
    run = candidate(tmp_path)
    assert run.submission_type == "custom" and fault in run.faults[0]
    board = the_board(tmp_path)
    assert not board.ranked and not board.unranked
    assert board.custom[0].estimate is not None and board.custom[0].rank is None


def test_another_horizon_is_another_suite(tmp_path: Path) -> None:
    entry = EnvEntry(ENV, OFFICIAL.envs[0].tasks, "test", max_steps=8)
    play(tmp_path, 20, suite=Suite(OFFICIAL.id, 1, (entry,)))
    assert "is not the official one" in faults(tmp_path)[0]


def with_config(run: Candidate, content: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    header = json.loads(json.dumps(run.header))
    header["suite"]["content"].update(content)
    header["config"].update(config)
    return dict(header)


def test_another_prompt_or_decoding_is_custom(tmp_path: Path) -> None:
    from agentgym_suite.evaluation.admission import _decoding_fault, _prompt_fault

    run = candidate(play(tmp_path, 20))
    prompt = {"template": "capo", "version": 1}
    header = with_config(run, {"prompt": {"format": "tags"}}, {"prompt": prompt})
    assert _prompt_fault(header) == "its prompts are of the format capo, the suite's of tags"
    agent = {"name": "a", "decoding": {"temperature": 0.7}}
    changes = {"decoding": {"temperature": 0.0}}, {"prompt": prompt, "agent": agent}
    assert _decoding_fault(with_config(run, *changes)) == "its temperature is 0.7, the suite's 0.0"
    assert _prompt_fault(run.header) == _decoding_fault(run.header) == ""


def change_declaration(folder: Path, old: str, new: str) -> None:
    text = (folder / DECLARATION).read_text("utf-8")
    assert old in text
    (folder / DECLARATION).write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("tuned_on_test = false", "tuned_on_test = true", "tuned_on_test is declared"),
        (
            "uses_privileged_info_at_test = false",
            "uses_privileged_info_at_test = true",
            "uses_privileged_info_at_test is declared",
        ),
        ('contact = "someone"', 'contact = " "', "is not filled: contact needs a text"),
        ("training_seeds = [0]", "training_seeds = 0", "training_seeds needs a list of integers"),
        ("training_seeds = [0]", "", "training_seeds needs a list of integers"),
        ("tuned_on_test = false", 'tuned_on_test = "no"', "tuned_on_test needs true or false"),
        ('weights = "public"', 'weights = "maybe"', "model.weights is 'maybe', use one of"),
        ('size = "7B"', "size = 7", "model.size needs a text"),
        ('size = "7B"', 'size = "7B"\nlicence = "x"', "model.licence is unknown"),
        ("[trainer]", "[coach]", "coach is unknown"),
        ("2024-06-01", '""', "pretraining_cutoff needs a text"),
        ("training_seeds = [0]", "training_seeds = [", "cannot be read"),
    ],
)
def test_contaminated_and_undeclared_runs_are_not_ranked(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    play(tmp_path, 20)
    change_declaration(tmp_path, old, new)
    assert len(faults(tmp_path)) == 1 and fault in faults(tmp_path)[0]
    board = the_board(tmp_path)
    assert not board.ranked and len(board.unranked) == 1


def test_a_declaration_is_read_as_written(tmp_path: Path) -> None:
    assert read_declaration(tmp_path) == (None, "declaration.toml is not there")
    (tmp_path / DECLARATION).write_text(DECLARED.format(model="M", contact="me"))
    told, why = read_declaration(tmp_path)
    assert told is not None and why == ""
    assert (told.pretraining_cutoff, told.training_seeds) == ("2024-06-01", (0,))
    assert told.training == ("M", "capo", "sha256:0")


# ------------------------------------------------------------------ whose play it is


def play_with(folder: Path, spec: AgentSpec, contact: str = "someone") -> Path:
    """A verified and declared run of an agent."""
    opened = evaluation.open_suite(OFFICIAL, {}, allow_missing=False)
    evaluation.run(opened, spec, out=folder)
    (folder / DECLARATION).write_text(DECLARED.format(model="Model", contact=contact), "utf-8")
    assert verify_run(folder).verdict == "verified"
    return folder


def told_of_failure(name: str = "chat+reflexion") -> AgentSpec:
    config = {"kind": "openai", "reflexion_rounds": 3, "uses_success_feedback_at_test": True}
    return AgentSpec(name, lambda env, seed: Solving(env, 20), config)


FEEDBACK = "it plays a task up to 3 times, told whether it failed"


def test_a_run_with_success_feedback_says_itself_that_it_is_not_rankable(tmp_path: Path) -> None:
    play_with(tmp_path, told_of_failure())
    results = score_run(tmp_path)
    assert (results.rankable, results.not_rankable_reasons) == (False, (FEEDBACK,))
    assert faults(tmp_path) == (FEEDBACK,)


def test_who_may_play_again_cannot_leave_it_unsaid(tmp_path: Path) -> None:
    spec = AgentSpec("mine", lambda env, seed: Solving(env, 30), max_rounds=3)
    assert faults(play_with(tmp_path, spec)) == (FEEDBACK,)


def test_a_replay_carries_the_facts_of_the_run_and_is_never_ranked(tmp_path: Path) -> None:
    live = play_with(tmp_path / "live", told_of_failure())
    copy = play_with(tmp_path / "copy", evaluation.replayed_run(live))
    again = play_with(tmp_path / "again", evaluation.replayed_run(copy))
    repeats = "it repeats the actions of a run of chat+reflexion; rank that run"
    assert faults(copy) == score_run(copy).not_rankable_reasons == (repeats, FEEDBACK)
    assert faults(again)[1] == FEEDBACK
    clean = play(tmp_path / "clean", 20)
    other = play_with(tmp_path / "other", evaluation.replayed_run(clean))
    board = the_board(clean, other)
    assert [row.candidate.folder for row in board.ranked] == [clean]
    assert [row.candidate.folder for row in board.unranked] == [other]


def test_a_cassette_is_never_ranked(tmp_path: Path) -> None:
    config = {"kind": "cassette", "model": "m", "cassette": "sha256:0"}
    play_with(tmp_path, AgentSpec("cassette:m", lambda env, seed: Solving(env, 20), config))
    told = ("it repeats recorded replies of m; rank the run they come from",)
    assert faults(tmp_path) == score_run(tmp_path).not_rankable_reasons == told


def test_the_suite_s_own_agents_are_baselines(tmp_path: Path) -> None:
    mine = play(tmp_path / "mine", 20)
    oracle = play_with(tmp_path / "oracle", named_agent("oracle"))
    at_random = play_with(tmp_path / "random", named_agent("random"))
    (at_random / DECLARATION).unlink()
    told = "oracle comes with the suite and is shown as a baseline"
    assert faults(oracle) == score_run(oracle).not_rankable_reasons == (told,)
    board = the_board(mine, oracle, at_random)
    assert [(row.rank, row.label) for row in board.ranked] == [(1, "Model · solves20")]
    assert [(row.rank, row.label) for row in board.baselines] == [
        (None, "oracle"),
        (None, "random"),
    ]
    assert not board.unranked and board.baselines[0].estimate is not None
    leaderboard = Leaderboard((board,), ())
    assert [row["label"] for row in leaderboard_values(leaderboard)["boards"][0]["baselines"]] == [
        "oracle",
        "random",
    ]
    for text in (html_leaderboard(leaderboard), markdown_leaderboard(leaderboard)):
        _, heading, after = text.partition("Baselines: agents of the suite, not ranked")
        assert heading and "oracle" in after and "100.0" in after


def test_a_baseline_without_a_verdict_shows_no_number(tmp_path: Path) -> None:
    evaluation.run(OFFICIAL, "oracle", out=tmp_path)
    board = the_board(tmp_path)
    assert not board.baselines and board.unranked[0].estimate is None


def test_a_model_may_bear_the_name_of_a_baseline(tmp_path: Path) -> None:
    config = {"kind": "openai", "model": "oracle"}
    play_with(tmp_path, AgentSpec("oracle", lambda env, seed: Solving(env, 20), config))
    assert candidate(tmp_path).ranked and score_run(tmp_path).rankable


def test_the_example_of_the_page_is_no_declaration(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "evaluation-verify.md"
    (example,) = re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    (tmp_path / DECLARATION).write_text(example, "utf-8")
    told, why = read_declaration(tmp_path)
    assert told is None and why == (
        "declaration.toml is not filled: contact is still 'name, page or address', model.name is "
        "still 'Some-Model-7B', trainer.config_digest is still 'sha256:0123'"
    )


@pytest.mark.parametrize("text", ["…", "...", " - ", "?"])
def test_a_text_without_a_letter_or_digit_declares_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / DECLARATION).write_text(DECLARED.format(model="M", contact=text), "utf-8")
    assert f"contact is still '{text.strip()}'" in read_declaration(tmp_path)[1]


def test_what_was_never_declared_is_unknown(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play(tmp_path, 20, declare=False)
    assert command(["leaderboard", "check", str(tmp_path)]) == 1
    told = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:]]
    answers = {rule.partition(":")[0]: answer for answer, rule in told}
    assert answers["declarations"] == "no"
    assert answers["not tuned on test"] == answers["no privileged info"] == "unknown"
    assert answers["verified"] == answers["own agent"] == answers["no copy"] == "yes"
    assert command(["leaderboard", "check", str(tmp_path), "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert row["rules"]["not tuned on test"] == "unknown" and row["rules"]["verified"] is None


# ------------------------------------------------------------------ order and tests


def test_rows_are_best_first_and_ties_share_a_rank(tmp_path: Path) -> None:
    folders = [
        play(tmp_path / name, below, model=name)
        for name, below in (("low", 5), ("a", 29), ("b", 29), ("top", 30))
    ]
    board = the_board(*folders)
    assert [row.label.split(" ")[0] for row in board.ranked] == ["top", "a", "b", "low"]
    assert [row.rank for row in board.ranked] == [1, 2, 2, 4]
    estimate = board.ranked[0].estimate
    assert estimate is not None and (estimate.estimate, estimate.n) == (1.0, 30)
    assert estimate.method == "wilson" and dict(board.metrics) == {ENV: "success"}


def test_rows_are_tested_against_the_best_with_holm(tmp_path: Path) -> None:
    folders = [play(tmp_path / str(below), below, model=f"m{below}") for below in (30, 27, 21, 20)]
    best, *others = the_board(*folders).ranked
    assert best.against is None
    told = [row.against for row in others]
    assert [one.test for one in told if one] == ["mcnemar"] * 3
    # b = 0, c = 3, 9, 10: p = 2/8, 2/512, 2/1024; Holm times 1, 2, 3
    assert [one.p for one in told if one] == [0.25, 2 / 512, 2 / 1024]
    assert [one.adjusted for one in told if one] == [0.25, 4 / 512, 6 / 1024]
    assert [one.indistinguishable for one in told if one] == [True, False, False]


def test_several_environments_weigh_the_same_in_the_paired_test() -> None:
    few = EnvValues("success", tuple((1.0,) for _ in range(2)))
    none = EnvValues("success", tuple((0.0,) for _ in range(2)))
    many = EnvValues("success", tuple((1.0, 0.0) for _ in range(4)))
    p, name = paired_p({"a": few, "b": many}, {"a": none, "b": many})
    # differences 1.5, 1.5, 0, 0, 0, 0: half of the sign patterns reach their sum
    assert (name, p) == ("sign-flip", 0.5)
    assert paired_p({"a": few, "b": many}, {"a": few, "b": many})[0] == 1.0


def test_the_metric_is_the_benchmark_s_own() -> None:
    assert primary_metric("success", "PaperSearch-v0") == "f1_all"
    assert primary_metric("success", "MultiHopQA-v0") == "em"
    assert primary_metric("success", "WebShop-v0") == "success"
    assert primary_metric("score", "PaperSearch-v0") == "score"


def test_training_seeds_give_mean_and_deviation(tmp_path: Path) -> None:
    for weights, below in (("w1", 30), ("w2", 24), ("w3", 27)):
        opened = evaluation.open_suite(OFFICIAL, {}, allow_missing=False)

        def make(env: gym.Env[str, str], seed: int, below: int = below) -> Solving:
            return Solving(env, below)

        folder = tmp_path / weights
        evaluation.run(opened, AgentSpec("agent", make, policy_version=weights), out=folder)
        (folder / DECLARATION).write_text(DECLARED.format(model="M", contact="me"))
        verify_run(folder)
    board = the_board(tmp_path)
    (seeds,) = board.seeds
    assert (seeds.label, seeds.runs) == ("M, capo", 3)
    assert seeds.mean == pytest.approx(0.9) and seeds.deviation == pytest.approx(0.1)
    assert len({row.label for row in board.ranked}) == 3
    assert not the_board(tmp_path / "w1").seeds


def test_suites_are_never_ranked_together(tmp_path: Path) -> None:
    play(tmp_path / "official", 20)
    play(tmp_path / "own", 30, suite=Suite("own", 1, OFFICIAL.envs))
    boards = build_boards([tmp_path])
    assert [board.suite.id for board in boards] == ["counting-official", "own"]
    assert len(boards[0].ranked) == 1 and not boards[1].ranked


def test_the_same_records_twice_are_refused(tmp_path: Path) -> None:
    play(tmp_path / "a", 20)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UsageError, match="hold the same records"):
        build_boards([tmp_path])
    with pytest.raises(UsageError, match="no run is given"):
        build_boards([])


# ------------------------------------------------------------------ files

EVIL = "</td><script>document.title='pwned'</script>|`x`"


@pytest.fixture
def board(tmp_path: Path) -> Leaderboard:
    play(tmp_path / "runs" / "a", 30, model="First", contact=EVIL)
    play(tmp_path / "runs" / "b", 29, model="Second")
    play(tmp_path / "runs" / "c", 10, verify=False)
    return Leaderboard(build_boards([tmp_path / "runs"]), reference_rows()[:40])


def test_the_files_have_the_same_bytes_in_any_order(tmp_path: Path, board: Leaderboard) -> None:
    page = write_leaderboard(tmp_path / "out", board)
    first = {path.name: path.read_bytes() for path in page.parent.iterdir()}
    assert set(first) == {"leaderboard.json", "leaderboard.md", "leaderboard.html"}
    folders = [tmp_path / "runs" / name for name in "cba"]
    again = Leaderboard(build_boards(folders), board.reference)
    write_leaderboard(tmp_path / "out", again)
    assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == first
    assert str(tmp_path).encode() not in b"".join(first.values())


def test_the_page_refers_to_nothing_outside_and_runs_nothing(board: Leaderboard) -> None:
    page = html_leaderboard(board)
    assert "<script" not in page and "&lt;script&gt;document.title" in page
    assert not re.search(r"https?://|url\(|@import|\bon\w+=|<(link|img|iframe|form)\b", page)
    links = re.findall(r'href="([^"]*)"', page)
    assert links and all(link.startswith("#") for link in links)
    assert "default-src 'none'; style-src 'sha256-" in page and "unsafe" not in page


def test_markdown_keeps_its_columns(board: Leaderboard) -> None:
    text = markdown_leaderboard(board)
    assert "<script" not in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert tables and all(line.endswith("|") for line in tables)
    ranked = next(line for line in tables if "First" in line)
    head = next(line for line in tables if line.startswith("| # |"))
    assert len(re.findall(r"(?<!\\)\|", ranked)) == len(re.findall(r"\|", head))
    assert "not been verified" in text


def test_published_numbers_stand_apart(board: Leaderboard) -> None:
    values = leaderboard_values(board)
    assert values["reference"]["title"] == REFERENCE_TITLE
    assert len(values["reference"]["rows"]) == 40
    measured = json.dumps(values["boards"])
    assert "ReAct Table 3" not in measured and "PaLM" not in measured
    for text in (html_leaderboard(board), markdown_leaderboard(board)):
        before, _, after = text.rpartition("## Reported" if text[0] == "#" else 'id="reference"')
        assert "PaLM-540B" not in before and "PaLM-540B" in after and REFERENCE_TITLE in text
    (shown,) = board.boards
    assert [row.label for row in shown.ranked] == ["First · solves30", "Second · solves29"]


def test_json_tells_everything_of_a_row(board: Leaderboard) -> None:
    (values,) = leaderboard_values(board)["boards"]
    first, second = values["ranked"]
    assert first["rank"] == 1 and first["verdict"] == "verified" and first["against_best"] is None
    assert second["against_best"]["indistinguishable"] is True
    assert second["environments"][ENV]["metric"] == "success"
    assert first["declaration"]["contact"] == EVIL
    (other,) = values["unranked"]
    assert other["primary"] is None and other["reasons"] == ["it has not been verified"]


# ------------------------------------------------------------------ the command


def test_the_command_builds_and_checks(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = play(tmp_path / "run", 30), tmp_path / "out"
    assert command(["leaderboard", "check", str(run)]) == 0
    told = capsys.readouterr().out
    assert "ranked, submission type standard" in told and "yes     verified" in told
    assert command(["leaderboard", "build", str(run), "--out", str(out)]) == 0
    assert "1. Model · solves30: 100.0 (88.6 – 100.0), n = 30" in capsys.readouterr().out
    (run / VERIFICATION).unlink()
    assert command(["leaderboard", "check", str(run), "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert row["rules"]["verified"] == "it has not been verified" and not row["ranked"]
    assert command(["leaderboard", "build", str(run), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["boards"][0]["ranked"] == []
    assert command(["leaderboard", "build", str(run), "--out", ""]) == 2
    assert command(["leaderboard", "check", ""]) == 2
    assert command(["leaderboard", "build", str(tmp_path / "none"), "--out", str(out)]) == 2
    bad = ["--reference", str(run / RESULTS)]
    assert command(["leaderboard", "build", str(run), "--out", str(out), *bad]) == 2
    assert "results.json, line 0 is no CSV" in capsys.readouterr().err

"""Comparing runs: the tests that are made, what is refused, and what is said of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite import evaluation
from agentgym_suite.errors import IncompleteRun, RunError, UsageError
from agentgym_suite.evaluation.comparisons import holm, mcnemar_exact, sign_flip
from agentgym_suite.evaluation.intervals import Interval
from agentgym_suite.evaluation.leaderboard import ALPHA
from agentgym_suite.evaluation.model_specs import EndpointOptions, model_agent
from agentgym_suite.evaluation.paired_results import Pair
from agentgym_suite.evaluation.paired_runs import recorded_lengths
from agentgym_suite.evaluation.primary_values import SHARES, primary_values
from agentgym_suite.evaluation.run_directory import EPISODES
from agentgym_suite.evaluation.run_header import RUN
from agentgym_suite.evaluation.scored_runs import load_runs
from agentgym_suite.evaluation.setting_differences import setting_warnings
from agentgym_suite.evaluation.settings import named_agent
from agentgym_suite.evaluation.suite_unions import SuiteUnion
from agentgym_suite.evaluation.tables import env_tables
from agentgym_suite.evaluation.union_runs import open_union, run_union
from tests.chat_server import Answer, chat_server, completion
from tests.evaluation.played import (
    ENV,
    counting_suite,
    first,
    play,
    records_of,
    some,
    write_records,
)

Command = Callable[[Sequence[str]], int]
pytestmark = pytest.mark.usefixtures("counting_env")


def the_pair(*folders: Path, **options: Any) -> Pair:
    (pair,) = evaluation.compare(*folders, **options).pairs
    return pair


def tamper(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    header = json.loads((run / RUN).read_bytes())
    change(header)
    (run / RUN).write_text(json.dumps(header))


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Of 20 tasks "a" alone solves 9, "b" alone 2, both 5."""
    suite = counting_suite(20)
    one = play(tmp_path / "a", some(*range(14)), name="a", suite=suite)
    other = play(tmp_path / "b", some(*range(9, 16)), name="b", suite=suite)
    return one, other


# ------------------------------------------------------------------ tests and differences


def test_one_right_or_wrong_trial_a_task_is_mcnemar(runs: tuple[Path, Path]) -> None:
    pair = the_pair(*runs)
    assert (pair.first, pair.second, pair.env_id, pair.metric) == ("a", "b", ENV, "success")
    assert (pair.wins, pair.losses, pair.ties, pair.n) == (9, 2, 9, 20)
    assert pair.test == "mcnemar" and pair.p == pair.adjusted == 0.0654296875
    assert pair.difference.estimate == pytest.approx(0.35)
    assert pair.indistinguishable and "indistinguishable at 95 %" in pair.sentence
    assert (pair.first_value.estimate, pair.second_value.estimate) == (0.7, 0.35)
    assert pair.first_value.method == "wilson"


def test_the_other_way_round_is_the_same_test(runs: tuple[Path, Path]) -> None:
    pair, turned = the_pair(*runs), the_pair(*reversed(runs))
    assert (turned.wins, turned.losses) == (pair.losses, pair.wins) and turned.p == pair.p
    assert turned.difference.estimate == pytest.approx(-(pair.difference.estimate or 0.0))


def test_several_trials_and_scores_are_sign_flips(tmp_path: Path) -> None:
    suite = counting_suite(8, trials=2)
    one = play(tmp_path / "a", some(*range(6), trials=2), name="a", suite=suite)
    other = play(tmp_path / "b", {"count-0": (0, 1), "count-1": (1,)}, name="b", suite=suite)
    pair = the_pair(one, other)
    assert pair.test == "sign-flip" and pair.p == sign_flip([0, 0.5, 1, 1, 1, 1, 0, 0])
    assert (pair.wins, pair.losses, pair.ties) == (5, 0, 3)
    score = the_pair(one, other, metric="score")
    assert score.test == "sign-flip" and score.metric == "score"
    steps = the_pair(one, other, metric="steps")
    assert steps.difference.estimate and steps.difference.estimate > 1


def test_a_clear_winner_is_named(tmp_path: Path) -> None:
    one = play(tmp_path / "a", first(12), name="a")
    other = play(tmp_path / "b", {}, name="b")
    for pair in (the_pair(one, other), the_pair(other, one)):
        assert not pair.indistinguishable and pair.p == mcnemar_exact(12, 0)
        assert (
            "a is higher than b by 100.0 points (the same difference in all 12 tasks)"
            in pair.sentence
        )


def test_a_run_with_itself_is_indistinguishable(runs: tuple[Path, Path]) -> None:
    pair = the_pair(runs[0], runs[0])
    assert pair.difference[:3] == (0.0, 0.0, 0.0) and pair.p == pair.adjusted == 1.0
    assert pair.indistinguishable and not pair.flips
    label = f"a ({runs[0].as_posix()})"
    assert (pair.first, pair.second) == (f"{label} #1", f"{label} #2")


def test_every_pair_is_adjusted_for_all_of_them(runs: tuple[Path, Path], tmp_path: Path) -> None:
    third = play(tmp_path / "c", {}, name="c", suite=counting_suite(20))
    comparison = evaluation.compare(*runs, third)
    names = [(pair.first, pair.second) for pair in comparison.pairs]
    assert names == [("a", "b"), ("a", "c"), ("b", "c")] and comparison.family == 3
    raw = [pair.p for pair in comparison.pairs]
    assert [pair.adjusted for pair in comparison.pairs] == holm(raw)
    assert raw == [0.0654296875, mcnemar_exact(14, 0), mcnemar_exact(7, 0)]


def test_flipped_tasks_are_listed_with_links(runs: tuple[Path, Path]) -> None:
    flips = the_pair(*runs).flips
    assert [flip.task_id for flip in flips] == [f"count-{i}" for i in (*range(9), 14, 15)]
    assert (flips[0].first, flips[0].second) == (1.0, 0.0)
    assert (flips[-1].first, flips[-1].second) == (0.0, 1.0)
    page, _, key = flips[0].first_link.partition("#")
    assert Path(page) == runs[0] / "report.html" and key == f"a/{ENV}/count-0/0"
    assert Path(page).is_file()


@given(
    st.floats(-1, 1),
    st.floats(0, 1),
    st.sampled_from(["success", "score", "steps"]),
    st.integers(1, 50),
)
def test_a_sentence_says_what_the_adjusted_p_value_does(
    difference: float, adjusted: float, metric: str, n: int
) -> None:
    value = Interval(0.5, 0.4, 0.6, "wilson", n)
    ends = Interval(difference, difference - 0.1, difference + 0.1, "task-bootstrap", n)
    pair = Pair(
        ENV, metric, "x", "y", n, value, value, ends, "sign-flip", adjusted, adjusted, 1, 1, 1, ()
    )
    assert ("indistinguishable" in pair.sentence) == (adjusted > ALPHA) == pair.indistinguishable
    if adjusted <= ALPHA and difference:
        assert ("x is higher than y" in pair.sentence) == (difference > 0)
        assert "interval" in pair.sentence


# ------------------------------------------------------------------ several environments


def test_the_oracle_is_above_chance_on_the_smoke_suite(tmp_path: Path) -> None:
    opened = evaluation.open_suite(evaluation.load_suite("smoke"), {}, allow_missing=False)
    for agent in ("oracle", "random"):
        evaluation.run(opened, agent, out=tmp_path / agent)
    comparison = evaluation.compare(tmp_path)
    metrics = {pair.env_id: pair.metric for pair in comparison.pairs}
    assert metrics == {
        "WebShop-v0": "success",
        "ALFWorld-v0": "success",
        "MultiHopQA-v0": "em",
        "PaperSearch-v0": "f1_all",
        "": "primary metric",
    }
    assert all(p.adjusted < 0.05 and p.n >= 20 for p in comparison.pairs)
    assert all(p.first == "oracle" and (p.difference.estimate or 0) > 0.5 for p in comparison.pairs)
    together = comparison.pairs[-1]
    each = [pair.difference.estimate or 0.0 for pair in comparison.pairs[:-1]]
    assert together.difference.estimate == pytest.approx(sum(each) / 4)
    assert together.difference.method == "stratified-task-bootstrap"
    for run in load_runs([tmp_path / "oracle", tmp_path / "random"]):
        assert {env_id: env.metric for env_id, env in run.results.envs.items()} == {
            env_id: metric for env_id, metric in metrics.items() if env_id
        }
        assert run.results.metric == "primary metric"
        for env_id, value in primary_values(run.folder, run.header).items():
            assert run.results.envs[env_id].primary == value.interval
        means = {name: m for env in run.results.envs.values() for name, m in env.metrics.items()}
        assert means.keys() >= SHARES - {"success", "score", "primary metric"}
        assert all(0 <= (m.estimate or 0) <= 1 for name, m in means.items() if name in SHARES)
    tables = {table.env_id: table.primary for table in env_tables(load_runs([tmp_path / "oracle"]))}
    assert tables == {env_id: metric for env_id, metric in metrics.items() if env_id}
    itself = evaluation.compare(tmp_path / "random", tmp_path / "random")
    assert {pair.p for pair in itself.pairs} == {1.0}
    assert all(pair.indistinguishable for pair in itself.pairs)
    (papers,) = evaluation.compare(tmp_path, metric="recall_20").pairs
    assert papers.env_id == "PaperSearch-v0" and papers.metric == "recall_20"
    (crawled,) = evaluation.compare(tmp_path, metric="crawler_recall").pairs
    (pool,) = evaluation.compare(tmp_path, metric="pool_size").pairs
    assert " points (" in crawled.sentence and " points (" not in pool.sentence


def test_unions_are_compared_suite_by_suite(tmp_path: Path) -> None:
    members = (counting_suite(6, id="few"), counting_suite(20, id="many"))
    both = SuiteUnion("both", 1, members, "Both")
    run_union(
        open_union(both, {}), [named_agent("oracle"), named_agent("random")], tmp_path / "both"
    )
    comparison = evaluation.compare(tmp_path / "both")
    assert [suite.suite for suite in comparison.suites] == ["few v1", "many v1"]
    assert [pair.n for pair in comparison.pairs] == [6, 20] and comparison.family == 2
    assert [pair.adjusted for pair in comparison.pairs] == holm([p.p for p in comparison.pairs])


def test_suites_that_one_union_lacks_are_named(tmp_path: Path) -> None:
    few, many = counting_suite(6, id="few"), counting_suite(20, id="many")
    agents = [named_agent("oracle")]
    run_union(open_union(SuiteUnion("u", 1, (few, many), ""), {}), agents, tmp_path / "u")
    run_union(open_union(SuiteUnion("v", 1, (many,), ""), {}), agents, tmp_path / "v")
    comparison = evaluation.compare(tmp_path / "u", tmp_path / "v")
    label = f"oracle ({(tmp_path / 'v').as_posix()})"
    assert comparison.left_out == {"few": f"no run of {label}"}
    assert [suite.suite for suite in comparison.suites] == ["many v1"]
    single = play(tmp_path / "w", {}, suite=counting_suite(3, id="other"))
    with pytest.raises(UsageError, match="no suite was played by all"):
        evaluation.compare(tmp_path / "u", single)


# ------------------------------------------------------------------ what is refused


def test_different_suites_need_the_tasks_they_share(tmp_path: Path) -> None:
    one = play(tmp_path / "a", first(4), name="a", suite=counting_suite(6))
    other = play(tmp_path / "b", {}, name="b", suite=counting_suite(9, id="wider"))
    with pytest.raises(UsageError, match="different suites .counting v1, wider v1.*--common-tasks"):
        evaluation.compare(one, other)
    comparison = evaluation.compare(one, other, common_tasks=True)
    (pair,) = comparison.pairs
    assert (pair.n, pair.wins) == (6, 4)
    (suite,) = comparison.suites
    assert suite.suite == "counting v1, wider v1"
    assert suite.remarks == (f"{ENV}: 6 of 9 tasks were finished by all and are compared",)


def test_suites_of_different_metrics_need_one_named(tmp_path: Path) -> None:
    one = play(tmp_path / "a", first(4), name="a", suite=counting_suite(6))
    scored = replace(counting_suite(6, id="scored"), primary="score")
    other = play(tmp_path / "b", {}, name="b", suite=scored)
    for runs, told in (((one, other), "success, score"), ((other, one), "score, success")):
        with pytest.raises(UsageError, match=f"order {ENV} by different metrics .{told}.*--metric"):
            evaluation.compare(*runs, common_tasks=True)
        assert the_pair(*runs, common_tasks=True, metric="score").metric == "score"


def test_no_task_in_common_is_refused(tmp_path: Path) -> None:
    one = play(tmp_path / "a", {}, suite=counting_suite(3))
    other = play(tmp_path / "b", {}, suite=counting_suite(3))
    tamper(other, lambda h: h["suite"]["content"]["env"][0].update(tasks=["count-9"]))
    (other / EPISODES).write_bytes(b"")
    with pytest.raises(UsageError, match="no finished task in common"):
        evaluation.compare(one, other, common_tasks=True)


def test_one_suite_with_other_tasks_is_no_equal_plan(tmp_path: Path) -> None:
    one = play(tmp_path / "a", {}, suite=counting_suite(3))
    other = Path(shutil.copytree(one, tmp_path / "b"))
    tamper(other, lambda h: h["suite"]["content"]["env"][0]["tasks"].pop())
    write_records(other, [r for r in records_of(other) if r["key"]["task_id"] != "count-2"])
    with pytest.raises(UsageError, match="planned 3 and 2 episodes"):
        evaluation.compare(one, other)


def test_parts_of_one_suite_are_told_apart_by_their_tasks(tmp_path: Path) -> None:
    one = play(tmp_path / "a", {}, name="a", suite=counting_suite(6))
    other = play(tmp_path / "b", {}, name="b", suite=counting_suite(9))
    told = "a and b are of counting v1 but planned 6 and 9 episodes of different tasks or trials"
    with pytest.raises(UsageError, match=told):
        evaluation.compare(one, other)
    shorter = play(tmp_path / "c", {}, name="c", suite=counting_suite(6, max_steps=5))
    with pytest.raises(UsageError, match="a and c played the same tasks of counting v1, but with"):
        evaluation.compare(one, shorter)


@pytest.mark.parametrize("folder", [3, None, b"runs/a"])
def test_what_is_no_path_is_refused_in_one_sentence(folder: Any, runs: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match=r"is no folder of a run; give a str or a Path$"):
        evaluation.compare(runs[0], folder)


def test_a_comparison_prints_as_its_sentences(runs: tuple[Path, Path]) -> None:
    comparison = evaluation.compare(*map(str, runs))
    assert str(comparison) == "\n".join(pair.sentence for pair in comparison.pairs)
    assert len(str(comparison).splitlines()) == len(comparison.pairs) == 1


def test_an_incomplete_run_is_compared_on_request(runs: tuple[Path, Path]) -> None:
    one, other = runs
    kept = [one for one in records_of(other) if one["key"]["task_id"] != "count-15"]
    write_records(other, kept)
    with pytest.raises(IncompleteRun, match="b is incomplete, 19 of 20 episodes.*--common-tasks"):
        evaluation.compare(one, other)
    comparison = evaluation.compare(one, other, common_tasks=True)
    assert not comparison.complete
    (pair,) = comparison.pairs
    assert (pair.n, pair.wins, pair.losses) == (19, 9, 1)


def test_a_run_alone_and_a_folder_without_runs_are_refused(runs: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="fewer than two runs"):
        evaluation.compare(runs[0])
    with pytest.raises(RunError, match="holds no run"):
        evaluation.compare(runs[0], runs[0] / "nowhere")


def test_an_unknown_metric_names_those_there_are(runs: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="'speed'; choose among .*count.*score, steps, success"):
        evaluation.compare(*runs, metric="speed")


# ------------------------------------------------------------------ warnings


def test_other_settings_are_warned_of(runs: tuple[Path, Path]) -> None:
    one, other = runs
    prompt = {"template": "react", "version": 1}

    def change(header: dict[str, Any], template: str, digest: str, steps: int) -> None:
        header["config"]["prompt"] = {**prompt, "template": template}
        told = header["config"]["environments"][ENV]["provenance"]
        told |= {"data_digest": digest, "horizon": steps}

    tamper(one, lambda header: change(header, "react", "sha256:" + "1" * 64, 10))
    tamper(other, lambda header: change(header, "tags", "sha256:" + "2" * 64, 20))
    (suite,) = evaluation.compare(one, other).suites
    assert [warning.partition(" of a and b differ (")[0] for warning in suite.warnings] == [
        "prompts",
        "data digests",
        "horizons",
    ]
    assert f"horizons of a and b differ ({ENV}: 10 and 20)" in suite.warnings


def test_models_that_sample_otherwise_are_warned_of(tmp_path: Path) -> None:
    opened = evaluation.open_suite(counting_suite(2, max_steps=2), {}, allow_missing=False)
    with chat_server(lambda request: Answer(completion("stop[]"))) as server:
        plain = EndpointOptions("tiny", endpoint=server.url)
        sampled = {
            "plain": plain,
            "again": plain,
            "hot": replace(plain, decoding={"temperature": 0.7}),
            "narrow": replace(plain, fields={"top_k": 1}),
        }
        for name, options in sampled.items():
            evaluation.run(opened, model_agent("openai", options), out=tmp_path / name)
    headers = {name: json.loads((tmp_path / name / RUN).read_bytes()) for name in sampled}
    told = {
        name: setting_warnings(headers["plain"], header, ("plain", name))
        for name, header in headers.items()
    }
    assert told == {
        "plain": [],
        "again": [],
        "hot": ["decodings of plain and hot differ (decoding.temperature: 0.0 and 0.7)"],
        "narrow": ["decodings of plain and narrow differ (request.top_k: none and 1)"],
    }


def test_equal_settings_warn_of_nothing(runs: tuple[Path, Path]) -> None:
    (suite,) = evaluation.compare(*runs).suites
    assert suite.warnings == () and suite.remarks == ()


def test_an_agent_without_a_model_reads_no_prompt(runs: tuple[Path, Path]) -> None:
    header = json.loads((runs[0] / RUN).read_bytes())
    with_prompt = json.loads(json.dumps(header))
    with_prompt["config"] |= {"prompt": {"template": "react"}, "reply_format": "react"}
    assert setting_warnings(header, with_prompt, ("a", "b")) == []


# ------------------------------------------------------------------ the oracle's steps


def test_success_by_the_steps_of_a_recorded_oracle(runs: tuple[Path, Path], tmp_path: Path) -> None:
    oracle = play(tmp_path / "o", first(20), name="o", suite=counting_suite(20))
    assert recorded_lengths(oracle)[ENV]["count-3"] == 5
    (suite,) = evaluation.compare(*runs, oracle=oracle).suites
    lengths = suite.oracle_lengths[ENV]
    assert set(lengths) == {"a", "b"} and list(lengths["a"]) == ["up to 3", "4", "5", "6"]
    assert [(one.k, one.n) for one in lengths["a"].values()] == [(6, 8), (3, 4), (3, 4), (2, 4)]
    assert all(one.extra_steps == 0.0 for one in lengths["a"].values())
    assert evaluation.compare(*runs).suites[0].oracle_lengths == {}


def test_only_the_compared_tasks_are_told_by_length(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = counting_suite(20)
    folders = [play(tmp_path / name, first(20), name=name, suite=suite) for name in "ab"]
    oracle = play(tmp_path / "o", first(20), name="o", suite=suite)
    kept = [one for one in records_of(folders[1]) if int(one["key"]["task_id"][6:]) < 10]
    write_records(folders[1], kept)
    comparison = evaluation.compare(*folders, common_tasks=True, oracle=oracle)
    for rates in comparison.suites[0].oracle_lengths[ENV].values():
        assert [(one.k, one.n, one.est) for one in rates.values()] == [
            (4, 4, 1.0),
            (2, 2, 1.0),
            (2, 2, 1.0),
            (2, 2, 1.0),
        ]
    command(["compare", *map(str, folders), "--common-tasks", "--oracle", str(oracle)])
    assert "up to 3: 100.0 (4/4, +0.0 steps); 4: 100.0 (2/2" in capsys.readouterr().out


# ------------------------------------------------------------------ the command


def test_the_command_says_it_in_sentences(
    runs: tuple[Path, Path], command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["compare", *map(str, runs), "--flips", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "suite counting v1: a, b"
    assert lines[1] == f"  {the_pair(*runs).sentence}"
    assert "9 won, 2 lost, 9 tied of 20 tasks; McNemar's exact test, p = 0.065" in lines[2]
    assert re.fullmatch(r"    count-0: solved by a \(\S+#a/\S+\), not by b \(\S+#b/\S+\)", lines[3])
    assert lines[5] == "    11 tasks that one solved more often; --json lists them all"
    assert len(lines) == 6  # one test needs no adjustment


def test_the_command_gives_json(
    runs: tuple[Path, Path], command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["compare", *map(str, runs), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value == json.loads(json.dumps(evaluation.compare(*runs).as_dict()))
    (pair,) = value["suites"][0]["pairs"]
    assert pair["p"] == 0.0654296875 and pair["indistinguishable"] is True
    assert len(pair["flips"]) == 11 and pair["sentence"].startswith(ENV)


def test_small_p_values_are_not_rounded_away(tmp_path: Path) -> None:
    suite = counting_suite(60)
    one = play(tmp_path / "a", first(60), name="a", suite=suite)
    other = play(tmp_path / "b", {}, name="b", suite=suite)
    value = evaluation.compare(one, other).as_dict()
    assert value["suites"][0]["pairs"][0]["p"] == 2.0**-59


def test_exit_codes(
    runs: tuple[Path, Path], command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = map(str, runs)
    assert command(["compare", one]) == 2
    assert command(["compare", one, ""]) == 2
    assert command(["compare", one, other, "--flips", "-1"]) == 2
    assert command(["compare", one, other, "--metric", "speed"]) == 2
    write_records(runs[1], records_of(runs[1])[:-1])
    capsys.readouterr()
    assert command(["compare", one, other]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("agentgym-suite: b is incomplete, 19 of 20")
    assert command(["compare", one, other, "--common-tasks"]) == 1
    told = capsys.readouterr().out
    assert "  b is incomplete, 19 of 20 episodes" in told and "19 of 20 tasks" in told


def test_the_command_tells_lengths_and_left_out_suites(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = counting_suite(6, id="few"), counting_suite(20, id="many")
    agents = [named_agent("oracle"), named_agent("random")]
    run_union(open_union(SuiteUnion("u", 1, (few, many), ""), {}), agents, tmp_path / "u")
    run_union(open_union(SuiteUnion("v", 1, (many,), ""), {}), agents[:1], tmp_path / "v")
    oracle = tmp_path / "u" / "many" / "oracle"
    folders = [str(tmp_path / name) for name in ("u", "v")]
    assert command(["compare", *folders, "--oracle", str(oracle)]) == 0
    told = capsys.readouterr().out
    assert "suite few is not compared: no run of oracle" in told
    assert "success by the oracle's steps: up to 3: " in told
    assert "p-values are adjusted by Holm's method for 3 tests" in told

"""What ``results.json`` tells beyond rates: repetitions, breakdowns, steps, the verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.breakdowns import length_rates, rates
from agentgym_suite.evaluation.results import (
    RESULTS_SCHEMA_VERSION,
    EnvResults,
    RunResults,
    Spread,
)
from agentgym_suite.evaluation.run_directory import EPISODES, RESULTS, RUN, VERIFICATION
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.schema import json_schema
from agentgym_suite.evaluation.scored_runs import load_runs
from agentgym_suite.evaluation.scoring import results_bytes, score_run
from agentgym_suite.evaluation.tallies import read_tallies, reason
from agentgym_suite.evaluation.verdicts import read_results
from agentgym_suite.evaluation.verify import verify_run
from agentgym_suite.evaluation.verify_records import result_mismatches
from agentgym_suite.files import canonical_json
from tests.evaluation.played import ENV, counting_suite, first, play, records_of, write_records

pytestmark = pytest.mark.usefixtures("counting_env")
SCHEMA = json_schema(RunResults, "t")


def env_of(run: Path) -> EnvResults:
    return score_run(run).envs[ENV]


def alter(run: Path, change: Callable[[int, dict[str, Any]], None]) -> None:
    records = records_of(run)
    for number, record in enumerate(records):
        change(number, record)
    write_records(run, records)


# ------------------------------------------------------------------ repetitions


def test_several_trials_have_pass_at_k_and_a_spread(tmp_path: Path) -> None:
    solved = {"count-0": (0, 1, 2, 3), "count-1": (0, 2)}
    env = env_of(play(tmp_path, solved, suite=counting_suite(3, trials=4)))
    assert env.success.estimate == 0.5 and list(env.pass_at) == ["1", "2", "3", "4"]
    assert env.pass_at["2"].estimate == pytest.approx(0.611111111, abs=5e-10)
    assert env.pass_hat["2"].estimate == pytest.approx(0.388888889, abs=5e-10)
    assert env.pass_at["1"] == env.pass_hat["1"] == env.success
    # trials of the three tasks: 2/3, 1/3, 2/3, 1/3
    assert env.seeds == Spread(pytest.approx(0.5), pytest.approx(1 / 27**0.5), 4)  # type: ignore[arg-type]


def test_one_trial_has_no_spread(tmp_path: Path) -> None:
    env = env_of(play(tmp_path, first(6)))
    assert env.seeds is None and list(env.pass_at) == ["1"] and env.small_sample


def test_a_missing_trial_leaves_no_pass_at_k_and_says_why(tmp_path: Path) -> None:
    play(tmp_path, first(3, 2), suite=counting_suite(3, trials=2))
    write_records(tmp_path, records_of(tmp_path)[:-1])
    env = env_of(tmp_path)
    for interval in (*env.pass_at.values(), *env.pass_hat.values()):
        assert interval.estimate is None
        assert interval.method == "incomplete: 1 of 6 episodes are missing"
    assert list(env.pass_at) == ["1", "2"] and env.seeds is None and env.truncated is None


# ------------------------------------------------------------------ steps, tokens, prices


def test_steps_that_are_invalid_or_repeat_the_last_one_are_counted(tmp_path: Path) -> None:
    play(tmp_path, {"count-2": (0,)}, suite=counting_suite(3))  # steps: stop | stop | 3 adds, stop

    def change(number: int, record: dict[str, Any]) -> None:
        if number == 0:
            record["steps"][0] |= {"action_valid": False, "action_error": "no tool 'x' in 3 lines"}

    alter(tmp_path, change)
    env = env_of(tmp_path)
    assert env.repeated_steps == pytest.approx(2 / 6)
    assert env.invalid_steps == pytest.approx(1 / 6)
    assert env.format_errors == {"no tool … in … lines": 1}
    assert env.horizon is None and env.truncated == 0.0


def test_rare_reasons_are_counted_together(tmp_path: Path) -> None:
    play(tmp_path, {}, suite=counting_suite(20))

    def change(number: int, record: dict[str, Any]) -> None:
        word = chr(ord("a") + number) if number < 15 else "z"
        record["steps"][0] |= {"action_valid": False, "action_error": f"reason {word}: told"}

    alter(tmp_path, change)
    errors = env_of(tmp_path).format_errors
    assert list(errors)[:2] == ["reason z", "reason a"] and errors["reason z"] == 5
    assert sum(errors.values()) == 20 and errors["other reasons"] == 4 and len(errors) == 13


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("the reply has no 'Action:' line", "the reply has no … line"),
        ("there are 1,234 calls; use 5", "there are … calls; use …"),
        ('not read: line 3 of "abc"\nmore', "not read"),
        ("", "no reason"),
        ("'x'", "…"),
    ],
)
def test_a_reason_has_no_text_of_the_action(error: str, told: str) -> None:
    assert reason(error) == told


def test_truncated_episodes_are_a_share_of_the_planned(tmp_path: Path) -> None:
    play(tmp_path, first(5), suite=counting_suite(5, max_steps=3))  # they need 2 to 6 steps
    env = env_of(tmp_path)
    assert env.horizon == 3 and env.outcomes == {"success": 2, "truncated_steps": 3}
    assert env.truncated == pytest.approx(0.6)


def test_prices_are_summed_when_every_episode_has_one(tmp_path: Path) -> None:
    play(tmp_path, {}, suite=counting_suite(4))
    assert (env_of(tmp_path).cost, env_of(tmp_path).price_table) == (None, None)

    def price(number: int, record: dict[str, Any]) -> None:
        record["cost"] = {"usd": 0.25, "price_table": "prices 2024-06"}

    alter(tmp_path, price)
    assert (env_of(tmp_path).cost, env_of(tmp_path).price_table) == (1.0, "prices 2024-06")

    def forget(number: int, record: dict[str, Any]) -> None:
        if number == 2:
            record["cost"]["usd"] = None

    alter(tmp_path, forget)
    assert env_of(tmp_path).cost is None


# ------------------------------------------------------------------ breakdowns


def test_success_by_the_length_of_the_stored_solution(tmp_path: Path) -> None:
    play(tmp_path, first(5), suite=counting_suite(12))

    def change(number: int, record: dict[str, Any]) -> None:
        index = int(record["key"]["task_id"].removeprefix("count-"))
        record["metrics"]["walkthrough_steps"] = float(index)  # solved in index + 2 steps

    alter(tmp_path, change)
    lengths = env_of(tmp_path).oracle_lengths
    assert list(lengths) == ["up to 3", "4", "5", "6", "7-9", "over 9"]
    assert [(one.k, one.n) for one in lengths.values()] == [
        *((3, 3), (1, 1), (0, 1), (0, 1), (0, 3), (0, 2))
    ]
    assert lengths["up to 3"].extra_steps == 2.0 and lengths["5"].extra_steps is None


def test_groups_of_an_incomplete_run_have_counts_and_no_rate(tmp_path: Path) -> None:
    play(tmp_path, first(6))
    write_records(tmp_path, records_of(tmp_path)[:8])
    tally = read_tallies(tmp_path, read_run(tmp_path))[ENV]
    found = rates(tally, {f"count-{i}": "low" if i < 6 else "high" for i in range(12)})
    assert (found["low"].k, found["low"].n, found["low"].est) == (
        sum(record["success"] for record in records_of(tmp_path)),
        6,
        None,
    )
    assert (found["high"].n, found["high"].score) == (6, None)
    assert length_rates(tally, {"count-0": 2})["up to 3"].est is None


def test_every_environment_tells_its_tasks_apart(tmp_path: Path) -> None:
    suite = evaluation.load_suite("smoke").part(episodes=8)
    opened = evaluation.open_suite(suite, {}, allow_missing=False)
    results = evaluation.run(opened, "oracle", out=tmp_path)
    check(results)
    web, home, questions, papers = (
        results.envs[name]
        for name in ("WebShop-v0", "ALFWorld-v0", "MultiHopQA-v0", "PaperSearch-v0")
    )
    assert set(web.breakdowns) == {"options"} and set(web.breakdowns["options"]) <= {
        "asked",
        "not asked",
    }
    assert {"r_type", "r_att", "r_option", "r_price", "options_asked"} <= set(web.metrics)
    assert set(questions.breakdowns) == {"data_set", "hops", "question_type"}
    assert set(questions.breakdowns["data_set"]) == {"embedded"}
    assert set(questions.breakdowns["hops"]) <= {"2", "3", "4"} and questions.scorer == "hotpot"
    assert set(papers.breakdowns["query_type"]) <= {"AutoScholarQuery", "RealScholarQuery"}
    assert questions.retrieval["recall@5"].estimate == 1.0  # the oracle finds what it quotes
    assert {"recall", "recall@20", "searches", "expansions"} <= set(papers.retrieval)
    assert home.oracle_lengths and all(one.est == 1.0 for one in home.oracle_lengths.values())
    assert sum(one.n for one in home.oracle_lengths.values()) == 8
    for env in results.envs.values():
        for groups in (*env.breakdowns.values(), env.families):
            assert sum(group.n for group in groups.values()) == 8
            assert all(group.k == group.n and group.score == 1.0 for group in groups.values())
    assert set(results.provenance.data_digests) == set(results.envs)
    assert set(results.provenance.index_digests) >= {"MultiHopQA-v0", "PaperSearch-v0"}


def test_recall_is_over_the_questions_whose_titles_are_known(tmp_path: Path) -> None:
    play(tmp_path, {}, suite=counting_suite(4))

    def know(of: int) -> None:
        def change(number: int, record: dict[str, Any]) -> None:
            known = number < of
            recall = 0.5 * number if known else 0.0
            record["metrics"] |= {"support_known": float(known), "support_recall": recall}

        records = sorted(records_of(tmp_path), key=lambda one: one["key"]["task_id"])
        write_records(tmp_path, records)
        alter(tmp_path, change)

    know(3)
    env = env_of(tmp_path)
    (recall,) = env.retrieval.values()
    assert (recall.estimate, recall.n) == (0.5, 3)
    assert env.metrics["support_recall"].estimate == 0.375
    know(0)
    (recall,) = env_of(tmp_path).retrieval.values()
    assert recall.estimate is None and "known" in recall.method
    know(4)
    (recall,) = env_of(tmp_path).retrieval.values()
    assert recall == env_of(tmp_path).metrics["support_recall"] and recall.n == 4


# ------------------------------------------------------------------ schema and version


def check(results: RunResults) -> dict[str, Any]:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    value = json.loads(results_bytes(results))
    jsonschema.validate(value, SCHEMA)
    return dict(value)


def test_results_satisfy_the_published_schema(tmp_path: Path) -> None:
    play(tmp_path, first(3, 2), suite=counting_suite(4, trials=2))
    value = check(score_run(tmp_path))
    assert value["schema_version"] == RESULTS_SCHEMA_VERSION and value["verification"] is None
    verify_run(tmp_path)
    (run,) = load_runs([tmp_path])
    assert check(run.results)["verification"]["verdict"] == "verified"
    write_records(tmp_path, records_of(tmp_path)[:3])
    assert check(score_run(tmp_path))["bounds"] is not None


def test_a_value_that_is_none_of_the_schema_s_is_found(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    value = json.loads(results_bytes(score_run(play(tmp_path, {}))))
    value["envs"][ENV]["success"]["estimate"] = value["envs"][ENV]["success"].pop("est")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, SCHEMA)


def test_a_results_folder_of_another_version(
    tmp_path: Path, command: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    play(tmp_path, first(3))
    results = json.loads((tmp_path / RESULTS).read_bytes())
    (tmp_path / RESULTS).write_text(canonical_json({**results, "schema_version": 1}) + "\n")
    with pytest.raises(RunError, match="schema version 1.*writes 3.*agentgym-suite report"):
        read_results(tmp_path)
    assert command(["verify", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"agentgym-suite report {tmp_path}" in line
    assert command(["report", str(tmp_path)]) == 0
    assert json.loads((tmp_path / RESULTS).read_bytes()) == results
    assert command(["verify", str(tmp_path)]) == 0


def test_results_of_a_later_version_are_a_mismatch(tmp_path: Path) -> None:
    play(tmp_path, first(3))
    data = (tmp_path / RESULTS).read_bytes()
    later = RESULTS_SCHEMA_VERSION + 1
    changed = data.replace(
        f'"schema_version":{RESULTS_SCHEMA_VERSION}'.encode(), f'"schema_version":{later}'.encode()
    )
    (tmp_path / RESULTS).write_bytes(changed)
    assert [one.field for one in result_mismatches(tmp_path)] == ["results.schema_version"]


# ------------------------------------------------------------------ the verdict


def test_the_verdict_stands_in_results_that_are_made_again(
    tmp_path: Path, command: Callable[[Sequence[str]], int]
) -> None:
    play(tmp_path, first(3))
    before = (tmp_path / RESULTS).read_bytes()
    told = asdict(verify_run(tmp_path).in_results())
    stamped = (tmp_path / RESULTS).read_bytes()
    assert json.loads(stamped)["verification"] == told and told["verdict"] == "verified"
    assert command(["report", str(tmp_path)]) == 0
    assert (tmp_path / RESULTS).read_bytes() == stamped
    play(tmp_path, first(3))  # the same command again: nothing is played
    assert (tmp_path / RESULTS).read_bytes() == stamped
    assert verify_run(tmp_path).verdict == "verified" and not result_mismatches(tmp_path)
    (tmp_path / VERIFICATION).unlink()
    assert command(["report", str(tmp_path)]) == 0
    assert (tmp_path / RESULTS).read_bytes() == before


def test_a_verdict_on_other_records_does_not_stand(tmp_path: Path) -> None:
    play(tmp_path, first(3))
    verify_run(tmp_path)
    write_records(tmp_path, records_of(tmp_path)[:-1])
    (run,) = load_runs([tmp_path])
    assert run.results.verification is None and run.results.status == "incomplete"


def test_a_damaged_verdict_is_none(tmp_path: Path) -> None:
    play(tmp_path, first(3))
    verify_run(tmp_path)
    (tmp_path / VERIFICATION).write_text("{")
    assert load_runs([tmp_path])[0].results.verification is None


@pytest.mark.parametrize("name", ["verdict", "digest", "at"])
def test_another_verdict_than_was_given_is_found(tmp_path: Path, name: str) -> None:
    play(tmp_path, first(3))
    verify_run(tmp_path)
    results = json.loads((tmp_path / RESULTS).read_bytes())
    results["verification"][name] += "x"
    (tmp_path / RESULTS).write_text(canonical_json(results) + "\n")
    (found,) = result_mismatches(tmp_path)
    assert found.field == "results.verification"
    assert verify_run(tmp_path).verdict == "mismatch"


@pytest.mark.parametrize("value", [5, {"verdict": "verified"}, "verified", "absent"])
def test_a_verdict_of_another_shape_is_found(tmp_path: Path, value: Any) -> None:
    play(tmp_path, first(3))
    results = json.loads((tmp_path / RESULTS).read_bytes())
    if value == "absent":
        del results["verification"]
    else:
        results["verification"] = value
    (tmp_path / RESULTS).write_text(canonical_json(results) + "\n")
    assert [one.field for one in result_mismatches(tmp_path)] == ["results.verification"]


def test_a_mismatch_does_not_mend_the_results_it_was_found_in(tmp_path: Path) -> None:
    play(tmp_path, first(3))
    (tmp_path / RESULTS).write_bytes((tmp_path / RESULTS).read_bytes().replace(b":{", b": {", 1))
    for _ in range(2):
        assert verify_run(tmp_path).mismatches[0].field == "results.bytes"


def test_records_of_another_run_are_refused(tmp_path: Path) -> None:
    play(tmp_path, first(3))
    (tmp_path / EPISODES).write_bytes((tmp_path / EPISODES).read_bytes() * 2)
    with pytest.raises(RunError, match="twice"):
        score_run(tmp_path)
    assert (tmp_path / RUN).is_file()

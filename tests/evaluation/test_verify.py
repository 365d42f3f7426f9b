"""Verifying runs: intact ones are accepted, any altered value is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentgym_suite import evaluation
from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.errors import (
    ContextTooLong,
    DataMissing,
    RunError,
    UsageError,
)
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.evaluation.run_directory import EPISODES, OBSERVATIONS, RESULTS, VERIFICATION
from agentgym_suite.evaluation.run_header import RUN
from agentgym_suite.evaluation.scoring import results_bytes, score_run
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions
from agentgym_suite.evaluation.suite_tasks import SplitTasks
from agentgym_suite.evaluation.suites import EnvEntry, Suite, load_suite
from agentgym_suite.evaluation.verdicts import (
    Verification,
    read_verification,
    shown_difference,
    standing_verification,
)
from agentgym_suite.evaluation.verify import verify_run
from agentgym_suite.evaluation.verify_records import result_mismatches
from agentgym_suite.files import canonical_json, json_digest
from tests.alfworld.small_world import expand_official

ENV = "Counting-v0"
Keys = Sequence[str | int]
Command = Callable[[Sequence[str]], int]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finished run of twelve episodes, never changed."""
    from tests.evaluation.conftest import register_counting

    register_counting()
    folder = tmp_path_factory.mktemp("intact")
    evaluation.run(ad_hoc_suite(ENV, episodes=12), "random", out=folder)
    yield folder
    gym.registry.pop(ENV, None)


@pytest.fixture
def run(intact: Path, counting_env: str, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(intact, tmp_path / "run"))


def records_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / EPISODES).read_bytes().splitlines()]


def write_records(run: Path, records: Sequence[dict[str, Any]]) -> None:
    lines = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in records]
    (run / EPISODES).write_text("".join(lines), "utf-8")


def alter_record(run: Path, keys: Keys, value: Any, number: int = -1) -> dict[str, Any]:
    """Change a field of one record, else the first of several steps; returns what it was."""
    records = records_of(run)
    if number < 0:
        number = next(i for i, one in enumerate(records) if one["n_steps"] > 1)
    before = json.loads(json.dumps(records[number]))
    put(records[number], keys, value)
    write_records(run, records)
    return dict(before)


def put(value: Any, keys: Keys, new: Any) -> None:
    for key in keys[:-1]:
        value = value[key]
    value[keys[-1]] = new(value[keys[-1]]) if callable(new) else new


def other(value: Any) -> Any:
    """The value with one byte of its JSON text changed, or flipped where it is a flag."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return chr(ord(value[0]) ^ 1) + value[1:] if value else "x"
    text = json.dumps(value)
    return json.loads(text[:-1] + ("1" if text[-1] == "0" else "0"))


def the_mismatch(verification: Verification) -> tuple[str, int | None, str]:
    assert verification.verdict == "mismatch" and verification.mismatches
    first = verification.mismatches[0]
    return first.task_id, first.step, first.field


# ------------------------------------------------------------------ intact runs


def test_an_intact_run_is_verified_and_the_verdict_stands(run: Path) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    verification = verify_run(run)
    assert verification.verdict == "verified" and not verification.mismatches
    assert (verification.planned, verification.finished, verification.replayed) == (12, 12, 12)
    assert verification.roundings == 0 and verification.seed is None
    after = {path.name: path.read_bytes() for path in run.iterdir()}
    assert set(after) - set(before) == {VERIFICATION}
    stamped = json.loads(after[RESULTS])
    assert stamped.pop("verification") == asdict(verification.in_results())
    assert {**stamped, "verification": None} == json.loads(before[RESULTS])
    assert {name: after[name] for name in before if name != RESULTS} == {
        name: data for name, data in before.items() if name != RESULTS
    }
    assert standing_verification(run) == (verification, "")


@pytest.mark.parametrize("name", [EPISODES, RESULTS, RUN])
def test_a_verdict_falls_with_the_files_it_was_given_for(run: Path, name: str) -> None:
    verify_run(run)
    if name == EPISODES:
        (run / name).write_bytes((run / name).read_bytes().replace(b'"i":0', b'"i":1', 1))
    else:
        value = json.loads((run / name).read_bytes())
        value["suite"]["title"] = "another"
        (run / name).write_text(canonical_json(value))
    assert standing_verification(run) == (None, f"{name} changed after it was verified")


def test_what_is_no_part_of_a_result_does_not_unsettle_a_verdict(run: Path) -> None:
    verification = verify_run(run)
    header = json.loads((run / RUN).read_bytes())
    (run / RUN).write_text(json.dumps({**header, "wall_s": 5.0}))
    results = json.loads((run / RESULTS).read_bytes())
    results["verification"] = asdict(verification.in_results())
    (run / RESULTS).write_text(canonical_json(results) + "\n")
    assert standing_verification(run)[0] == verification
    assert verify_run(run).verdict == "verified"


def test_a_run_without_a_verdict_says_so(run: Path) -> None:
    assert standing_verification(run) == (None, "it has not been verified")
    (run / VERIFICATION).write_text('{"verdict": "verified"}')
    with pytest.raises(RunError, match=r"verification.json is damaged \(at is missing|is missing"):
        read_verification(run)


class Giving:
    """Adds up by tagged replies; breaks or babbles in some tasks."""

    reply_format = "tags"

    def __init__(self, env: gym.Env[str, str], seed: int) -> None:
        self._policy: Any = env.unwrapped.policy("oracle")  # type: ignore[attr-defined]

    def act(self, turn: Turn) -> Reply:
        if turn.task.id == "count-4" and turn.step_index == 2:
            raise ContextTooLong("the prompt is too long")
        if turn.task.id == "count-3" and turn.step_index == 1:
            return Reply("no tag at all, \ud800 and half a character")
        action = self._policy(turn.observation, turn.info)
        return Reply(f"<think>one more</think><action> {action} </action>")

    def close(self) -> None:
        """Nothing is held."""


class BrokenAtTheEnd(Giving):
    """Plays well and fails when it is closed."""

    def close(self) -> None:
        raise RuntimeError("the pen is dry")


class NeverMade(Giving):
    """Cannot be made."""

    def __init__(self, env: gym.Env[str, str], seed: int) -> None:
        raise RuntimeError("no paper")


@pytest.mark.parametrize(
    ("agent", "outcome"),
    [(Giving, "truncated_context"), (BrokenAtTheEnd, "error"), (NeverMade, "error")],
)
def test_episodes_that_a_model_broke_are_verified(
    counting_env: str, tmp_path: Path, agent: type[Giving], outcome: str
) -> None:
    spec = AgentSpec("giving", agent, reply_format="tags")
    results = evaluation.run(ad_hoc_suite(counting_env, episodes=6), spec, out=tmp_path)
    assert results.envs[ENV].outcomes[outcome]
    verification = verify_run(tmp_path)
    assert verification.verdict == "verified", verification.mismatches


def test_long_observations_are_compared(counting_env: str, tmp_path: Path) -> None:
    opened = ad_hoc_suite(counting_env, kwargs={"long": 40_000}, tasks=["count-0", "count-1"])
    evaluation.run(opened, "oracle", out=tmp_path)
    assert (tmp_path / OBSERVATIONS).is_file()
    assert verify_run(tmp_path).verdict == "verified"
    records = records_of(tmp_path)
    put(records[0], ["steps", 0, "obs_ref", "sha256"], other)
    write_records(tmp_path, records)
    altered = records[0]["key"]["task_id"]
    assert the_mismatch(verify_run(tmp_path)) == (altered, 0, "obs")


def test_a_run_is_named_by_a_text_or_a_path(counting_env: str, tmp_path: Path) -> None:
    evaluation.run(ad_hoc_suite(counting_env, episodes=2), "oracle", out=tmp_path)
    assert verify_run(str(tmp_path)).verdict == "verified"
    nothing: Any = 3
    with pytest.raises(UsageError, match=r"^3 \(int\) is no folder of a run; give a str or a Path"):
        verify_run(nothing)


# ------------------------------------------------------------------ altered runs


STEP_FIELDS = (
    "i",
    "obs",
    "parsed_action",
    "action_valid",
    "action_error",
    "reward",
    "terminated",
    "truncated",
    "state_hash",
    "admissible_n",
)


@pytest.mark.parametrize("field", STEP_FIELDS)
def test_one_altered_value_of_a_step_is_named(run: Path, field: str) -> None:
    before = alter_record(run, ["steps", 1, field], other)
    verification = verify_run(run)
    task = before["key"]["task_id"]
    assert the_mismatch(verification) == (task, 1, field)
    told = verification.mismatches[0]
    assert told.recorded != told.replayed and f"step 2, {field}" in told.sentence
    assert read_verification(run) == verification


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        (["score"], "score"),
        (["success"], "success"),
        (["n_steps"], "n_steps"),
        (["task_family"], "task_family"),
        (["split"], "split"),
        (["final_obs"], "final_obs"),
        (["metrics", "count"], "metrics.count"),
        (["seed"], "seed"),
        (["policy_version"], "policy_version"),
        (["key", "version"], "key.version"),
        (["key", "suite"], "key.suite"),
        (["key", "task_id"], "episode"),
        (["key", "trial"], "episode"),
    ],
)
def test_one_altered_value_of_an_episode_is_named(run: Path, keys: Keys, field: str) -> None:
    alter_record(run, keys, lambda old: "made up" if old is None else other(old))
    assert the_mismatch(verify_run(run))[1:] == (None, field)


def test_an_outcome_is_what_the_replay_says(run: Path) -> None:
    number = next(i for i, one in enumerate(records_of(run)) if one["outcome"] == "failure")
    alter_record(run, ["outcome"], "truncated_steps", number)
    assert the_mismatch(verify_run(run))[1:] == (None, "outcome")


def test_an_altered_reply_does_not_give_its_action(run: Path) -> None:
    alter_record(run, ["steps", 0, "reply"], "add[2]")
    assert the_mismatch(verify_run(run))[1:] == (0, "parsed_action")


@pytest.mark.parametrize("field", [b'"obs":"', b'"parsed_action":"', b'"state_hash":"'])
def test_every_byte_of_a_text_counts(run: Path, field: bytes) -> None:
    data = (run / EPISODES).read_bytes()
    start = data.index(field) + len(field)
    for place in range(start, data.index(b'"', start)):
        changed = bytearray(data)
        changed[place] = ord("z") if changed[place] != ord("z") else ord("y")
        (run / EPISODES).write_bytes(changed)
        assert the_mismatch(verify_run(run))[1:] == (0, field.decode()[1:-3])


def test_every_byte_of_the_results_counts(run: Path) -> None:
    data = (run / RESULTS).read_bytes()
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1
        (run / RESULTS).write_bytes(changed)
        if b'"verification":null' in changed:  # the verdict is no part of what it is given for
            assert results_refused(run), bytes(changed[place - 9 : place + 9])


def results_refused(run: Path) -> bool:
    """Whether altered results are found: by what differs, or as those of an older version."""
    try:
        return bool(result_mismatches(run))
    except RunError as error:
        return "has schema version 2" in str(error)


def test_results_said_to_be_of_an_older_version_are_not_verified(run: Path) -> None:
    data = (run / RESULTS).read_bytes()
    (run / RESULTS).write_bytes(data.replace(b'"schema_version":3', b'"schema_version":2'))
    with pytest.raises(RunError, match="schema version 2, this version of the suite writes 3"):
        verify_run(run)


def test_an_altered_aggregate_is_named_with_both_values(run: Path) -> None:
    results = json.loads((run / RESULTS).read_bytes())
    results["envs"][ENV]["success"]["low"] += 1e-12
    (run / RESULTS).write_text(canonical_json(results) + "\n")
    verification = verify_run(run)
    assert the_mismatch(verification) == ("", None, f"results.envs.{ENV}.success.low")
    assert "the run, results.envs" in verification.mismatches[0].sentence


def test_the_same_results_in_another_spelling_are_found(run: Path) -> None:
    (run / RESULTS).write_bytes((run / RESULTS).read_bytes().replace(b":{", b": {", 1))
    assert the_mismatch(verify_run(run))[2] == "results.bytes"


def rescore(run: Path) -> None:
    (run / RESULTS).write_bytes(results_bytes(score_run(run)))


def test_a_reward_in_its_last_digits_is_told_as_a_rounding(run: Path) -> None:
    alter_record(run, ["steps", 0, "reward"], lambda old: old + 4e-10)
    verification = verify_run(run)
    assert (verification.verdict, verification.roundings) == ("verified", 1)
    alter_record(run, ["steps", 0, "reward"], lambda old: old + 2e-9)
    assert the_mismatch(verify_run(run))[1:] == (0, "reward")


def test_dropped_doubled_and_foreign_episodes_are_named(run: Path) -> None:
    records = records_of(run)
    write_records(run, records[:-1])
    dropped = records[-1]["key"]["task_id"]
    assert the_mismatch(verify_run(run)) == (dropped, None, "episode")
    rescore(run)  # an honest account of an incomplete run is one
    verification = verify_run(run)
    assert verification.verdict == "verified" and verification.finished < verification.planned
    write_records(run, [*records, records[0]])
    told = verify_run(run).mismatches[0]
    assert (told.field, told.recorded) == ("episode", "'twice'")
    foreign = json.loads(json.dumps(records[0]))
    foreign["key"]["task_id"] = "count-29"
    write_records(run, [*records, foreign])
    assert the_mismatch(verify_run(run)) == ("count-29", None, "episode")


def test_steps_left_out_or_made_up_are_named(run: Path) -> None:
    records = records_of(run)
    number = next(i for i, one in enumerate(records) if one["n_steps"] > 1)
    short = json.loads(json.dumps(records[number]))
    last = short["steps"].pop()
    short["final_obs"] = last["obs"]
    write_records(run, [*records[:number], short, *records[number + 1 :]])
    assert the_mismatch(verify_run(run))[1:] == (len(short["steps"]), "replay")
    long = json.loads(json.dumps(records[number]))
    long["steps"].append({**last, "i": last["i"] + 1})
    write_records(run, [*records[:number], long, *records[number + 1 :]])
    assert the_mismatch(verify_run(run))[1:] == (len(records[number]["steps"]), "steps")


def test_a_failure_that_was_taken_away_is_found(counting_env: str, tmp_path: Path) -> None:
    spec = AgentSpec("giving", Giving, reply_format="tags")
    evaluation.run(ad_hoc_suite(counting_env, episodes=6), spec, out=tmp_path)
    number = next(i for i, one in enumerate(records_of(tmp_path)) if one["failure"])
    alter_record(tmp_path, ["failure"], None, number)
    assert the_mismatch(verify_run(tmp_path)) == ("count-4", 2, "replay")
    failure = {"kind": "env_timeout", "origin": "env", "message": "slow", "tokens": None}
    alter_record(tmp_path, ["failure"], failure, number)
    assert the_mismatch(verify_run(tmp_path)) == ("count-4", None, "failure.origin")


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        (["config", "agent", "temperature"], "config_digest"),
        (["suite", "content", "env", 0, "max_steps"], "config.suite.digest"),
        (["suite", "version"], "suite.version"),
        (["agent"], "agent"),
        (["policy_version"], "policy_version"),
    ],
)
def test_a_header_that_contradicts_itself_is_found(run: Path, keys: Keys, field: str) -> None:
    header = json.loads((run / RUN).read_bytes())
    value: Any = header
    for key in keys[:-1]:
        value = value[key]
    value[keys[-1]] = 7 if keys[-1] in ("version", "max_steps") else "changed"
    (run / RUN).write_text(json.dumps(header))
    assert field in [one.field for one in verify_run(run).mismatches]


def test_tasks_left_out_of_a_split_are_found(counting_env: str, tmp_path: Path) -> None:
    entry = EnvEntry(ENV, (), "test", expected={"tasks": 30}, split_tasks=SplitTasks())
    opened = evaluation.open_suite(Suite("split", 1, (entry,)), {}, allow_missing=False)
    evaluation.run(opened, "random", out=tmp_path)
    assert verify_run(tmp_path).verdict == "verified"
    header = json.loads((tmp_path / RUN).read_bytes())
    gone = header["suite"]["content"]["env"][0]["tasks"].pop()
    (tmp_path / RUN).write_text(json.dumps(header))
    kept = [one for one in records_of(tmp_path) if one["key"]["task_id"] != gone]
    write_records(tmp_path, kept)
    rescore(tmp_path)
    assert the_mismatch(verify_run(tmp_path)) == ("", None, f"suite.content.{ENV}.tasks")


def test_a_damaged_record_is_a_mismatch_and_no_crash(run: Path) -> None:
    (run / EPISODES).write_bytes((run / EPISODES).read_bytes().replace(b'"steps"', b'"stops"', 1))
    verification = verify_run(run)
    assert the_mismatch(verification) == ("", None, "records")
    assert "is damaged in line 1" in verification.mismatches[0].recorded


# ------------------------------------------------------------------ other data, parts, options


def change_config(run: Path, keys: Keys, value: Any) -> None:
    header = json.loads((run / RUN).read_bytes())
    put(header["config"], keys, value)
    header["config_digest"] = json_digest(header["config"])
    (run / RUN).write_text(json.dumps(header))


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        (["environments", ENV, "tasks"], f"{ENV}.tasks"),
        (["environments", ENV, "provenance", "n"], f"{ENV}.provenance.n"),
        (["package_version"], "package_version"),
    ],
)
def test_other_data_or_versions_claim_nothing(run: Path, keys: Keys, name: str) -> None:
    change_config(run, keys, "sha256:of other data")
    alter_record(run, ["score"], other)
    verification = verify_run(run)
    assert verification.verdict == "not-reproducible" and not verification.mismatches
    assert set(verification.differences) == {name} and verification.replayed == 0


def test_a_sample_is_seeded_and_says_so(run: Path) -> None:
    verification = verify_run(run, sample=4, seed=3)
    assert verification.title == "verified-sample 4 of 12" and verification.seed == 3
    assert verify_run(run, sample=50).verdict == "verified"
    for sample, jobs in ((0, 1), (None, 0)):
        with pytest.raises(UsageError, match="give at least 1"):
            verify_run(run, sample=sample, jobs=jobs)


def test_a_live_service_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    game = gym.spec(ENV).entry_point
    monkeypatch.setattr(game, "replayable", False, raising=False)
    with pytest.raises(UsageError, match="live service"):
        verify_run(run)


def test_a_run_without_results_is_named(run: Path) -> None:
    (run / RESULTS).unlink()
    with pytest.raises(RunError, match="has no results.json; `agentgym-suite report` writes it"):
        verify_run(run)


def test_progress_counts_every_episode(run: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    verify_run(run, progress=lambda *call: told.append(call))
    assert told == [("replay", done, 12) for done in range(1, 13)]


def test_long_values_are_shown_where_they_part() -> None:
    recorded, replayed = shown_difference("a" * 200 + "b" + "c" * 200, "a" * 201 + "c" * 200)
    assert "b" in recorded and "b" not in replayed and len(recorded) < 70
    assert shown_difference(1.5, None) == ("'1.5'", "'null'")


# ------------------------------------------------------------------ the embedded worlds


@pytest.mark.parametrize("agent", ["oracle", "random"])
def test_the_smoke_suite_verifies(agent: str, tmp_path: Path) -> None:
    opened = evaluation.open_suite(load_suite("smoke"), {}, allow_missing=False)
    evaluation.run(opened, agent, out=tmp_path)
    verification = verify_run(tmp_path)
    assert verification.verdict == "verified", verification.mismatches
    assert verification.replayed == opened.suite.planned and verification.roundings == 0


def test_processes_share_the_episodes(tmp_path: Path) -> None:
    opened = evaluation.open_suite(load_suite("smoke").part(episodes=5), {}, allow_missing=False)
    evaluation.run(opened, "random", out=tmp_path)
    alone, shared = verify_run(tmp_path), verify_run(tmp_path, jobs=2)
    assert alone.verdict == shared.verdict == "verified"
    assert alone.replayed == shared.replayed == 20
    before = alter_record(tmp_path, ["steps", 0, "reward"], 0.125, 7)
    shared = verify_run(tmp_path, jobs=2)
    assert the_mismatch(shared) == (before["key"]["task_id"], 0, "reward")


# ------------------------------------------------------------------ the command


def test_the_command_says_the_verdict_and_ends_with_its_code(
    command: Command, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["verify", str(run)]) == 0
    told = capsys.readouterr().out
    assert "verified (12 of 12 episodes replayed)" in told
    assert f"the reports show this after `agentgym-suite report {run}`" in told
    assert command(["verify", str(run), "--sample", "3", "--seed", "1"]) == 0
    assert "verified-sample 3 of 12" in capsys.readouterr().out
    alter_record(run, ["steps", 1, "reward"], 0.5)
    assert command(["verify", str(run)]) == 3
    told = capsys.readouterr().out
    assert "step 2, reward: recorded '0.5', replayed '0.0'" in told
    change_config(run, ["package_version"], "9")
    assert command(["verify", str(run)]) == 2
    assert "package_version is 0" in capsys.readouterr().out
    assert command(["verify", ""]) == 2
    assert command(["verify", str(run), "--data", "Other-v0=x"]) == 2
    assert "the run has Counting-v0" in capsys.readouterr().err


def test_the_command_verifies_every_run_of_a_folder(
    command: Command, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, run.parent / "second")
    alter_record(run, ["steps", 0, "reward"], 0.5)
    assert command(["verify", str(run.parent), "--json"]) == 3
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [row["verdict"] for row in rows] == ["mismatch", "verified"]
    assert rows[0]["mismatches"][0]["field"] == "reward"


def test_an_incomplete_run_is_verified_as_far_as_it_goes(
    command: Command, counting_env: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = ad_hoc_suite(counting_env, kwargs={"breaks": ["count-2"]}, episodes=4)
    evaluation.run(opened, "oracle", out=tmp_path, options=RunOptions(max_retries=0))
    assert command(["verify", str(tmp_path)]) == 1
    assert "incomplete: 1 episodes are missing" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*is not the complete official data")
def test_official_games_verify(shared: Path, tmp_path: Path) -> None:
    games = expand_official(shared, tmp_path / "games", "--split", "valid_unseen", "--with-traj")
    suite = load_suite("alfworld-unseen-h20")
    opened = evaluation.open_suite(suite, {"alfworld": str(games)}, allow_missing=False)
    for agent, solves in (("oracle", True), ("random", False)):
        results = evaluation.run(opened, agent, out=tmp_path / agent)
        assert (results.envs["ALFWorld-v0"].successes == 134) is solves
        verification = verify_run(tmp_path / agent)
        assert verification.verdict == "verified", verification.mismatches
        assert verification.replayed == 134
    moved = games.rename(tmp_path / "moved")
    with pytest.raises(DataMissing, match="--data ALFWorld-v0=PATH says where"):
        verify_run(tmp_path / "random")
    assert verify_run(tmp_path / "random", data={"alfworld": str(moved)}).verdict == "verified"

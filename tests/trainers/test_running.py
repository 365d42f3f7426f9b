"""A whole run from the command line, and the start that a tiny policy gets."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import gymnasium as gym
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.cli import main
from agentgym_suite.engines.loading import weights_digest
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.errors import AnalyzerError, UsageError
from agentgym_suite.files import json_digest
from agentgym_suite.prompts import Message
from agentgym_suite.renderers import Renderer
from agentgym_suite.trainers.analyzer_client import ChatAnalyzer
from agentgym_suite.trainers.analyzer_prompts import AnalyzerRequest
from agentgym_suite.trainers.cloning import CloningSettings, CloningStep
from agentgym_suite.trainers.exports import save_policy
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.run_settings import RunSettings, resolve
from agentgym_suite.trainers.running import ANALYZER_KEY, make_analyzer
from agentgym_suite.trainers.starts import StartSettings, make_start
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.tiny_policy import build_tokenizer
from tests.chat_server import Answer, chat_server, completion
from tests.trainers.tiny_training import SHAPE, TASKS, counting, policy

ENV_ID = "CountingForTraining-v0"
OWN_ID = "CountingOfOnesOwn-v0"


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    gym.register(ENV_ID, entry_point="tests.counting:CountingEnv", max_episode_steps=8)
    yield
    del gym.registry[ENV_ID]


def test_a_run_from_the_command_line_leaves_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = policy()
    save_policy(tmp_path / "start", model, tokenizer, prompt="terse")
    config = tmp_path / "run.toml"
    config.write_text(
        'horizon = 8\nunseen_split = "test"\ntasks = 3\nrollouts = 2\nmost_admissible = 0\n'
        "minibatch_rows = 16\nevaluate_every = 1\ncheckpoint_every = 1\nmax_new_tokens = 6\n"
    )
    command = ["train", "capo", "--preset", "tiny", "--env", ENV_ID, "--config", str(config)]
    command += ["--policy", str(tmp_path / "start"), "--budget-steps", "60"]
    out = tmp_path / "out"
    assert main([*command, "--seed", "3", "--out", str(out)]) == 0
    record = json.loads((out / "run.json").read_text("utf-8"))
    assert record["configuration"]["run"]["seed"] == 3
    assert record["configuration"]["settings"]["tasks"] == 3
    assert record["packages"]["torch"]
    lines = read_metrics(out / METRICS_FILE)
    assert lines[-2]["env_steps"] >= 60
    assert {"evaluation/seen/temperature_0", "evaluation/unseen/temperature_1"} <= set(lines[-1])
    assert Renderer.read(out / "policy").prompt == "terse"
    unfit, cut, first, *_, last, play = capsys.readouterr().err.splitlines()
    # random weights write no action and never stop
    assert unfit.startswith("iteration 1: no reply was an action") and "were cut at" in cut
    assert first.startswith("iteration 1  steps ") and "greedy" in first
    assert last.startswith("at the end  T=1 ") and " unseen " in last
    assert play.startswith("play it: agentgym-suite evaluate ")
    words = [*shlex.split(play)[3:], "--episodes", "2", "--out", str(tmp_path / "evaluated")]
    assert main(words) == 0
    assert {"max_episode_steps=8", "test", str(out / "policy")} <= set(words)
    assert words[words.index("--max-tokens") + 1] == "6"
    capsys.readouterr()
    # the same command has nothing left to do, another seed is another configuration
    assert main([*command, "--seed", "3", "--out", str(out)]) == 0
    assert len(read_metrics(out / METRICS_FILE)) == len(lines)
    assert main([*command, "--seed", "4", "--out", str(out)]) == 2
    assert "another configuration" in capsys.readouterr().err


def small_run(folder: Path, algorithm: str, *more: str) -> list[str]:
    """A command of one iteration that starts from a policy of random weights."""
    if not (folder / "start").is_dir():
        model, tokenizer = policy()
        save_policy(folder / "start", model, tokenizer, prompt="terse")
    given = ["unseen_split=test", "tasks=2", "rollouts=2", "max_new_tokens=6", "iterations=1"]
    given += ["horizon=4", "most_admissible=0", "evaluate_tasks=2", *more]
    command = ["train", algorithm, "--preset", "tiny", "--env", ENV_ID]
    command += ["--policy", str(folder / "start"), "--out", str(folder / algorithm)]
    return [*command, *(word for one in given for word in ("--set", one))]


def test_chosen_tasks_of_ones_own_environment_are_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = tmp_path / "tasks.txt"
    chosen.write_text("# the first ones\n\ncount-3\n count-1\ncount-3\n")
    named = f"tests.trainers.small_registration:{OWN_ID}"
    command = small_run(tmp_path, "grpo", f"task_list={chosen}")
    command[command.index(ENV_ID)] = named
    assert main(command) == 0
    record = json.loads((tmp_path / "grpo" / "run.json").read_text("utf-8"))
    assert record["configuration"]["run"]["env"] == named
    assert record["tasks"] == {"count": 2, "seen": json_digest(["count-3", "count-1"])}
    outcomes = json.loads((tmp_path / "grpo" / "evaluation.json").read_text("utf-8"))["outcomes"]
    assert set(outcomes["seen/temperature_0"]) == {"count-3", "count-1"}
    capsys.readouterr()
    for text, words in (
        ("count-99", "task 'count-99' does not exist"),
        ("# none", "has no task id"),
        (None, "cannot be read"),
    ):
        chosen.unlink()
        if text is not None:
            chosen.write_text(text)
        assert main([*command, "--out", str(tmp_path / "other")]) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1, said


def test_an_algorithm_of_ones_own_is_trained_by(tmp_path: Path) -> None:
    command = small_run(tmp_path, "own")
    command[command.index("own")] = "tests.trainers.own_algorithm:Halved"
    assert main(command) == 0
    record = json.loads((tmp_path / "own" / "run.json").read_text("utf-8"))
    assert record["configuration"]["algorithm"] == "tests.trainers.own_algorithm:Halved"
    assert read_metrics(tmp_path / "own" / METRICS_FILE)[0]["optimizer_steps"] >= 1


def test_another_model_teaches_and_is_recorded(tmp_path: Path) -> None:
    other, tokenizer = policy(seed=5)
    save_policy(tmp_path / "teacher", other, tokenizer, prompt="terse")
    named = f"teacher_model={tmp_path / 'teacher'}"
    assert main([*small_run(tmp_path, "opd", named, "objective=full")]) == 0
    record = json.loads((tmp_path / "opd" / "run.json").read_text("utf-8"))
    assert record["teacher"]["weights"] == weights_digest(other)
    assert record["configuration"]["settings"]["teacher_model"].endswith("teacher")
    first, last = read_metrics(tmp_path / "opd" / METRICS_FILE)
    assert first["teacher/coverage"] == 1.0 and first["loss/distillation"] > 0
    assert last["iteration"] == 1


def test_a_teacher_that_cannot_teach_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(small_run(tmp_path, "opd")) == 2
    assert "--set teacher_model=DIR" in capsys.readouterr().err
    other, _ = policy()
    save_policy(tmp_path / "teacher", other, build_tokenizer(["other words"]), prompt="terse")
    assert main(small_run(tmp_path, "opd", f"teacher_model={tmp_path / 'teacher'}")) == 2
    told = capsys.readouterr().err
    assert "has another vocabulary than the policy" in told and told.count("\n") == 1


def test_why_there_was_no_hint_is_logged(tmp_path: Path) -> None:
    assert main(small_run(tmp_path, "taspo", "pi_tokens=64")) == 0
    line = read_metrics(tmp_path / "taspo" / METRICS_FILE)[0]
    reasons = [value for name, value in line.items() if name.startswith("hints/no_hint/")]
    assert sum(reasons) + 4 * line["hints/coverage"] == 4


def test_an_analyzer_behind_an_endpoint_is_asked_with_the_key_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ANALYZER_KEY, "open-sesame")
    run = resolve("taspo", "paper", None, {}).run
    assert isinstance(make_analyzer(run, tmp_path), RuleAnalyzer)
    with chat_server([Answer(completion('{"evidence": []}'))]) as server:
        given = {"analyzer_url": server.url, "analyzer_model": "judge", "analyzer_max_tokens": 9}
        run = resolve("taspo", "paper", None, given).run
        with closing(make_analyzer(run, tmp_path)) as analyzer:
            analyzer.reply(AnalyzerRequest("extraction", "say", {}, ()))
    assert [(one["model"], one["max_tokens"]) for one in server.requests] == [("judge", 9)]
    assert server.keys == ["Bearer open-sesame"]


def test_how_often_and_how_long_an_analyzer_is_asked_are_settings(tmp_path: Path) -> None:
    request = AnalyzerRequest("extraction", "say", {}, ())
    for answer, category, wait_s in (
        (Answer(status=500), "http_status", 60.0),
        (Answer(completion("{}"), slow_s=1.0), "timeout", 0.2),
    ):
        with chat_server([answer]) as server:
            given = {"analyzer_url": server.url, "analyzer_model": "judge"}
            given |= {"analyzer_retries": 0, "analyzer_timeout_s": wait_s}
            run = resolve("taspo", "paper", None, given).run
            with closing(make_analyzer(run, tmp_path)) as analyzer:
                with pytest.raises(AnalyzerError) as failed:
                    analyzer.reply(request)
                assert failed.value.category == category
        assert len(server.requests) <= 1
    defaults = inspect.signature(ChatAnalyzer).parameters
    for name in ("max_tokens", "timeout_s", "retries"):
        assert getattr(RunSettings, f"analyzer_{name}") == defaults[name].default


def test_arguments_of_the_environment_reach_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(small_run(tmp_path, "grpo", 'kwargs={"size": 3}')) == 2
    assert "'size'" in capsys.readouterr().err


def test_a_start_knows_the_words_of_its_tasks_and_is_loaded_as_any_policy(tmp_path: Path) -> None:
    seen: list[CloningStep] = []
    settings = StartSettings(
        env_id=ENV_ID,
        horizon=8,
        max_new_tokens=6,
        rounds=2,
        shape=SHAPE,
        cloning=CloningSettings(steps=12, batch=8, first_look=6, look_every=6, target=1.0),
    )
    taught: list[tuple[int, int, int]] = []
    won = make_start(
        Played(counting, TASKS[:2], TASKS[2:]),
        tmp_path,
        settings,
        seen.append,
        lessons=[Played(counting, TASKS[1:3])],
        on_lesson=lambda *told: taught.append(told),
    )
    assert [told[:2] for told in taught] == [(1, 2), (2, 2)] and taught[0][2] < taught[1][2]
    assert [step.step for step in seen] == list(range(1, 13))
    assert won == seen[-1].success
    assert Renderer.read(tmp_path).prompt == "terse"
    engine = TransformersEngine.load(tmp_path, device="cpu")
    unknown = engine._tokenizer._tokenizer.unk_token_id
    for target in range(11, 15):
        shown = Message("user", f"now count {target} did add[3] | add[2]")
        assert unknown not in engine.tokenizer.chat_ids([shown])


@pytest.mark.parametrize("prompt", ["capo", "verl_agent", "react", "search_r1"])
def test_a_start_is_cloned_for_prompts_that_ask_for_a_bare_command(prompt: str) -> None:
    assert StartSettings(prompt="compact").prompt == "compact"
    with pytest.raises(UsageError, match=f"prompt '{prompt}' asks for more than the bare command"):
        StartSettings(prompt=prompt)

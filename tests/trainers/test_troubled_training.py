"""Trainings in trouble: what is wrong is said, what was learned is kept."""

from __future__ import annotations

import errno
import io
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
import torch.distributed.checkpoint as dcp
from rich.console import Console

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.errors import ContextTooLong, DiskFull, EnvError, TrainingError, UsageError
from agentgym_suite.trainers.analyzer import AnalyzerReply
from agentgym_suite.trainers.analyzer_prompts import AnalyzerRequest
from agentgym_suite.trainers.checkpoints import checkpoints
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.iteration_notes import iteration_notes
from agentgym_suite.trainers.live_view import TrainingView
from agentgym_suite.trainers.lora import save_adapter
from agentgym_suite.trainers.metrics import METRICS_FILE, MetricsLog, read_metrics
from agentgym_suite.trainers.privileged import plain_encode
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.trainer import Trainer
from tests.trainers.tiny_training import (
    TASKS,
    configuration,
    counting,
    policy,
    stopped,
    trainer,
)

LONG = " ".join(["and so on"] * 200)


class Talkative(gym.ObservationWrapper[str, str, str]):
    """Says more than the policy's window holds, of some tasks."""

    def __init__(self, env: gym.Env[str, str], chosen: tuple[str, ...]) -> None:
        super().__init__(env)
        self._chosen = chosen
        self._task = ""

    def reset(self, **options: Any) -> Any:
        self._task = (options.get("options") or {}).get("task_id", "")
        return super().reset(**options)

    def observation(self, observation: str) -> str:
        return f"{observation} {LONG}" if self._task in self._chosen else observation


def trainer_of(make_env: Any, out: Path, algorithm: str = "grpo", **given: Any) -> Trainer:
    model, tokenizer = policy()
    return Trainer(
        configuration(algorithm, **given), model, tokenizer, Played(make_env, TASKS), out
    )


def weights(model: Any) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_long_observation_gives_way_to_the_window(tmp_path: Path) -> None:
    training = trainer_of(
        lambda: Talkative(counting(), TASKS), tmp_path, prompt="compact", budget_steps=1
    )
    training.run()
    line = read_metrics(tmp_path / METRICS_FILE)[0]
    assert line["rollout/failures"] == 0
    assert 60 < line["rollout/prompt_tokens"] <= 128 - 6  # the window less a reply


def test_a_prompt_that_cannot_be_shorter_ends_its_own_episodes_alone(tmp_path: Path) -> None:
    training = trainer_of(
        lambda: Talkative(counting(), TASKS[:1]), tmp_path, budget_steps=1, tasks=4, attempts=1
    )
    # unbounded, as a template's own words would be
    object.__setattr__(training.rollouts.prompt, "template", "compact")
    object.__setattr__(training.rollouts.prompt, "token_budget", None)
    training.run()
    line = read_metrics(tmp_path / METRICS_FILE)[0]
    assert line["rollout/failures"] == line["rollout/dropped"] == 2
    assert line["episodes"] == 6


def test_a_prompt_that_never_fits_says_what_to_lower(tmp_path: Path) -> None:
    training = trainer_of(counting, tmp_path, prompt_tokens=2)
    with pytest.raises(EnvError, match=f"{ContextTooLong.__name__}.*exceeds its budget of 2"):
        training.run()


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_names_its_task(reward: float, tmp_path: Path) -> None:
    def broken() -> gym.Env[str, str]:
        return gym.wrappers.TransformReward(counting(), lambda _: reward)

    training = trainer_of(broken, tmp_path)
    before = weights(training.policy)
    with pytest.raises(EnvError, match=rf"task count-1\d has a reward of {reward} at step 0"):
        training.run()
    assert same(before, weights(training.policy))


class Nonsense:
    """Answers everything with words that are no JSON."""

    label = "nonsense"

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        return AnalyzerReply("I'd rather talk about {the weather")

    def close(self) -> None:
        """Nothing is held."""


def test_an_analyzer_that_answers_nonsense_leaves_the_outcome_to_decide(tmp_path: Path) -> None:
    def run(name: str, algorithm: str) -> Trainer:
        model, tokenizer = policy()
        told = Privileged(
            Hinting(Nonsense(), audit=tmp_path / name / "audit"),
            TransformersChatTokenizer(tokenizer),
            plain_encode(tokenizer),
            "raw",
            16,
        )
        settings = configuration(algorithm, budget_steps=1, reward="capo", tasks=4)
        played = Played(counting, TASKS)
        training = Trainer(settings, model, tokenizer, played, tmp_path / name, privileged=told)
        training.run()
        return training

    start = weights(policy()[0])
    training = run("taspo", "taspo")
    line = read_metrics(tmp_path / "taspo" / METRICS_FILE)[0]
    assert line["credit/coverage"] == 0
    notes = iteration_notes(line, training.configuration.run)
    assert "no trajectory had privileged information" in notes["untold"]
    assert line["grad/policy"] > 0
    assert not same(start, weights(training.policy))
    run("opsd", "opsd")
    line = read_metrics(tmp_path / "opsd" / METRICS_FILE)[0]
    assert line["teacher/coverage"] == 0
    assert "untold" in iteration_notes(line, training.configuration.run)


def test_an_analyzer_that_fails_is_told() -> None:
    run = configuration("taspo").run
    values = {"hints/coverage": 0.25, "hints/error/connection": 2.0, "hints/error/timeout": 1.0}
    notes = iteration_notes(values, run)
    assert list(notes) == ["analyzer"]
    assert "failed for 3 tasks (2 by connection, 1 by timeout)" in notes["analyzer"]
    assert list(iteration_notes({"hints/coverage": 0.0}, run)) == ["untold"]
    assert iteration_notes({"hints/coverage": 0.25}, run) == {}


def test_a_user_is_told_once_that_nothing_is_learned(tmp_path: Path) -> None:
    training = trainer_of(counting, tmp_path, budget_steps=1, max_new_tokens=2)
    training.run()
    line = read_metrics(tmp_path / METRICS_FILE)[0]
    assert line["rollout/invalid"] == 1 and line["rollout/cut"] > 0.5
    assert line["advantage/std"] == 0
    target = Console(file=(tmp_path / "told").open("w"), width=500)
    view = TrainingView(training.configuration.run, "a run", target)
    for iteration in (1, 2, 3):
        view.iterated(iteration, line)
    target.file.close()
    said = (tmp_path / "told").read_text("utf-8")
    for words in ("no reply was an action", "cut at max_new_tokens = 2", "every advantage is 0"):
        assert said.count(words) == 1


def test_a_saturated_read_out_is_told_when_it_lasts() -> None:
    told: list[str] = []

    class Heard(Console):
        def print(self, *words: Any, **style: Any) -> None:
            told.append(str(words[0]))

    view = TrainingView(configuration("sapo_ar").run, "a run", Heard())
    for iteration, share in enumerate((0.9, 0.9, 0.1, 0.9, 0.9, 0.9, 0.9)):
        view.iterated(iteration, {"sat_v": share})
    assert [words[:11] for words in told if "saturated" in words] == ["iteration 5"]


def test_a_full_disk_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trainer("capo", tmp_path / "whole", budget_steps=100)
    whole.run()
    out = tmp_path / "out"
    trainer("capo", out, budget_steps=40).run()
    kept = checkpoints(out / "checkpoints")

    save = dcp.save

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def saved_on_a_full_disk(*states: Any, **options: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(os, "fsync", full)
            save(*states, **options)

    with monkeypatch.context() as patch:
        patch.setattr(dcp, "save", saved_on_a_full_disk)
        with pytest.raises(DiskFull, match="no space left while writing .*checkpoints"):
            trainer("capo", out, budget_steps=100).run()
    assert checkpoints(out / "checkpoints") == kept
    assert sorted((out / "checkpoints").iterdir()) == kept
    resumed = trainer("capo", out, budget_steps=100)
    resumed.run()
    assert same(weights(whole.policy), weights(resumed.policy))


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class OutOfRoom(Exception):
    """As safetensors and tokenizers say it: with the system's words, without its number."""


def full_in_rust(*_: object, **__: object) -> None:
    raise OutOfRoom(f"I/O error: {os.strerror(errno.ENOSPC)} (os error {errno.ENOSPC})")


@pytest.mark.parametrize(
    ("broken", "failing", "place"),
    [
        ("transformers.modeling_utils.safe_save_file", full_in_rust, "policy.partial"),
        ("safetensors.torch.save_file", full_in_rust, "adapter.partial"),
        ("os.fsync", full, METRICS_FILE),
    ],
    ids=["export", "adapter", "metrics"],
)
def test_a_full_disk_names_what_was_written(
    broken: str,
    failing: Callable[..., None],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training = trainer("grpo", tmp_path, budget_steps=1, checkpoint_every=9, lora_rank=2)
    written = {
        "policy.partial": lambda: training.export(tmp_path / "policy"),
        "adapter.partial": lambda: save_adapter(
            training.policy, tmp_path / "adapter", base="nowhere"
        ),
        METRICS_FILE: lambda: MetricsLog(tmp_path).keep(1),
    }
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(broken, failing)
        with pytest.raises(DiskFull, match=f"no space left while writing .*{place}"):
            written[place]()
    assert sorted(tmp_path.iterdir()) == before
    written[place]()


@pytest.mark.parametrize(
    "line", [b"\0\0\0\n", b"{\n", b"[]\n", b"{}\n", b'{"iteration": "x"}\n', b"\xff\n"]
)
def test_a_line_of_metrics_that_is_damaged_is_named(line: bytes, tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.write(1, {"loss": 1.0})
    kept = (tmp_path / METRICS_FILE).read_bytes()
    (tmp_path / METRICS_FILE).write_bytes(kept + line + kept)
    with pytest.raises(TrainingError, match=f"line 2 of .*{METRICS_FILE} is damaged .*remove it"):
        log.keep(1)
    assert (tmp_path / METRICS_FILE).read_bytes() == kept + line + kept


def test_a_line_that_did_not_fit_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MetricsLog(tmp_path)
    log.write(1, {"loss": 1.0})

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            os.write(half, text[:9].encode())
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    half = os.open(tmp_path / METRICS_FILE, os.O_WRONLY | os.O_APPEND)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_, **__: Full())
        with pytest.raises(DiskFull, match=f"while writing .*{METRICS_FILE}"):
            log.write(2, {"loss": 2.0})
    os.close(half)
    resumed = MetricsLog(tmp_path)
    resumed.keep(1)
    resumed.write(2, {"loss": 3.0})
    assert [line["loss"] for line in read_metrics(tmp_path / METRICS_FILE)] == [1.0, 3.0]


@pytest.mark.parametrize("name", ["tensors/__0_0.distcp", "tensors/.metadata"])
def test_a_changed_bit_of_a_checkpoint_is_found(name: str, tmp_path: Path) -> None:
    trainer("capo", tmp_path, budget_steps=1).run()
    path = checkpoints(tmp_path / "checkpoints")[-1] / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    training = trainer("capo", tmp_path, budget_steps=1)
    before = weights(training.policy)
    with pytest.raises(TrainingError, match=f"is damaged .{name} has changed.; remove it"):
        training.run()
    assert same(before, weights(training.policy))


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    trainer("capo", tmp_path, budget_steps=1).run()
    training = trainer("capo", tmp_path, budget_steps=1)
    training.policy.resize_token_embeddings(99, mean_resizing=False)
    wider = Trainer(
        training.configuration,
        training.policy,
        training.tokenizer,
        Played(counting, TASKS),
        tmp_path,
    )
    before = weights(wider.policy)
    with pytest.raises(TrainingError, match="is of other networks .*train the policy that wrote"):
        wider.run()
    assert same(before, weights(wider.policy))


@pytest.mark.skipif(os.name != "posix", reason="SIGINT is POSIX")
def test_ctrl_c_ends_at_once_and_the_run_goes_on(tmp_path: Path) -> None:
    budget = 160
    whole = trainer("capo", tmp_path / "whole", budget_steps=budget)
    whole.run()
    out = tmp_path / "stopped"
    told = stopped(signal.SIGINT, "capo", out, budget_steps=budget)
    # an event loop that was not made yet may complain behind it, of its own end
    assert "KeyboardInterrupt" in told.splitlines()
    resumed = trainer("capo", out, budget_steps=budget)
    resumed.run()
    assert same(weights(whole.policy), weights(resumed.policy))


def test_a_policy_without_a_critic_of_its_kind_is_told_of_others(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    _, tokenizer = policy()
    config = GPT2Config(vocab_size=99, n_embd=8, n_layer=1, n_head=1, n_positions=64)
    model = GPT2LMHeadModel(config)
    played = Played(counting, TASKS)
    with pytest.raises(UsageError, match="no critic can be made of a GPT2LMHeadModel"):
        Trainer(configuration("ppo"), model, tokenizer, played, tmp_path)

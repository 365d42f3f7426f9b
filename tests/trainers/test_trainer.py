"""The loop as a whole: every phase, every kind of algorithm, and going on after a kill."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.errors import EngineError, TrainingError, UsageError
from agentgym_suite.trainers.checkpoints import checkpoints
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.trainer import Trainer
from tests.trainers.tiny_training import TASKS, configuration, counting, policy, stopped, trainer


def weights(model: Any) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("algorithm", ["capo", "sapo_ar", "ppo", "grpo", "st_ppo", "reinforce_pp"])
def test_an_iteration_changes_the_policy_and_is_logged(algorithm: str, tmp_path: Path) -> None:
    training = trainer(algorithm, tmp_path, budget_steps=1)
    before = weights(training.policy)
    progress = training.run()
    assert progress.iteration == 1
    assert not same(before, weights(training.policy))
    first, last = read_metrics(tmp_path / METRICS_FILE)
    assert first["env_steps"] == progress.env_steps == first["episodes"] * first["rollout/steps"]
    assert first["mismatch/max"] < 1e-4
    assert first["optimizer_steps"] >= 1
    assert 0 <= last["evaluation/seen/temperature_1"] <= 1
    assert "evaluation/seen/temperature_0" in last


def test_the_export_is_loaded_and_decodes_as_the_trained_policy(tmp_path: Path) -> None:
    training = trainer("sapo_ar", tmp_path, budget_steps=1)
    training.run()
    engine = TransformersEngine.load(tmp_path / "policy", device="cpu")
    assert same(weights(training.policy), weights(engine._open().module))
    rows = training.policy.get_output_embeddings().weight.shape[0]
    decoding = engine._open().module.generation_config
    assert decoding.suppress_tokens == [rows - 2, rows - 1] == list(training.forward.banned_ids)
    assert (decoding.temperature, decoding.top_k, decoding.top_p) == (1.0, 0, 1.0)


def test_an_export_ends_where_the_rollouts_did_and_has_their_temperature(tmp_path: Path) -> None:
    model, tokenizer = policy()
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, 5]
    settings = configuration("grpo", temperature=0.7)
    training = Trainer(settings, model, tokenizer, Played(counting, TASKS), tmp_path)
    stops = training.engine.tokenizer.stop_ids
    assert set(stops) == {tokenizer.eos_token_id, 5}
    training.export(tmp_path / "exported")
    engine = TransformersEngine.load(tmp_path / "exported", device="cpu")
    assert engine.tokenizer.stop_ids == stops
    assert engine._open().module.generation_config.temperature == 0.7


def test_who_is_closed_trains_no_more_and_has_no_engine(tmp_path: Path) -> None:
    training = trainer("grpo", tmp_path, budget_steps=1)
    training.close()
    with pytest.raises(EngineError, match="the engine is closed"):
        training.run()


def test_the_same_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    first, second = (trainer("capo", tmp_path / name) for name in "ab")
    assert first.run().env_steps == second.run().env_steps
    assert same(weights(first.policy), weights(second.policy))


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    first, second = (trainer("capo", tmp_path / str(seed), run_seed=seed) for seed in (41, 99))
    first.run()
    second.run()
    assert not same(weights(first.policy), weights(second.policy))


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    whole = trainer("capo", tmp_path / "whole", budget_steps=150)
    whole.run()
    trainer("capo", tmp_path / "parts", budget_steps=40).run()
    resumed = trainer("capo", tmp_path / "parts", budget_steps=150)
    resumed.run()
    assert same(weights(whole.policy), weights(resumed.policy))
    assert same(weights(whole.learners["critic"].model), weights(resumed.learners["critic"].model))


def test_a_finished_run_trains_no_iteration_again(tmp_path: Path) -> None:
    whole = trainer("capo", tmp_path / "whole", budget_steps=150)
    whole.run()
    given = {"budget_steps": 40, "checkpoint_every": 1000}
    first = trainer("capo", tmp_path / "parts", **given)
    done = first.run().iteration
    assert [place.name for place in checkpoints(first.out / "checkpoints")] == [f"{done:06d}"]
    told: list[int] = []
    hear = {"on_iteration": lambda iteration, values: told.append(iteration)}
    assert trainer("capo", tmp_path / "parts", more=hear, **given).run() == first.progress
    assert told == [done]  # its evaluation alone
    resumed = trainer("capo", tmp_path / "parts", budget_steps=150)
    resumed.run()
    assert same(weights(whole.policy), weights(resumed.policy))


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_kill_nine_loses_nothing_but_the_iteration_it_hit(tmp_path: Path) -> None:
    budget = 240
    whole = trainer("capo", tmp_path / "whole", budget_steps=budget)
    whole.run()
    out = tmp_path / "killed"
    stopped(signal.SIGKILL, "capo", out, budget_steps=budget)
    resumed = trainer("capo", out, budget_steps=budget)
    progress = resumed.run()
    assert same(weights(whole.policy), weights(resumed.policy))
    lines = read_metrics(out / METRICS_FILE)
    assert [line["iteration"] for line in lines] == [*range(1, progress.iteration + 1)] + [
        progress.iteration
    ]
    kept = [line["rollout/success"] for line in lines[:-1]]
    assert kept == [
        line["rollout/success"] for line in read_metrics(tmp_path / "whole" / METRICS_FILE)[:-1]
    ]


def test_another_configuration_is_refused_unless_forced(tmp_path: Path) -> None:
    trainer("capo", tmp_path, budget_steps=1).run()
    other = trainer("capo", tmp_path, budget_steps=1, gamma=0.5)
    with pytest.raises(UsageError, match="another configuration.*--force"):
        other.run()
    assert other.run(force=True).iteration == 1


def test_a_loss_that_is_no_number_leaves_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = trainer("capo", tmp_path, budget_steps=1)
    before = weights(training.policy)
    told = training.algorithm.loss

    class Broken:
        needs, config, name = (
            training.algorithm.needs,
            training.algorithm.config,
            training.algorithm.name,
        )

        def __getattr__(self, name: str) -> Any:
            return getattr(_real, name)

        def loss(self, micro: Any, outputs: Any, sums: Any) -> Any:
            from dataclasses import replace

            found = told(micro, outputs, sums)
            return replace(found, total=found.total * float("nan"))

    _real = training.algorithm
    training.algorithm = Broken()
    with pytest.raises(TrainingError, match="trajectory '1.0/0'|trajectory '1.1/|is nan"):
        training.run()
    assert same(before, weights(training.policy))


def test_a_policy_is_the_same_for_a_seed() -> None:
    assert same(weights(policy(3)[0]), weights(policy(3)[0]))
    assert not same(weights(policy(3)[0]), weights(policy(4)[0]))

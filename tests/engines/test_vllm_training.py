"""vLLM as the engine of a training: every push of weights arrives, and its rows are the policy's.

``make test-vllm`` runs these in an environment of their own; elsewhere they skip.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed: make test-vllm", allow_module_level=True)

import torch

from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.errors import EngineError
from agentgym_suite.trainers.lora import LoraSettings, adapter_off, add_adapter
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.rollout_engine import make_rollout_engine
from agentgym_suite.trainers.run_settings import RunSettings
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.tiny_policy import build_policy, build_tokenizer
from agentgym_suite.trainers.trainer import Trainer
from agentgym_suite.trainers.weight_sync import TOLERANCES, Snapshot, WeightSync
from tests.engines.pushed_weights import SHAPE, furthest
from tests.trainers.tiny_training import TASKS, configuration, counting, words

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, and those of what it imports

OPTIONS = {
    "enforce_eager": True,
    "max_model_len": 128,
    "max_num_seqs": 16,
    "kv_cache_memory_bytes": 64 << 20,
}
SYNCS = 10


@pytest.fixture(scope="module")
def pushed(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Any, Any, WeightSync, Sampling]]:
    """A policy, the engine that has it, and the way between them."""
    tokenizer = build_tokenizer(words())
    model = build_policy(tokenizer, shape=SHAPE, seed=0)
    banned = tuple(model.generation_config.suppress_tokens or ())
    run = RunSettings(engine="vllm", engine_options=OPTIONS)
    folder = tmp_path_factory.mktemp("pushed")
    engine = make_rollout_engine(run, model, tokenizer, banned, folder)
    sampling = Sampling(temperature=0.8, max_new_tokens=12, banned_ids=banned)
    yield model, engine, WeightSync(engine, sampling, banned, merged=True), sampling
    engine.close()


def test_the_newest_of_many_weights_samples_each_time(
    pushed: tuple[Any, Any, WeightSync, Sampling],
) -> None:
    model, engine, sync, sampling = pushed
    chance = torch.Generator().manual_seed(7)
    dice = Random(3)
    rows = model.config.vocab_size
    known = sorted(set(range(rows)) - set(sampling.banned_ids))
    prompts = [[dice.choice(known) for _ in range(dice.randint(1, 40))] for _ in range(6)]
    before: list[tuple[float, ...]] = []
    for number in range(SYNCS):
        with torch.no_grad():
            for weight in model.parameters():
                noise = torch.randn(weight.shape, generator=chance)
                weight.add_(noise.to(weight.dtype), alpha=0.02)
        sync.load(sync.snapshot(model, f"weights {number}"))
        replies = engine.generate(prompts, sampling, range(6))
        assert {reply.policy_version for reply in replies} == {f"weights {number}"}
        assert furthest(model, prompts, replies, sampling) < TOLERANCES[model.dtype]
        assert [reply.logprobs for reply in replies] != before
        before = [reply.logprobs for reply in replies]


def test_a_push_that_is_lost_is_noticed(pushed: tuple[Any, Any, WeightSync, Sampling]) -> None:
    model, _, sync, _ = pushed
    old = sync.snapshot(model, "old")
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    new = sync.snapshot(model, "new")
    with pytest.raises(EngineError, match="log-probabilities lie .* after new was loaded"):
        sync.load(Snapshot("new", old.weights, new.expected))
    sync.load(new)


def test_an_adapter_is_pushed_merged_and_samples_as_itself(tmp_path: Path) -> None:
    """vLLM knows no adapter: what it gets computes what base and adapter compute together."""
    pytest.importorskip("peft")
    tokenizer = build_tokenizer(words())
    model = build_policy(tokenizer, shape=SHAPE, seed=0)
    base = {name: weight.clone() for name, weight in model.state_dict().items()}
    add_adapter(model, LoraSettings(rank=4, alpha=8.0))
    banned = tuple(model.generation_config.suppress_tokens or ())
    run = RunSettings(engine="vllm", engine_options=OPTIONS)
    engine = make_rollout_engine(run, model, tokenizer, banned, tmp_path)
    sampling = Sampling(max_new_tokens=12, banned_ids=banned)
    sync = WeightSync(engine, sampling, banned, merged=True)
    dice, chance = Random(3), torch.Generator().manual_seed(7)
    known = sorted(set(range(model.config.vocab_size)) - set(banned))
    prompts = [[dice.choice(known) for _ in range(dice.randint(1, 40))] for _ in range(6)]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.add_(torch.randn(weight.shape, generator=chance), alpha=0.1)
    sync.load(sync.snapshot(model, "adapter"))
    replies = engine.generate(prompts, sampling, range(6))
    assert furthest(model, prompts, replies, sampling) < 1e-5
    with adapter_off(model):
        assert furthest(model, prompts, replies, sampling) > 0.1
    kept = model.state_dict()
    assert all(
        torch.equal(weight, kept.get(name, kept.get(name.replace(".weight", ".base_layer.weight"))))
        for name, weight in base.items()
    )
    engine.close()


def test_a_training_samples_with_vllm(tmp_path: Path) -> None:
    tokenizer = build_tokenizer(words())
    training = Trainer(
        configuration(
            "grpo", engine="vllm", engine_options=OPTIONS, iterations=3, budget_steps=10**6
        ),
        build_policy(tokenizer, shape=SHAPE, seed=0),
        tokenizer,
        Played(counting, TASKS),
        tmp_path,
    )
    try:
        assert training.run().iteration == 3
    finally:
        training.engine.close()
    lines = read_metrics(tmp_path / METRICS_FILE)[:-1]
    assert all(line["mismatch/max"] < 1e-4 for line in lines)


def test_ten_pushes_of_a_training_in_bfloat16_stay_within_its_bound(tmp_path: Path) -> None:
    """What an optimiser does to weights; random noise of .02 at every push takes it beyond."""
    tokenizer = build_tokenizer(words())
    training = Trainer(
        configuration(
            "grpo",
            engine="vllm",
            engine_options={"dtype": "bfloat16", **OPTIONS},
            iterations=SYNCS,
            budget_steps=10**6,
            rollouts=8,
            learning_rate=1e-4,
            sync_tolerance=1.0,
        ),
        build_policy(tokenizer, shape=SHAPE, seed=0).to(torch.bfloat16),
        tokenizer,
        Played(counting, TASKS),
        tmp_path,
    )
    try:
        assert training.run().iteration == SYNCS
    finally:
        training.engine.close()
    lines = read_metrics(tmp_path / METRICS_FILE)[:-1]
    apart = [line["mismatch/max"] for line in lines]
    assert min(apart) > 1e-3 and max(apart) < TOLERANCES[torch.bfloat16]

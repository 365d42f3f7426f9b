"""Privileged information in an iteration: told to the right rows, scored by the frozen policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import Episode
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.collector import (
    Collector,
    RolloutSettings,
    plan_groups,
)
from agentgym_suite.trainers.hinting import Hinting, Hints, trajectory_name
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.offline_analyzers import NullAnalyzer
from agentgym_suite.trainers.passes import scored
from agentgym_suite.trainers.privileged_rows import Privileged
from tests.trainers.tiny_training import PLAY, TASKS, counting, policy, trainer


class Told(Hinting):
    """Tells the first trajectory of every group and no other."""

    def hints(self, episodes: Any, iteration: int) -> Hints:
        texts = {trajectory_name(e): "add[3] of 11" if e.trial == 0 else "" for e in episodes}
        return Hints(texts, (), {})


def privileged(tokenizer: Any) -> Privileged:
    def encode(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    return Privileged(Told(NullAnalyzer()), TransformersChatTokenizer(tokenizer), encode, "raw", 64)


def collected(model: Any, tokenizer: Any) -> Any:
    engine = TransformersEngine(model, tokenizer, policy_version="1")
    sampling = Sampling(max_new_tokens=5, stop_ids=engine.tokenizer.stop_ids)
    settings = RolloutSettings(env_id="Counting-v0", play=PLAY, sampling=sampling)
    collector = Collector(counting, engine, engine.tokenizer, settings)
    return collector.collect(plan_groups(TASKS[:2], 2, seed=3, iteration=1))


def test_only_told_trajectories_are_scored_and_by_the_policy_itself() -> None:
    model, tokenizer = policy()
    source = privileged(tokenizer)
    collection = collected(model, tokenizer)
    rows = source.told(collection, 1)
    assert {bool(row.pi_text) for row in rows if row.trajectory_id.endswith("/0")} == {True}
    assert {bool(row.pi_text) for row in rows if row.trajectory_id.endswith("/1")} == {False}
    end = tokenizer.eos_token_id
    for row in rows:  # a bare command is an action but for its end
        assert row.action_mask == tuple(int(token != end) for token in row.response_ids)
    batch = collate(rows)
    found = source.scored(batch, model, Forward(), 200).teacher_logprobs
    plain = scored(batch, model, Forward(), 200).logprobs
    assert found is not None
    for number, row in enumerate(rows):
        line = found[number, : len(row.response_ids)]
        if not row.pi_text:
            assert line.isnan().all()
        else:
            assert torch.isfinite(line).all()
            assert not torch.allclose(line, plain[number, : len(line)], atol=1e-6)


def test_taspo_learns_from_it(tmp_path: Path) -> None:
    _, tokenizer = policy()
    training = trainer(
        "taspo", tmp_path, more={"privileged": privileged(tokenizer)}, budget_steps=1
    )
    training.run()
    first = read_metrics(tmp_path / METRICS_FILE)[0]
    assert first["credit/coverage"] == 0.5
    assert first["credit/weight_mean"] == pytest.approx(1.0)


def test_the_trajectory_of_a_row_is_named_as_its_hint() -> None:
    model, tokenizer = policy()
    collection = collected(model, tokenizer)
    episodes: tuple[Episode, ...] = collection.episodes
    names = {trajectory_name(episode) for episode in episodes}
    assert names == {row.trajectory_id for row in collection.rows}

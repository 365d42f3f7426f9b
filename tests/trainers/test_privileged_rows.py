"""Privileged information in an iteration: told to the right rows, scored by the frozen policy."""

from __future__ import annotations

from dataclasses import replace
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
from agentgym_suite.trainers.analyzer import AnalyzerSettings
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.collector import (
    Collector,
    RolloutSettings,
    plan_groups,
)
from agentgym_suite.trainers.hinting import Hinting, Hints
from agentgym_suite.trainers.live_view import live_view
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.offline_analyzers import NullAnalyzer
from agentgym_suite.trainers.passes import scored, teacher_pass
from agentgym_suite.trainers.privileged import pi_block, with_pi
from agentgym_suite.trainers.privileged_rows import Privileged, in_mixed_group
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.rows import trajectory_id
from agentgym_suite.trainers.run_checks import analyzer_settings
from agentgym_suite.trainers.running import Training
from agentgym_suite.trainers.taspo import TaspoConfig
from agentgym_suite.trainers.teachers import own_teacher
from tests.trainers.tiny_training import (
    PLAY,
    TASKS,
    configuration,
    counting,
    policy,
    trainer,
)


class Told(Hinting):
    """Tells the first trajectory of every group and no other."""

    def hints(self, episodes: Any, iteration: int) -> Hints:
        texts = {trajectory_id(e): "add[3] of 11" if e.trial == 0 else "" for e in episodes}
        return Hints(texts, (), {"coverage": 0.5, "no_hint/no_success": 1.0})


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
    rows, _ = source.told(collection, 1)
    assert {bool(row.pi_text) for row in rows if row.trajectory_id.endswith("/0")} == {True}
    assert {bool(row.pi_text) for row in rows if row.trajectory_id.endswith("/1")} == {False}
    end = tokenizer.eos_token_id
    for row in rows:  # a bare command is an action but for its end
        assert row.action_mask == tuple(int(token != end) for token in row.response_ids)
    batch = collate(rows)
    found = teacher_pass(batch, own_teacher(model, (), stays=False), Forward(), 200)
    plain = scored(batch, model, Forward(), 200).logprobs
    assert found.teacher_logprobs is not None
    for number, row in enumerate(rows):
        line = found.teacher_logprobs[number, : len(row.response_ids)]
        if not row.pi_text:
            assert line.isnan().all() and not row.teacher_prompt_ids
        else:
            assert torch.isfinite(line).all()
            assert not torch.allclose(line, plain[number, : len(line)], atol=1e-6)
            told = len(row.teacher_prompt_ids) - len(row.prompt_ids)
            assert told > 0 and row.teacher_prompt_ids[told:] == row.prompt_ids


def test_a_group_that_earned_the_same_is_scored_where_its_advantage_does_not_matter() -> None:
    model, tokenizer = policy()
    collection = collected(model, tokenizer)
    groups = sorted({row.group_id for row in collection.rows})
    rows = tuple(  # one group earns the same, by invalid actions too; the other does not
        replace(row, reward=float(row.group_id == groups[1] and row.is_last), valid_action=True)
        if row.trajectory_id.endswith("/0")
        else replace(row, reward=0.0, valid_action=True)
        for row in collection.rows
    )
    shown = replace(collection, rows=rows)
    source, scores = privileged(tokenizer), TaspoConfig()
    scored_of = {}
    for uniform in (True, False):
        chosen = replace(source, mixed_by=None if uniform else scores)
        told = chosen.told(shown, 1)[0]
        scored_of[uniform] = {row.group_id for row in told if row.teacher_prompt_ids}
    assert scored_of == {True: set(groups), False: {groups[1]}}
    punished = [replace(row, valid_action=not row.trajectory_id.endswith("/0")) for row in rows]
    assert all(in_mixed_group(punished, TaspoConfig(invalid_penalty=0.1))), (
        "an invalid action may cost something"
    )


def test_the_teachers_prompt_of_a_run_is_the_rollouts_but_for_the_text(tmp_path: Path) -> None:
    """In the user's turn, too, and with a template that would show tools."""
    model, tokenizer = policy()
    tokenizer.chat_template = "{% for tool in tools or [] %}T{% endfor %}" + tokenizer.chat_template
    settings = configuration("taspo", pi_position="user_turn")
    with live_view(settings) as view:
        found = Training(settings, tmp_path, view)._privileged(NullAnalyzer(), tokenizer)
    assert found is not None and found.render is not None
    assert found.mixed_by == settings.settings
    collection = collected(model, tokenizer)
    messages = [step.messages for episode in collection.episodes for step in episode.steps]
    for row, shown in zip(collection.rows, messages, strict=True):
        assert tuple(found.render(shown)) == row.prompt_ids


def test_the_text_stands_in_the_users_turn_where_it_should() -> None:
    model, tokenizer = policy()
    chat = TransformersChatTokenizer(tokenizer)
    source = replace(privileged(tokenizer), position="user_turn", render=chat.chat_ids)
    collection = collected(model, tokenizer)
    messages = [step.messages for episode in collection.episodes for step in episode.steps]
    rows, _ = source.told(collection, 1)
    for row, shown in zip(rows, messages, strict=True):
        block = pi_block(row.pi_text, source.encode, 64)
        wanted = tuple(chat.chat_ids(with_pi(shown, block))) if row.pi_text else ()
        assert row.teacher_prompt_ids == wanted
        if row.pi_text:
            assert row.teacher_prompt_ids[0] == row.prompt_ids[0], "the template's own start"


def test_taspo_learns_from_it(tmp_path: Path) -> None:
    _, tokenizer = policy()
    training = trainer(
        "taspo", tmp_path, more={"privileged": privileged(tokenizer)}, budget_steps=1
    )
    training.run()
    first = read_metrics(tmp_path / METRICS_FILE)[0]
    assert first["credit/coverage"] == first["hints/coverage"] == 0.5
    assert first["hints/no_hint/no_success"] == 1.0
    assert first["credit/weight_mean"] == pytest.approx(1.0)


def test_the_trajectory_of_a_row_is_named_as_its_hint() -> None:
    model, tokenizer = policy()
    collection = collected(model, tokenizer)
    episodes: tuple[Episode, ...] = collection.episodes
    names = {trajectory_id(episode) for episode in episodes}
    assert names == {row.trajectory_id for row in collection.rows}


@pytest.mark.parametrize("algorithm", ["taspo", "opsd", "grpo_opsd"])
def test_how_groups_are_analyzed_is_set_of_a_run(algorithm: str) -> None:
    assert analyzer_settings(configuration(algorithm)) == AnalyzerSettings()
    given: dict[str, Any] = {"align_mode": "per_target", "analyzer_required": True}
    sees = {"align_sees_outcome": True} if algorithm == "taspo" else {}
    found = analyzer_settings(configuration(algorithm, **given, **sees))
    assert found == AnalyzerSettings(align_mode="per_target", required=True, **sees)


def test_a_divergence_in_the_reward_gives_uniform_groups_advantages() -> None:
    needs = {
        place: make_algorithm("taspo", kl_place=place).needs.teacher_of_uniform_groups
        for place in ("loss", "reward")
    }
    assert needs == {"loss": False, "reward": True}
    assert make_algorithm("opsd").needs.teacher_of_uniform_groups

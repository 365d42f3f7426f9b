"""Rows that are prefixes of others are computed once, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers import collector, hidden_states
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.collector import PolicyPlayer
from agentgym_suite.trainers.hidden_states import (
    boundary_states,
    computed_tokens,
    continuations,
    row_buckets,
)
from agentgym_suite.trainers.logprobs import Forward, policy_outputs
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.minibatch import microbatches, padding_share
from agentgym_suite.trainers.models import make_critic
from agentgym_suite.trainers.passes import critic_pass, old_policy_pass, reference_pass
from agentgym_suite.trainers.registry import ALGORITHMS, make_algorithm
from agentgym_suite.trainers.stats import OneRank
from agentgym_suite.trainers.teachers import Teacher
from agentgym_suite.trainers.update import Learner, Tally, update_critic, update_policy
from tests.engines.small_policy import VOCABULARY, small_module
from tests.trainers.small_batches import mixed_rows
from tests.trainers.test_privileged_rows import privileged
from tests.trainers.tiny_training import configuration, policy, trainer

VALUE_IDS = (VOCABULARY - 2, VOCABULARY - 1)
ALONE = OneRank()


def conversation() -> StepBatch:
    """Trajectories whose prompts are the one before, its reply and some more; one breaks that."""
    rows, told = [], {}
    for row in sorted(mixed_rows(), key=lambda row: (row.trajectory_id, row.step_index)):
        seen: tuple[int, ...] = told.get(row.trajectory_id, ())
        prompt = (*seen, 5 + len(rows), 6)
        if row.trajectory_id == "b/1" and row.step_index:
            prompt = (9, *prompt)  # a template that wrote the history anew
        answer = tuple(20 + (7 * place + len(rows)) % 30 for place in range(len(row.response_ids)))
        rows.append(replace(row, prompt_ids=prompt, response_ids=answer))
        told[row.trajectory_id] = prompt + answer
    return collate(rows)


@given(st.lists(st.lists(st.integers(0, 1), max_size=5), min_size=1, max_size=12))
def test_a_row_is_a_prefix_of_the_one_that_holds_it(rows: list[list[int]]) -> None:
    for number, holder in enumerate(continuations(rows)):
        assert rows[holder][: len(rows[number])] == rows[number]
        assert continuations(rows)[holder] == holder, "what holds a row is held by none"
        within = [row for row in rows if row[: len(rows[number])] == rows[number]]
        assert (holder == number) <= (len(within) == within.count(rows[number]))


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 1), min_size=1, max_size=4),
            st.lists(st.integers(0, 1), max_size=3),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 40),
    st.booleans(),
)
def test_every_row_is_in_one_bucket_of_what_may_be_read_at_a_time(
    pairs: list[tuple[list[int], list[int]]], most: int, merged: bool
) -> None:
    prompts, responses = [list(side) for side in zip(*pairs, strict=True)]
    buckets = row_buckets(prompts, responses, most, merge_append_only=merged)
    assert sorted(number for bucket in buckets for number in bucket) == list(range(len(pairs)))
    needed, computed = computed_tokens(prompts, responses, most, merge_append_only=merged)
    plain, _ = computed_tokens(prompts, responses, most)
    assert 0 < needed <= computed and needed <= plain
    for bucket in buckets:
        read = len(bucket) * (1 + max(len(responses[number]) for number in bucket))
        assert len(bucket) == 1 or read <= most


@pytest.mark.parametrize("packed", [False, True])
def test_states_are_those_of_each_row_alone(packed: bool) -> None:
    batch, trunk = conversation(), small_module().double().base_model
    prompts = [row.prompt_ids for row in batch.rows]
    responses = [row.response_ids for row in batch.rows]
    with torch.no_grad():
        plain = boundary_states(trunk, prompts, responses)
        merged = boundary_states(trunk, prompts, responses, merge_append_only=True, packed=packed)
    for number, response in enumerate(responses):
        seen = slice(0, len(response) + 1)
        torch.testing.assert_close(merged[number, seen], plain[number, seen], rtol=1e-5, atol=1e-6)


def test_steps_of_a_conversation_are_one_sequence() -> None:
    batch = conversation()
    trajectories = len(batch.trajectories())
    broken = sum(row.trajectory_id == "b/1" for row in batch.rows) - 1
    rows = [row.prompt_ids + row.response_ids for row in batch.rows]
    assert len(set(continuations(rows))) == trajectories + broken
    needed, _ = computed_tokens(
        [row.prompt_ids for row in batch.rows],
        [row.response_ids for row in batch.rows],
        10_000,
        merge_append_only=True,
    )
    assert needed < sum(map(len, rows)) / 1.5
    assert len(microbatches(batch, 40, merge_append_only=True)) < len(microbatches(batch, 40))
    assert 0 <= padding_share(batch, 40, merge_append_only=True) < 1


def learned(name: str, merged: bool) -> Iterator[torch.Tensor]:
    """Weights of policy and critic after one step on frozen columns that were read the same way."""
    forward = Forward(
        banned_ids=VALUE_IDS,
        value_ids=VALUE_IDS if name == "sapo_ar" else None,
        entropy=True,
        merge_append_only=merged,
    )
    settings: dict[str, Any] = {"kl_coef": 0.1, "clip_low": 0.2, "clip_high": 0.3}
    if name in ("opsd", "opd"):
        settings["objective"] = "sampled"
    algorithm = make_algorithm(name, **settings)
    policy = small_module().double()
    critic = make_critic(policy)
    torch.nn.init.normal_(critic.score.weight, generator=torch.Generator().manual_seed(0))
    batch = old_policy_pass(conversation(), small_module(seed=5).double(), algorithm, forward, 60)
    batch = reference_pass(batch, small_module(seed=6).double(), forward, 60)
    if algorithm.needs.teacher != "none":
        batch = batch.with_columns(teacher_logprobs=batch.ref_logprobs)
    kind = algorithm.needs.critic
    if kind != "none":
        batch = critic_pass(batch, critic, kind, 60, merge_append_only=merged)
    ready = algorithm.prepare(batch, ALONE).batch
    learners = [Learner.make(m, 1e-3, warmup=0, grad_clip=1e9, decay=0.0) for m in (policy, critic)]
    for learner in learners:  # plain descent: AdamW would hide the size of a gradient
        weights = learner.optimizer.param_groups[0]["params"]
        learner.optimizer = torch.optim.SGD(weights, lr=1e-3)
    given: dict[str, Any] = {"most_tokens": 60, "tally": Tally()}
    update_policy(learners[0], ready, algorithm, forward, ALONE, **given)
    if kind != "none":
        update_critic(learners[1], ready, algorithm, ALONE, merge_append_only=merged, **given)
    for model in (policy, critic):
        yield from model.parameters()


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_a_step_is_the_same(name: str) -> None:
    for one, other in zip(learned(name, False), learned(name, True), strict=True):
        # norms of this architecture compute in float32 whatever the model's dtype
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


class Talking(PolicyPlayer):
    """Puts all that was said in front of every prompt."""

    said: tuple[int, ...] = ()

    async def act(self, turn: Turn) -> Reply:
        chat, said = self._tokenizer, self.said

        class Behind:
            text = staticmethod(chat.text)

            def chat_ids(self, messages: Any) -> list[int]:
                return [*said, *chat.chat_ids(messages)]

        self._tokenizer = Behind()  # type: ignore[assignment]
        reply = await super().act(turn)
        self._tokenizer = chat
        assert reply.tokens is not None
        self.said = (*reply.tokens.prompt_ids, *reply.tokens.response_ids)
        return reply


@pytest.mark.parametrize("algorithm", ["grpo", "capo", "ppo", "sapo_ar", "opsd"])
def test_a_training_is_the_same(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole loop, with prompts that go on; every pass of it computes fewer tokens."""
    monkeypatch.setattr(collector, "PolicyPlayer", Talking)
    computed: list[int] = []
    table = hidden_states._right_padded

    def counted(rows: Any, device: Any) -> torch.Tensor:
        computed.append(sum(map(len, rows)))
        return table(rows, device)

    monkeypatch.setattr(hidden_states, "_right_padded", counted)
    found, tokens = [], []
    for merge in (False, True):
        computed.clear()
        out = tmp_path / str(merge)
        _, tokenizer = policy()
        more = {"privileged": privileged(tokenizer)} if algorithm == "opsd" else {}
        settings = {"iterations": 1, "horizon": 3, "micro_tokens": 100_000, "minibatch_rows": 1000}
        trainer(algorithm, out, more=more, **settings, merge_append_only=merge).run()
        found.append(read_metrics(out / METRICS_FILE)[0])
        tokens.append(list(computed))
    for name in ("loss/total", "grad/policy", "grad/critic"):
        if name in found[0]:
            assert found[1][name] == pytest.approx(found[0][name], rel=1e-4, abs=1e-6)
    assert len(tokens[0]) == len(tokens[1]) >= 2
    assert all(fewer < more for more, fewer in zip(*tokens, strict=True)), tokens


def test_a_teachers_distribution_is_the_same_and_computed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = conversation()
    told = [replace(row, teacher_prompt_ids=(7, *row.prompt_ids)) for row in batch.rows]
    teacher = Teacher(small_module(seed=4).double(), VALUE_IDS)
    sizes: list[int] = []
    table = hidden_states._right_padded

    def counted(rows: Any, device: Any) -> torch.Tensor:
        found = table(rows, device)
        sizes.append(found.numel())
        return found

    monkeypatch.setattr(hidden_states, "_right_padded", counted)
    found = []
    for merge in (False, True):
        forward = Forward(banned_ids=VALUE_IDS, divergence="reverse_kl", merge_append_only=merge)
        outputs = policy_outputs(small_module().double(), collate(told), forward, teacher=teacher)
        found.append(outputs.divergence)
    assert found[0] is not None and found[1] is not None
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-7)
    assert sizes[2] < sizes[0] and sizes[3] < sizes[1]


def test_two_ways_to_compute_a_prompt_once_are_refused() -> None:
    with pytest.raises(UsageError, match="share_prefix and merge_append_only"):
        configuration("grpo", share_prefix=True, merge_append_only=True)
    with pytest.raises(UsageError, match="share_prefix and merge_append_only"):
        Forward(share_prefix=True, merge_append_only=True)
    with pytest.raises(UsageError, match="share_prefix and merge_append_only"):
        boundary_states(None, [(1,)], [()], share_prefix=True, merge_append_only=True)

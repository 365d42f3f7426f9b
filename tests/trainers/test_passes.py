"""Frozen columns: put where their rows stand, whatever the order and the buckets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.logprobs import Forward, policy_outputs
from agentgym_suite.trainers.models import make_critic
from agentgym_suite.trainers.passes import (
    critic_pass,
    old_policy_pass,
    reference_pass,
    teacher_pass,
)
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.teachers import Teacher
from agentgym_suite.trainers.value_basis import restricted_entropy
from tests.engines.small_policy import VOCABULARY, small_module
from tests.trainers.small_batches import mixed_rows

VALUE_IDS = (VOCABULARY - 2, VOCABULARY - 1)
FORWARD = Forward(temperature=0.8, banned_ids=VALUE_IDS)


@pytest.fixture(scope="module")
def model() -> Any:
    return small_module().double()


@pytest.fixture(scope="module")
def batch() -> StepBatch:
    return collate(mixed_rows())


def test_old_logprobs_are_the_policys_own(model: Any, batch: StepBatch) -> None:
    capo = make_algorithm("capo")
    found = old_policy_pass(batch, model, capo, FORWARD, 24).old_logprobs
    with torch.no_grad():
        wanted = policy_outputs(model, batch, FORWARD).logprobs
    assert found is not None
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert found.dtype == torch.float64


def test_the_entropy_of_what_was_sampled_is_that_of_kept_ids(model: Any, batch: StepBatch) -> None:
    found = old_policy_pass(batch, model, make_algorithm("grpo"), FORWARD, 24).old_entropy
    assert found is not None
    for number, row in enumerate(batch.rows):
        if not row.response_ids:
            continue
        ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1] / 0.8
        wanted = restricted_entropy(logits, VALUE_IDS)
        mask = batch.response_mask[number, : len(wanted)]
        torch.testing.assert_close(
            found[number, : len(wanted)][mask], wanted[mask], rtol=1e-6, atol=1e-6
        )


def test_rows_in_another_order_get_the_same_numbers(model: Any, batch: StepBatch) -> None:
    order = list(range(len(batch)))[::-1]
    found = reference_pass(batch, model, FORWARD, 24).ref_logprobs
    turned = reference_pass(batch.select(order), model, FORWARD, 40).ref_logprobs
    assert found is not None and turned is not None
    torch.testing.assert_close(found[order], turned, rtol=0, atol=1e-12)


def test_values_are_read_from_the_policy_where_it_has_value_tokens(
    model: Any, batch: StepBatch
) -> None:
    sapo = make_algorithm("sapo_ar", r_max=2.0, value_temperature=3.0)
    forward = Forward(banned_ids=VALUE_IDS, value_ids=VALUE_IDS)
    found = old_policy_pass(batch, model, sapo, forward, 24)
    with torch.no_grad():
        outputs = policy_outputs(model, batch, forward)
    assert found.v_old is not None and outputs.v_margin is not None
    wanted = 2.0 * (outputs.v_margin / 3.0).clamp(-1, 1)
    torch.testing.assert_close(found.v_old, wanted, rtol=0, atol=1e-12)
    assert not torch.equal(found.v_old, found.q_old)


@pytest.mark.parametrize("kind", ["boundary", "token"])
def test_a_critic_fills_its_column(model: Any, batch: StepBatch, kind: str) -> None:
    critic = make_critic(model)
    torch.nn.init.normal_(critic.score.weight, generator=torch.Generator().manual_seed(0))
    narrow, wide = (critic_pass(batch, critic, kind, most) for most in (16, 4000))
    name = "v_old" if kind == "boundary" else "token_values"
    one, other = getattr(narrow, name), getattr(wide, name)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    assert one.std() > 0


def test_a_teacher_scores_the_same_responses_behind_other_prompts(model: Any) -> None:
    rows = [
        replace(row, teacher_prompt_ids=(9, 8, 7, *row.prompt_ids) if number % 2 else ())
        for number, row in enumerate(mixed_rows())
    ]
    batch, teacher = collate(rows), Teacher(model, VALUE_IDS)
    found = teacher_pass(batch, teacher, FORWARD, 30).teacher_logprobs
    assert found is not None
    number = next(n for n in range(1, len(batch), 2) if batch.rows[n].length > 1)
    with torch.no_grad():
        alone = policy_outputs(
            model, batch.select([number]), FORWARD, prompts=[rows[number].teacher_prompt_ids]
        ).logprobs[0]
    torch.testing.assert_close(found[number, : len(alone)], alone, rtol=0, atol=1e-12)
    assert found[0].isnan().all()
    untold = teacher_pass(collate(mixed_rows()), teacher, FORWARD, 30).teacher_logprobs
    assert untold is not None and untold.isnan().all()

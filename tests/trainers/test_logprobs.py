"""Response-only log-probabilities against the full softmax."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.logprobs import Forward, policy_outputs, token_scores
from agentgym_suite.trainers.models import (
    boundary_values,
    frozen_copy,
    make_critic,
    token_values,
)
from tests.engines.small_policy import VOCABULARY, small_module
from tests.trainers.small_batches import mixed_rows, row

VALUE_IDS = (VOCABULARY - 2, VOCABULARY - 1)


@pytest.fixture(scope="module")
def model() -> Any:
    return small_module(tie_word_embeddings=False).double()


@pytest.fixture(scope="module")
def batch() -> StepBatch:
    return collate(mixed_rows())


def full(model: Any, step: Any, temperature: float, banned: tuple[int, ...]) -> torch.Tensor:
    """Log-probabilities over the whole vocabulary at each response token."""
    ids = torch.tensor([step.prompt_ids + step.response_ids])
    logits = model(input_ids=ids).logits[0, len(step.prompt_ids) - 1 : -1].clone()
    logits[:, list(banned)] = float("-inf")
    return (logits / temperature).log_softmax(-1)


@pytest.mark.parametrize("most_logits", [1, 200, 1 << 23])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_they_are_those_of_the_full_softmax(
    model: Any, batch: StepBatch, temperature: float, most_logits: int
) -> None:
    settings = Forward(
        temperature=temperature, banned_ids=VALUE_IDS, entropy=True, most_logits=most_logits
    )
    with torch.no_grad():
        found = policy_outputs(model, batch, settings)
    assert found.entropy is not None
    for number, step in enumerate(batch.rows):
        with torch.no_grad():
            whole = full(model, step, temperature, VALUE_IDS)
        kept = whole[:, : VOCABULARY - 2]
        for place, token in enumerate(step.response_ids):
            sampled = bool(step.response_mask[place])
            wanted = float(whole[place, token]) if sampled else 0.0
            spread = float(-(kept[place].exp() * kept[place]).sum()) if sampled else 0.0
            assert float(found.logprobs[number, place]) == pytest.approx(wanted, abs=1e-12)
            assert float(found.entropy[number, place]) == pytest.approx(spread, abs=1e-12)
        assert not found.logprobs[number, len(step.response_ids) :].any()


def test_chunks_give_the_same_gradient_and_bans_no_nan(model: Any, batch: StepBatch) -> None:
    gradients = []
    for most_logits in (100, 1 << 23):
        model.zero_grad(set_to_none=True)
        settings = Forward(banned_ids=VALUE_IDS, entropy=True, most_logits=most_logits)
        found = policy_outputs(model, batch, settings)
        assert found.entropy is not None
        (found.logprobs.sum() + 0.3 * found.entropy.sum()).backward()
        gradients.append([weight.grad.clone() for weight in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.isfinite(one).all()
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_the_policy_moves_no_value_row_and_the_margins_move_both(
    model: Any, batch: StepBatch
) -> None:
    head = model.get_output_embeddings().weight
    settings = Forward(banned_ids=VALUE_IDS, value_ids=VALUE_IDS, entropy=True)
    model.zero_grad(set_to_none=True)
    found = policy_outputs(model, batch, settings)
    assert found.entropy is not None and found.v_margin is not None
    (found.logprobs.sum() + found.entropy.sum()).backward(retain_graph=True)
    assert not head.grad[list(VALUE_IDS)].any()
    found.v_margin.sum().backward()
    up, down = head.grad[list(VALUE_IDS)]
    assert up.any()
    torch.testing.assert_close(up, -down)


def test_margins_are_raw_logits_at_the_two_boundaries(model: Any, batch: StepBatch) -> None:
    settings = Forward(temperature=0.5, banned_ids=VALUE_IDS, value_ids=VALUE_IDS)
    with torch.no_grad():
        found = policy_outputs(model, batch, settings)
    assert found.v_margin is not None and found.q_margin is not None
    for number, step in enumerate(batch.rows):
        ids = torch.tensor([step.prompt_ids + step.response_ids])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0]
        margin = logits[:, VALUE_IDS[0]] - logits[:, VALUE_IDS[1]]
        assert float(found.v_margin[number]) == pytest.approx(float(margin[step.b_v]), abs=1e-12)
        assert float(found.q_margin[number]) == pytest.approx(float(margin[step.b_q]), abs=1e-12)


def test_a_batch_without_a_sampled_token_has_a_gradient_of_zero(model: Any) -> None:
    empty = collate([row("a/0", 0, 1, 0)])
    model.zero_grad(set_to_none=True)
    policy_outputs(model, empty, Forward()).logprobs.sum().backward()
    states = torch.zeros(0, 32, requires_grad=True, dtype=torch.float64)
    none = torch.zeros(0, dtype=torch.long)
    scores = token_scores(states, model.get_output_embeddings(), none, Forward())
    assert scores.logprobs.shape == (0,)


def test_left_padding_and_wrong_settings_are_refused(model: Any) -> None:
    with pytest.raises(UsageError, match="side='right'"):
        policy_outputs(model, collate(mixed_rows(), side="left"), Forward())
    with pytest.raises(UsageError, match="temperature is 0"):
        Forward(temperature=0.0)
    with pytest.raises(UsageError, match="most_logits is 0"):
        Forward(most_logits=0)


def test_a_critic_starts_at_zero_with_weights_of_its_own(model: Any, batch: StepBatch) -> None:
    critic = make_critic(model)
    prompts = [step.prompt_ids for step in batch.rows]
    assert not boundary_values(critic, prompts).any()
    own = {weight.data_ptr() for weight in critic.parameters()}
    assert not own & {weight.data_ptr() for weight in model.parameters()}
    assert critic.dtype == model.dtype


def test_values_before_tokens_begin_with_the_value_at_the_boundary(
    model: Any, batch: StepBatch
) -> None:
    critic = make_critic(model)
    torch.nn.init.normal_(critic.score.weight, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        at_boundary = boundary_values(critic, [step.prompt_ids for step in batch.rows])
        by_token = token_values(critic, batch)
    first = batch.response_mask[:, 0]
    torch.testing.assert_close(by_token[first, 0], at_boundary[first], rtol=0, atol=1e-12)
    assert not by_token[~batch.response_mask].any()
    assert at_boundary.std() > 0


def test_a_frozen_copy_never_moves(model: Any) -> None:
    copied = frozen_copy(model)
    assert not any(weight.requires_grad for weight in copied.parameters())
    assert copied is not model

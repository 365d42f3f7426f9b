"""Where states are read: bucketing, padding and shared prefixes change nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.hidden_states import boundary_states, length_buckets
from tests.engines.small_policy import small_module


@given(st.lists(st.integers(1, 300)), st.integers(1, 900))
def test_every_row_is_in_one_bucket_within_the_bound(sizes: list[int], most: int) -> None:
    buckets = length_buckets(sizes, most)
    assert sorted(row for bucket in buckets for row in bucket) == list(range(len(sizes)))
    for bucket in buckets:
        assert len(bucket) == 1 or len(bucket) * max(sizes[row] for row in bucket) <= most


def test_a_bound_below_one_token_is_refused() -> None:
    with pytest.raises(UsageError, match="most_tokens is 0"):
        length_buckets([3], 0)


@pytest.fixture(scope="module")
def trunk() -> Any:
    return small_module().double().base_model


def rows(count: int, shared: int) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts, of which some are equal, and responses, of which some are empty."""
    dice = random.Random(7)
    common = [[dice.randrange(5, 60) for _ in range(dice.randint(3, 9))] for _ in range(shared)]
    prompts = [
        list(common[n % shared]) if n % 3 else [dice.randrange(5, 60) for _ in range(4 + n)]
        for n in range(count)
    ]
    responses = [[dice.randrange(5, 60) for _ in range(n % 5)] for n in range(count)]
    return prompts, responses


@pytest.mark.parametrize("share_prefix", [False, True])
def test_states_are_those_of_each_row_alone(trunk: Any, share_prefix: bool) -> None:
    prompts, responses = rows(10, 2)
    with torch.no_grad():
        found = boundary_states(trunk, prompts, responses, share_prefix=share_prefix)
        assert found.shape == (10, 5, trunk.config.hidden_size)
        for number, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
            alone = trunk(input_ids=torch.tensor([prompt + response])).last_hidden_state[0]
            wanted = alone[len(prompt) - 1 :]
            torch.testing.assert_close(
                found[number, : len(response) + 1], wanted, rtol=0, atol=1e-12
            )


def test_a_shared_prefix_gives_the_same_gradient(trunk: Any) -> None:
    prompts, responses = rows(8, 2)
    weigh = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    gradients = []
    for share_prefix in (False, True):
        trunk.zero_grad(set_to_none=True)
        states = boundary_states(trunk, prompts, responses, share_prefix=share_prefix)
        (states[:, 0] * weigh).sum().backward()
        gradients.append([weight.grad.clone() for weight in trunk.parameters()])
    for one, other in zip(*gradients, strict=True):
        # norms of this architecture compute in float32 whatever the model's dtype
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_v_does_not_see_the_response_and_q_does(trunk: Any) -> None:
    prompt = [5, 9, 12]
    with torch.no_grad():
        one = boundary_states(trunk, [prompt], [[20, 21]])[0]
        other = boundary_states(trunk, [prompt], [[30, 21]])[0]
        longer = boundary_states(trunk, [prompt, prompt], [[20, 21], [20, 21, 22, 23]])
    assert torch.equal(one[0], other[0])
    assert not torch.allclose(one[2], other[2], atol=1e-6)
    torch.testing.assert_close(longer[0, :3], one, rtol=0, atol=1e-12)


def test_rows_one_behind_the_other_have_the_states_of_padded_ones(trunk: Any) -> None:
    prompts = [(5, 6, 7), (8,), (9, 10, 11, 12, 13), (5, 6)]
    responses = [(14, 15), (), (16,), (17, 18, 19, 20)]
    padded = boundary_states(trunk, prompts, responses)
    packed = boundary_states(trunk, prompts, responses, packed=True)
    for number, response in enumerate(responses):
        seen = slice(0, len(response) + 1)
        torch.testing.assert_close(packed[number, seen], padded[number, seen], rtol=1e-6, atol=1e-6)
    alone = boundary_states(trunk, prompts[2:3], responses[2:3], packed=True)
    torch.testing.assert_close(alone[0], packed[2, :2], rtol=1e-6, atol=1e-6)

"""The distribution that is sampled, held to a plain computation, and the draws from it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[train]'")

from agentgym_suite.engines.distribution import (  # noqa: E402
    draw,
    log_distribution,
    log_probability,
)
from agentgym_suite.engines.tokens import Sampling  # noqa: E402


def plain_distribution(logits: list[float], sampling: Sampling) -> list[float]:
    """Probabilities in Python's floats, id by id."""
    temperature = sampling.temperature or 1.0
    scores = {
        token: logit / temperature
        for token, logit in enumerate(logits)
        if token not in sampling.banned_ids
    }
    top = max(scores.values())
    total = sum(math.exp(score - top) for score in scores.values())
    chances = {token: math.exp(score - top) / total for token, score in scores.items()}
    kept, mass = {}, 0.0
    for token in sorted(chances, key=lambda token: (-chances[token], token)):
        if mass >= sampling.top_p:
            break
        kept[token] = chances[token]
        mass += chances[token]
    return [kept.get(token, 0.0) / mass for token in range(len(logits))]


@given(
    logits=st.lists(st.integers(-400, 400), min_size=2, max_size=12, unique=True),
    temperature=st.sampled_from([0.0, 0.3, 0.7, 1.0, 2.5]),
    top_p=st.sampled_from([0.013, 0.31, 0.53, 0.97, 1.0]),
    banned=st.sets(st.integers(0, 11), max_size=4),
)
def test_it_is_the_plain_computation(
    logits: list[int], temperature: float, top_p: float, banned: set[int]
) -> None:
    banned = {token for token in banned if token < len(logits)}
    if len(banned) == len(logits):
        return
    sampling = Sampling(temperature, top_p, banned_ids=tuple(banned))
    scores = [logit / 37 for logit in logits]
    found = log_distribution(torch.tensor([scores]), sampling)[0]
    assert found.dtype == torch.float32
    assert found.exp().tolist() == pytest.approx(plain_distribution(scores, sampling), abs=2e-6)
    assert all(found[token] == -math.inf for token in banned)


def test_a_ban_comes_before_the_temperature_and_the_sum() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.5, 3.0, 1.2]])
    found = log_distribution(logits, Sampling(temperature=2.0, banned_ids=(3, 4)))[0]
    total = math.exp(0.5) + math.exp(1.0) + math.exp(0.25)
    assert found[:3].exp().tolist() == pytest.approx(
        [math.exp(0.5) / total, math.exp(1.0) / total, math.exp(0.25) / total], abs=1e-7
    )


def test_half_precision_logits_are_normalised_in_float32() -> None:
    logits = torch.tensor([[0.0] * 3000], dtype=torch.bfloat16)
    found = log_distribution(logits, Sampling(temperature=0.9))
    assert found.dtype == torch.float32
    assert found[0].tolist() == pytest.approx([-math.log(3000)] * 3000, abs=1e-6)


def test_draws_come_as_often_as_they_should() -> None:
    chances = [0.125, 0.0, 0.5, 0.25, 0.125, 0.0]
    logs = torch.tensor([chances]).log().expand(800, -1)
    numbers = torch.arange(800, dtype=torch.float64) / 800
    ids = draw(logs, numbers)
    assert torch.bincount(ids, minlength=6).tolist() == [100, 0, 400, 200, 100, 0]


def test_draws_over_a_large_vocabulary_are_those_of_plain_inversion() -> None:
    torch.manual_seed(0)
    logs = torch.log_softmax(4 * torch.randn(6, 1537), -1)
    numbers = torch.rand(6, dtype=torch.float64)
    cumulated = logs.double().exp().cumsum(-1)
    expected = [int((row <= x * row[-1]).sum()) for row, x in zip(cumulated, numbers, strict=True)]
    assert draw(logs, numbers).tolist() == expected


@given(
    chances=st.lists(st.sampled_from([0.0, 1e-30, 0.01, 1.0]), min_size=1, max_size=9),
    number=st.floats(0, 1, exclude_max=True),
)
def test_what_cannot_be_is_never_drawn(chances: list[float], number: float) -> None:
    if not any(chances):
        return
    logs = torch.log_softmax(torch.tensor([chances]).log(), -1)
    token = int(draw(logs, torch.tensor([number], dtype=torch.float64)))
    assert chances[token] > 0


def test_the_largest_number_draws_the_last_id_there_is() -> None:
    logs = torch.log_softmax(torch.tensor([[0.0, 0.1, -math.inf]]), -1)
    largest = math.nextafter(1.0, 0.0)
    assert draw(logs, torch.tensor([largest], dtype=torch.float64)).tolist() == [1]
    assert log_probability(logs, torch.tensor([1])).tolist() == [float(logs[0, 1])]

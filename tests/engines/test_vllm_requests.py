"""What vLLM is asked, without vLLM."""

from __future__ import annotations

import pytest

from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.vllm_requests import COLDEST, VllmRequests, vllm_reason
from agentgym_suite.errors import ContextTooLong, UsageError

REQUESTS = VllmRequests(vocabulary=6, window=8, suppressed_ids=(5,))


def sampling(temperature: float = 1.0, banned: tuple[int, ...] = ()) -> Sampling:
    return Sampling(temperature, 1.0, 3, (2,), banned)


def test_bans_of_model_and_sampling_are_left_out() -> None:
    asked = REQUESTS.parameters([0, 1], sampling(banned=(3,)), seed=7)
    assert asked["allowed_token_ids"] == [0, 1, 2, 4]
    assert asked["stop_token_ids"] == [2] and asked["max_tokens"] == 3 and asked["seed"] == 7
    free = VllmRequests(vocabulary=6, window=8, suppressed_ids=())
    assert free.parameters([0], sampling(), seed=0)["allowed_token_ids"] is None


def test_what_vllm_would_change_or_cannot_do_is_refused() -> None:
    REQUESTS.parameters([0], sampling(0.0), seed=0)
    REQUESTS.parameters([0], sampling(COLDEST), seed=0)
    with pytest.raises(UsageError, match=r"temperature is 0\.001, which vLLM raises to 0\.01"):
        REQUESTS.parameters([0], sampling(0.001), seed=0)
    with pytest.raises(UsageError, match="every id is banned"):
        REQUESTS.parameters([0], sampling(banned=(0, 1, 2, 3, 4)), seed=0)
    with pytest.raises(ContextTooLong):
        REQUESTS.parameters([0] * 6, sampling(), seed=0)


def test_an_error_without_words_is_told_by_its_kind() -> None:
    assert vllm_reason(ValueError("no\nroom")) == "no room"
    assert vllm_reason(KeyError()) == "KeyError"

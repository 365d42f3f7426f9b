"""The words of the protocol, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentgym_suite.engines.tokens import Sampling, check_prompt, check_seeds
from agentgym_suite.errors import ContextTooLong, UsageError


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"stop_ids": (3, -1)}, "stop_ids holds -1"),
        ({"banned_ids": (-2,)}, "banned_ids holds -2"),
    ],
)
def test_sampling_refuses_what_is_out_of_range(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_the_defaults_are_the_policy_s_own_distribution() -> None:
    assert (Sampling().temperature, Sampling().top_p, Sampling().banned_ids) == (1.0, 1.0, ())


@pytest.mark.parametrize("seeds", [[], [1], [1, 2, 3], [1, -1], [1, 2**64]])
def test_seeds_are_one_a_prompt_and_in_range(seeds: list[int]) -> None:
    with pytest.raises(UsageError, match="seed"):
        check_seeds([[5], [6]], seeds)


def test_a_prompt_fits_the_window_to_the_last_token() -> None:
    fits = Sampling(max_new_tokens=6)
    check_prompt([1, 2, 3, 4], fits, vocabulary=9, window=10)
    check_prompt([1] * 50, fits, vocabulary=9, window=None)
    with pytest.raises(ContextTooLong, match="5 tokens and 6 new ones exceed .* window of 10"):
        check_prompt([1, 2, 3, 4, 5], fits, vocabulary=9, window=10)


@pytest.mark.parametrize(
    ("prompt", "sampling", "said"),
    [
        ([], Sampling(), "empty"),
        ([1, 9], Sampling(), "a prompt holds the id 9"),
        ([1, -1], Sampling(), "a prompt holds the id -1"),
        ([1], Sampling(stop_ids=(12,)), "stop_ids holds the id 12"),
        ([1], Sampling(banned_ids=(9,)), "banned_ids holds the id 9"),
    ],
)
def test_ids_are_the_model_s(prompt: list[int], sampling: Sampling, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_prompt(prompt, sampling, vocabulary=9, window=None)


def test_the_protocol_costs_no_torch() -> None:
    code = (
        "import sys, agentgym_suite.engines.tokens;"
        "assert not {'torch', 'transformers', 'vllm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

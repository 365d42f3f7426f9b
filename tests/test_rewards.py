from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.rewards import REWARD_PRESETS, reward_preset, shape_reward


def shaped(name: str, **changes: object) -> float:
    outcome: dict[str, object] = {
        "env_reward": 0.0,
        "valid": True,
        "valid_before": 0,
        "success": False,
        "purchased": False,
        "terminated": False,
    }
    return shape_reward(reward_preset(name), **{**outcome, **changes})  # type: ignore[arg-type]


def test_none_is_the_environments_own_reward() -> None:
    assert shaped("none", env_reward=0.7, terminated=True, success=True) == 0.7
    assert shaped("none", valid=False) == 0.0


def test_verl_agent_pays_ten_for_success_and_takes_a_tenth_for_an_invalid_action() -> None:
    assert shaped("verl_agent", env_reward=1.0, terminated=True, success=True) == 10.0
    assert shaped("verl_agent", env_reward=0.5, terminated=True) == 0.0
    assert shaped("verl_agent", valid=False) == -0.1


def test_capo_adds_success_format_and_purchase() -> None:
    assert shaped("capo") == pytest.approx(0.1)
    assert shaped("capo", valid=False) == 0.0
    assert shaped("capo", terminated=True, purchased=True) == pytest.approx(0.2)
    assert shaped("capo", terminated=True, purchased=True, success=True) == pytest.approx(1.2)


@given(st.lists(st.booleans(), max_size=40))
def test_format_reward_of_an_episode_never_passes_its_cap(valid: list[bool]) -> None:
    total = sum(shaped("capo", valid=v, valid_before=sum(valid[:i])) for i, v in enumerate(valid))
    assert total == pytest.approx(min(0.1 * sum(valid), 0.5))


def test_numbers_are_published_and_unknown_presets_named() -> None:
    assert REWARD_PRESETS["verl_agent"].as_dict()["success"] == 10.0
    with pytest.raises(UsageError, match="none, capo, verl_agent"):
        reward_preset("big")

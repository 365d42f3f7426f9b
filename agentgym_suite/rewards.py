"""Shaping of a step's reward, by named presets; pure functions of what the step did.

The environment's own reward is always kept beside the shaped one, and the numbers of the preset
stand in an episode's provenance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from agentgym_suite.errors import UsageError

PURCHASES = "purchases"
"""The metric by which an environment with purchases reports one."""


@dataclass(frozen=True, slots=True)
class RewardPreset:
    """The numbers of one shaping rule.

    Attributes:
        keep_env_reward: whether the environment's own reward is part of the sum.
        success: paid on the step that ends the episode with success.
        valid_call: format reward of each valid action.
        valid_call_cap: most format reward in one episode.
        invalid_call: paid for each invalid action.
        purchase: paid once when the episode ends with a purchase (WebShop).
    """

    keep_env_reward: bool = True
    success: float = 0.0
    valid_call: float = 0.0
    valid_call_cap: float = 0.0
    invalid_call: float = 0.0
    purchase: float = 0.0

    def as_dict(self) -> dict[str, float | bool]:
        """The numbers by name, for provenance."""
        return asdict(self)


#: ``capo``: terminal success, a format reward for each valid call and the completed purchase;
#: the paper gives no sizes, these are ours. ``verl_agent``: 10 for success, -0.1 for an invalid
#: action, nothing else. ``success``: 1 for success, nothing else.
REWARD_PRESETS: Mapping[str, RewardPreset] = {
    "none": RewardPreset(),
    "capo": RewardPreset(
        keep_env_reward=False, success=1.0, valid_call=0.1, valid_call_cap=0.5, purchase=0.1
    ),
    "verl_agent": RewardPreset(keep_env_reward=False, success=10.0, invalid_call=-0.1),
    "success": RewardPreset(keep_env_reward=False, success=1.0),
}


def reward_preset(name: str) -> RewardPreset:
    """The preset of that name.

    Raises:
        UsageError: naming the presets there are.
    """
    try:
        return REWARD_PRESETS[name]
    except KeyError:
        raise UsageError(
            f"reward preset {name!r} does not exist; use {', '.join(REWARD_PRESETS)}"
        ) from None


def shape_reward(
    preset: RewardPreset,
    *,
    env_reward: float,
    valid: bool,
    valid_before: int,
    success: bool,
    purchased: bool,
    terminated: bool,
) -> float:
    """The shaped reward of one step.

    Args:
        preset: the rule.
        env_reward: the environment's own reward.
        valid: whether this action was valid.
        valid_before: how many valid actions the episode had before.
        success: whether the episode has succeeded.
        purchased: whether a purchase ended it.
        terminated: whether this step ended it.
    """
    reward = env_reward if preset.keep_env_reward else 0.0
    if valid:
        paid = min(valid_before * preset.valid_call, preset.valid_call_cap)
        reward += min((valid_before + 1) * preset.valid_call, preset.valid_call_cap) - paid
    else:
        reward += preset.invalid_call
    if terminated and success:
        reward += preset.success
    if terminated and purchased:
        reward += preset.purchase
    return reward

"""What every algorithm can be told, with one sentence of help for each setting.

Defaults are the settings of the paper that an algorithm follows; each algorithm's own class
states what differs. A preset is a named set of changes to those defaults.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.losses import Aggregation, KlEstimator
from agentgym_suite.trainers.privileged import PI_TOKENS, PiPosition
from agentgym_suite.trainers.ratios import RatioKind
from agentgym_suite.trainers.stats import GROUP_EPS, Spread

Preset = Mapping[str, Any]

AlignMode = Literal["per_group", "per_target"]
PiSource = Literal["aligned", "generic_skill", "random_success", "nearest_success", "none"]
ToldSource = Literal["aligned", "generic_skill", "random_success", "nearest_success"]
"""The sources of an algorithm that is nothing without privileged information."""

VERL_AGENT: Preset = {
    "kl_coef": 0.01,
    "entropy_coef": 1e-3,
    "dual_clip": 3.0,
    "minibatch_unit": "rows",
    "minibatch_rows": 256,
}
"""What the baselines of verl-agent's public scripts share, those for ALFWorld."""

ONE_WAY = "share_prefix and merge_append_only are two ways to compute a prompt once; set one"
"""What whoever is asked for both says."""

ABOVE_ZERO = (math.ulp(0.0), math.inf)
"""Bounds of a number that may be anything but 0 or less."""


def check_settings(settings: Any, bounds: Mapping[str, tuple[float, float]]) -> None:
    """Refuse a choice that is not offered, and a number that is out of its range or not finite.

    Args:
        settings: a dataclass; its ``Literal`` fields are choices.
        bounds: least and largest value of a number, where they are not 0 and none.

    Raises:
        UsageError: naming the setting, its value and what it may be.
    """
    for name, hint in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        if get_origin(hint) is Literal and value not in get_args(hint):
            known = ", ".join(map(repr, get_args(hint)))
            raise UsageError(f"{name} is {value!r}; use one of {known}")
    for name, value in vars(settings).items():
        _check_number(name, value, *bounds.get(name, (0.0, math.inf)))


def _check_number(name: str, value: object, low: float, high: float) -> None:
    """Refuse a number that is outside its bounds, not finite, or a whole one beyond 64 bits.

    What is no number passes.

    Raises:
        UsageError: naming the setting, its value and what it may be.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int) and value > sys.maxsize:  # arithmetic with floats would overflow
        raise UsageError(f"{name} is {shown(value)}; give at most {sys.maxsize:,}")
    if low <= value <= high and abs(value) < math.inf:
        return
    raise UsageError(f"{name} is {shown(value)}; give {_range(low, high)}")


def _range(low: float, high: float) -> str:
    if high < math.inf:
        return f"a number from {low:g} to {high:g}"
    if low == -math.inf:
        return "a finite number"
    return "a number above 0" if low == ABOVE_ZERO[0] else f"a number from {low:g} on"


def setting(default: Any, help: str) -> Any:
    """A dataclass field with its sentence of help."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig:
    """Settings that every algorithm has.

    Raises:
        UsageError: a value outside its choices or range.
    """

    PRESETS: ClassVar[Mapping[str, Preset]] = {"paper": {}, "tiny": {}, "public_code": {}}

    # rewards
    reward_scale: float = setting(1.0, "every reward is multiplied by this")
    invalid_penalty: float = setting(0.0, "taken off for an invalid action")
    invalid_penalty_place: Literal["reward", "advantage"] = setting(
        "reward", "where it is taken off: before returns, or after all normalisation"
    )
    bootstrap_truncated: bool = setting(
        False, "take V after the last observation of a truncated trajectory instead of 0"
    )

    # ratio and clipping
    ratio: RatioKind = setting("token", "how token log-ratios make an importance ratio")
    ratio_alpha: float = setting(0.5, "exponent of ratio 'power': exp(sum z / L^alpha)")
    mu_scope: Literal["minibatch", "microbatch", "fixed"] = setting(
        "minibatch",
        "over what the centre of ratio 'action_aware' is taken; 'microbatch' is inexact",
    )
    mu_fixed: float = setting(0.0, "the centre itself, for mu_scope 'fixed'")
    clip_low: float = setting(0.2, "the ratio is clipped at 1 - clip_low")
    clip_high: float = setting(0.2, "the ratio is clipped at 1 + clip_high")
    dual_clip: float = setting(0.0, "bound c > 1 of the loss of negative advantages; 0 is off")
    aggregation: Aggregation = setting("token-mean", "how token losses make one number")
    mismatch_cap: float = setting(
        0.0, "tokens weigh min(pi_old / pi_engine, this), against engine mismatch; 0 is off"
    )
    dr_constant: float = setting(512.0, "tokens that 'dr-grpo' divides a row by")

    # regularisation
    kl_coef: float = setting(0.0, "weight of the divergence to the reference policy")
    kl_estimator: KlEstimator = setting(
        "k3", "estimator of that divergence on sampled tokens; k1 for the reward alone"
    )
    kl_place: Literal["loss", "reward"] = setting("loss", "a term of the loss, or of the reward")
    entropy_coef: float = setting(0.0, "weight of the entropy bonus")

    # regime
    tasks: int = setting(16, "tasks of an iteration")
    rollouts: int = setting(8, "trajectories of each task")
    minibatch_unit: Literal["rows", "trajectories"] = setting(
        "trajectories", "what an optimizer mini-batch is made of: single rows or whole trajectories"
    )
    minibatch_rows: int = setting(256, "rows of an optimizer mini-batch")
    epochs: int = setting(1, "passes over an iteration's rows")
    learning_rate: float = setting(1e-6, "of the policy")
    grad_clip: float = setting(1.0, "largest norm of the gradient")

    def __post_init__(self) -> None:
        check_settings(self, self._bounds())
        if self.dual_clip and not self.dual_clip > 1.0:
            raise UsageError(f"dual_clip is {self.dual_clip}; give a number above 1, or 0 for off")
        if self.kl_coef and self.kl_estimator == "k1" and self.kl_place == "loss":
            raise UsageError(
                "kl_estimator is 'k1', whose expected gradient as a term of the loss is 0; use "
                "'k3', or set kl_place to 'reward'"
            )

    def _bounds(self) -> dict[str, tuple[float, float]]:
        """Least and largest value of a number, where they are not 0 and none.

        A subclass adds its own.
        """
        inf = math.inf
        return {
            "reward_scale": ABOVE_ZERO,
            "ratio_alpha": (0.0, 1.0),
            "mu_fixed": (-inf, inf),
            "clip_low": (0.0, 1.0),
            "dr_constant": (1.0, inf),
            "tasks": (1, inf),
            "rollouts": (1, inf),
            "minibatch_rows": (1, inf),
            "epochs": (1, inf),
            "grad_clip": ABOVE_ZERO,
        }

    @classmethod
    def preset(cls, name: str = "paper", **settings: Any) -> Self:
        """The settings of that name, changed by ``settings``.

        Raises:
            UsageError: no such preset or setting, or a value that cannot be.
        """
        if name not in cls.PRESETS:
            raise UsageError(f"preset {name!r} does not exist; use {', '.join(cls.PRESETS)}")
        known = {item.name for item in fields(cls)}
        for key in settings:
            if key not in known:
                raise UsageError(f"setting {key!r} does not exist; use {', '.join(sorted(known))}")
        return cls(**{**cls.PRESETS[name], **settings})


@dataclass(frozen=True, kw_only=True)
class ReturnsConfig(AlgorithmConfig):
    """Settings of algorithms that sum rewards over time."""

    gamma: float = setting(1.0, "discount of a step (of a token in token-level returns)")

    def _bounds(self) -> dict[str, tuple[float, float]]:
        return {**super()._bounds(), "gamma": (0.0, 1.0)}


@dataclass(frozen=True, kw_only=True)
class ValueConfig(ReturnsConfig):
    """Settings of algorithms that know values, of a network or of the policy itself."""

    lam: float = setting(1.0, "lambda of generalised advantage estimation")
    value_clip: float = setting(0.5, "the value may move so far from its frozen self")

    def _bounds(self) -> dict[str, tuple[float, float]]:
        return {**super()._bounds(), "lam": (0.0, 1.0)}


@dataclass(frozen=True, kw_only=True)
class CriticConfig(ValueConfig):
    """Settings of algorithms with a value network."""

    critic_learning_rate: float = setting(1e-5, "of the critic")


@dataclass(frozen=True, kw_only=True)
class PrivilegedConfig(AlgorithmConfig):
    """Settings of algorithms whose frozen policy is shown privileged information (PI)."""

    pi_source: PiSource = setting("aligned", "where privileged information comes from")
    pi_position: PiPosition = setting(
        "prefix", "in front of the first prompt token, or in the last user message"
    )
    pi_tokens: int = setting(PI_TOKENS, "token budget of the privileged text")


@dataclass(frozen=True, kw_only=True)
class GroupConfig(AlgorithmConfig):
    """Settings of algorithms that compare the trajectories of one task."""

    filter_groups: bool = setting(
        False, "leave out groups whose scores are all equal, and draw others"
    )
    filter_rounds: int = setting(10, "how often, at most; what was played for it counts")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.filter_groups and self.rollouts < 2:
            raise UsageError(
                "filter_groups is set and rollouts is 1, so that no two scores can differ; raise "
                "rollouts"
            )

    def _bounds(self) -> dict[str, tuple[float, float]]:
        return {**super()._bounds(), "filter_rounds": (1, math.inf)}


@dataclass(frozen=True, kw_only=True)
class NormalisedGroupConfig(GroupConfig):
    """Settings of algorithms that normalise a group's scores as GRPO does."""

    norm_by_std: bool = setting(True, "divide a group's scores by their deviation")
    group_std: Spread = setting("unbiased", "denominator of that deviation")
    group_eps: float = setting(GROUP_EPS, "added to that deviation; equal scores give 0")

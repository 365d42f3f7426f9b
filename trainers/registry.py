"""The algorithms by name: what each is made of, where it comes from, and how to make one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from agentgym_suite.errors import UsageError
from agentgym_suite.own_modules import own_module
from agentgym_suite.trainers.algorithm import Algorithm
from agentgym_suite.trainers.capo import Capo, CapoConfig
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.dapo import Dapo, DapoConfig
from agentgym_suite.trainers.gigpo import Gigpo, GigpoConfig
from agentgym_suite.trainers.grpo import Grpo, GrpoConfig
from agentgym_suite.trainers.grpo_opsd import GrpoOpsd, GrpoOpsdConfig
from agentgym_suite.trainers.gspo import Gspo, GspoConfig
from agentgym_suite.trainers.opd import Opd, OpdConfig
from agentgym_suite.trainers.opsd import Opsd, OpsdConfig
from agentgym_suite.trainers.policy_gradient import PolicyGradient
from agentgym_suite.trainers.ppo import Ppo, PpoConfig
from agentgym_suite.trainers.reinforce_pp import ReinforcePp, ReinforcePpConfig
from agentgym_suite.trainers.reinforce_pp_baseline import (
    ReinforcePpBaseline,
    ReinforcePpBaselineConfig,
)
from agentgym_suite.trainers.rloo import Rloo, RlooConfig
from agentgym_suite.trainers.sapo_ar import SapoAr, SapoArConfig
from agentgym_suite.trainers.st_ppo import StPpo, StPpoConfig
from agentgym_suite.trainers.taspo import Taspo, TaspoConfig
from agentgym_suite.trainers.turn_ppo import TurnPpo, TurnPpoConfig


@dataclass(frozen=True, slots=True)
class AlgoSpec:
    """One row of the registry.

    Attributes:
        name: how it is asked for.
        title: how it is written.
        source: where its equations stand.
        advantage: how credit is given, in words.
        ratio: what is clipped, in words.
        config: the class of its settings, with presets.
        algorithm: the class that composes it.
    """

    name: str
    title: str
    source: str
    advantage: str
    ratio: str
    config: type[AlgorithmConfig]
    algorithm: type[PolicyGradient[Any]]


_ROWS = (
    AlgoSpec(
        "capo",
        "CAPO",
        "arXiv 2604.18401",
        "GAE over actions, whitened over steps",
        "action-aware ratio of an action",
        CapoConfig,
        Capo,
    ),
    AlgoSpec(
        "sapo_ar",
        "SAPO",
        "arXiv 2608.19842",
        "GAE over actions with the policy's own V, normalised over turns",
        "token",
        SapoArConfig,
        SapoAr,
    ),
    AlgoSpec(
        "taspo",
        "TASPO",
        "Reconciling Process Supervision with Outcome-Based Credit in Agentic Policy Optimization",
        "GRPO's, weighted over turns by privileged information",
        "token",
        TaspoConfig,
        Taspo,
    ),
    AlgoSpec("ppo", "PPO", "arXiv 1707.06347", "GAE over tokens", "token", PpoConfig, Ppo),
    AlgoSpec(
        "reinforce_pp",
        "REINFORCE++",
        "arXiv 2501.03262",
        "returns of tokens, whitened over tokens",
        "token",
        ReinforcePpConfig,
        ReinforcePp,
    ),
    AlgoSpec(
        "reinforce_pp_baseline",
        "REINFORCE++ (group baseline)",
        "arXiv 2501.03262",
        "score less the group's mean, whitened over tokens",
        "token",
        ReinforcePpBaselineConfig,
        ReinforcePpBaseline,
    ),
    AlgoSpec(
        "grpo",
        "GRPO",
        "arXiv 2402.03300",
        "score normalised in its group",
        "token",
        GrpoConfig,
        Grpo,
    ),
    AlgoSpec(
        "rloo",
        "RLOO",
        "arXiv 2402.14740",
        "score less the mean of the group's others",
        "token",
        RlooConfig,
        Rloo,
    ),
    AlgoSpec(
        "gspo",
        "GSPO",
        "arXiv 2507.18071",
        "score normalised in its group",
        "geometric mean over a sequence",
        GspoConfig,
        Gspo,
    ),
    AlgoSpec(
        "gigpo",
        "GiGPO",
        "arXiv 2505.10978",
        "GRPO's, plus returns compared among equal states",
        "token",
        GigpoConfig,
        Gigpo,
    ),
    AlgoSpec(
        "turn_ppo",
        "Turn-PPO",
        "arXiv 2511.20718",
        "GAE over tokens",
        "geometric mean over a turn",
        TurnPpoConfig,
        TurnPpo,
    ),
    AlgoSpec(
        "st_ppo",
        "ST-PPO",
        "arXiv 2511.20718",
        "GAE over tokens",
        "geometric mean over a turn, corrected for clipping bias (our reading)",
        StPpoConfig,
        StPpo,
    ),
    AlgoSpec(
        "dapo",
        "DAPO",
        "arXiv 2503.14476",
        "score normalised in its group",
        "token, wider above than below",
        DapoConfig,
        Dapo,
    ),
    AlgoSpec(
        "opsd",
        "OPSD",
        "arXiv 2306.13649",
        "none: distillation from the policy with privileged information",
        "token, for objective 'sampled'",
        OpsdConfig,
        Opsd,
    ),
    AlgoSpec(
        "opd",
        "OPD",
        "arXiv 2306.13649",
        "none: distillation from another model",
        "token, for objective 'sampled'",
        OpdConfig,
        Opd,
    ),
    AlgoSpec(
        "grpo_opsd",
        "GRPO + OPSD",
        "a public fork of SDAR (our reading)",
        "GRPO's, beside gated distillation",
        "token",
        GrpoOpsdConfig,
        GrpoOpsd,
    ),
)
ALGORITHMS: Mapping[str, AlgoSpec] = {row.name: row for row in _ROWS}


def algorithm_spec(name: str) -> AlgoSpec:
    """The row of that name, or of ``MODULE:CLASS``, a subclass of ``PolicyGradient``.

    Raises:
        UsageError: no such algorithm; ``sapo`` is told apart from ``sapo_ar``.
    """
    if ":" in name:
        return _own_spec(name)
    if name == "sapo":
        raise UsageError(
            "algorithm 'sapo' is ambiguous: elsewhere it names Soft Adaptive Policy Optimization; "
            "the single-rollout autoregressive SAPO is 'sapo_ar'"
        )
    try:
        return ALGORITHMS[name]
    except KeyError:
        known = ", ".join(ALGORITHMS)
        raise UsageError(
            f"algorithm {name!r} does not exist; use {known}, or MODULE:CLASS for one of your own"
        ) from None


def _own_spec(name: str) -> AlgoSpec:
    """The row of a class that is imported; its settings are those of its base."""
    module_name, _, class_name = name.partition(":")
    module = own_module("algorithm", name, module_name)
    algorithm = getattr(module, class_name, None)
    if not (isinstance(algorithm, type) and issubclass(algorithm, PolicyGradient)):
        raise UsageError(
            f"algorithm {name!r} is no subclass of PolicyGradient; write MODULE:CLASS with one"
        )
    for made in algorithm.__mro__:
        for base in made.__dict__.get("__orig_bases__", ()):
            for config in get_args(base):
                if isinstance(config, type) and issubclass(config, AlgorithmConfig):
                    own = "an algorithm of your own"
                    return AlgoSpec(name, class_name, own, own, own, config, algorithm)
    raise UsageError(
        f"algorithm {name!r} names no class of settings; derive it from PolicyGradient[CONFIG] or "
        "GroupRelative[CONFIG], CONFIG a subclass of AlgorithmConfig"
    )


def make_algorithm(name: str, preset: str = "paper", **settings: Any) -> Algorithm:
    """The algorithm of that name with a preset's settings, changed by ``settings``.

    Raises:
        UsageError: no such algorithm, preset or setting, or a value that cannot be.
    """
    spec = algorithm_spec(name)
    return spec.algorithm(spec.config.preset(preset, **settings))

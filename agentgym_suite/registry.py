"""The environments of the suite, registered with Gymnasium by name.

A later environment is one more row of ``ENVIRONMENTS``; the registry-wide tests, ``list``,
``doctor`` and the smoke suite follow this table.
"""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec


@dataclass(frozen=True, slots=True)
class Environment:
    """One row of the registry.

    Attributes:
        id: Gymnasium id.
        entry_point: ``module:factory``, imported when the environment is made.
        max_episode_steps: default horizon.
        name: its short name in commands, data home and URLs.
        summary: one line for people.
        extras: optional dependencies it needs to play its embedded world.
    """

    id: str
    entry_point: str
    max_episode_steps: int
    name: str
    summary: str
    extras: tuple[str, ...] = ()


ENVIRONMENTS = (
    Environment(
        "WebShop-v0",
        "agentgym_suite.webshop:make",
        15,
        "webshop",
        "Buy the product that a customer describes, in a shop with search and options",
    ),
    Environment(
        "ALFWorld-v0",
        "agentgym_suite.alfworld:make",
        50,
        "alfworld",
        "Do a chore in a household: find, clean, heat, cool, look at and put away objects",
    ),
    Environment(
        "MultiHopQA-v0",
        "agentgym_suite.multihop_qa:make",
        5,
        "multihop_qa",
        "Answer a question whose facts lie in several passages, found by searching",
    ),
    Environment(
        "PaperSearch-v0",
        "agentgym_suite.paper_search:make",
        5,
        "paper_search",
        "Find the papers that answer a research question, by searching and along citations",
    ),
)
TELL_HORIZON = WrapperSpec("TellHorizon", "agentgym_suite.horizon:TellHorizon", {})
ENV_IDS = tuple(environment.id for environment in ENVIRONMENTS)


def register_environments() -> None:
    """Register every environment that Gymnasium does not know yet; safe to call again."""
    for environment in ENVIRONMENTS:
        if environment.id not in gym.registry:
            gym.register(
                environment.id,
                entry_point=environment.entry_point,
                max_episode_steps=environment.max_episode_steps,
                # gymnasium's passive checker breaks every step after a reset that was refused
                disable_env_checker=True,
                additional_wrappers=(TELL_HORIZON,),
            )

"""Agents that need no model: random, the environments' own policies, and replay."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import gymnasium as gym
import numpy as np

from agentgym_suite.episodes import AgentFactory, Reply, Turn
from agentgym_suite.errors import UsageError
from agentgym_suite.game import Policy, game_of
from agentgym_suite.own_modules import own_module


class RandomAgent:
    """Uniform over the admissible actions, with a generator of its own."""

    def __init__(self, env: gym.Env[str, str], seed: int) -> None:
        self._game = game_of(env)
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def act(self, turn: Turn) -> Reply:
        """One random action."""
        return Reply(self._game.random_action(self._rng))

    def close(self) -> None:
        """Nothing is held."""


class PolicyAgent:
    """Plays a policy of the environment, such as its oracle."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def act(self, turn: Turn) -> Reply:
        """The policy's next action."""
        return Reply(self._policy(turn.observation, turn.info))

    def close(self) -> None:
        """Nothing is held."""


class ReplayAgent:
    """Gives the recorded actions of its task, one a turn.

    Args:
        recordings: task id -> actions.
    """

    def __init__(self, recordings: Mapping[str, Sequence[str]]) -> None:
        self._recordings = recordings

    def act(self, turn: Turn) -> Reply:
        """The recorded action of this step.

        Raises:
            UsageError: the task was not recorded, or goes on after its recording's end.
        """
        actions = self._recordings.get(turn.task.id, ())
        if turn.step_index >= len(actions):
            raise UsageError(
                f"the recording of task {turn.task.id} has {len(actions)} actions; "
                "replay it with the data and versions it was recorded with"
            )
        return Reply(actions[turn.step_index])

    def close(self) -> None:
        """Nothing is held."""


AGENTS: Mapping[str, AgentFactory] = {
    "random": RandomAgent,
    "oracle": lambda env, seed: PolicyAgent(game_of(env).policy("oracle")),
    "scripted": lambda env, seed: PolicyAgent(game_of(env).policy("scripted")),
}


MODEL_AGENT_NAMES = ("openai", "cassette", "transformers", "vllm", "checkpoint")
"""The kinds of agents that need a model and its options."""


def agent_factory(name: str) -> AgentFactory:
    """The factory of a named agent, or of one of your own as ``module:Class``.

    Raises:
        UsageError: naming the agents there are, or what is wrong with the module.
    """
    if ":" in name:
        return _imported_factory(name)
    if name in MODEL_AGENT_NAMES:
        raise UsageError(
            f"agent {name!r} has a model; make it with its options by evaluation.model_agent"
        )
    try:
        return AGENTS[name]
    except KeyError:
        raise UsageError(
            f"agent {name!r} does not exist; use {', '.join(AGENTS)}, MODULE:CLASS for your own, "
            f"or evaluation.model_agent for one with a model ({', '.join(MODEL_AGENT_NAMES)})"
        ) from None


def _imported_factory(name: str) -> AgentFactory:
    """The class or function ``module:Class``, called with an environment and a seed."""
    module_name, _, class_name = name.partition(":")
    if not (module_name and class_name) or module_name.startswith("."):
        raise UsageError(f"agent {name!r} is no name of a class; write MODULE:CLASS")
    module = own_module("agent", name, module_name)
    factory = getattr(module, class_name, None)
    if not callable(factory):
        nearest = difflib.get_close_matches(class_name, dir(module), n=1)
        advice = f"did you mean {nearest[0]!r}?" if nearest else "check the name of the class"
        raise UsageError(f"module {module_name!r} has no class {class_name!r}; {advice}")
    made: AgentFactory = factory
    return made

"""An environment made of what a user typed: whatever is wrong with it is one sentence."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import re
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from agentgym_suite.arguments import shown
from agentgym_suite.errors import AgentGymSuiteError, UsageError
from agentgym_suite.own_modules import own_module

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")


def make_environment(
    env_id: str, arguments: Mapping[str, Any], *, max_episode_steps: int | None = None
) -> gym.Env[str, str]:
    """The environment of an id with arguments that a user gave.

    Args:
        env_id: a Gymnasium id, or ``MODULE:ID``, see ``registered_id``.
        arguments: of the environment or of ``gym.make``.
        max_episode_steps: horizon; None keeps that of the arguments, or the environment's own.

    Raises:
        UsageError: it is not registered, cannot be made, or an argument is wrong.
    """
    env_id = registered_id(env_id)
    given = dict(arguments)
    if max_episode_steps is not None:
        given["max_episode_steps"] = max_episode_steps
    # The checker is for authors of environments; it would check every episode's first step.
    given.setdefault("disable_env_checker", True)
    try:
        return gym.make(env_id, **given)
    except (TypeError, ValueError) as error:
        if isinstance(error, AgentGymSuiteError) or not arguments:
            raise  # nothing that the caller gave: a fault of the environment
        raise UsageError(_wrong_argument(env_id, arguments, error)) from error
    except gym.error.Error as error:
        if isinstance(error, AgentGymSuiteError):
            raise
        raise UsageError(f"{env_id} cannot be made: {error}") from error


def registered_id(name: str) -> str:
    """The Gymnasium id of a name; ``MODULE:ID`` imports the module that registers it first.

    Raises:
        UsageError: the module cannot be imported, or there is no such environment.
    """
    module, colon, env_id = name.rpartition(":")
    if colon:
        own_module("environment", name, module)
    if env_id not in gym.registry:
        advice = "see `agentgym-suite list`, or write MODULE:ID for one of your own"
        if colon:
            advice = f"register it in {module}"
        raise UsageError(f"environment {shown(env_id)} is not registered; {advice}")
    return env_id


def _wrong_argument(env_id: str, arguments: Mapping[str, Any], error: Exception) -> str:
    """A sentence about arguments that an environment refuses, with the nearest legal one."""
    unknown = _UNEXPECTED.search(str(error))
    if unknown is None:
        given = ", ".join(f"{name}={shown(value)}" for name, value in arguments.items())
        return f"{env_id} cannot be made with {given}: {error}"
    name = unknown[1]
    legal = _legal_arguments(env_id)
    nearest = difflib.get_close_matches(name, legal, n=1)
    advice = f"did you mean {nearest[0]!r}?" if nearest else f"use {', '.join(sorted(legal))}"
    return f"{env_id} has no argument {shown(name)}; {advice}"


def _legal_arguments(env_id: str) -> set[str]:
    """The keyword arguments of an environment's class and of those it passes the rest to."""
    names = set()
    with contextlib.closing(gym.make(env_id, disable_env_checker=True)) as env:
        for cls in type(env.unwrapped).__mro__:
            constructor = cls.__dict__.get("__init__")
            if constructor is None:
                continue
            parameters = list(inspect.signature(constructor).parameters.values())[1:]
            names |= {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
    return names

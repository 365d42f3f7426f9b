"""The wrapper that tells an environment how long its episodes may be.

``gym.make(…, max_episode_steps=n)`` keeps ``n`` to its ``TimeLimit``; the environment under it is
given a spec without a horizon. This wrapper lies outside the ``TimeLimit`` and passes it on, so
that ``info["steps_left"]`` is right for every horizon.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs


class TellHorizon(gym.Wrapper[str, str, str, str], RecordConstructorArgs):
    """Sets ``env.unwrapped.horizon`` to the step limit in force, None when there is none."""

    def __init__(self, env: gym.Env[str, str]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        game: Any = env.unwrapped
        game.horizon = None if env.spec is None else env.spec.max_episode_steps

"""A module of a user, which registers an environment when it is imported."""

from __future__ import annotations

import gymnasium as gym

gym.register("CountingOfOnesOwn-v0", entry_point="tests.counting:CountingEnv", max_episode_steps=8)

"""The oracle's plan is a function of the game: no order of a set shows, which a process picks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PLAY = """
import gymnasium, agentgym_suite
env = gymnasium.make("ALFWorld-v0")
oracle = env.unwrapped.policy("oracle")
for number in range(0, 240, 16):
    observation, info = env.reset(options={"task_id": env.unwrapped.tasks.ids[number]})
    done = False
    while not done:
        action = oracle(observation, info)
        print(action)
        observation, _, terminated, truncated, info = env.step(action)
        done = terminated or truncated
"""


def plans(hash_seed: str, home: Path) -> str:
    variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "AGENTGYM_SUITE_HOME": str(home)}
    command = [sys.executable, "-c", PLAY]
    return subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout


def test_two_hash_seeds_give_the_same_plans(tmp_path: Path) -> None:
    first, second = plans("1", tmp_path), plans("2", tmp_path)
    assert first.count("\n") > 15
    assert first == second

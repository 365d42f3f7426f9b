"""A small generated world in the official layout, for tests that need files but no real data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym

import agentgym_suite  # noqa: F401
from agentgym_suite.alfworld.generator import generate

SIZES = {"train": 14, "valid_seen": 6, "valid_unseen": 6}


def write_world(folder: Path) -> Path:
    """Generate the world; return the folder that holds ``json_2.1.1``."""
    generate(folder, games=SIZES, seed=3, check=False)
    return folder


def make(data: Any, **kwargs: Any) -> gym.Env[str, str]:
    """The environment over some data."""
    return gym.make("ALFWorld-v0", data=data, **kwargs)


def game_of(env: gym.Env[str, str]) -> Any:
    """The environment inside its wrappers."""
    return env.unwrapped


def game_files(folder: Path) -> list[Path]:
    """Every game file below a folder, sorted."""
    return sorted(folder.rglob("game.tw-pddl"))


def edit(path: Path, **changes: Any) -> None:
    """Change keys of a game file; None removes the key."""
    value = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps({k: v for k, v in value.items() if v is not None}), "utf-8")


def expand_official(shared: Path, folder: Path, *options: str) -> Path:
    """Write official games in their layout with the tool beside the benchmark data."""
    tool = shared / "tools" / "alfworld_expand.py"
    command = [sys.executable, str(tool), "--out", str(folder), *options]
    subprocess.run(command, check=True, capture_output=True)
    return folder

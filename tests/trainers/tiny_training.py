"""A training of seconds: the counting game, a policy of some thousand parameters."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym_suite.episodes import EpisodeRequest, PlaySettings
from agentgym_suite.prompts import StepPrompt
from agentgym_suite.trainers.checkpoints import checkpoints
from agentgym_suite.trainers.demonstrations import cover, noisy_teacher, play_all
from agentgym_suite.trainers.run_settings import Configuration, resolve
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.tiny_policy import TinyShape, build_policy, build_tokenizer
from agentgym_suite.trainers.trainer import Trainer
from tests.counting import CountingEnv

SHAPE = TinyShape(hidden=32, layers=1, mlp=48, heads=2, kv_heads=1, head_width=16, window=128)
TASKS = tuple(f"count-{number}" for number in range(10, 14))
ROOT = Path(__file__).parents[2]
_CHILD = """
import json
import signal
import sys
import torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
torch.set_num_threads(1)
from pathlib import Path
from tests.trainers.tiny_training import trainer
trainer(sys.argv[1], Path(sys.argv[2]), **json.loads(sys.argv[3])).run()
"""
PLAY = PlaySettings(prompt=StepPrompt("terse"), max_steps=8)


def counting() -> gym.Env[str, str]:
    """One environment."""
    return CountingEnv()


def words() -> list[str]:
    """Everything that can be read or written in the game."""
    requests = [EpisodeRequest(task, 0) for task in TASKS]
    played = play_all(counting, noisy_teacher(0.0), requests, PLAY)
    numbers = " ".join(map(str, range(25)))
    return [*cover(played), f"{numbers} of", "now Count to did now boom"]


def policy(seed: int = 0, **shape: Any) -> tuple[Any, Any]:
    """Model and tokenizer; always the same for a seed."""
    tokenizer = build_tokenizer(words())
    return build_policy(tokenizer, shape=SHAPE, seed=seed), tokenizer


def configuration(algorithm: str, **given: Any) -> Configuration:
    """Small numbers for everything."""
    small = {
        "env": "Counting-v0",
        "split": "train",
        "unseen_split": "",
        "most_admissible": 0,
        "horizon": 8,
        "prompt": "terse",
        "max_new_tokens": 6,
        "warmup_steps": 0,
        "tasks": 2,
        "rollouts": 2,
        "minibatch_rows": 12,
        "micro_tokens": 128,
        "budget_steps": 60,
        "evaluate_every": 0,
        "checkpoint_every": 1,
        "learning_rate": 1e-3,
    }
    return resolve(algorithm, "tiny", None, {**small, **given})


def trainer(
    algorithm: str,
    out: Path,
    *,
    seed: int = 0,
    run_seed: int = 41,
    more: Any = None,
    **given: Any,
) -> Trainer:
    """A trainer at its start; ``seed`` is that of the policy's weights."""
    model, tokenizer = policy(seed)
    return Trainer(
        configuration(algorithm, seed=run_seed, **given),
        model,
        tokenizer,
        Played(counting, TASKS),
        out,
        **(more or {}),
    )


def stopped(sign: signal.Signals, algorithm: str, out: Path, **given: Any) -> str:
    """Train in a process of its own, which gets a signal at its first checkpoint; what it said.

    Its run is not at its end then, or the test has shown nothing.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, algorithm, str(out), json.dumps(given)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    while child.poll() is None and not checkpoints(out / "checkpoints"):
        time.sleep(0.01)
    child.send_signal(sign)
    _, told = child.communicate()
    said = told.decode()
    assert child.returncode == -sign, said
    assert checkpoints(out / "checkpoints"), said
    assert not (out / "policy").exists(), "the child ended before it was stopped"
    return said

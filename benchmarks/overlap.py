"""An iteration with slow environments: rollouts beside the update, and before it.

A policy of a third of a million parameters with random weights plays small households whose every
step sleeps, and learns by GRPO: once in step (``max_staleness=0``), twice with rollouts one
iteration ahead (``max_staleness=1``). Before any ratio is printed, the first iteration of both
must have played the same, and the two runs ahead must end with equal weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from agentgym_suite.episodes import EpisodeRequest, PlaySettings
from agentgym_suite.making import make_environment
from agentgym_suite.prompts import StepPrompt
from agentgym_suite.trainers.demonstrations import cover, noisy_teacher, play_all
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.run_settings import resolve
from agentgym_suite.trainers.task_lists import Played, select_tasks
from agentgym_suite.trainers.tiny_policy import build_policy, build_tokenizer
from agentgym_suite.trainers.trainer import Trainer

TASKS = 8
SAME = ("rollout/success", "rollout/steps", "rollout/response_tokens", "rollout/prompt_tokens")
PHASES = ("rollout", "passes", "update")


class Slow(gym.Wrapper[str, str, str, str]):
    """Every step takes so much longer."""

    def __init__(self, env: gym.Env[str, str], seconds: float) -> None:
        super().__init__(env)
        self._seconds = seconds

    def step(self, action: str) -> Any:
        """Sleep, then step."""
        time.sleep(self._seconds)
        return self.env.step(action)


def household() -> gym.Env[str, str]:
    """A fast one."""
    return make_environment("ALFWorld-v0", {})


def train(tasks: tuple[str, ...], words: list[str], out: Path, args: Any, staleness: int) -> Any:
    """One training; its trainer, and the metrics of its iterations."""
    tokenizer = build_tokenizer(words)
    given = {
        "max_staleness": staleness,
        "mismatch_cap": 2.0,
        "tasks": TASKS,
        "rollouts": args.rollouts,
        "horizon": args.horizon,
        "iterations": args.iterations,
        "unseen_split": "",
        "evaluate_every": 0,
        "evaluate_tasks": 1,
        "checkpoint_every": 1_000,
        "budget_steps": 10**9,
    }
    training = Trainer(
        resolve("grpo", "tiny", None, given),
        build_policy(tokenizer, seed=0),
        tokenizer,
        Played(lambda: Slow(household(), args.delay_ms / 1000), tasks, watched=tasks[:1]),
        out,
    )
    training.run()
    return training, read_metrics(out / METRICS_FILE)[:-1]


def seconds(lines: list[Mapping[str, float]]) -> dict[str, float]:
    """Medians over the iterations between the first and the last, which overlap with nothing."""
    inner = lines[1:-1]
    whole = [
        after["wall_s"] - before["wall_s"] for before, after in zip(lines[:-2], inner, strict=True)
    ]
    found = {name: statistics.median(line[f"seconds/{name}"] for line in inner) for name in PHASES}
    return {"iteration": statistics.median(whole), **found}


def main() -> int:
    """Run the three trainings and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--delay-ms", type=float, default=50.0, help="sleep of every step")
    parser.add_argument("--iterations", type=int, default=8, help="of each training, at least 3")
    parser.add_argument("--rollouts", type=int, default=8, help="trajectories of each of 8 tasks")
    parser.add_argument("--horizon", type=int, default=20, help="most steps of an episode")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--report", type=Path, help="write the figures there")
    args = parser.parse_args()
    if args.iterations < 3:
        parser.error("--iterations needs at least 3")
    torch.set_num_threads(args.threads)
    tasks = tuple(select_tasks(household, "train", 15)[:TASKS])
    play = PlaySettings(prompt=StepPrompt("terse"), max_steps=args.horizon)
    requests = [EpisodeRequest(task, 0) for task in tasks]
    words = cover(play_all(household, noisy_teacher(0.4), requests, play))
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            name: train(tasks, words, Path(folder) / name, args, bound)
            for name, bound in (("in step", 0), ("ahead", 1), ("ahead again", 1))
        }
    first = {name: [lines[0][key] for key in SAME] for name, (_, lines) in runs.items()}
    weights = [
        list(runs[name][0].policy.state_dict().values()) for name in ("ahead", "ahead again")
    ]
    if first["in step"] != first["ahead"]:
        print("DIFFERENT: the first iteration in step and ahead")
        return 1
    if not all(torch.equal(a, b) for a, b in zip(*weights, strict=True)):
        print("DIFFERENT: two runs ahead end with other weights")
        return 1
    print("equal: the first iteration of both; the weights of two runs ahead, to the bit")
    told = {name: seconds(lines) for name, (_, lines) in runs.items()}
    for name, found in told.items():
        print(f"{name:12}", "  ".join(f"{phase} {value:.2f} s" for phase, value in found.items()))
    ratio = told["in step"]["iteration"] / told["ahead"]["iteration"]
    saved = 1 - 1 / ratio
    print(f"an iteration ahead takes {saved:.0%} less time ({ratio:.2f}x), by medians")
    if args.report:
        settings = {k: v for k, v in vars(args).items() if k != "report"}
        report = {"settings": settings, "seconds": told, "ratio": ratio}
        args.report.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

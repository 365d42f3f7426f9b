"""WebShop-v0 against the original: environment steps per CPU second, equality checked.

Replays the recorded episodes of the original through ``gym.make`` on the same 1,000 products and
compares every observation, reward and list of actions with the recording. The original installs
from no package index, so its side is the figure recorded for it, 69 steps per CPU second
(text mode, one process, 1,000 products, admissible actions asked before every step).

Run: AGENTGYM_SUITE_SHARED=/path/to/benchmark/data make benchmark
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import sys
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

import agentgym_suite
from agentgym_suite.webshop.catalogue import open_catalogue

RECORDED_STEPS_PER_CPU_SECOND = 69.0
LEGACY_PRICE_SEED = 20240
GOALS = {"synthetic": "episodes_synth.jsonl.xz", "human": "episodes_human.jsonl.xz"}


@dataclass
class Figures:
    """What one pass over the recordings cost."""

    steps: int = 0
    step_seconds: float = 0.0
    resets: int = 0
    reset_seconds: float = 0.0
    differences: int = 0

    @property
    def steps_per_second(self) -> float:
        """Steps per CPU second."""
        return self.steps / self.step_seconds


def recordings(shared: Path, goals: str) -> list[dict[str, Any]]:
    """The recorded episodes of one kind of goal."""
    path = shared / "data" / "webshop" / "golden" / GOALS[goals]
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def replay(env: gym.Env[str, str], episodes: list[dict[str, Any]], figures: Figures) -> None:
    """Play every recorded action; only resets and steps are on the clock."""
    for episode in episodes:
        started = time.process_time()
        first, info = env.reset(options={"task_id": episode["goal_idx"]})
        figures.reset_seconds += time.process_time() - started
        figures.resets += 1
        played = [(first, 0.0, False, info)]
        started = time.process_time()
        for step in episode["steps"]:
            observation, reward, terminated, _, info = env.step(step["action"])
            played.append((observation, reward, terminated, info))
        figures.step_seconds += time.process_time() - started
        figures.steps += len(episode["steps"])
        wanted = [{**episode["first"], "reward": 0.0, "done": False}, *episode["steps"]]
        for (observation, reward, terminated, info), record in zip(played, wanted, strict=True):
            available = record["available"]
            figures.differences += (
                observation != record["text"]
                or abs(reward - record["reward"]) > 1e-12
                or terminated != record["done"]
                or info["has_search_bar"] != available["has_search_bar"]
                or list(info["clickables"]) != available["clickables"]
            )


def measure(shared: Path, repeats: int, cache_size: int) -> Figures:
    """Both kinds of goals, ``repeats`` times after one pass that is not counted."""
    figures = Figures()
    data = shared / "data" / "webshop"
    for goals in GOALS:
        catalogue = open_catalogue(
            data,
            goals=goals,  # type: ignore[arg-type]
            legacy_price_seed=LEGACY_PRICE_SEED,
            nouns=data / "golden" / "title_nouns_sm360.jsonl.xz",
            cache_size=cache_size,
        )
        env = gym.make("WebShop-v0", catalogue=catalogue, split="test")
        episodes = recordings(shared, goals)
        replay(env, episodes, Figures())
        for _ in range(repeats):
            replay(env, episodes, figures)
    return figures


def memory_per_environment(shared: Path, count: int = 64) -> float:
    """KiB allocated by each further live environment of one process, mid-episode."""
    data = shared / "data" / "webshop"

    def playing(seed: int) -> gym.Env[str, str]:
        env = gym.make("WebShop-v0", data=data, split="train")
        env.reset(seed=seed)
        env.step("search[shoes]")
        return env

    envs = [playing(i) for i in range(count)]  # fills what is shared: catalogue, pages, results
    tracemalloc.start()
    envs += [playing(i) for i in range(count)]
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return allocated / count / 1024


def main() -> int:
    """Print the table; non-zero if any recorded field differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args()
    folder = os.environ.get("AGENTGYM_SUITE_SHARED")
    if not folder:
        print("AGENTGYM_SUITE_SHARED is not set: it names the folder with the recordings")
        return 2
    shared = Path(folder)
    per_environment = memory_per_environment(shared)
    rows = {
        "search results cached": measure(shared, args.repeats, 2_048),
        "search cache off": measure(shared, args.repeats, 0),
    }
    print(f"agentgym-suite {agentgym_suite.__version__}, WebShop-v0, 1,000 official products")
    print(f"{'':24}{'steps/CPU s':>12}{'x original':>12}{'reset ms':>10}{'differences':>13}")
    print(f"{'original (recorded)':24}{RECORDED_STEPS_PER_CPU_SECOND:12,.0f}{1:12,.0f}")
    for name, figures in rows.items():
        ratio = figures.steps_per_second / RECORDED_STEPS_PER_CPU_SECOND
        reset = 1000 * figures.reset_seconds / figures.resets
        print(
            f"{name:24}{figures.steps_per_second:12,.0f}{ratio:12,.0f}{reset:10.3f}"
            f"{figures.differences:13,}"
        )
    print(f"memory of each further environment in one process: {per_environment:.1f} KiB")
    return 1 if any(figures.differences for figures in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

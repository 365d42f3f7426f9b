"""The household and TextWorld side by side: CPU time, equality, memory, endurance.

    python benchmarks/alfworld.py [--games 36] [--steps 30] [--python PATH]

Both engines play the same commands in the same run, the native one through `gym.make` with its
info. Every observation, list of admissible commands and won flag is compared; a ratio is printed
only beside the number of steps found equal. CPU time is that of the process that plays. The
figures go to `benchmarks/alfworld.json`.

The games come from AGENTGYM_SUITE_SHARED, or from a tree in the official layout (`--data`);
PATH is an interpreter that has TextWorld and alfworld.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym_suite  # noqa: F401  registers the environment
from agentgym_suite.alfworld import textworld_worker
from agentgym_suite.alfworld.game_index import GameRecord
from agentgym_suite.errors import UsageError
from agentgym_suite.machine import memory_mib

_FIGURES = Path(__file__).with_suffix(".json")
_WARM_UP = 40  # games that fill memory and caches first: what is measured is a running process
_SPLITS = ("train", "valid_seen", "valid_unseen")


@dataclass(slots=True)
class Times:
    """CPU seconds of one engine."""

    starts: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)


class TextWorld:
    """TextWorld in a process of its own, with the CPU time that each answer took there."""

    def __init__(self, python: str) -> None:
        command = [python, "-P", str(Path(textworld_worker.__file__))]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._cpu = Path(f"/proc/{self.process.pid}/schedstat")

    def ask(self, **request: Any) -> tuple[dict[str, Any], float]:
        """The answer to a request, and its CPU seconds."""
        if self.process.stdin is None or self.process.stdout is None:
            raise SystemExit("the TextWorld process has no pipes")
        before = self._seconds()
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise SystemExit(f"TextWorld: {answer['error']}")
        return answer, self._seconds() - before

    def _seconds(self) -> float:
        return int(self._cpu.read_text().split()[0]) / 1e9


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="games in the official layout")
    parser.add_argument("--games", type=int, default=36)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=10_000, help="for endurance")
    parser.add_argument("--python", default=sys.executable, help="one that has TextWorld")
    parser.add_argument("--out", type=Path, default=_FIGURES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = options.data or _unpacked(Path(folder))
        figures = {
            "first observation, cold": _first_observation(place),
            "first observation, warm": _first_observation(place),
            **_side_by_side(place, options),
            "memory per environment, MiB": _memory(place),
            "endurance": _endurance(place, options.episodes),
        }
    print(json.dumps(figures, indent=1))
    options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _unpacked(folder: Path) -> Path:
    """The official games of the three splits."""
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if not shared:
        raise UsageError("AGENTGYM_SUITE_SHARED is not set: give --data PATH")
    tool = Path(shared) / "tools" / "alfworld_expand.py"
    command = [sys.executable, str(tool), "--out", str(folder), "--split", *_SPLITS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def _first_observation(place: Path) -> float:
    """Milliseconds from `gym.make` to the first observation."""
    start = time.perf_counter()
    env = gym.make("ALFWorld-v0", data=place)
    env.reset(seed=0)
    spent = time.perf_counter() - start
    env.close()
    return round(spent * 1e3, 1)


@dataclass(slots=True)
class Game:
    """What the native engine said in one episode, and the commands that led there."""

    record: GameRecord
    states: list[tuple[str, tuple[str, ...], bool]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


def _side_by_side(place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Play natively, then give TextWorld the same commands: neither waits for the other."""
    env = gym.make("ALFWorld-v0", data=place, max_episode_steps=None)
    records = env.unwrapped.library.index.games  # type: ignore[attr-defined]
    rng = np.random.Generator(np.random.PCG64(options.seed))
    # drawn evenly over all games: families weigh what they weigh in the benchmark
    drawn = [records[i] for i in rng.permutation(len(records))[: options.games + _WARM_UP]]
    warm_up, chosen = drawn[:_WARM_UP], drawn[_WARM_UP:]
    ours, theirs = Times(), Times()
    for record in warm_up:
        _play(env, record, options.steps, rng, Times())
    games = [_play(env, record, options.steps, rng, ours) for record in chosen]
    other = TextWorld(options.python)
    other.ask(load=warm_up[0].path)
    equal = 0
    for number, game in enumerate(games, 1):
        equal += _replay(other, game, theirs)
        print(f"\r{number} of {options.games} games", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    other.process.kill()
    order = np.argsort([record.size for record in chosen])
    tenth = max(1, len(order) // 10)
    ends = {"smallest": order[:tenth], "largest": order[-tenth:]}
    return {
        "games": len(chosen),
        "states compared, all equal": equal,
        "load and reset": _ratios(ours.starts, theirs.starts),
        "step": _ratios(ours.steps, theirs.steps),
        **{
            f"load and reset, {name} tenth of the games": _ratios(
                [ours.starts[i] for i in part], [theirs.starts[i] for i in part]
            )
            for name, part in ends.items()
        },
    }


def _play(
    env: gym.Env[str, str], record: GameRecord, steps: int, rng: np.random.Generator, times: Times
) -> Game:
    game = Game(record)
    told, info = _timed(times.starts, lambda: env.reset(options={"task_id": record.id}))
    game.states.append((told, info["admissible_actions"], info["won"]))
    ended = False
    while len(game.commands) < steps and not ended:
        command = _command(info["admissible_actions"], rng)
        told, _, ended, _, info = _timed(times.steps, partial(env.step, command))
        game.commands.append(command)
        game.states.append((told, info["admissible_actions"], info["won"]))
    return game


def _replay(other: TextWorld, game: Game, times: Times) -> int:
    """Compare every state of an episode; the number of them."""
    _, load = other.ask(load=game.record.path)
    answer, reset = other.ask(reset=True)
    times.starts.append(load + reset)
    for number, ours in enumerate(game.states):
        if number:
            answer, spent = other.ask(step=game.commands[number - 1])
            times.steps.append(spent)
        theirs = (answer["observation"], tuple(answer["admissible"]), answer["won"])
        if ours != theirs:
            done = game.commands[:number]
            raise SystemExit(f"{game.record.id} differs after {done}:\n{ours}\n{theirs}")
    return len(game.states)


def _timed(times: list[float], action: Callable[[], Any]) -> Any:
    start = time.process_time()
    result = action()
    times.append(time.process_time() - start)
    return result


def _command(admissible: tuple[str, ...], rng: np.random.Generator) -> str:
    acting = [command for command in admissible if not command.startswith("go to ")]
    pool = acting if rng.random() < 0.7 else admissible
    return pool[int(rng.integers(len(pool)))]


def _ratios(ours: list[float], theirs: list[float]) -> dict[str, float]:
    def worst(times: list[float]) -> float:
        return float(np.quantile(times, 0.95))

    return {
        **{
            f"{name} {engine}, ms": round(of(times) * 1e3, 4)
            for name, of in (("median", median), ("mean", mean), ("95 %", worst))
            for engine, times in (("native", ours), ("textworld", theirs))
        },
        "ratio of medians": round(median(theirs) / median(ours)),
        "ratio of means": round(mean(theirs) / mean(ours)),
    }


def _memory(place: Path, environments: int = 200) -> float:
    """Growth of the resident set for each live environment, each in a game of its own."""
    first = gym.make("ALFWorld-v0", data=place, split="train")
    first.reset(options={"task_id": 0})
    gc.collect()
    before = memory_mib() or 0.0
    live = []
    for number in range(environments):
        env = gym.make("ALFWorld-v0", data=place, split="train")
        _, info = env.reset(options={"task_id": number})
        for command in info["admissible_actions"][:10]:
            env.step(command)
        live.append(env)
    gc.collect()
    grown = (memory_mib() or 0.0) - before
    del live
    return round(grown / environments, 3)


def _endurance(place: Path, episodes: int) -> dict[str, Any]:
    """The resident set and the mapped files after a tenth of the episodes and after all."""
    env = gym.make("ALFWorld-v0", data=place, split="train")
    rng = np.random.Generator(np.random.PCG64(0))
    marks: dict[str, Any] = {}
    for number in range(1, episodes + 1):
        _, info = env.reset(seed=number)
        for _ in range(4):
            _, _, ended, _, info = env.step(_command(info["admissible_actions"], rng))
            if ended:
                break
        if number in (episodes // 10, episodes // 2, episodes):
            gc.collect()
            maps = len(Path("/proc/self/maps").read_text().splitlines())
            marks[f"after {number:,}"] = {"MiB": round(memory_mib() or 0.0, 1), "mappings": maps}
    return marks


if __name__ == "__main__":
    sys.exit(main())

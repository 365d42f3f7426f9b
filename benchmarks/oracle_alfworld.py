"""ALFWorld's oracle on every official game: wins, steps beside the walkthrough's, planning time.

    python benchmarks/oracle_alfworld.py [--data PATH] [--report FILE]

Plays each game of train, valid_seen and valid_unseen through ``gym.make`` within the horizon of 50
steps. Without --data, the games are unpacked from the folder that AGENTGYM_SUITE_SHARED names.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

import agentgym_suite  # noqa: F401
from agentgym_suite.alfworld.game_layout import FAMILIES
from agentgym_suite.alfworld.native_backend import ENGINE_VERSION
from agentgym_suite.alfworld.oracle import plan_commands

SPLITS = ("train", "valid_seen", "valid_unseen")


@dataclass
class Row:
    """The games of one family in one split."""

    games: int = 0
    won: int = 0
    steps: int = 0
    walkthrough: int = 0
    shorter: int = 0
    longer: int = 0
    plan_ms: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Counts, and planning time at the median, the 95th percentile and the worst."""
        times = sorted(self.plan_ms)
        return {
            "games": self.games,
            "won": self.won,
            "mean_steps": round(self.steps / self.games, 3),
            "mean_walkthrough_steps": round(self.walkthrough / self.games, 3),
            "shorter_than_walkthrough": self.shorter,
            "longer_than_walkthrough": self.longer,
            "plan_ms_p50": round(times[len(times) // 2], 1),
            "plan_ms_p95": round(times[len(times) * 95 // 100], 1),
            "plan_ms_max": round(times[-1], 1),
        }


def play(env: gym.Env[str, str], task_id: str, row: Row) -> None:
    """Play one game with the oracle, and plan once more to time it."""
    game: Any = env.unwrapped
    policy = game.policy("oracle")
    observation, info = env.reset(options={"task_id": task_id})
    started = time.process_time()
    plan = plan_commands(game.play)
    row.plan_ms.append((time.process_time() - started) * 1000)
    terminated = truncated = False
    while not (terminated or truncated):
        observation, _, terminated, truncated, info = env.step(policy(observation, info))
    walkthrough = len(info["walkthrough"])
    row.games += 1
    row.won += bool(info["success"]) and plan is not None and len(plan) == info["step"]
    row.steps += info["step"]
    row.walkthrough += walkthrough
    row.shorter += info["step"] < walkthrough
    row.longer += info["step"] > walkthrough


def measure(data: Path) -> dict[str, Any]:
    """Play every game of the three splits that papers use."""
    env = gym.make("ALFWorld-v0", data=data, walkthrough=True)
    tasks = env.unwrapped.tasks  # type: ignore[attr-defined]
    rows: dict[str, Row] = defaultdict(Row)
    labels = {family.name: family.label for family in FAMILIES}
    for split in SPLITS:
        for position in tasks.split(split):
            task = tasks.task(position)
            row = rows[f"{split} {labels[task.family]}"]
            play(env, task.id, row)
        done = [row for name, row in rows.items() if name.startswith(f"{split} ")]
        print(
            f"{split}: {sum(r.won for r in done)} of {sum(r.games for r in done)} won", flush=True
        )
    return {
        "data_digest": env.unwrapped.library.index.digest,  # type: ignore[attr-defined]
        "engine_version": ENGINE_VERSION,
        "rows": {name: row.as_json() for name, row in rows.items()},
        "all": _sum(rows.values()).as_json(),
    }


def _sum(rows: Any) -> Row:
    total = Row()
    for row in rows:
        for name in ("games", "won", "steps", "walkthrough", "shorter", "longer", "plan_ms"):
            setattr(total, name, getattr(total, name) + getattr(row, name))
    return total


def main() -> int:
    """Measure, print a table, write the report; 1 unless every game was won."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="official games (default: the shared ones)")
    parser.add_argument("--report", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if args.data is None and not shared:
        print("give --data PATH, or set AGENTGYM_SUITE_SHARED", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        if args.data is None:
            tool = Path(str(shared)) / "tools" / "alfworld_expand.py"
            command = [sys.executable, str(tool), "--out", folder, "--split", *SPLITS]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        report = measure(args.data or Path(folder))
    heads = ("", "games", "won", "steps", "walkthrough", "shorter", "longer", "ms p50/p95/max")
    print("{:20}{:>7}{:>7}{:>8}{:>13}{:>9}{:>8}{:>20}".format(*heads))
    for name, row in (*report["rows"].items(), ("all", report["all"])):
        times = f"{row['plan_ms_p50']}/{row['plan_ms_p95']}/{row['plan_ms_max']}"
        print(
            f"{name:20}{row['games']:7}{row['won']:7}{row['mean_steps']:8.2f}"
            f"{row['mean_walkthrough_steps']:13.2f}{row['shorter_than_walkthrough']:9}"
            f"{row['longer_than_walkthrough']:8}{times:>20}"
        )
    if args.report is not None:
        args.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if report["all"]["won"] == report["all"]["games"] else 1


if __name__ == "__main__":
    sys.exit(main())

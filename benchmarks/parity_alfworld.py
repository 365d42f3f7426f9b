"""Proof that the native engine plays ALFWorld as TextWorld does.

    python benchmarks/parity_alfworld.py [--games 300] [--steps 40] [--python PATH]

Plays official games of all splits and families in both engines at once: the stored walkthrough
and what comes after it, then random commands, some of them awkward. Every observation, list of
admissible commands and won flag is compared; a difference is shrunk, printed, and the exit code
is 1. The figures go to `benchmarks/parity_alfworld.json`.

The games come from AGENTGYM_SUITE_SHARED, or from a tree in the official layout (`--data`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agentgym_suite.alfworld.games import open_library
from agentgym_suite.alfworld.textworld_backend import TextWorldBackend
from agentgym_suite.alfworld.verification import compare
from agentgym_suite.errors import UsageError

_FIGURES = Path(__file__).with_suffix(".json")
_SPLITS = ("train", "valid_seen", "valid_unseen", "valid_train")


def main() -> int:
    """Compare and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="games in the official layout")
    parser.add_argument("--games", type=int, default=300)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="one that has TextWorld")
    parser.add_argument("--out", type=Path, default=_FIGURES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _compare(options, options.data or unpacked(Path(folder), options.games))


def unpacked(folder: Path, games: int) -> Path:
    """Official games of every split, written from the shared packs.

    Raises:
        UsageError: AGENTGYM_SUITE_SHARED is not set.
    """
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if not shared:
        raise UsageError("AGENTGYM_SUITE_SHARED is not set: give --data PATH")
    tool = Path(shared) / "tools" / "alfworld_expand.py"
    command = [sys.executable, str(tool), "--out", str(folder), "--limit", str(games), "--split"]
    subprocess.run([*command, *_SPLITS], check=True, stdout=subprocess.DEVNULL)
    return folder


def _compare(options: argparse.Namespace, place: Path) -> int:
    backends = [TextWorldBackend(options.python) for _ in range(options.jobs)]
    library = open_library(place)
    start = time.perf_counter()

    def progress(phase: str, done: int, total: int | None) -> None:
        spent = time.perf_counter() - start
        print(f"\r{phase}: {done} of {total}, {spent:,.0f} s", end="", file=sys.stderr, flush=True)

    report = compare(
        library,
        backends,
        games=options.games,
        steps=options.steps,
        seed=options.seed,
        progress=progress,
    )
    print(file=sys.stderr)
    tally = report.tally
    print(
        f"{report.games.total()} games, {tally.episodes} episodes, {tally.steps:,} steps, "
        f"{tally.refused:,} refused commands, {tally.wins:,} states won: "
        f"{len(report.differences)} differences"
    )
    for game, found in report.differences.items():
        print(f"{game}: {found.field} after {list(found.commands)}")
        print(f"  native    {found.ours!r}\n  textworld {found.theirs!r}")
    figures = {
        "textworld": backends[0].version,
        "seed": options.seed,
        "steps_a_game": options.steps,
        "games": dict(sorted(report.games.items())),
        "episodes": tally.episodes,
        "steps": tally.steps,
        "refused_commands": tally.refused,
        "states_won": tally.wins,
        "differences": sorted(report.differences),
    }
    options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())

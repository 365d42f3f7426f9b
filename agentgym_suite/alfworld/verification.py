"""``data verify alfworld --against textworld``: games played in both engines, step by step."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from agentgym_suite.alfworld.arguments import check_places
from agentgym_suite.alfworld.game_files import read_game
from agentgym_suite.alfworld.game_index import GameRecord
from agentgym_suite.alfworld.games import GameLibrary, open_library
from agentgym_suite.alfworld.generated_files import publish_generated
from agentgym_suite.alfworld.generator import WORDINGS
from agentgym_suite.alfworld.lockstep import (
    Difference,
    Tally,
    compare_episode,
    fuzzing,
    replaying,
)
from agentgym_suite.alfworld.native_backend import ENGINE_VERSION
from agentgym_suite.alfworld.textworld_backend import TextWorldBackend
from agentgym_suite.arguments import check_count
from agentgym_suite.data import Progress, data_folder, write_json_atomic
from agentgym_suite.errors import UsageError
from agentgym_suite.versions import suite_version

_AFTER_THE_WIN = 3


@dataclass(slots=True)
class Report:
    """What was compared, and what differed: game id -> its first difference."""

    tally: Tally = field(default_factory=Tally)
    games: Counter[str] = field(default_factory=Counter)
    differences: dict[str, Difference] = field(default_factory=dict)


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data verify alfworld --against textworld``."""
    add = parser.add_argument
    add("--against", choices=("textworld",), required=True, help="the other engine")
    add("--data", metavar="PATH", help="games to play (default: the imported ones)")
    add("--generated", action="store_true", help="play generated households instead")
    add("--wording", choices=WORDINGS, default=WORDINGS[0], help="words of generated households")
    add("--games", type=int, default=30, metavar="N", help="how many games (default: 30)")
    add("--steps", type=int, default=45, metavar="N", help="random steps a game (default: 45)")
    add("--seed", type=int, default=0, metavar="S", help="which games and commands")
    add("--jobs", type=int, default=1, metavar="N", help="TextWorld processes at once")
    add("--python", metavar="PATH", help="an interpreter that has textworld and alfworld")
    add("--report", type=Path, metavar="FILE", help="write what was found as JSON")


def run_compare(args: argparse.Namespace, progress: Progress | None = None) -> int:
    """Compare, say what was found; 1 when the engines differ anywhere, else 0.

    Raises:
        MissingExtra: TextWorld is not installed.
        DataMissing: there are no such games.
        UsageError: an option is wrong.
    """
    for name in ("games", "steps", "jobs"):
        check_count(f"--{name}", getattr(args, name), 1)
    if args.generated and args.data is not None:
        raise UsageError("--data and --generated both say what to play: give one")
    data = data_folder("alfworld", "alfworld") if args.data is None else args.data
    places = check_places(data, "--data")
    backends = [TextWorldBackend(args.python) for _ in range(args.jobs)]
    with tempfile.TemporaryDirectory() as folder:
        if args.generated:
            generated = Path(folder) / "generated"
            publish_generated(generated, games=args.games, seed=args.seed, wording=args.wording)
            places = (str(generated),)
        library = open_library(places, progress)
        report = compare(
            library, backends, games=args.games, steps=args.steps, seed=args.seed, progress=progress
        )
        _tell(report)
        if args.report is not None:
            about = {
                "data_digest": library.index.digest,
                "textworld": backends[0].version,
                "seed": args.seed,
                "steps": args.steps,
            }
            write_json_atomic(args.report, _as_json(report) | about)
    return 1 if report.differences else 0


def compare(
    library: GameLibrary,
    backends: Sequence[TextWorldBackend],
    *,
    games: int,
    steps: int,
    seed: int,
    progress: Progress | None = None,
) -> Report:
    """Play games of a library natively and in TextWorld.

    Args:
        library: where the games are.
        backends: one TextWorld process for each job; closed at the end.
        games: how many games, spread over splits and families.
        steps: random commands for each game.
        seed: which games, and which commands.
        progress: called with the games finished.
    """
    chosen = spread(library.index.games, games, np.random.Generator(np.random.PCG64(seed)))
    report = Report()
    idle: SimpleQueue[TextWorldBackend] = SimpleQueue()
    for backend in backends:
        idle.put(backend)

    def play(number: int) -> tuple[Tally, Difference | None]:
        backend = idle.get()
        rng = np.random.Generator(np.random.PCG64([seed, number]))
        try:
            return _compare_game(library, backend, chosen[number], steps, rng)
        finally:
            idle.put(backend)

    try:
        with ThreadPoolExecutor(len(backends)) as pool:
            played = pool.map(play, range(len(chosen)))
            for record, (tally, found) in zip(chosen, played, strict=True):
                report.tally.add(tally)
                report.games[f"{record.split} {record.task_type}"] += 1
                if found is not None:
                    report.differences[record.id] = found
                if progress is not None:
                    progress("compare games", report.games.total(), len(chosen))
    finally:
        for backend in backends:
            backend.close()
    return report


def spread(games: Sequence[GameRecord], wanted: int, rng: np.random.Generator) -> list[GameRecord]:
    """So many games, as evenly over splits and families as there are."""
    cells: dict[tuple[str, str], list[GameRecord]] = {}
    for game in games:
        cells.setdefault((game.split, game.task_type), []).append(game)
    piles = [[pile[i] for i in rng.permutation(len(pile))] for pile in cells.values()]
    chosen = [pile[row] for row in range(len(games)) for pile in piles if row < len(pile)]
    return chosen[:wanted]


def _compare_game(
    library: GameLibrary,
    backend: TextWorldBackend,
    record: GameRecord,
    steps: int,
    rng: np.random.Generator,
) -> tuple[Tally, Difference | None]:
    tally = Tally()
    ours, theirs = library.compiled(record), backend.load(record)
    walkthrough = read_game(record.path, record.id, record.sha256).walkthrough
    if walkthrough:
        then = fuzzing(_AFTER_THE_WIN, rng)
        found = compare_episode(ours, theirs, replaying(walkthrough, then), tally)
        if found is not None:
            return tally, found
    return tally, compare_episode(ours, theirs, fuzzing(steps, rng), tally)


def _tell(report: Report) -> None:
    tally = report.tally
    out = sys.stdout.write
    out(
        f"{report.games.total()} games, {tally.episodes} episodes, {tally.steps:,} steps "
        f"({tally.refused:,} refused, {tally.wins:,} in won states): "
        f"{len(report.differences)} games differ\n"
    )
    for game, found in report.differences.items():
        out(f"\n{game}: {found.field} after {list(found.commands)}\n")
        out(f"  native:    {found.ours!r}\n  textworld: {found.theirs!r}\n")


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "suite_version": suite_version(),
        "engine_version": ENGINE_VERSION,
        "python": platform.python_version(),
        "tally": asdict(report.tally),
        "games": dict(sorted(report.games.items())),
        "differences": {game: asdict(found) for game, found in report.differences.items()},
    }

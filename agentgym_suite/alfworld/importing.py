"""``data import``, ``generate`` and ``verify`` of ``alfworld``: what the commands call."""

from __future__ import annotations

import argparse
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentgym_suite.alfworld.archives import GameSource, open_source
from agentgym_suite.alfworld.game_index import (
    INDEX_NAME,
    GameIndex,
    GameRecord,
    differences_from_official,
    read_record,
    write_index,
)
from agentgym_suite.alfworld.game_layout import (
    FAMILIES,
    GAME_NAME,
    LAYOUT_FOLDER,
    OFFICIAL_COUNTS,
    TRAJECTORY_NAME,
    list_games,
)
from agentgym_suite.alfworld.generated_files import publish_generated
from agentgym_suite.alfworld.generator import WORDINGS
from agentgym_suite.arguments import check_count
from agentgym_suite.data import (
    Contents,
    Json,
    Manifest,
    Progress,
    load_manifest,
    publish,
    verify_folder,
)
from agentgym_suite.errors import DataDamaged, DataMissing, UsageError

GAMES_KIND = "alfworld-games"
GAMES_VERSION = 1
MOST_GENERATED = 1_000_000  # some hundred gigabytes
_NAMED_PROBLEMS = 20


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data import alfworld``."""
    add = parser.add_argument
    add("path", nargs="?", type=Path, metavar="PATH", help="a folder or zip of game.tw-pddl files")
    add("--games", type=Path, metavar="PATH", help="the same, by name")
    add("--trajectories", type=Path, metavar="PATH", help="a folder or zip of traj_data.json files")
    add("--out", type=Path, metavar="DIR", help="where the games shall be")


def run_import(
    args: argparse.Namespace,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Bring official games into the data home, with their index; return the folder.

    Raises:
        DataMissing: there is no such folder or archive, or no game in it.
        DataDamaged: an archive or games are damaged; the first ones are named.
        DataError: something else is in that place already.
        DiskFull: no space was left; what was finished is kept.
        UsageError: an option is wrong.
    """
    if args.out is None:
        raise UsageError("the games need a place: add --out DIR")
    if args.path is not None and args.games is not None:
        raise UsageError("PATH and --games both say where the games are: give one")
    games = args.games if args.path is None else args.path
    if games is None:
        raise UsageError("say where the games are: give a folder, or the official zip file")
    sources = [open_source(games)]
    if args.trajectories is not None:
        sources.append(open_source(args.trajectories))
        _check_trajectories(args.trajectories)
    inputs: dict[str, Json] = {"sources": [source.digest(progress) for source in sources]}
    publish(
        args.out,
        kind=GAMES_KIND,
        version=GAMES_VERSION,
        inputs=inputs,
        write=lambda partial: _write(partial, sources, progress),
        progress=progress,
        on_wait=on_wait,
    )
    return Path(args.out)


def add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data generate alfworld``."""
    add = parser.add_argument
    add(
        "--games",
        type=int,
        required=True,
        metavar="N",
        help="how many games; a tenth goes to each validation split, of fewer than 10 none",
    )
    add("--seed", type=int, default=0, metavar="S", help="which world (default: 0)")
    add("--wording", choices=WORDINGS, default=WORDINGS[0], help="whose words the games use")
    add("--plain", action="store_true", help="leave out the oddities of the official games")
    add("--out", type=Path, required=True, metavar="DIR", help="where the games shall be")


def run_generate(
    args: argparse.Namespace,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Write generated games in the official layout; return their folder.

    Raises:
        DataError: something else is in that place already.
        DiskFull: no space was left.
        UsageError: an option is wrong.
    """
    check_count("--games", args.games, 1, MOST_GENERATED)
    publish_generated(
        args.out,
        games=args.games,
        seed=args.seed,
        quirks=not args.plain,
        wording=args.wording,
        progress=progress,
        on_wait=on_wait,
    )
    return Path(args.out)


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data verify alfworld --against textworld``."""
    from agentgym_suite.alfworld import verification

    verification.add_compare_arguments(parser)


def run_compare(args: argparse.Namespace, progress: Progress | None = None) -> int:
    """Play games in both engines; 1 when they differ anywhere, else 0.

    Raises:
        MissingExtra: TextWorld is not installed.
        DataMissing: there are no such games.
        UsageError: an option is wrong.
    """
    from agentgym_suite.alfworld import verification

    return verification.run_compare(args, progress)


def describe(path: Path) -> list[str]:
    """For people to read: the data version, and every problem of incomplete data.

    Raises:
        DataMissing: nothing finished is there.
    """
    notes = load_manifest(path).notes
    problems = notes.get("problems")
    listed = [str(problem) for problem in problems] if isinstance(problems, list) else []
    lines = [f"data version: {notes.get('data_version')}", *listed[:_NAMED_PROBLEMS]]
    if len(listed) > _NAMED_PROBLEMS:
        lines.append(f"and {len(listed) - _NAMED_PROBLEMS} more, all in the notes of the manifest")
    return lines


def verify(path: Path, progress: Progress | None = None) -> Manifest:
    """Recompute every digest of imported or generated games.

    Raises:
        DataMissing: nothing finished is there.
        DataDamaged: a file is absent or its contents differ from the manifest.
    """
    return verify_folder(path, progress)


def _check_trajectories(path: Path) -> None:
    """Refuse a source without a single trajectory, which would be imported as nothing."""
    path = path.expanduser()
    names: Iterable[str]
    if path.is_dir():
        names = (found.name for found in path.rglob(TRAJECTORY_NAME))
    else:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    if not any(name.endswith(TRAJECTORY_NAME) for name in names):
        raise DataMissing(
            f"{path} holds no {TRAJECTORY_NAME}: give the folder or zip of the trajectories "
            "(json_2.1.1_json.zip), or leave --trajectories out"
        )


def _write(partial: Path, sources: Sequence[GameSource], progress: Progress | None) -> Contents:
    root = partial / LAYOUT_FOLDER
    problems: list[str] = []
    for source in sources:
        problems += source.extract(root, progress)
    games, damaged = _read_all(root, progress)
    if damaged:
        shown = "; ".join(damaged[:_NAMED_PROBLEMS])
        more = (
            f" and {len(damaged) - _NAMED_PROBLEMS} more" if len(damaged) > _NAMED_PROBLEMS else ""
        )
        raise DataDamaged(f"{len(damaged)} games are damaged: {shown}{more}; get the data again")
    if not games:
        raise DataMissing(
            f"{sources[0].path} holds no {GAME_NAME}: give the folder or zip of the games "
            "(json_2.1.3_tw-pddl.zip), the others come with --trajectories"
        )
    index = GameIndex(games, str(root))
    problems += _problems(index, root)
    if not any(game.counts for game in index.games):
        raise DataDamaged(
            f"none of the {len(games)} games of {sources[0].path} can be played, such as "
            f"{_why_not(index.games[0])}; get the data again"
        )
    write_index(partial / INDEX_NAME, root, index.games)
    versions = Counter(game.data_version for game in games)
    notes: dict[str, Json] = {
        "data_digest": index.digest,
        "data_version": ", ".join(sorted(versions)),
        "problems": problems,
    }
    return Contents(_counts(index), notes)


def _read_all(root: Path, progress: Progress | None) -> tuple[list[GameRecord], list[str]]:
    games, damaged = [], []
    found = list_games(root) if root.is_dir() else []
    for done, game in enumerate(found, 1):
        try:
            games.append(read_record(root, game))
        except DataDamaged as error:
            damaged.append(str(error).replace(f"{root}/", ""))
        if progress is not None:
            progress("index games", done, len(found))
    return games, damaged


def _counts(index: GameIndex) -> dict[str, int]:
    """Games in all, of each split, and of each family over all splits."""
    table = index.counts()
    counts = {"games": sum(sum(row.values()) for row in table.values())}
    for split in (*OFFICIAL_COUNTS, *sorted(set(table) - set(OFFICIAL_COUNTS))):
        if split in table:
            counts[split] = sum(table[split].values())
    for family in FAMILIES:
        counts[family.label] = sum(row.get(family.name, 0) for row in table.values())
    return counts


def _problems(index: GameIndex, root: Path) -> list[str]:
    """Everything that is incomplete, one sentence each."""
    problems = [f"split {s} is absent" for s in OFFICIAL_COUNTS if s not in index.counts()]
    problems += differences_from_official(index)
    problems += [_why_not(game) for game in index.games if not game.counts]
    empty = [folder for folder in root.glob("*/*/*") if not (folder / GAME_NAME).is_file()]
    problems += [f"{folder.relative_to(root).as_posix()} has no {GAME_NAME}" for folder in empty]
    return problems


def _why_not(game: GameRecord) -> str:
    reason = "its family is unknown" if game.solvable else f"solvable is {game.solvable}"
    return f"{game.id} is not in its split: {reason}"

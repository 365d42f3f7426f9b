"""The index of games: one record a game, sorted by id, built once and kept in the data home.

Building reads each file once and parses no PDDL. A kept index is used again for the games whose
path, size and time are unchanged; only the others are read. A folder with a manifest never
changes: the index that was written into it holds without a look at the files. The order is by id
in code points, never by directory order, so one seed is one game on every file system.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_suite import data
from agentgym_suite.alfworld.game_files import GameFile, parse_game, read_bytes
from agentgym_suite.alfworld.game_layout import (
    FAMILY_NAMES,
    LAYOUT_FOLDER,
    NO_TASK_NAME,
    OFFICIAL_COUNTS,
    TRAJECTORY_NAME,
    FoundGame,
    TaskName,
    list_games,
    official_differences,
    parse_game_id,
)
from agentgym_suite.alfworld.grammar_traits import data_version_of, goal_sentence_of
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, UsageError
from agentgym_suite.files import explain_unreadable
from agentgym_suite.spaces import without_surrogates

INDEX_KIND = "alfworld-index"
INDEX_VERSION = 2
INDEX_NAME = "index.json"

_ANY_TIME = 0


class GameRecord(NamedTuple):
    """What is known of a game without playing it.

    Attributes:
        id: ``<split>/<task folder>/<trial>``.
        split: the first part of the id as found on the disk.
        task_type: long family name, "" when neither folder name nor trajectory tells it.
        object: the target's type, such as ``Mug``.
        receptacle: the goal receptacle's type; the lamp's in the Look family.
        scene: number of the floor plan.
        path: where the file is.
        size: its bytes.
        mtime_ns: its time of change; 0 in a folder that never changes.
        trajectory_ns: that of the ``traj_data.json`` that tells the family; 0 where none does, and
            in a folder that never changes.
        solvable: as the file says; None when it does not.
        data_version: ``old``, ``move+help`` or ``custom``, by the grammar.
        goal: the goal sentence without its prefix, as the grammar writes it.
        walkthrough_length: commands of the stored walkthrough, 0 when there is none.
        sha256: of the file, in hex.
    """

    id: str
    split: str
    task_type: str
    object: str
    receptacle: str
    scene: str
    path: str
    size: int
    mtime_ns: int
    trajectory_ns: int
    solvable: bool | None
    data_version: str
    goal: str
    walkthrough_length: int
    sha256: str

    @property
    def counts(self) -> bool:
        """Whether the game is in its split; others are played by their explicit id only."""
        return self.solvable is True and self.task_type in FAMILY_NAMES


_FIELDS = list(GameRecord._fields)
_ID, _PATH, _SIZE, _TIME, _TRAJECTORY = (
    _FIELDS.index(name) for name in ("id", "path", "size", "mtime_ns", "trajectory_ns")
)
_NUMBERS = ("size", "mtime_ns", "trajectory_ns", "walkthrough_length")
_KINDS = [
    {int} if name in _NUMBERS else {bool, type(None)} if name == "solvable" else {str}
    for name in _FIELDS
]


class GameIndex:
    """The games of one place (or of several), sorted by id.

    Args:
        games: the records; sorted here.
        place: what was opened, for sentences.
        named: the ids of the games that were named one by one, not found in a tree.
        roots: the folders whose splits were looked through.

    Raises:
        UsageError: two games have one id.
    """

    def __init__(
        self,
        games: Sequence[GameRecord],
        place: str,
        *,
        named: Collection[str] = (),
        roots: Sequence[Path] = (),
    ) -> None:
        self.games = tuple(sorted(games, key=lambda game: game.id))
        self.place = place
        self.named = frozenset(named)
        self.roots = tuple(roots)
        for one, other in zip(self.games, self.games[1:], strict=False):
            if one.id == other.id:
                raise UsageError(
                    f"{one.path} and {other.path} have the same id {one.id}: give one of them"
                )

    @cached_property
    def digest(self) -> str:
        """``sha256:`` + hex over ids and contents of all games."""
        return digest_of(self.games)

    def counts(self) -> dict[str, dict[str, int]]:
        """Split -> family -> games that count; splits whose games all do not count stay."""
        table: dict[str, Counter[str]] = {}
        for game in self.games:
            if game.split not in table:
                table[game.split] = Counter()
            if game.counts:
                table[game.split][game.task_type] += 1
        return {split: dict(row) for split, row in table.items()}


def digest_of(games: Sequence[GameRecord]) -> str:
    """``sha256:`` + hex over ids and contents of some games."""
    digest = hashlib.sha256()
    for game in games:
        digest.update(f"{game.sha256}  {game.id}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def index_tree(root: Path, progress: data.Progress | None = None) -> tuple[GameRecord, ...]:
    """The records of every game below a folder in official layout, kept ones used again.

    Args:
        root: the folder that holds the splits.
        progress: called with the games read so far.

    Raises:
        DataMissing: no game is there; the sentence says what is.
        DataDamaged: a game file is damaged, or something else has a game's name.
        DataError: a folder cannot be read.
    """
    below = os.path.join(root, "")
    if is_published(root.parent):
        published = _read_index(root.parent)
        if published:
            return tuple([_kept_record(row, below + row[_PATH]) for row in published])
    found = list_games(root)
    if not found:
        raise DataMissing(_nothing_at(root))
    home = data.data_folder("alfworld", "indexes") / _short_digest(str(root))
    wanted = {game.id: game for game in found}
    known: dict[str, list[Any]] = {}
    for folder in sorted(home.glob("*")):
        for row in _read_index(folder):
            game = wanted.get(row[_ID])
            if game and [row[_SIZE], row[_TIME], row[_TRAJECTORY]] == list(game[2:]):
                known[game.id] = row
    fresh = [game for game in found if game.id not in known]
    read = {}
    for done, game in enumerate(fresh, 1):
        read[game.id] = read_record(root, game)
        if progress is not None:
            progress("index games", done, len(fresh))
    games = tuple(
        [
            _kept_record(known[game.id], below + game.path) if game.id in known else read[game.id]
            for game in found
        ]
    )
    if fresh:
        _keep(home, root, found, games, progress)
    return games


def read_record(root: Path, found: FoundGame, game_id: str | None = None) -> GameRecord:
    """The record of one game file; reads it once.

    Args:
        root: the folder that the listing was made of.
        found: the file as listed.
        game_id: its id when it is not the one of the listing.

    Raises:
        DataMissing: the file vanished.
        DataDamaged: it is no game file.
    """
    path = root / found.path
    raw = read_bytes(path, found.id)
    game = parse_game(raw, str(path), game_id or found.id)
    return _describe(game, raw, found)


def _describe(game: GameFile, raw: bytes, found: FoundGame) -> GameRecord:
    """The record of a game that was read."""
    task = parse_game_id(game.game_id)
    if task is NO_TASK_NAME:
        task = _task_of_trajectory(Path(game.path).with_name(TRAJECTORY_NAME))
    return GameRecord(
        id=game.game_id,
        split=game.game_id.partition("/")[0],
        task_type=task.task_type,
        object=task.object,
        receptacle=task.receptacle,
        scene=task.scene,
        path=game.path,
        size=len(raw),
        mtime_ns=found.mtime_ns,
        trajectory_ns=found.trajectory_ns,
        solvable=game.solvable,
        data_version=data_version_of(game.grammar),
        goal=goal_sentence_of(game.grammar),
        walkthrough_length=len(game.walkthrough or ()),
        sha256=hashlib.sha256(raw).hexdigest(),
    )


def is_published(folder: Path) -> bool:
    """Whether a folder has a manifest of ours: then it is whole, and never changes."""
    return os.path.isfile(os.path.join(folder, data.MANIFEST_NAME))


def claims_to_be_official(root: Path) -> bool:
    """Whether a tree looks like the published data: its folder's name, no manifest of ours."""
    return root.name == LAYOUT_FOLDER and not is_published(root.parent)


def differences_from_official(index: GameIndex) -> tuple[str, ...]:
    """Where the counts differ from the published ones, for the splits that are there."""
    counts = {split: row for split, row in index.counts().items() if split in OFFICIAL_COUNTS}
    return official_differences(counts)


def write_index(
    path: Path, root: Path, games: Sequence[GameRecord], *, with_times: bool = False
) -> None:
    """Write the records of the games below ``root`` to a file, whole or not at all.

    Args:
        path: the file.
        root: what the paths are below.
        games: the records.
        with_times: keep the files' times; without them the contents are the games' alone, and
            the index is good for folders that never change.
    """
    rows = [
        game._replace(
            path=Path(game.path).relative_to(root).as_posix(),
            mtime_ns=game.mtime_ns if with_times else _ANY_TIME,
            trajectory_ns=game.trajectory_ns if with_times else _ANY_TIME,
        )
        for game in games
    ]
    value = {"version": INDEX_VERSION, "fields": _FIELDS, "games": rows}
    data.write_atomic(path, data.canonical_json(value).encode("utf-8"))


def _kept_record(row: list[Any], path: str) -> GameRecord:
    """The record of a row of an index, for the file's path now; no Path: there are thousands."""
    row[_PATH] = path
    return GameRecord._make(row)


def _read_index(folder: Path) -> list[list[Any]]:
    """The rows of a finished folder's index; none, so that games are read, where it is damaged."""
    try:
        raw = (folder / INDEX_NAME).read_bytes()
        # one of the manifest's entries: to make all of them takes as long as to read the index
        manifest = json.loads((folder / data.MANIFEST_NAME).read_bytes())
        if hashlib.sha256(raw).hexdigest() != manifest["files"][INDEX_NAME]["sha256"]:
            return []
        value = json.loads(raw)
        if value["version"] != INDEX_VERSION or value["fields"] != _FIELDS:
            return []
        rows: list[list[Any]] = value["games"]
        if {(type(row), len(row)) for row in rows} != {(list, len(_FIELDS))}:
            return []
        columns = zip(*rows, strict=True)
        fit = [{*map(type, c)} <= kinds for c, kinds in zip(columns, _KINDS, strict=True)]
        return rows if all(fit) else []
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []


def _keep(
    home: Path,
    root: Path,
    found: Sequence[FoundGame],
    games: Sequence[GameRecord],
    progress: data.Progress | None,
) -> None:
    """Keep an index in the data home, in place of those of earlier states of the same tree."""
    listing = _short_digest("\n".join([" ".join(map(str, game)) for game in found]))

    def write(partial: Path) -> data.Contents:
        write_index(partial / INDEX_NAME, root, games, with_times=True)
        return data.Contents({"games": len(games)}, {"root": str(root)})

    # games were read, so an index of this very listing is one that could not be used
    shutil.rmtree(home / listing, ignore_errors=True)
    try:
        data.publish(
            home / listing,
            kind=INDEX_KIND,
            version=INDEX_VERSION,
            inputs={"root": str(root), "listing": listing},
            write=write,
            progress=progress,
        )
    except DataError as error:  # a cache that cannot be written must not keep anyone from playing
        warnings.warn(f"the index of {root} is not kept: {error}", stacklevel=2)
        return
    for folder in home.iterdir():
        if folder.name != listing and (folder / data.MANIFEST_NAME).is_file():
            shutil.rmtree(folder, ignore_errors=True)


def _task_of_trajectory(path: Path) -> TaskName:
    """What ``traj_data.json`` says about the task; nothing when it is not there."""
    if not path.is_file():
        return NO_TASK_NAME
    with explain_unreadable(path):
        raw = path.read_bytes()
    try:
        value = json.loads(raw)
        wanted: Mapping[str, str] = value["pddl_params"]
        told = (
            value["task_type"],
            wanted["object_target"],
            wanted["toggle_target"] or wanted["parent_target"],
            value["scene"]["scene_num"],
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataDamaged(
            f"{path} is not the trajectory of a game ({type(error).__name__}: {error}): remove it "
            "or get the data again"
        ) from error
    return TaskName(*[without_surrogates(str(each)) for each in told])


def _nothing_at(root: Path) -> str:
    with explain_unreadable(root):
        names = sorted(entry.name for entry in root.iterdir())
    zips = [name for name in names if name.endswith(".zip")]
    if zips:
        return (
            f"{root} holds only archives ({', '.join(zips[:3])}), no game: run "
            f"`agentgym-suite data import alfworld {root / zips[0]}`"
        )
    shown = ", ".join(names[:5]) or "nothing"
    return (
        f"{root} holds no game (found {shown}; expected <split>/<task>/<trial>/game.tw-pddl): "
        "run `agentgym-suite data download alfworld`, or give the folder of json_2.1.1"
    )


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

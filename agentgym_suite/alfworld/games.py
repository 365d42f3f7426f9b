"""The games that an environment plays: what ``data`` means, and which tasks it holds."""

from __future__ import annotations

import numbers
import os
import stat
import threading
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from weakref import WeakValueDictionary

from agentgym_suite.alfworld.arguments import check_places
from agentgym_suite.alfworld.compiling import Compiler
from agentgym_suite.alfworld.game import CompiledGame
from agentgym_suite.alfworld.game_index import (
    GameIndex,
    GameRecord,
    claims_to_be_official,
    differences_from_official,
    digest_of,
    index_tree,
    read_record,
)
from agentgym_suite.alfworld.game_layout import (
    EXCLUDING_WORDS,
    GAME_NAME,
    GAME_SUFFIX,
    LAYOUT_FOLDER,
    OFFICIAL_COUNTS,
    PLAYED_SPLITS,
    SPLIT_ALIASES,
    FoundGame,
    excluding_word,
    parse_task_folder,
    refuse_unwritable_name,
)
from agentgym_suite.alfworld.game_reading import GameReader
from agentgym_suite.arguments import shown
from agentgym_suite.data import Progress, named_data
from agentgym_suite.errors import (
    DataDamaged,
    DataMissing,
    UnknownSplit,
    UnknownTask,
    UsageError,
)
from agentgym_suite.files import explain_unreadable
from agentgym_suite.tasks import Task, TaskSet

Place = str | Path | Sequence[str | Path]
_LONGEST_NUMBER = 12
_NAMED_SPLITS = 10  # how many a sentence names
#: the split of games that were named one by one
NAMED_SPLIT = "named"


class GameTasks(TaskSet):
    """The tasks over an index: both split vocabularies, ids with and without their split.

    Args:
        index: the games of a place.
        families: long names of the families to keep.

    Raises:
        UsageError: no game is of these families.
    """

    def __init__(self, index: GameIndex, families: Sequence[str]) -> None:
        # a game of no known family can only be meant by its id, so no choice leaves it out
        games = tuple(game for game in index.games if game.task_type in (*families, ""))
        if not games:
            there = sorted({game.task_type for game in index.games})
            raise UsageError(
                f"task_types leaves no game of {index.place}, whose games are of {', '.join(there)}"
                ": name one of these, or give None for all"
            )
        self.games = games
        self.place = index.place
        self._roots = index.roots
        self.default_split = NAMED_SPLIT if len(index.named) == len(index.games) else "train"
        super().__init__(
            [game.id for game in games],
            _splits(index, games),
            digest=index.digest if len(games) == len(index.games) else digest_of(games),
            family=lambda position: games[position].task_type,
        )

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return _unique(self.games)

    def split(self, name: str) -> Sequence[int]:
        """The task positions of a split.

        Raises:
            UnknownSplit: naming what was found, and for an official split the import command.
        """
        if isinstance(name, str) and name in self.splits:
            return self.splits[name]
        for root in self._roots:
            folder = root / SPLIT_ALIASES.get(name, name) if isinstance(name, str) else root
            inside = folder.parent == root and folder.name != ".."
            if inside and os.path.isdir(folder):
                raise UnknownSplit(
                    f"split {shown(name)} is empty: no {GAME_NAME} is below {folder}; "
                    f"choose {self._known()}"
                )
        official = isinstance(name, str) and SPLIT_ALIASES.get(name, name) in OFFICIAL_COUNTS
        mend = "; `agentgym-suite data download alfworld` brings the official ones"
        raise UnknownSplit(
            f"split {shown(name)} does not exist in {self.place}; choose {self._known()}"
            f"{mend if official else ''}"
        )

    def _known(self) -> str:
        known = [f"{split} ({len(games)})" for split, games in self.splits.items()]
        more = len(known) - _NAMED_SPLITS
        return ", ".join(known[:_NAMED_SPLITS]) + (f" or one of {more} more" if more > 0 else "")

    def split_of(self, index: int, preferred: str = "") -> str:
        """The split that holds a position, also for a game that no draw reaches."""
        return super().split_of(index, preferred) or self.games[index].split

    def locate(self, key: object, split: str) -> object:
        """A key of ``resolve`` for a number within a split; other keys are given back.

        Raises:
            UnknownTask: the split has no such number.
            UnknownSplit: there is no such split.
        """
        text = str(key)
        decimal = isinstance(key, str) and text.isascii() and text.isdigit()
        if isinstance(key, bool) or not (decimal or isinstance(key, numbers.Integral)):
            return key
        members = self.split(split)
        if len(text) > _LONGEST_NUMBER or not 0 <= int(text) < len(members):
            raise UnknownTask(
                f"task number {text[:20]} does not exist in split {split!r}, which has numbers "
                f"0 to {len(members) - 1}"
                if members
                else f"task number {text[:20]} does not exist: split {split!r} is empty"
            )
        return self.ids[members[int(text)]]

    def task(self, index: int, preferred_split: str = "") -> Task:
        """The task at a position."""
        split = self.split_of(index, preferred_split)
        return Task(self.ids[index], index, split, self.games[index].task_type)

    def _position(self, task_id: str) -> int | None:
        position = super()._position(task_id)
        if position is None:
            position = self._by_name.get(task_id)
        if position is None and task_id.endswith(GAME_SUFFIX):
            position = self._by_name.get(os.path.abspath(task_id))
        return position

    @property
    def _numbers(self) -> str:
        return "numbers count within a split"

    def _explain(self, text: str) -> str:
        if excluding_word(text):
            return (
                f"task {text[:80]!r} does not exist: games with {' or '.join(EXCLUDING_WORDS)} "
                "in their path are left out, as in the original"
            )
        return super()._explain(text)


class GameLibrary:
    """The games of one place, shared read-only by the environments that play there.

    Args:
        index: the games.
    """

    def __init__(self, index: GameIndex) -> None:
        self.index = index
        #: whether a game was found to be another than when it was indexed
        self.outdated = False
        self._lock = threading.Lock()
        self._reader = GameReader()
        self._compiler = Compiler()
        self._compiled: WeakValueDictionary[str, CompiledGame] = WeakValueDictionary()
        self._tasks: dict[tuple[str, ...], GameTasks] = {}

    def tasks(self, families: tuple[str, ...]) -> GameTasks:
        """The tasks of some families; one object for all environments that ask for the same."""
        with self._lock:
            if families not in self._tasks:
                self._tasks[families] = GameTasks(self.index, families)
            return self._tasks[families]

    def compiled(self, record: GameRecord) -> CompiledGame:
        """The compiled form of a game; one object for all environments that play it now.

        Raises:
            DataMissing: the file vanished.
            DataDamaged: the file is damaged, or is not the one that was indexed.
            UnsupportedConstruct: it uses what the engine does not know.
        """
        game = self._compiled.get(record.id)
        if game is None:
            try:
                read = self._reader.read(record.path, record.id, record.sha256)
            except DataDamaged:
                self.outdated = True  # whoever opens the place now shall see it as it is now
                raise
            fresh = self._compiler.compile(read)
            with self._lock:
                game = self._compiled.setdefault(record.id, fresh)
        return game


# Weak: a library lives as long as an environment plays from it, and everything in it is read-only,
# so environments share memory and never meet.
_shared: WeakValueDictionary[object, GameLibrary] = WeakValueDictionary()
_sharing = threading.Lock()


def open_library(place: Place, progress: Progress | None = None) -> GameLibrary:
    """The library of a place; the one that is open in this process if nothing changed there.

    Args:
        place: a tree in official layout, a game's folder, a ``.tw-pddl`` file, or a list of these.
        progress: called while games are read for the first time.

    Raises:
        DataMissing: no game is there; the sentence says what is, and how to get data.
        DataDamaged: a game file is damaged.
        UsageError: two games have one id, the list is empty, or no path can be like that.
    """
    paths = [named_data(each, "alfworld") or Path(each).absolute() for each in check_places(place)]
    if not paths:
        raise UsageError("data is an empty list: name at least one game, or None for the built-in")
    for path in paths:
        refuse_unwritable_name(str(path))
    state = tuple((str(path), _state_of(path)) for path in paths)
    with _sharing:
        library = _shared.get(state)
        if library is None or library.outdated:
            library = _shared[state] = GameLibrary(_index_places(paths, progress))
    return library


def find_root(path: Path) -> Path:
    """The folder of the splits: PATH/json_2.1.1 when there is one, else PATH."""
    below = path / LAYOUT_FOLDER
    return below if below.is_dir() else path


def _index_places(paths: Sequence[Path], progress: Progress | None) -> GameIndex:
    games: list[GameRecord] = []
    named: list[str] = []
    roots: list[Path] = []
    for path in paths:
        with explain_unreadable(path):
            mode = path.stat().st_mode if path.exists() else 0
        if not mode:
            raise DataMissing(
                f"there is no {path}: give a folder in ALFWorld's layout or a game.tw-pddl, or run "
                "`agentgym-suite data download alfworld`"
            )
        file = path / GAME_NAME if stat.S_ISDIR(mode) else path
        if file.is_file() or file == path:
            game = _named_game(file)
            games.append(game)
            named.append(game.id)
            continue
        root = find_root(path)
        found = index_tree(root, progress)
        games += found
        roots.append(root)
        if claims_to_be_official(root):
            _warn_of_differences(GameIndex(found, str(root)), root)
    place = str(paths[0]) if len(paths) == 1 else f"the {len(paths)} places given"
    return GameIndex(games, place, named=named, roots=roots)


def _named_game(file: Path) -> GameRecord:
    if not file.name.endswith(GAME_SUFFIX) or not file.is_file():
        raise DataMissing(
            f"{file} is no game: give a game.tw-pddl, a folder in ALFWorld's layout, or run "
            f"`agentgym-suite data import alfworld {file}` on the official archive"
        )
    parts = file.parent.parts[-3:]
    official = len(parts) == 3 and parse_task_folder(parts[1]).task_type
    game_id = "/".join(parts) if official else f"{NAMED_SPLIT}/{file.parent.name}/{file.name}"
    status = file.stat()
    found = FoundGame(game_id, file.name, status.st_size, status.st_mtime_ns)
    return read_record(file.parent, found)


def _warn_of_differences(index: GameIndex, root: Path) -> None:
    there = index.counts()
    differences = [
        f"split {split} is {'empty' if (root / split).is_dir() else 'absent'}"
        for split in PLAYED_SPLITS
        if split not in there
    ]
    differences += differences_from_official(index)
    if differences:
        warnings.warn(
            f"{root} is not the complete official data: {'; '.join(differences)}; "
            "`agentgym-suite data download alfworld` brings it",
            stacklevel=2,
        )


def _state_of(path: Path) -> tuple[int, ...]:
    """Times that change when a split, a task or a named game is added, removed or rewritten."""
    root = find_root(path)
    try:
        below = sorted(root.iterdir()) if root.is_dir() else []
    except OSError:  # the index says what is wrong there
        below = []
    return tuple([_time_of(each) for each in (root, *below)])


def _time_of(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # a link that leads nowhere
        return 0


def _splits(index: GameIndex, games: Sequence[GameRecord]) -> dict[str, list[int]]:
    splits: dict[str, list[int]] = {}
    for position, game in enumerate(games):
        members = splits.setdefault(game.split, [])
        if game.counts:
            members.append(position)
    names = sorted(splits, key=lambda name: (name not in OFFICIAL_COUNTS, name))
    splits = {name: splits[name] for name in names}
    if index.named:
        # whoever names a game means it, whether or not it counts
        members = [position for position, game in enumerate(games) if game.id in index.named]
        splits = {**splits, NAMED_SPLIT: members}
    for alias, split in SPLIT_ALIASES.items():
        if split in splits:
            splits[alias] = splits[split]
    return splits


def _unique(games: Sequence[GameRecord]) -> dict[str, int]:
    """Positions by path, and by id without its split where that is unique."""
    names: dict[str, int] = {game.path: position for position, game in enumerate(games)}
    short: dict[str, list[int]] = {}
    for position, game in enumerate(games):
        short.setdefault(game.id.partition("/")[2], []).append(position)
    return names | {name: places[0] for name, places in short.items() if len(places) == 1}

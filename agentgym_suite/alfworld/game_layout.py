"""How ALFWorld keeps its games on a disk: splits, families, and what a folder's name says.

``<root>/json_2.1.1/<split>/<type>-<Object>-<Movable|None>-<Receptacle|Toggle>-<scene>/<trial>/``
holds ``game.tw-pddl`` and, for people, ``traj_data.json``. The folder keeps the name json_2.1.1 in
every version of the data (alfworld 0.3 to 0.5).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from agentgym_suite.arguments import shown
from agentgym_suite.errors import DataDamaged, UsageError
from agentgym_suite.files import explain_unreadable

LAYOUT_FOLDER = "json_2.1.1"
GAME_NAME = "game.tw-pddl"
GAME_SUFFIX = ".tw-pddl"
TRAJECTORY_NAME = "traj_data.json"
#: words in a game's own relative path that keep it out, as in the original
EXCLUDING_WORDS = ("movable", "Sliced")


class Family(NamedTuple):
    """One of the six kinds of task: the original's number and long name, and a short label."""

    number: int
    name: str
    label: str


FAMILIES = (
    Family(1, "pick_and_place_simple", "Pick"),
    Family(2, "look_at_obj_in_light", "Look"),
    Family(3, "pick_clean_then_place_in_recep", "Clean"),
    Family(4, "pick_heat_then_place_in_recep", "Heat"),
    Family(5, "pick_cool_then_place_in_recep", "Cool"),
    Family(6, "pick_two_obj_and_place", "Pick2"),
)
FAMILY_NAMES = tuple(family.name for family in FAMILIES)

#: split -> games of each family, in the order of ``FAMILIES`` (counted over all 4,027 games)
OFFICIAL_COUNTS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "train": (790, 308, 650, 459, 533, 813),
        "valid_seen": (35, 13, 27, 16, 25, 24),
        "valid_unseen": (24, 18, 31, 23, 21, 17),
        "valid_train": (46, 19, 37, 25, 28, 45),
    }
)
#: the splits that alfworld itself plays; valid_train is a left-over of the published data
PLAYED_SPLITS = ("train", "valid_seen", "valid_unseen")
#: the names that alfworld's own interface gives to the splits on the disk
SPLIT_ALIASES: Mapping[str, str] = MappingProxyType(
    {"eval_in_distribution": "valid_seen", "eval_out_of_distribution": "valid_unseen"}
)

_DEEPEST = 8
_TASK_FOLDER = re.compile(r"([a-z_0-9]+)-([^-/]+)-([^-/]+)-([^-/]+)-(\d+)")


class TaskName(NamedTuple):
    """What the name of a task's folder says; ``receptacle`` is the lamp in the Look family."""

    task_type: str
    object: str
    receptacle: str
    scene: str


NO_TASK_NAME = TaskName("", "", "", "")


class FoundGame(NamedTuple):
    """A game file as a listing sees it.

    Attributes:
        id: ``<split>/<task folder>/<trial>``.
        path: below the root.
        size: its bytes.
        mtime_ns: its time of change.
        trajectory_ns: that of the ``traj_data.json`` beside it where the family is read from
            there; 0 where the folder's name tells it, or nothing does.
    """

    id: str
    path: str
    size: int
    mtime_ns: int
    trajectory_ns: int = 0


def find_family(key: object) -> Family:
    """The family named by its number, long name or label.

    Raises:
        UsageError: naming the families there are.
    """
    for family in FAMILIES:
        named = isinstance(key, str) and key.lower() in (family.name, family.label.lower())
        if named or (not isinstance(key, bool) and str(key) == str(family.number)):
            return family
    known = ", ".join(f"{family.number} {family.label} {family.name}" for family in FAMILIES)
    raise UsageError(f"task type {shown(key)} does not exist: choose among {known}")


def find_families(keys: Iterable[object] | str | int | None) -> tuple[str, ...]:
    """The long names of the families named, in the order of the table; None means all.

    Raises:
        UsageError: one is unknown, or none is given.
    """
    if keys is None:
        return FAMILY_NAMES
    chosen = {find_family(key).name for key in ([keys] if isinstance(keys, str | int) else keys)}
    if not chosen:
        raise UsageError("task_types is empty: name at least one family, or give None for all")
    return tuple(name for name in FAMILY_NAMES if name in chosen)


def parse_task_folder(name: str) -> TaskName:
    """What a task folder's name says; empty fields when it is not of the official form."""
    match = _TASK_FOLDER.fullmatch(name)
    return TaskName(match[1], match[2], match[4], match[5]) if match else NO_TASK_NAME


def parse_game_id(game_id: str) -> TaskName:
    """What the id ``<split>/<task folder>/<trial>`` of a game says about its task."""
    parts = game_id.split("/")
    return parse_task_folder(parts[-2]) if len(parts) > 1 else NO_TASK_NAME


def excluding_word(game_id: str) -> str:
    """The word that keeps a game out of the index, "" for a game that counts."""
    for word in EXCLUDING_WORDS:
        if word in game_id:
            return word
    return ""


def list_games(root: Path) -> list[FoundGame]:
    """Every game file below a folder, sorted by id; no file is opened.

    Games whose own relative path holds one of ``EXCLUDING_WORDS`` are left out; the path of
    the root does not matter (in the original, it does). The folder of one split, or of one task,
    gives its games the ids that they have in the whole tree. A link to a folder above is not
    followed.

    Raises:
        DataDamaged: something else than a file has a game's name, or a name is not UTF-8.
        DataError: a folder cannot be read.
    """
    with explain_unreadable(root):
        entries = list(_game_entries(str(root)))
        above = _place_of(root, [below for below, _ in entries])
        found = [_found(f"{above}{below}", below, entry) for below, entry in entries]
    return sorted(found, key=attrgetter("id"))


def refuse_unwritable_name(path: str) -> None:
    """Raise ``DataDamaged`` for a path that UTF-8, and so no index and no record, can hold."""
    if not path.isascii():
        try:
            path.encode("utf-8")
        except UnicodeEncodeError as error:
            escaped = os.fsencode(path).decode("utf-8", "backslashreplace")
            raise DataDamaged(f"{escaped} has a name that is not UTF-8: rename it") from error


def _trajectory_time(game: Path) -> int:
    """The time of change of the trajectory beside a game file; 0 if there is none."""
    try:
        return game.with_name(TRAJECTORY_NAME).stat().st_mtime_ns
    except OSError:
        return 0


def _game_entries(root: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The entries that have a game's name, each with its folder below the root."""
    # a folder below the root, its path, where it really is, and where links were followed
    folders: list[tuple[str, str, str, tuple[str, ...]]]
    folders = [("", root, os.path.realpath(root), ())]
    while folders:
        below, folder, real, way = folders.pop()
        shallow = below.count("/") < _DEEPEST
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == GAME_NAME:
                    yield below.removesuffix("/"), entry
                elif shallow and _is_folder(entry) and not excluding_word(entry.name):
                    place, passed = os.path.join(real, entry.name), way
                    if entry.is_symlink():
                        place, passed = os.path.realpath(entry.path), (*way, real)
                        if any(_is_above(place, other) for other in passed):
                            continue
                    folders.append((f"{below}{entry.name}/", entry.path, place, passed))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_above(folder: str, other: str) -> bool:
    return other == folder or other.startswith(os.path.join(folder, ""))


def _place_of(root: Path, folders: Iterable[str]) -> str:
    """What stands before the paths below a folder in the ids of its games, ``/`` at the end."""
    parts = Path(os.path.abspath(root)).parts
    if LAYOUT_FOLDER in parts[:-1]:
        inside = parts[len(parts) - parts[::-1].index(LAYOUT_FOLDER) :]
    elif parse_task_folder(parts[-1]).task_type:
        inside = parts[-2:]
    elif any(parse_task_folder(below.partition("/")[0]).task_type for below in folders):
        inside = parts[-1:]
    else:
        return ""
    return "/".join(inside) + "/"


def _found(game_id: str, below: str, entry: os.DirEntry[str]) -> FoundGame:
    refuse_unwritable_name(entry.path)
    try:
        status = entry.stat()
    except FileNotFoundError as error:
        raise DataDamaged(
            f"{entry.path} is a link that leads nowhere: remove it or put the game there"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or device"
        raise DataDamaged(f"{entry.path} is {kind}, no file: remove it or put the game there")
    # a game beside the splits is in none of them; the folder's name stands in
    game_id = game_id.removesuffix("/") or Path(entry.path).parent.name
    told = parse_game_id(game_id) is not NO_TASK_NAME
    return FoundGame(
        game_id,
        f"{below}/{GAME_NAME}" if below else GAME_NAME,
        status.st_size,
        status.st_mtime_ns,
        0 if told else _trajectory_time(Path(entry.path)),
    )


def official_differences(counts: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    """Where counts by split and family differ from the published ones, one sentence each.

    Args:
        counts: split -> long family name -> games; splits that are absent are not compared.
    """
    differences = []
    for split, published in OFFICIAL_COUNTS.items():
        if split not in counts:
            continue
        games = sum(counts[split].values())
        if games != sum(published):
            differences.append(f"{split} has {games:,} games where {sum(published):,} are official")
            continue
        for family, expected in zip(FAMILIES, published, strict=True):
            present = counts[split].get(family.name, 0)
            if present != expected:
                differences.append(
                    f"{split} has {present:,} {family.label} games where {expected:,} are official"
                )
    return tuple(differences)

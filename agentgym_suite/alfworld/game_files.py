"""One game file as text: what the engine needs of a ``game.tw-pddl``, before anything is parsed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_suite.errors import DataDamaged, DataMissing
from agentgym_suite.spaces import without_surrogates

DOMAIN, GRAMMAR, PROBLEM = "pddl_domain", "grammar", "pddl_problem"  # the texts' names in a file


class GameFile(NamedTuple):
    """The texts of one game.

    Attributes:
        game_id: ``<split>/<task dir>/<trial>``, or a name of its own.
        domain: the PDDL domain.
        grammar: the TWL2 grammar, goal sentence included.
        problem: the PDDL problem.
        solvable: what the file says; None if it says nothing.
        walkthrough: the commands stored with the game; None if there are none.
        path: where the file lies; "" for a game that was never a file.
    """

    game_id: str
    domain: str
    grammar: str
    problem: str
    solvable: bool | None
    walkthrough: tuple[str, ...] | None
    path: str


def read_game(path: Path | str, game_id: str, sha256: str = "") -> GameFile:
    """Read a ``game.tw-pddl``.

    Args:
        path: where it lies.
        game_id: the id of the game.
        sha256: what its index says, in hex; "" for a file that no index knows.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: it is no game file, or not the one that was indexed.
    """
    return parse_game(read_bytes(path, game_id, sha256), str(path), game_id)


def read_bytes(path: Path | str, game_id: str, sha256: str = "") -> bytes:
    """The contents of a game file.

    Args:
        path: where it lies.
        game_id: the id of the game, for sentences.
        sha256: what its index says, in hex; "" for a file that no index knows.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: it cannot be read, or is not the file that was indexed.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            raw = file.read()
    except FileNotFoundError as error:
        raise DataMissing(
            f"game {game_id} is not at {path} any more: put the file back or import the data again"
        ) from error
    except OSError as error:
        raise DataDamaged(
            f"game {game_id} cannot be read from {path} ({error.strerror}): mend its permissions"
        ) from error
    if sha256 and hashlib.sha256(raw).hexdigest() != sha256:
        raise DataDamaged(
            f"{path} changed since it was indexed: open the data anew to play what is there now, "
            "or make it again if it was imported or generated"
        )
    return raw


def parse_game(raw: bytes, path: str, game_id: str) -> GameFile:
    """The game in the bytes of a ``game.tw-pddl``; keys that are not known are ignored.

    Args:
        raw: one JSON object.
        path: where it lies, for sentences.
        game_id: the id of the game.

    Raises:
        DataDamaged: the JSON is truncated, foreign, or a text of the game is missing.
    """
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataDamaged(
            f"{path} is not JSON ({error}): the file is truncated or foreign, import the data again"
        ) from error
    return game_of(value if isinstance(value, dict) else {}, path, game_id)


def game_of(value: Mapping[str, Any], path: str, game_id: str) -> GameFile:
    """The game in the members of a file's JSON object.

    Raises:
        DataDamaged: a text of the game is missing or none, or a member is of the wrong kind.
    """
    missing = [key for key in (DOMAIN, GRAMMAR, PROBLEM) if not isinstance(value.get(key), str)]
    if missing:
        raise DataDamaged(
            f"{path} is not a game: it has no text {', '.join(missing)}; give a game.tw-pddl"
        )
    broken = [key for key in (DOMAIN, GRAMMAR, PROBLEM) if not _is_text(value[key])]
    if broken:
        raise DataDamaged(
            f"{path} has half a surrogate pair in {', '.join(broken)}, which is no character: "
            "get the file again or repair it"
        )
    solvable, walkthrough = value.get("solvable"), value.get("walkthrough")
    if solvable is not None and not isinstance(solvable, bool):
        raise DataDamaged(f"{path} has solvable = {solvable!r}: it must be true, false or null")
    if walkthrough is not None and not _is_commands(walkthrough):
        raise DataDamaged(f"{path} has a walkthrough that is no list of commands: mend the file")
    return GameFile(
        game_id=game_id,
        domain=value[DOMAIN],
        grammar=value[GRAMMAR],
        problem=value[PROBLEM],
        solvable=solvable,
        walkthrough=None if walkthrough is None else tuple(walkthrough),
        path=path,
    )


def _is_commands(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(command, str) and _is_text(command) for command in value
    )


def _is_text(text: str) -> bool:
    return without_surrogates(text) == text

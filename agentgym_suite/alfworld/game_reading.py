"""Reading many game files: what they have in common is decoded once.

Files of one origin begin with the same 30 KB of domain and grammar, but for the goal sentence. A
reader that has seen two of them knows that beginning, and decodes only what follows it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from agentgym_suite.alfworld.game_files import (
    DOMAIN,
    GRAMMAR,
    PROBLEM,
    GameFile,
    game_of,
    parse_game,
    read_bytes,
)
from agentgym_suite.alfworld.grammars import split_at_goal

_PROBLEM_KEY = re.compile(rb',\s*(?="%s"\s*:)' % PROBLEM.encode())
# words that JSON writes as they are: ASCII without quotes, backslashes and control characters
_PLAIN = re.compile(rb"[ !#-\[\]-~]*")


class _Beginning(NamedTuple):
    """How files begin: as bytes and as texts, with a gap for the goal sentence."""

    before: bytes
    after: bytes
    domain: str
    grammar: tuple[str, str]


class GameReader:
    """Reads game files; the result is that of ``read_game``, whatever was read before."""

    def __init__(self) -> None:
        self._beginning: _Beginning | None = None

    def read(self, path: Path | str, game_id: str, sha256: str = "") -> GameFile:
        """Read a ``game.tw-pddl``.

        Args:
            path: where it lies.
            game_id: the id of the game.
            sha256: what its index says, in hex; "" for a file that no index knows.

        Raises:
            DataMissing: there is no such file.
            DataDamaged: it is no game file, or not the one that was indexed.
        """
        raw = read_bytes(path, game_id, sha256)
        known = self._beginning
        if known is not None and raw.startswith(known.before):
            sentence = _PLAIN.match(raw, len(known.before))
            if sentence is not None and raw.startswith(known.after, sentence.end()):
                rest = b"{" + raw[sentence.end() + len(known.after) :]
                value = _members(rest)
                if value:
                    grammar = sentence[0].decode("ascii").join(known.grammar)
                    texts = {DOMAIN: known.domain, GRAMMAR: grammar}
                    return game_of({**texts, **value}, str(path), game_id)
        game = parse_game(raw, str(path), game_id)
        self._beginning = _beginning_of(raw, game)
        return game


def _members(text: bytes) -> dict[str, object] | None:
    """The members of a JSON object; None when it is none, for the whole file to be looked at."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _beginning_of(raw: bytes, game: GameFile) -> _Beginning | None:
    """How a file begins, up to its problem; None when it is not laid out as most are."""
    frame = split_at_goal(game.grammar)
    end = _PROBLEM_KEY.search(raw)
    if frame is None or end is None:
        return None
    sentence = game.grammar[len(frame[0]) : len(game.grammar) - len(frame[1])].encode("utf-8")
    start = raw.find(sentence, 0, end.start())
    if start < 0 or _PLAIN.fullmatch(sentence) is None:
        return None
    before, after = raw[:start], raw[start + len(sentence) : end.end()]
    # one other sentence in the gap shows that the gap is where it is, and holds nothing else
    other = _members(before + b"-" + after[: end.start() - end.end()] + b"}")
    if other != {DOMAIN: game.domain, GRAMMAR: "-".join(frame)}:
        return None
    return _Beginning(before, after, game.domain, frame)

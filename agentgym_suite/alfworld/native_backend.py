"""The engine of this package behind the environment's interface."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentgym_suite.alfworld.game import CompiledGame
from agentgym_suite.alfworld.game_index import GameRecord
from agentgym_suite.alfworld.games import GameLibrary
from agentgym_suite.alfworld.play import Play

ENGINE_VERSION = "1"
_NAME = re.compile(r"[^\s]+ \d+")


class NativeBackend:
    """Compiled games of a library.

    Args:
        library: where the games are.
    """

    name = "native"
    version = ENGINE_VERSION

    def __init__(self, library: GameLibrary) -> None:
        self._library = library

    def load(self, record: GameRecord) -> CompiledGame:
        """The compiled game of a record."""
        return self._library.compiled(record)

    def close(self) -> None:
        """Nothing is held."""


def shown_facts(play: Play) -> tuple[str, ...]:
    """The true facts now, in displayed names, sorted."""
    names = dict(zip(play.ids, play.names, strict=True))
    return tuple(
        sorted(
            f"{predicate}({', '.join(names[id_].strip() for id_ in arguments)})"
            for predicate, *arguments in play.facts()
        )
    )


def renumbered(commands: Iterable[str], game: CompiledGame, play: Play) -> tuple[str, ...]:
    """Commands written with a game's own numbers, in the numbers of an episode of it."""
    names = dict(zip(game.names, play.names, strict=True))
    return tuple(_NAME.sub(lambda m: names.get(m[0], m[0]), text) for text in commands)

"""What the environment asks of an engine, so that two of them can stand behind one interface."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from agentgym_suite.alfworld.game_index import GameRecord


class PlayedGame(Protocol):
    """One episode."""

    @property
    def observation(self) -> str:
        """What was said last: the intro at first, then the reply to the last command."""
        ...

    @property
    def admissible(self) -> tuple[str, ...]:
        """The commands that do something now, sorted, without duplicates."""
        ...

    @property
    def won(self) -> bool:
        """Whether the goal holds in the present state."""
        ...

    def step(self, command: str) -> tuple[str, bool]:
        """Try a command: the reply, and whether it did something."""
        ...

    def why_not(self, command: str) -> str:
        """Why a command does nothing now, one sentence."""
        ...

    def canonical_state(self) -> str:
        """A text that is equal only if the future is equal."""
        ...


class LoadedGame(Protocol):
    """A game ready to be started any number of times."""

    @property
    def goal(self) -> str:
        """The goal sentence without its prefix."""
        ...

    @property
    def data_version(self) -> str:
        """``old``, ``move+help`` or ``custom``."""
        ...

    def start(self, shuffle: np.random.Generator | None = None) -> PlayedGame:
        """A new episode; with ``shuffle``, object numbers are permuted within each name."""
        ...


class Backend(Protocol):
    """An engine that loads games."""

    @property
    def name(self) -> str:
        """``native`` or ``textworld``."""
        ...

    @property
    def version(self) -> str:
        """The engine's version."""
        ...

    def load(self, record: GameRecord) -> LoadedGame:
        """The game of a record."""
        ...

    def close(self) -> None:
        """Release what the engine holds; may be called any number of times."""
        ...

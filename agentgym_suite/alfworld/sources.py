"""Where a text of a game comes from, so that every complaint about it can say so."""

from __future__ import annotations

from typing import NamedTuple

from agentgym_suite.errors import DataDamaged, UnsupportedConstruct

GRAMMAR = "grammar"


class Source(NamedTuple):
    """One text of one game: what an error message names first.

    Attributes:
        game: the game's id, and the path of its file if it has one.
        part: which text of it: "domain", "problem", "grammar".
    """

    game: str
    part: str

    def damaged(self, what: str, position: str = "") -> DataDamaged:
        """The error for text that breaks its own format."""
        return DataDamaged(
            f"game {self.game}: {what}{self._at(position)} in the {self.part}; "
            "get the game file again or repair it"
        )

    def unsupported(self, construct: str, position: str = "") -> UnsupportedConstruct:
        """The error for a construct outside the subset that the engine interprets."""
        # TextWorld evaluates what stands in a grammar as code: that is nothing to advise
        mend = (
            "repair the file" if self.part == GRAMMAR else 'backend="textworld" may play the game'
        )
        return UnsupportedConstruct(
            f"game {self.game}: {construct}{self._at(position)} in the {self.part} is not "
            f"interpreted by the native engine; {mend}"
        )

    def too_large(self, what: str, position: str = "") -> UnsupportedConstruct:
        """The error for a game that would keep the engine busy, or its memory full, for ever."""
        return UnsupportedConstruct(
            f"game {self.game}: {what}{self._at(position)} in the {self.part}, more than the "
            "engine takes; make the game smaller"
        )

    @staticmethod
    def _at(position: str) -> str:
        return f" at {position}" if position else ""


def line_and_column(text: str, offset: int) -> str:
    """``line L, column C`` of an offset, both counted from 1."""
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"

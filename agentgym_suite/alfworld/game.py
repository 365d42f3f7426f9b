"""One compiled game, as the environment knows it: its goal in words, and episodes to play."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from agentgym_suite.alfworld.grammars import INTRO, TASK
from agentgym_suite.alfworld.ground_game import GroundGame
from agentgym_suite.alfworld.play import Opening, Play, open_game
from agentgym_suite.alfworld.rules import reference, tell

if TYPE_CHECKING:
    import numpy as np


class CompiledGame(GroundGame):
    """A game that any number of episodes play."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What parsing the grammar dropped, one sentence each."""
        return self.grammar.warnings

    @cached_property
    def goal(self) -> str:
        """The goal sentence, without the words before its colon."""
        name = TASK if self.grammar.rules.get(TASK) else INTRO
        text = tell(reference(name), self, {}).rsplit("\n", 1)[-1]
        return text.partition(": ")[2] or text

    @cached_property
    def opening(self) -> Opening:
        """How every episode begins."""
        return open_game(self)

    def start(self, shuffle: np.random.Generator | None = None) -> Play:
        """A new episode.

        Args:
            shuffle: permutes the numbers within each name; None keeps the original's numbers.
        """
        game = self if shuffle is None else self.renumbered(shuffle)
        return Play(game, game.opening)

    def renumbered(self, generator: np.random.Generator) -> CompiledGame:
        """The same game with the numbers of its names permuted."""
        other = object.__new__(CompiledGame)
        named = ("names", "known_names", "goal", "root", "opening")
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k not in named})
        groups = sorted(self.entities.groups(self.counted).items())
        other._names = self.entities.named(
            (base, [group[int(i)] for i in generator.permutation(len(group))])
            for base, group in groups
        )
        other._commands, other._outcomes = {}, {}
        return other

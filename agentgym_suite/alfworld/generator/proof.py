"""Whether a generated game is won by its walkthrough, by the engine that will play it."""

from __future__ import annotations

from agentgym_suite.alfworld.compiling import compile_game
from agentgym_suite.alfworld.game_files import GameFile


def is_won_by_its_walkthrough(game: GameFile) -> bool:
    """Play a game's walkthrough: every command admissible, won by the last one and not before."""
    play = compile_game(game).start()
    for command in game.walkthrough or ():
        if play.won or command not in play.admissible:
            return False
        play.step(command)
    return play.won

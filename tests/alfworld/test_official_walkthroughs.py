"""The stored walkthroughs: admissible command by command, won exactly on the last one.

`make test` plays both validation splits; `make walkthroughs` sets ALFWORLD_ALL_GAMES=1 and plays
all 4,027 games.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentgym_suite.alfworld.compiling import Compiler
from tests.alfworld.official import SPLITS, official_games

GAMES = {"train": 3_553, "valid_seen": 140, "valid_unseen": 134, "valid_train": 200}
CHEAP = ("valid_seen", "valid_unseen")


@pytest.mark.parametrize("split", SPLITS)
def test_walkthroughs_win_on_their_last_command(shared: Path, split: str) -> None:
    if split not in CHEAP and not os.environ.get("ALFWORLD_ALL_GAMES"):
        pytest.skip("plays thousands of games: make walkthroughs")
    compiler = Compiler()
    played = 0
    for game in official_games(shared, split):
        compiled = compiler.compile(game)
        play = compiled.start()
        assert not play.won, game.game_id
        assert 9 <= len(play.admissible) <= 57
        assert 232 <= len(play.observation) <= 909
        assert play.observation.endswith(compiled.goal)
        assert compiled.data_version == "move+help"
        for command in game.walkthrough or ():
            assert not play.won, game.game_id
            assert command in play.admissible, (game.game_id, command)
            play.step(command)
        assert play.won, game.game_id
        played += 1
    assert played == GAMES[split]


def test_every_help_text_is_the_files_own(shared: Path) -> None:
    game = next(official_games(shared, "valid_seen"))
    reply, valid = Compiler().compile(game).start().step("help")
    assert valid
    assert len(reply) == 866
    assert reply.startswith("Available commands:")
    assert reply.endswith("\n")

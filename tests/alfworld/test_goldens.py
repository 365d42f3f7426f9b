"""Every recorded step of TextWorld on official and hand-made games, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.alfworld.compiling import Compiler
from agentgym_suite.alfworld.play import Play
from tests.alfworld.official import golden_episodes, official_games

RECORDINGS = {
    "valid_seen": 60,
    "valid_unseen": 62,
    "train": 78,
    "directed": 24,
    "handmade": 52,
    "scripted": 35,
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_field_of_any_step_differs(shared: Path, name: str) -> None:
    episodes = golden_episodes(shared, name)
    assert len(episodes) == RECORDINGS[name]
    wanted: dict[str, set[str]] = {}
    for episode in episodes:
        wanted.setdefault(episode["split"], set()).add(episode["game"])
    compiler = Compiler()
    games = {
        game.game_id: compiler.compile(game)
        for split, ids in wanted.items()
        for game in official_games(shared, split, ids)
    }
    differing: list[tuple[object, ...]] = []
    for episode in episodes:
        play = games[episode["game"]].start()
        for number, step in enumerate(episode["steps"]):
            differing += _differences(episode, number, step, play)
    assert not differing[:3]


def _differences(
    episode: dict[str, Any], number: int, step: dict[str, Any], play: Play
) -> list[tuple[object, ...]]:
    observation, valid = play.observation, True
    if step["action"] is not None:
        before = play.admissible
        observation, valid = play.step(step["action"])
        assert valid is (step["action"].strip() in before)
    ours = {"obs": observation, "admissible": list(play.admissible), "won": play.won}
    return [
        (episode["game"], episode["kind"], number, step["action"], field, value, step[field])
        for field, value in ours.items()
        if value != step[field]
    ]


def test_a_cut_of_the_unused_rule_is_the_only_warning(shared: Path) -> None:
    compiler = Compiler()
    for game in official_games(shared, "valid_unseen"):
        warnings = compiler.compile(game).warnings
        assert len(warnings) == 1
        assert "overview(o, r)" in warnings[0]

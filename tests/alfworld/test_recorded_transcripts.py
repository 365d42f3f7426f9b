"""Generated games as TextWorld itself played them, step by step against the engine.

The recordings hold the games' texts, so they prove parity whatever the generator makes today;
benchmarks/record_alfworld.py wrote them with TextWorld 1.7.0 and alfworld 0.4.2.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.alfworld.compiling import compile_game
from agentgym_suite.alfworld.game_files import GameFile

RECORDINGS = Path(__file__).parent / "fixtures" / "textworld_on_generated_games.jsonl.xz"
VERBS = {"go", "open", "close", "take", "move", "put", "clean", "heat", "cool", "slice", "use"}
WORDS = {"examine", "look", "inventory", "help"}
PHRASES = (
    "Nothing happens.",
    "You are facing the",
    "Next to it, you see a ",
    "you see nothing.",
    "You are carrying: a ",
    "This is a normal",
    "This is a sliced",
    "This is a clean",
    "This is a hot",
    "This is a cold",
    "This is a cool",
    "There's nothing special about",
)


def read_episodes(path: Path) -> list[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


EPISODES = read_episodes(RECORDINGS)


@pytest.mark.parametrize("episode", EPISODES, ids=lambda e: f"{e['game']}-{e['kind']}")
def test_the_engine_says_what_textworld_said(episode: dict[str, Any]) -> None:
    game = GameFile(
        game_id=episode["game"],
        domain=episode["pddl_domain"],
        grammar=episode["grammar"],
        problem=episode["pddl_problem"],
        solvable=True,
        walkthrough=tuple(episode["walkthrough"]),
        path="",
    )
    play = compile_game(game).start()
    before: tuple[str, ...] = ()
    for number, step in enumerate(episode["steps"]):
        said, command = play.observation, step["action"]
        if command is not None:
            said, valid = play.step(command)
            assert valid is (command.strip() in before), (number, command)
        assert said == step["obs"], (number, command)
        assert list(play.admissible) == step["admissible"], (number, command)
        assert play.won is step["won"], (number, command)
        before = play.admissible


def test_the_recordings_are_varied() -> None:
    games = {episode["game"]: episode for episode in EPISODES}
    assert len(games) == 24 and len(EPISODES) == 72
    families = Counter(game.split("/")[1].split("-")[0] for game in games)
    assert len(families) == 6 and min(families.values()) >= 3
    assert {game.split("/")[0] for game in games} == {"train", "valid_seen", "valid_unseen"}
    with_help = ["action help" in episode["grammar"] for episode in games.values()]
    assert sum(with_help) == 12
    receptacles = [e["pddl_problem"].count("receptacleAtLocation") for e in games.values()]
    assert min(receptacles) <= 10 and max(receptacles) >= 40
    steps = [step for episode in EPISODES for step in episode["steps"]]
    assert len(steps) > 1700
    verbs = Counter((step["action"] or "").split(" ")[0] for step in steps)
    played = [verb for verb, count in verbs.items() if count >= 2]
    assert set(played) >= VERBS | WORDS
    heard = " ".join(step["obs"] for step in steps)
    for phrase in PHRASES:
        assert phrase in heard, phrase


def test_walkthroughs_won_in_textworld() -> None:
    """TextWorld agrees with the generator: won by the last command, not before."""
    for episode in EPISODES:
        if episode["kind"] == "walkthrough":
            won = [step["won"] for step in episode["steps"]]
            length = len(episode["walkthrough"])
            assert won[: length + 1] == [False] * length + [True], episode["game"]

"""A reader that knows how files begin reads every file as one that knows nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_suite.alfworld.game_files import GameFile, read_game
from agentgym_suite.alfworld.game_reading import GameReader
from agentgym_suite.errors import DataDamaged
from tests.alfworld.small_game import game_file

GAME = game_file()
SENTENCES = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(["", "put a cup.", 'a "b"', "a\\nb", "é", "\\u0041", "\x01", "x" * 400]),
)


def text_of(game: GameFile, sentence: str) -> str:
    """The game as a file, with another goal sentence, in the official order of keys."""
    rule = '"task": [{"rhs": '
    before, _, after = game.grammar.partition(rule)
    quoted, _, rest = after.partition("}")
    assert quoted.startswith('"') and rest
    return json.dumps(
        {
            "pddl_domain": game.domain,
            "grammar": f"{before}{rule}{json.dumps(sentence)}}}{rest}",
            "pddl_problem": game.problem,
            "solvable": True,
        }
    )


def outcome(read: object, path: Path) -> object:
    try:
        return read(path, "train/a/b")  # type: ignore[operator]
    except DataDamaged as error:
        return str(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("games")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(SENTENCES, SENTENCES, st.booleans(), st.data())
def test_what_was_read_before_changes_nothing(
    folder: Path, first: str, second: str, ascii_only: bool, data: st.DataObject
) -> None:
    reader = GameReader()
    path = folder / "game.tw-pddl"
    text = text_of(GAME, first)
    path.write_text(text, "utf-8")
    assert reader.read(path, "train/a/b") == read_game(path, "train/a/b")
    other = text_of(GAME, second)
    if not ascii_only:
        other = json.dumps(json.loads(other), ensure_ascii=False)
    end = len(other)
    cut = data.draw(st.integers(0, end) | st.just(end))
    tail = data.draw(st.sampled_from(["", "}", ', "grammar": "mine"}', ' , "solvable": null}']))
    path.write_text(other[:cut] + tail if cut < end else other[:-1] + (tail or "}"), "utf-8")
    assert outcome(reader.read, path) == outcome(read_game, path)


def test_a_known_beginning_is_decoded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [folder / f"{number}.tw-pddl" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_text(text_of(GAME, f"Your task is to: put cup {number} down."), "utf-8")
    reader = GameReader()
    reader.read(paths[0], "a")
    seen: list[int] = []
    real = json.loads
    monkeypatch.setattr(json, "loads", lambda text: seen.append(len(text)) or real(text))
    games = [reader.read(path, "a") for path in paths[1:]]
    assert max(seen) < len(GAME.problem) * 1.5 < len(paths[1].read_bytes()) / 2
    assert games[0].domain is games[1].domain
    assert "put cup 2 down." in games[1].grammar

"""Games that the engine cannot take: one sentence that names them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import agentgym_suite  # noqa: F401
from agentgym_suite.agents import AGENTS
from agentgym_suite.episodes import EpisodeRequest
from agentgym_suite.errors import (
    AgentGymSuiteError,
    DataDamaged,
    DataMissing,
    UnsupportedConstruct,
)
from agentgym_suite.playing import run_episode
from tests.alfworld.small_world import edit, game_of, make

pytestmark = [
    pytest.mark.usefixtures("fresh_home"),
    pytest.mark.filterwarnings("ignore:.*is not the complete official data"),
]


def _without(key: str) -> Callable[[str], str]:
    return lambda text: text.replace(key, "")


@pytest.mark.parametrize(
    ("key", "change", "error"),
    [
        ("pddl_domain", lambda t: t.replace("(:predicates", "(:derived", 1), UnsupportedConstruct),
        ("pddl_domain", lambda t: t[: len(t) // 2], DataDamaged),
        ("pddl_problem", lambda t: t.replace("(:init", "(:init (opened ghost)", 1), DataDamaged),
        ("pddl_problem", lambda t: t.replace("(:goal", "(:goal é", 1), DataDamaged),
        ("grammar", lambda t: t.replace("{r.name}", "{exit()}", 1), UnsupportedConstruct),
        ("grammar", lambda t: t.replace("{r.name}", "{1 + 1}", 1), UnsupportedConstruct),
        ("grammar", lambda t: t.replace("action look", "action loook", 1), AgentGymSuiteError),
    ],
)  # fmt: skip
def test_a_game_the_engine_cannot_take_is_an_error_of_one_sentence_that_names_it(
    own_game: Path, key: str, change: Callable[[str], str], error: type[Exception]
) -> None:
    text = json.loads(own_game.read_text())[key]
    edit(own_game, **{key: change(text)})
    env = make(own_game)
    with pytest.raises(error) as caught:
        env.reset()
    message = str(caught.value)
    assert "\n" not in message and game_of(env).tasks.ids[0] in message


def test_a_file_that_vanished_is_named_with_its_id(own_game: Path) -> None:
    env = make(own_game)
    task_id = game_of(env).tasks.ids[0]
    own_game.unlink()
    with pytest.raises(DataMissing) as caught:
        env.reset()
    assert task_id in str(caught.value) and str(own_game) in str(caught.value)


def test_an_unreachable_goal_is_a_game_that_cannot_be_won(own_game: Path) -> None:
    text = json.loads(own_game.read_text())["pddl_problem"]
    goal = "(:goal (exists (?a - agent ?b - agent) (and (holdsAny ?a) (not (holdsAny ?b))))))"
    edit(own_game, pddl_problem=text[: text.lower().index("(:goal")] + goal)
    env = make(own_game)
    env.reset()
    episode = run_episode(env, AGENTS["oracle"], EpisodeRequest(game_of(env).tasks.ids[0], seed=0))
    assert episode.failure is None and not episode.success and len(episode.steps) == 50

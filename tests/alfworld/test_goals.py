"""Goals that share a shape: each game still has its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.alfworld.compiling import Compiler
from agentgym_suite.alfworld.conditions import renamed
from agentgym_suite.alfworld.goals import Goal, Goals
from agentgym_suite.alfworld.pddl import read_domain, read_problem
from agentgym_suite.alfworld.sources import Source
from agentgym_suite.errors import DataDamaged
from tests.alfworld.small_game import domain_text, game_file, problem_text

SOURCE = Source("a/game", "problem")
DOMAIN = read_domain(domain_text(), SOURCE)
THINGS = ("ball_bar_1", "ball_bar_2", "cup_bar_1", "?t")
BOXES = ("chest_bar_a", "chest_bar_b", "?b")
TERMS = {
    "in": (THINGS, BOXES),
    "held": (THINGS,),
    "lit": (THINGS,),
    "busy": (),
    "=": (BOXES, BOXES),
}


def goal_of(text: str, goals: Goals | None = None) -> Goal:
    return read_problem(problem_text(goal=text), DOMAIN, SOURCE, goals).goal


@st.composite
def literals(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(TERMS)))
    return f"({' '.join([name, *[draw(st.sampled_from(terms)) for terms in TERMS[name]]])})"


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    both = st.tuples(st.sampled_from(["and", "or"]), st.lists(parts, max_size=3))
    return both.map(lambda pair: f"({pair[0]} {' '.join(pair[1])})") | literals().map(
        "(not {})".format
    )


# bound from the start, so that every variable of every part has its place
GOALS = st.recursive(literals(), joined, max_leaves=6).map(
    "(exists (?t - thing ?b - box) {})".format
)


@given(st.lists(GOALS, min_size=2, max_size=5))
def test_a_goal_reads_the_same_whatever_was_read_before(texts: list[str]) -> None:
    goals = Goals()
    for text in texts:
        known, alone = goal_of(text, goals), goal_of(text)
        assert (known.ids, known.condition) == (alone.ids, alone.condition)
        assert known.shape.branches == alone.shape.branches
        numbers = {id_: str(i) for i, id_ in enumerate(known.ids)}
        assert renamed(known.condition, numbers) == known.shape.condition


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("(in ball_bar_1 chest_bar_a)", "(in cup_bar_1 chest_bar_b)", True),
        ("(in ball_bar_1 chest_bar_a)", "(IN Ball_bar_1  chest_bar_a)", True),
        ("(held ball_bar_1)", "(lit ball_bar_1)", False),
        ("(held ball_bar_1)", "(not (held ball_bar_1))", False),
        ("(= chest_bar_a chest_bar_b)", "(= chest_bar_a chest_bar_a)", False),
        ("(exists (?x - box) (lid ?x))", "(exists (?x - thing) (lit ?x))", False),
        ("(exists (?x - box) (busy))", "(exists (?x - thing) (busy))", False),
        ("(and (held ball_bar_1))", "(or (held ball_bar_1))", False),
    ],
)
def test_a_shape_is_all_but_the_objects(one: str, other: str, shared: bool) -> None:
    goals = Goals()
    assert (goal_of(one, goals).shape is goal_of(other, goals).shape) is shared


def test_games_of_one_shape_are_won_by_their_own_goal() -> None:
    compiler = Compiler()
    for box, won in (("tray_bar_c", True), ("chest_bar_b", False), ("tray_bar_c", True)):
        problem = problem_text(goal=f"(exists (?b - box) (and (in cup_bar_1 ?b) (= ?b {box})))")
        assert compiler.compile(game_file(problem=problem)).start().won is won


def test_a_wrong_goal_is_told_in_its_own_words() -> None:
    goals = Goals()
    goal_of("(in ball_bar_1 chest_bar_a)", goals)
    with pytest.raises(DataDamaged, match=r"\(in ball_bar_2\): in takes 2 arguments"):
        goal_of("(in ball_bar_2)", goals)
    with pytest.raises(DataDamaged, match=r"undeclared variable \?t in the goal"):
        goal_of("(in ?t chest_bar_a)", goals)

"""The PDDL reader: what is read, and what is refused with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.alfworld.conditions import And, Exists, Literal, Or, branches
from agentgym_suite.alfworld.pddl import read_domain, read_problem
from agentgym_suite.alfworld.sources import Source
from agentgym_suite.errors import DataDamaged, DataError, UnsupportedConstruct
from tests.alfworld.small_game import ACTIONS, FACTS, domain_text, problem_text

SOURCE = Source("a/game", "domain")
DOMAIN = read_domain(domain_text(), SOURCE)


def with_action(body: str) -> str:
    return domain_text({**ACTIONS, "extra": body})


def test_names_are_lower_case_and_typed() -> None:
    assert DOMAIN.name == "small"
    assert DOMAIN.parents == dict.fromkeys(("agent", "place", "box", "thing"), "object")
    assert DOMAIN.predicates["boxat"] == 2
    walk = next(action for action in DOMAIN.actions if action.name == "walk")
    assert walk.parameters == (
        ("?a", "agent"),
        ("?from", "place"),
        ("?to", "place"),
        ("?b", "box"),
    )
    assert [effect.literal.positive for effect in walk.effects] == [False, True]


def test_a_comma_belongs_to_its_token_and_a_question_mark_begins_one() -> None:
    action = read_domain(with_action(":parameters (?x - place,?y - box)"), SOURCE).actions[-1]
    assert action.parameters == (("?x", "place,"), ("?y", "box"))


def test_comments_end_with_their_line() -> None:
    text = domain_text().replace("(:action", "; (:nonsense ) é\n(:action")
    assert read_domain(text, SOURCE) == DOMAIN


def test_negations_are_pushed_to_the_atoms() -> None:
    body = ":parameters (?t - thing) :precondition (not (and (lit ?t) (or (held ?t) (not (busy)))))"
    condition = read_domain(with_action(body), SOURCE).actions[-1].condition
    lit, held = Literal("lit", ("?t",), False), Literal("held", ("?t",), False)
    assert condition == Or((lit, And((held, Literal("busy", ())))))


def test_branches_split_exists_and_keep_small_disjunctions_as_filters() -> None:
    grab = next(action for action in DOMAIN.actions if action.name == "grab")
    (branch,) = branches(grab.condition)
    assert len(branch.literals) == 4
    assert len(branch.filters) == 1
    held = Literal("held", ("?t",))
    either = Or((held, Exists((("?b", "box"),), Literal("in", ("?t", "?b")))))
    one, other = branches(And((either, either)))[1:3]
    assert one.variables != other.variables or one.literals != other.literals
    assert len(branches(And((either, either)))) == 4


@pytest.mark.parametrize(
    ("text", "error", "named"),
    [
        (
            with_action(":precondition (forall (?t) (lit ?t))"),
            UnsupportedConstruct,
            "forall",
        ),
        (with_action(":precondition (not (exists (?t) (lit ?t)))"), UnsupportedConstruct, "exists"),
        (with_action(":precondition (imply (busy) (busy))"), UnsupportedConstruct, "imply"),
        (with_action(":effect (forall (?t) (lit ?t))"), UnsupportedConstruct, "forall"),
        (with_action(":duration 3"), UnsupportedConstruct, ":duration"),
        (with_action(":parameters (?t - (either box thing))"), UnsupportedConstruct, "either"),
        (domain_text()[:-1] + "(:derived (busy) (busy)))", UnsupportedConstruct, ":derived"),
        (with_action(":precondition (unknown)"), DataDamaged, "unknown"),
        (with_action(":precondition (busy me)"), DataDamaged, "0 arguments"),
        (with_action(":precondition (lit ?q)"), DataDamaged, "?q"),
        (with_action(":precondition (not (busy) (busy))"), DataDamaged, "not takes one"),
        (domain_text(types="a - b b - a"), DataDamaged, "own ancestor"),
        (domain_text()[:-1], DataDamaged, "do not close"),
        (domain_text() + ")", DataDamaged, "after the end"),
        (domain_text().replace("lit", "lıt"), DataDamaged, "non-ASCII"),
        ("(" * 5_000, UnsupportedConstruct, "nested this deeply"),
        ("", DataDamaged, "do not close"),
        ("(define (problem x))", DataDamaged, "no (define (domain NAME)"),
    ],
)
def test_what_is_not_read_is_named(text: str, error: type[Exception], named: str) -> None:
    with pytest.raises(error) as caught:
        read_domain(text, SOURCE)
    message = str(caught.value)
    assert message.startswith("game a/game: ")
    assert named in message
    assert message.count("\n") == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (problem_text().replace("(:domain small)", "(:domain other)"), "'other'"),
        (problem_text(objects="me - agent me - agent"), "the object me twice"),
        (problem_text(objects="me - robot"), "undeclared type robot"),
        (problem_text(goal="(in nowhere)"), "2 arguments"),
        (problem_text(goal="(in ?x chest_bar_a)"), "?x"),
        (problem_text().replace("(:goal", "(:gaol"), ":gaol"),
        (problem_text(FACTS + " (in (a) b)"), "among the facts"),
        (problem_text(FACTS + " ()"), "() where"),
        (problem_text().replace(" (:init", " (:objects) (:init"), "repeated"),
    ],
)
def test_what_a_problem_gets_wrong_is_named(text: str, named: str) -> None:
    with pytest.raises(DataError) as caught:
        read_problem(text, DOMAIN, SOURCE)
    assert named in str(caught.value)


def test_facts_keep_what_is_positive() -> None:
    facts = "(busy) (= (total-cost) 0) (not (lit cup_bar_1)) (= a b) (lit cup_bar_1)"
    assert read_problem(problem_text(facts), DOMAIN, SOURCE).facts == [
        ["busy"],
        ["lit", "cup_bar_1"],
    ]


@given(st.text(alphabet="()?-: abdefinmos;\n", max_size=80))
def test_any_text_is_a_domain_or_one_typed_error(text: str) -> None:
    try:
        read_domain(text, SOURCE)
    except DataError as error:
        assert "a/game" in str(error)


@given(st.data())
def test_a_damaged_problem_never_escapes_as_another_error(data: st.DataObject) -> None:
    text = problem_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    filling = data.draw(st.text(alphabet="()?- in;", max_size=6))
    try:
        read_problem(text[:start] + filling + text[end:], DOMAIN, SOURCE)
    except DataError as error:
        assert "a/game" in str(error)

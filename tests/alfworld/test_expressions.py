"""Expressions and queries of a grammar: what is read, and that nothing is ever run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.alfworld.expressions import (
    Attribute,
    NotAnExpression,
    Placeholder,
    read_expression,
    read_query,
)
from agentgym_suite.errors import UnsupportedConstruct
from tests.alfworld.small_game import TEXTS, grammar_text, small_game, small_play

NAME = Attribute("x", "name")


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("x", ((NAME,),)),
        (" x.name ", ((NAME,),)),
        ("x.id or x", ((Attribute("x", "id"),), (NAME,))),
        ("'a' + x + \"'b'\"", (("a", NAME, "'b'"),)),
        ("'' or 'x'+'y' or x.type", (("",), ("x", "y"), (Attribute("x", "type"),))),
        ("order.indefinite", ((Attribute("order", "indefinite"),),)),
        ("'or' or 'ünïcode 你好'", (("or",), ("ünïcode 你好",))),
    ],
)
def test_or_binds_looser_than_plus(text: str, operands: tuple[tuple[object, ...], ...]) -> None:
    assert read_expression(text).operands == operands


@pytest.mark.parametrize(
    "text",
    [
        "1+1",
        "x.secret",
        "x.__class__",
        "x.name.upper()",
        "print('x')",
        "__import__('os').system('true')",
        "x if x else 'y'",
        "x and x",
        "not x",
        "x[0]",
        "(x)",
        "lambda: x",
        "f'{x}'",
        "'a' 'b'",
        "x y",
        "x +",
        "or x",
        "+ x",
        "",
        "'open",
        "'a\\n'",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(NotAnExpression):
        read_expression(text)


@pytest.mark.parametrize("code", ["1+1", "__import__('os').getcwd()", "b.name.upper()"])
def test_a_grammar_that_runs_code_is_refused_at_load(code: str) -> None:
    texts = {**TEXTS, "wait": ("wait", "now {" + code.replace('"', "'") + "}")}
    with pytest.raises(
        UnsupportedConstruct, match=r"game small/game.*action wait.*repair the file"
    ):
        small_game(grammar=grammar_text(texts))


@given(st.text(alphabet="xy.'\"+ or12()[]{}name", max_size=24))
def test_parsing_terminates_in_a_value_or_one_error(text: str) -> None:
    try:
        expression = read_expression(text)
    except NotAnExpression:
        return
    assert expression.operands and all(expression.operands)


@given(
    st.lists(
        st.lists(st.sampled_from(["x", "y.id", "z.type", "'a b'", '"c"']), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_joined_is_read_back(operands: list[list[str]]) -> None:
    read = read_expression(" or ".join(" + ".join(pieces) for pieces in operands))
    assert [len(pieces) for pieces in read.operands] == [len(pieces) for pieces in operands]


def test_a_query_names_types_or_takes_them_from_names() -> None:
    first, second, third = read_query("p(x:thing, agent'')&!q( y : box )  & not_r()")
    assert (first.predicate, first.negated) == ("p", False)
    assert first.placeholders == (Placeholder("x", "thing"), Placeholder("agent''", "agent"))
    assert (second.predicate, second.negated) == ("q", True)
    assert second.placeholders == (Placeholder("y", "box"),)
    assert (third.predicate, third.negated, third.placeholders) == ("r", True, ())


@pytest.mark.parametrize("text", ["p(x) q(y)", "p(x) &", "p", "p(x", "p(x y)", "& p(x)", "p(x:)"])
def test_a_query_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(NotAnExpression):
        read_query(text)


def test_attributes_are_told() -> None:
    texts = {**TEXTS, "wait": ("wait", "{a.id}/{a.type}/{a.indefinite}/{a.definite}/{a}/{a.name}/")}
    assert small_play(grammar=grammar_text(texts)).step("wait")[0] == "me/agent/a/the/me /me /"

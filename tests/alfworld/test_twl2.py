"""The TWL2 reader: the outer syntax, and the texts with all their quirks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.alfworld.expressions import NotAnExpression
from agentgym_suite.alfworld.sources import Source
from agentgym_suite.alfworld.twl2 import (
    Conditional,
    ListOf,
    Reference,
    Terminal,
    read_text,
    split_grammar,
)
from agentgym_suite.errors import DataDamaged, UnsupportedConstruct
from tests.alfworld.small_game import RULES, TEXTS, grammar_text, small_game, small_play

SOURCE = Source("a/game", "grammar")


def words(text: str) -> str:
    """The terminals of a text that consists of them alone."""
    symbols = read_text(text).symbols
    assert all(isinstance(symbol, Terminal) for symbol in symbols)
    return "".join(symbol.text for symbol in symbols if isinstance(symbol, Terminal))


@pytest.mark.parametrize(
    ("text", "told", "cut"),
    [
        ("a;b", "a", ";b"),
        ("a}b", "a", "}b"),
        ("a # b", "a ", "# b"),
        ("100% <b>", "100% ", "<b>"),
        ("[ {x} ]", "", "[ {x} ]"),
        ("", "", ""),
        (" plus ", "plus ", ""),
        ("\n\n Help\n", "Help\n", ""),
        ("// note\nrest", "rest", ""),
        ("// note", "", ""),
        ("// a\n// b\n\n  c", "c", ""),
        ("\n  // kept", "// kept", ""),
        (r"a\nb", r"a\nb", ""),
        ('say "hi" now', "say hi now", ""),
        ('say "hi', "say ", '"hi'),
        ("tab\t", "tab\t", ""),
    ],
)
def test_what_is_swallowed_and_where_parsing_stops(text: str, told: str, cut: str) -> None:
    assert words(text) == told
    assert read_text(text).cut == cut


def test_symbols() -> None:
    text = "{x|p(x)}\t [{#n o# | q(y)}] #look-it(o, r)#{#m#}[{x}]"
    kinds = [type(symbol) for symbol in read_text(text).symbols]
    assert kinds == [Conditional, Terminal, ListOf, Terminal, Reference, Conditional, ListOf]
    # the tab behind a closing brace is gone, the blank is not
    assert read_text(text).symbols[1] == Terminal(" ")


@given(st.text(alphabet="ab {}[]#|;<>\"\n\t/'+().:&", max_size=30))
def test_parsing_always_ends(text: str) -> None:
    try:
        parsed = read_text(text)
    except NotAnExpression:
        return
    assert text.endswith(parsed.cut)


def test_parts_come_in_any_order_with_comments_between() -> None:
    outline = split_grammar(
        """# a comment
        action a-b/c { # inner
            feedback :: "real
newlines"; grammar :: \"\"\"{"x": []}\"\"\"; template :: ""; pddl :: \"\"\"( "ignored" )\"\"\"; }
        grammar :: \"\"\"{}\"\"\";
        """,
        SOURCE,
    )
    assert [block for block, _ in outline.blocks] == ['{"x": []}', "{}"]
    (action,) = outline.actions
    assert (action.name, action.template, action.block) == ("a-b/c", "", 0)
    assert action.feedback == "real\nnewlines"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("action a { template :: 'x'; }", "line 1, column 24"),
        ('action a { template :: "x"; ', "middle of a part"),
        ('action a { template :: "x"; }', "no feedback for action a"),
        ("grammar : {}", "line 1, column 9"),
        ("verb a {}", "line 1, column 1"),
        ('grammar :: """{}""" action', "line 1, column 21"),
    ],
)
def test_broken_syntax_is_placed(text: str, named: str) -> None:
    with pytest.raises(DataDamaged, match="game a/game: .*grammar") as caught:
        split_grammar(text, SOURCE)
    assert named in str(caught.value)


@given(st.text(alphabet='action{};:"# \nxgrammar', max_size=60))
def test_any_text_is_parts_or_one_typed_error(text: str) -> None:
    try:
        split_grammar(text, SOURCE)
    except DataDamaged as error:
        assert "a/game" in str(error)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"box": [{"rhs": "#nowhere#"}]}, "missing rule #nowhere#"),
        ({"box": [{"rhs": "{zz.name}"}]}, "unbound variable zz"),
        ({"box": [{"rhs": "x", "condition": "lid(b:crate)"}]}, "unknown type crate"),
        ({"box": [{"condition": "lid(b:box)"}]}, "without a text rhs"),
        ({"box": "text"}, "no list of alternatives"),
        ({"list_empty": []}, "missing rule #list_empty#"),
        ({"intro": []}, "missing rule #intro#"),
    ],
)
def test_what_a_grammar_lacks_is_named_at_load(change: dict[str, object], named: str) -> None:
    rules = {**RULES, **change}
    with pytest.raises(DataDamaged) as caught:
        small_game(grammar=grammar_text(rules=rules))  # type: ignore[arg-type]
    assert named in str(caught.value)
    assert "small/game" in str(caught.value)


def test_a_rule_that_uses_itself_is_refused() -> None:
    rules = {**RULES, "box": [{"rhs": "#light2#"}], "light2": [{"rhs": "#box#"}]}
    with pytest.raises(UnsupportedConstruct, match="uses itself"):
        small_game(grammar=grammar_text(rules=rules))


def test_json_that_does_not_parse_is_named() -> None:
    with pytest.raises(DataDamaged, match="grammar block 1"):
        small_game(grammar='grammar :: """{"intro": [}""";')


def test_a_domain_action_without_texts_is_named() -> None:
    texts = {name: text for name, text in TEXTS.items() if name != "flip"}
    with pytest.raises(DataDamaged, match="flip"):
        small_game(grammar=grammar_text(texts))


def test_a_rule_defined_again_replaces_the_earlier_one() -> None:
    again = json.dumps({"box": [{"rhs": "again"}]})
    grammar = grammar_text() + f'grammar :: """{again}""";'
    assert small_play("walk to chest 1", grammar=grammar).step("pull chest 2")[0] == "again"


def test_lines_of_an_actions_block_may_be_comments() -> None:
    block = '"""\n # no\n {"q": []}\n"""'
    extra = f'action more {{ template :: ""; feedback :: ""; grammar :: {block}; }}'
    assert "q" in small_game(grammar=grammar_text() + extra).grammar.rules


def test_a_cut_is_a_warning_and_happens_as_in_the_original() -> None:
    rules = {**RULES, "task": [{"rhs": "Goal: fill; empty"}]}
    game = small_game(grammar=grammar_text(rules=rules))
    assert game.goal == "fill"
    assert game.warnings == ("rule task is cut before '; empty'",)


def test_separators_are_the_files_own() -> None:
    rules = {
        **RULES,
        "list_separator": [{"rhs": "/"}],
        "list_last_separator": [{"rhs": " plus "}],
    }
    intro = small_play(grammar=grammar_text(rules=rules)).observation
    assert "Boxes: a chest 2/a chest 1plus a tray 1." in intro

"""One file cannot keep the engine busy, or its memory full, for ever: it is refused, and named."""

from __future__ import annotations

import json

import pytest

from agentgym_suite.alfworld import grounding, reachability
from agentgym_suite.alfworld.compiling import compile_game
from agentgym_suite.alfworld.grammar_traits import data_version_of, goal_sentence_of
from agentgym_suite.alfworld.oracle import plan_commands
from agentgym_suite.alfworld.pddl import read_domain
from agentgym_suite.alfworld.sources import Source
from agentgym_suite.errors import DataDamaged, EnvError, UnsupportedConstruct
from tests.alfworld.small_game import (
    ACTIONS,
    FACTS,
    OBJECTS,
    RULES,
    TEXTS,
    domain_text,
    game_file,
    grammar_text,
    problem_text,
    small_game,
    small_play,
)

PLACES = " ".join(f"place_bar_{i}" for i in range(20)) + " - place\n"
THINGS = " ".join(f"bead_bar_{i}" for i in range(20)) + " - thing\n"
Rules = dict[str, list[dict[str, str]]]


def laughing(levels: int, unit: str) -> Rules:
    rules: Rules = {"ha0": [{"rhs": unit}]}
    for i in range(levels):
        rules[f"ha{i + 1}"] = [{"rhs": f"#ha{i}##ha{i}#"}]
    return rules


@pytest.mark.parametrize("unit", ["ha", ""])
def test_rules_that_double_what_they_use_are_refused(unit: str) -> None:
    rules = {**RULES, **laughing(40, unit), "intro": [{"rhs": "#ha40#"}]}
    with pytest.raises(UnsupportedConstruct, match=r"small/game.*a text of over 1,000,000"):
        small_play(grammar=grammar_text(rules=rules))
    fewer = {**RULES, **laughing(10, unit), "intro": [{"rhs": "#ha10#"}]}
    assert small_play(grammar=grammar_text(rules=fewer)).observation == unit * 2**10


def test_a_command_is_a_text_of_its_own_and_bounded_too() -> None:
    rules = {**RULES, **laughing(40, "ha")}
    texts = {**TEXTS, "wait": ("wait #ha40#", "Time goes by.")}
    with pytest.raises(UnsupportedConstruct, match="a text of over"):
        small_play(grammar=grammar_text(texts, rules))
    texts["wait"] = ("wait", "#ha40#")
    play = small_play(grammar=grammar_text(texts, rules))
    with pytest.raises(UnsupportedConstruct, match="a text of over"):
        play.step("wait")


def test_a_chain_of_rules_is_refused_before_python_gives_up() -> None:
    chain: Rules = {f"r{i}": [{"rhs": f"#r{i + 1}#"}] for i in range(600)}
    rules = {**RULES, **chain, "r600": [{"rhs": "x"}], "intro": [{"rhs": "#r0#"}]}
    with pytest.raises(UnsupportedConstruct, match="rules inside rules, 50 deep"):
        small_game(grammar=grammar_text(rules=rules))


def test_rules_used_with_ever_other_variables_are_refused() -> None:
    rules: Rules = {
        f"r{i}": [{"rhs": f"[{{#r{i + 1}#|lid(a{i}:box)}}][{{#r{i + 1}#|lid(b{i}:box)}}]"}]
        for i in range(40)
    }
    with pytest.raises(UnsupportedConstruct, match="over 10,000 uses of rules"):
        small_game(
            grammar=grammar_text(
                rules={**RULES, **rules, "r40": [{"rhs": "x"}], "intro": [{"rhs": "#r0#"}]}
            )
        )


def test_a_query_with_too_many_answers_is_refused() -> None:
    query = " & ".join(f"kind(x{i}:thing, x{i}:thing)" for i in range(12))
    rules = {**RULES, "intro": [{"rhs": f"[{{x0.name | {query}}}]"}]}
    facts = FACTS + "".join(f" (kind bead_bar_{i} bead_bar_{i})" for i in range(20))
    problem = problem_text(facts, objects=THINGS + OBJECTS)
    with pytest.raises(UnsupportedConstruct, match="a text of over"):
        small_play(grammar=grammar_text(rules=rules), problem=problem)


def test_an_action_of_too_many_objects_is_refused() -> None:
    free = " ".join(f"?p{i} - place" for i in range(6))
    actions = {**ACTIONS, "wait": f":parameters (?a - agent {free}) :effect (marked ?a)"}
    with pytest.raises(UnsupportedConstruct, match="combinations of objects") as caught:
        small_play(domain=domain_text(actions), problem=problem_text(objects=PLACES + OBJECTS))
    assert "small/game" in str(caught.value)


def test_a_condition_of_too_many_changing_facts_is_refused() -> None:
    things = " ".join(f"?t{i} - thing" for i in range(6))
    held = " ".join(f"(in ?t{i} ?b)" for i in range(6))
    actions = {
        **ACTIONS,
        "wait": f":parameters (?b - box {things}) :precondition (and {held}) :effect (marked ?b)",
    }
    facts = FACTS + "".join(f" (in bead_bar_{i} tray_bar_c)" for i in range(20))
    problem = problem_text(facts, objects=THINGS + OBJECTS)
    texts = {**TEXTS, "wait": ("wait", "Time goes by.")}
    with pytest.raises(UnsupportedConstruct, match="combinations of objects"):
        small_play(domain=domain_text(actions), problem=problem, grammar=grammar_text(texts))


def test_what_might_become_true_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    game = small_game()
    assert game.reachable
    monkeypatch.setattr(reachability, "MOST_ANSWERS", 10)
    with pytest.raises(UnsupportedConstruct, match="combinations of objects"):
        assert small_game().reachable


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (f"(and {' '.join(['(lid ?b)'] * 101)})", "a condition of 101 parts in action wait"),
        (
            "(and (lid ?b) (or " + " ".join(["(and (lid ?b) (ajar ?b) (held ?b))"] * 30) + "))",
            "combinations of objects",
        ),
    ],
)
def test_conditions_are_bounded(condition: str, says: str) -> None:
    action = f":parameters (?b - box) :precondition {condition} :effect (lit ?b)"
    with pytest.raises(UnsupportedConstruct, match=says):
        small_play(domain=domain_text({**ACTIONS, "wait": action}))


def test_parameters_types_and_names_are_bounded() -> None:
    many = " ".join(f"?a{i} - agent" for i in range(51))
    actions = {**ACTIONS, "wait": f":parameters ({many}) :effect (marked ?a0)"}
    with pytest.raises(UnsupportedConstruct, match="51 parameters of action wait"):
        small_game(domain=domain_text(actions))
    types = " ".join(f"t{i} - t{i + 1}" for i in range(501))
    with pytest.raises(UnsupportedConstruct, match="types"):
        read_domain(domain_text({}, types, ""), Source("a/game", "domain"))
    with pytest.raises(UnsupportedConstruct, match="name of 1,001 characters"):
        small_game(problem=problem_text(objects=f"{'x' * 1001} - thing {OBJECTS}"))


def test_a_query_over_too_many_kinds_of_types_is_refused() -> None:
    types = (
        " ".join(f"kind{i}" for i in range(120)) + " - object\n agent place box - object\n thing"
    )
    rules = {**RULES, "intro": [{"rhs": "[{o.name | link(o:object, p:object, q:object)}]"}]}
    predicates = "(link ?a ?b ?c) "
    with pytest.raises(UnsupportedConstruct, match="orders of types"):
        small_game(
            domain=domain_text({}, types, predicates),
            grammar=grammar_text({}, rules),
            problem=problem_text("", "(link me me me)"),
        )


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 400_000,
        " " * 400_000,
        "action putobject {\n" * 40_000,
        "action" + " " * 400_000,
        'action GotoLocation {\n feedback :: "#arrive#";\n}\n' + '"arrive":' * 100_000,
        '"task": [{' + '"rhs": x ' * 100_000,
    ],
)
def test_reading_traits_off_a_grammar_takes_time_in_proportion(text: str) -> None:
    assert (data_version_of(text), goal_sentence_of(text)) == ("custom", "")


def test_the_oracle_says_what_it_cannot_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = "(exists (?a - object ?b - object) (not (= ?a ?b)))"
    choices = " ".join(["(or (ajar ?b) (held ?b))"] * 30)
    boxes = f"(exists (?b - box) (and (lid ?b) {choices}))"
    problems = [problem_text(goal=g, objects=THINGS + OBJECTS) for g in (pairs, boxes)]
    assert plan_commands(small_play(problem=problems[0])) is not None
    monkeypatch.setattr(grounding, "MOST_WAYS", 500)
    for problem in problems:
        with pytest.raises(EnvError, match="small/game leaves the oracle too many ways"):
            plan_commands(small_play(problem=problem))


# ------------------------------------------------------------------ what is said of a file


def test_errors_name_the_game_and_its_file() -> None:
    broken = game_file(grammar=grammar_text({}))._replace(path="/data/game.tw-pddl")
    with pytest.raises(DataDamaged, match=r"game small/game \(/data/game.tw-pddl\): no action"):
        compile_game(broken)
    rules = {**RULES, "light": [{"condition": "lit(t:thing)", "rhs": "lit"}]}
    dark = game_file(grammar=grammar_text(rules=rules))._replace(path="/data/game.tw-pddl")
    play = compile_game(dark).start()
    play.step("grab ball 2 from tray 1")
    play.step("grab ball 1 from tray 1")
    with pytest.raises(DataDamaged, match=r"\(/data/game.tw-pddl\): no alternative"):
        play.step(next(command for command in play.admissible if command.startswith("flip")))
        play.step(next(command for command in play.admissible if command.startswith("flip")))


def test_hostile_code_is_not_sent_to_another_engine() -> None:
    texts = {**TEXTS, "wait": ("wait", "{__import__('os').getcwd()}")}
    with pytest.raises(UnsupportedConstruct) as caught:
        small_game(grammar=grammar_text(texts))
    assert "textworld" not in str(caught.value) and "repair the file" in str(caught.value)
    with pytest.raises(UnsupportedConstruct, match='backend="textworld" may play'):
        small_game(problem=problem_text(goal="(forall (?b - box) (lid ?b))"))


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"rhs": "x", "condition": 5}, "the condition 5, no text at rule box"),
        ({"rhs": "x", "condition": ["lid"]}, r"the condition \['lid'\], no text"),
        ({"rhs": 5}, "without a text rhs"),
        ({"rhs": "\ud800"}, "half a surrogate pair"),
    ],
)
def test_what_is_wrong_with_an_alternative_is_said(item: object, says: str) -> None:
    grammar = grammar_text(rules={**RULES, "box": [item]})  # type: ignore[list-item]
    assert json.dumps("\ud800") == '"\\ud800"'  # the grammar itself is text
    with pytest.raises(DataDamaged, match=says):
        small_game(grammar=grammar)


def test_a_command_with_outer_blanks_is_listed_and_said_to_be_impossible() -> None:
    """As in the original, which strips what is typed and compares it with what it lists."""
    play = small_play(grammar=grammar_text({**TEXTS, "wait": ("wait ", "Time goes by.")}))
    assert "wait " in play.admissible
    assert play.step("wait ") == ("Nothing happens.", False)
    assert (
        play.why_not("wait") == "'wait ' cannot be typed: blanks around a command are not looked at"
    )

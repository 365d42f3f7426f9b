"""The grammar of one game, linked: its rules by name, its actions' texts, and what these read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agentgym_suite.alfworld.domains import CompiledDomain, Schema
from agentgym_suite.alfworld.expressions import Expression, Query
from agentgym_suite.alfworld.grammar_traits import data_version_of
from agentgym_suite.alfworld.rules import (
    EMPTY,
    LAST_SEPARATOR,
    SEPARATOR,
    Alternative,
    CompiledText,
)
from agentgym_suite.alfworld.sources import Source
from agentgym_suite.alfworld.twl2 import (
    Conditional,
    ListOf,
    Outline,
    Reference,
    Symbol,
    split_grammar,
)
from agentgym_suite.arguments import shown
from agentgym_suite.spaces import without_surrogates

INTRO, TASK = "intro", "task"  # rule names of the format: the first observation, the goal sentence
# a goal sentence of plain words: any other such sentence in its place changes no syntax
_GOAL = re.compile(r'"task"\s*:\s*\[\s*\{[^{}]*?"rhs"\s*:\s*"([^"\\\x00-\x1f]+)"')
_DEEPEST = 50  # rules inside rules; the official texts have at most 4
_MOST_USES = 10_000  # of rules with different variables bound; the official texts have some tens
_MOST_GRAMMARS = 64  # grammars of one domain are few; keep it so
Rules = dict[str, tuple[Alternative, ...]]
Frame = tuple[str, str]  # a grammar before and after its goal sentence


@dataclass(frozen=True, slots=True, eq=False)
class Wording:
    """How the commands of one action depend on its arguments.

    Attributes:
        template: the text of the command.
        feedback: the text of the reply.
        parameters: the arguments that the command depends on; None if the state matters too.
    """

    template: CompiledText
    feedback: CompiledText
    parameters: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """The texts of one game.

    Attributes:
        rules: name -> alternatives, in order.
        wordings: by number of the action.
        reads: the predicates that reachable texts read.
        data_version: "old", "move+help" or "custom".
        warnings: what was dropped while parsing, one sentence each.
    """

    rules: Rules
    wordings: tuple[Wording, ...]
    reads: frozenset[int]
    data_version: str
    warnings: tuple[str, ...]


class _Link(NamedTuple):
    wordings: tuple[Wording, ...]
    reads: frozenset[int]
    data_version: str


def split_at_goal(text: str) -> Frame | None:
    """A grammar around its goal sentence; None where that is not plain words in the usual place."""
    goal = _GOAL.search(text)
    return None if goal is None else (text[: goal.start(1)], text[goal.end(1) :])


class GrammarCompiler:
    """Compiles grammars for one domain; parts that files have in common are compiled once."""

    def __init__(self, domain: CompiledDomain) -> None:
        self.domain = domain
        self._outlines: dict[tuple[str, ...], Outline] = {}
        self._blocks: dict[str, dict[str, tuple[Alternative, ...]]] = {}
        self._links: dict[object, _Link] = {}
        self._met: set[Frame] = set()
        self._frames: dict[Frame, tuple[Grammar, ...]] = {}

    def compile(self, text: str, source: Source) -> Grammar:
        """Compile a grammar file.

        Raises:
            DataDamaged: broken syntax, or an action of the domain or a rule is missing.
            UnsupportedConstruct: an expression or query outside the subset.
        """
        frame = split_at_goal(text)
        if frame is None:
            return self._compile(text, source)
        # files of one origin differ in the goal sentence only: all else is linked once
        sentence = text[len(frame[0]) : len(text) - len(frame[1])]
        if frame not in self._met:  # a first game is compiled whole: it may be the only one
            if len(self._met) >= _MOST_GRAMMARS:
                self._met.clear()
                self._frames.clear()
            self._met.add(frame)
            return self._compile(text, source)
        framed = self._frames.get(frame)
        if framed is None:
            framed = self._frames[frame] = self._framed(frame, source)
        known = self._with_goal(framed[0], sentence, source) if framed else None
        return known or self._compile(text, source)

    def _framed(self, frame: Frame, source: Source) -> tuple[Grammar, ...]:
        """The grammar around a goal sentence; none if more would change with the sentence."""
        one, other = (self._compile(word.join(frame), source) for word in ("a", "b"))
        same = one.wordings is other.wordings and list(one.rules) == list(other.rules)
        for grammar, word in ((one, "a"), (other, "b")):
            same = same and grammar.rules[TASK][:1] == (self._goal(word, source),)
        rest = [{**g.rules, TASK: g.rules[TASK][1:]} for g in (one, other)] if same else []
        return (one,) if rest and rest[0] == rest[1] else ()

    def _with_goal(self, known: Grammar, sentence: str, source: Source) -> Grammar | None:
        """A grammar with another goal sentence; None if that holds more than words."""
        new, old = self._goal(sentence, source), known.rules[TASK]
        if new.shape != old[0].shape or new.text.cut:
            return None
        return replace(known, rules={**known.rules, TASK: (new, *old[1:])})

    def _goal(self, sentence: str, source: Source) -> Alternative:
        return self.domain.rules.alternative(sentence, "", f"rule {TASK}", source)

    def _compile(self, text: str, source: Source) -> Grammar:
        outline = self._outline(text, source)
        rules: Rules = {}
        for number, (block, of_action) in enumerate(outline.blocks):
            rules.update(self._rules(block, of_action, number, source))
        shapes = tuple([(n, tuple([a.shape for a in found])) for n, found in rules.items()])
        key = (outline.actions, shapes)
        link = self._links.get(key)
        if link is None:
            if len(self._links) >= _MOST_GRAMMARS:
                self._links.clear()
            link = self._links[key] = self._linked(text, outline, rules, source)
        return Grammar(
            rules, link.wordings, link.reads, link.data_version, _warnings(rules, link.wordings)
        )

    def _outline(self, text: str, source: Source) -> Outline:
        """The outer syntax, read once for all files that differ inside blocks only."""
        pieces = text.split('"""')
        frame, blocks = tuple(pieces[::2]), pieces[1::2]
        known = self._outlines.get(frame)
        if known is not None and len(known.blocks) == len(blocks):
            return Outline(
                known.actions,
                tuple([(b, of) for b, (_, of) in zip(blocks, known.blocks, strict=True)]),
            )
        outline = split_grammar(text, source)
        if [block for block, _ in outline.blocks] == blocks:
            if len(self._outlines) >= _MOST_GRAMMARS:
                self._outlines.clear()
            self._outlines[frame] = outline
        return outline

    def _rules(self, block: str, of_action: bool, number: int, source: Source) -> Rules:
        found = self._blocks.get(block)
        if found is not None:
            return found
        where = f"grammar block {number + 1}"
        lines = block.split("\n") if of_action else []
        text = "\n".join(x for x in lines if not x.lstrip().startswith("#")) if lines else block
        try:
            table = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise source.damaged(f"JSON that does not parse ({problem})", where) from None
        if not isinstance(table, dict):
            raise source.damaged("JSON that is no object of rules", where)
        rules = {name: self._alternatives(name, value, source) for name, value in table.items()}
        if of_action:  # the blocks of actions are the same from game to game
            if len(self._blocks) >= 256:
                self._blocks.clear()
            self._blocks[block] = rules
        return rules

    def _alternatives(self, name: str, value: object, source: Source) -> tuple[Alternative, ...]:
        if not isinstance(value, list):
            raise source.damaged("a value that is no list of alternatives", f"rule {name}")
        found = []
        for item in value:
            text = item.get("rhs") if isinstance(item, dict) else None
            condition = (item.get("condition") or "") if isinstance(item, dict) else ""
            if not isinstance(text, str):
                raise source.damaged("an alternative without a text rhs", f"rule {name}")
            if not isinstance(condition, str):
                raise source.damaged(f"the condition {shown(condition)}, no text", f"rule {name}")
            if without_surrogates(text) != text:
                raise source.damaged("half a surrogate pair, which is no character", f"rule {name}")
            found.append(self.domain.rules.alternative(text, condition, f"rule {name}", source))
        return tuple(found)

    def _linked(self, text: str, outline: Outline, rules: Rules, source: Source) -> _Link:
        parts = {part.name.lower(): part for part in outline.actions}
        wordings = []
        reads: set[int] = set()
        for schema in self.domain.schemas:
            part = parts.get(schema.action.name)
            if part is None:
                raise source.damaged(f"no action block for the domain's {schema.action.name}")
            where = f"action {part.name}"
            template = self.domain.rules.text(part.template, where, source)
            feedback = self.domain.rules.text(part.feedback, where, source)
            checker = _Checker(self.domain, rules, source)
            names = frozenset(variable for variable, _ in schema.keys)
            checker.text(template.symbols, names, f"the template of {where}")
            wordings.append(Wording(template, feedback, checker.parameters(schema)))
            checker.text(feedback.symbols, names, f"the feedback of {where}")
            reads |= checker.reads
        checker = _Checker(self.domain, rules, source)
        checker.text((Reference(INTRO),), frozenset(), "the first observation")
        return _Link(tuple(wordings), frozenset(reads | checker.reads), data_version_of(text))


class _Checker:
    """Follows texts through the rules they use: every rule there, every variable bound."""

    def __init__(self, domain: CompiledDomain, rules: Rules, source: Source) -> None:
        self.domain = domain
        self.rules = rules
        self.source = source
        self.reads: set[int] = set()
        self.variables: set[str] = set()
        self.placeholders: set[str] = set()
        self.seen: set[tuple[str, frozenset[str]]] = set()
        self.open: list[str] = []

    def text(self, symbols: Sequence[Symbol], known: frozenset[str], place: str) -> None:
        for symbol in symbols:
            if isinstance(symbol, Reference):
                self._rule(symbol.name, known, place)
            elif isinstance(symbol, ListOf):
                if symbol.item.query is not None:
                    for name in (EMPTY, SEPARATOR, LAST_SEPARATOR):
                        self._rule(name, known, place)
                self._conditional(symbol.item, known, place)
            elif isinstance(symbol, Conditional):
                self._conditional(symbol, known, place)

    def _conditional(self, symbol: Conditional, known: frozenset[str], place: str) -> None:
        if symbol.query is not None:
            known = known | self._query(symbol.query)
        if isinstance(symbol.body, Expression):
            for variable in sorted(symbol.body.variables):
                if variable not in known:
                    raise self.source.damaged(f"the unbound variable {variable}", place)
            self.variables |= symbol.body.variables
        else:
            self._rule(symbol.body.name, known, place)

    def _rule(self, name: str, known: frozenset[str], place: str) -> None:
        if name in self.open:
            raise self.source.unsupported(f"the rule #{name}# that uses itself", place)
        if (name, known) in self.seen:
            return
        self.seen.add((name, known))
        if len(self.open) >= _DEEPEST:
            raise self.source.too_large(f"rules inside rules, {_DEEPEST} deep,", place)
        if len(self.seen) > _MOST_USES:
            raise self.source.too_large(f"over {_MOST_USES:,} uses of rules", place)
        if not self.rules.get(name):
            raise self.source.damaged(f"the missing rule #{name}#", place)
        self.open.append(name)
        for alternative in self.rules[name]:
            self._query(alternative.query)
            self.text(alternative.text.symbols, known, f"rule {name}")
        self.open.pop()

    def _query(self, query: Query) -> frozenset[str]:
        for atom in query:
            number = self.domain.predicates.text_number(atom.predicate, atom.negated)
            if number is not None:
                self.reads.add(number)
            self.placeholders |= {p.key for p in atom.placeholders}
        return frozenset(p.name for atom in query for p in atom.placeholders)

    def parameters(self, schema: Schema) -> tuple[int, ...] | None:
        """The arguments that what was followed so far depends on; None if the state matters."""
        predicates = self.domain.predicates
        if any(n >= predicates.count or n in predicates.changing for n in self.reads):
            return None
        keys = [key for _, key in schema.keys]
        if not self.placeholders <= set(keys):
            return tuple(range(len(keys)))  # new placeholders keep clear of all arguments
        return tuple(
            i
            for i, (name, key) in enumerate(schema.keys)
            if name in self.variables or key in self.placeholders
        )


def _warnings(rules: Rules, wordings: Iterable[Wording]) -> tuple[str, ...]:
    return tuple(_cuts(rules, wordings))


def _cuts(rules: Rules, wordings: Iterable[Wording]) -> Iterator[str]:
    """What was dropped, as the original drops it."""
    for name, alternatives in rules.items():
        for alternative in alternatives:
            if alternative.text.cut:
                yield f"rule {name} is cut before {alternative.text.cut[:40]!r}"
    for wording in wordings:
        for text in (wording.template, wording.feedback):
            if text.cut:
                yield f"an action's text is cut before {text.cut[:40]!r}"

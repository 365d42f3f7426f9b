"""The TWL2 reader: what a grammar file says, as parts, rules and symbols.

``split_grammar`` reads the outer syntax, ``read_text`` one right-hand side, template or feedback
string. A text is read up to the first place where no symbol fits; the rest is dropped, as the
original does, and the cut is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from agentgym_suite.alfworld.expressions import Expression, Query, read_expression, read_query
from agentgym_suite.alfworld.sources import Source, line_and_column


class Terminal(NamedTuple):
    """Words that stand as they are."""

    text: str


class Reference(NamedTuple):
    """``#name#``: the rule of that name."""

    name: str


class Conditional(NamedTuple):
    """``{body | query}``: the body once for each answer of the query, or once without query."""

    body: Expression | Reference
    query: Query | None = None


class ListOf(NamedTuple):
    """``[{body | query}]``: the answers joined by the grammar's own separator rules."""

    item: Conditional


Symbol = Terminal | Reference | Conditional | ListOf


class Text(NamedTuple):
    """A parsed text.

    Attributes:
        symbols: in order.
        cut: what was dropped at the end; "" if nothing.
    """

    symbols: tuple[Symbol, ...]
    cut: str = ""


class ActionPart(NamedTuple):
    """An ``action`` block: its texts, and the position of its grammar among the file's blocks."""

    name: str
    template: str
    feedback: str
    block: int | None


class Outline(NamedTuple):
    """The parts of a grammar file.

    Attributes:
        actions: in document order.
        blocks: the JSON blocks in document order, each with whether an action holds it.
    """

    actions: tuple[ActionPart, ...]
    blocks: tuple[tuple[str, bool], ...]


_START = re.compile(r"(?:^(?://.*\n?|\s+))*", re.MULTILINE)
_TABS = re.compile(r"\t*")
_NAME = re.compile(r"#\t*+([\w()/!<>\-\s,.]+)#")
_EXPRESSION = re.compile(r"[^|\[\]{}\n<>]+")
_QUERY = re.compile(r"\s*\|\s*([^;|{}\n\[\]#]+)")
_WORDS = re.compile(r'[^;|"<>\[\]#{}]+')
_QUOTED = re.compile(r'"([^;|"<>\[\]#{}]*)"')


def read_text(text: str) -> Text:
    """Parse a right-hand side, template or feedback string.

    Raises:
        NotAnExpression: for an expression or query outside the subset.
    """
    start = _START.match(text)
    position = start.end() if start else 0
    symbols: list[Symbol] = []
    while True:
        found = _symbol(text, _tabs(text, position))
        if found is None:
            rest = text[position:]
            return Text(tuple(symbols), rest if rest.strip("\t") else "")
        symbol, position = found
        symbols.append(symbol)


def _tabs(text: str, position: int) -> int:
    match = _TABS.match(text, position)
    return match.end() if match else position


def _symbol(text: str, position: int) -> tuple[Symbol, int] | None:
    first = text[position : position + 1]
    if first == "[":
        inner = _conditional(text, position + 1)
        if inner is None or not text.startswith("]", _tabs(text, inner[1])):
            return None
        return ListOf(inner[0]), _tabs(text, inner[1]) + 1
    if first == "{":
        return _conditional(text, position)
    if first == "#":
        match = _NAME.match(text, position)
        return (Reference(match[1]), match.end()) if match else None
    if first == '"':
        match = _QUOTED.match(text, position)
        return (Terminal(match[1]), match.end()) if match else None
    match = _WORDS.match(text, position)
    return (Terminal(match[0]), match.end()) if match else None


def _conditional(text: str, position: int) -> tuple[Conditional, int] | None:
    position = _tabs(text, position)
    if not text.startswith("{", position):
        return None
    position = _tabs(text, position + 1)
    name = _NAME.match(text, position)
    match = name or _EXPRESSION.match(text, position)
    if match is None:
        return None
    end = match.end()
    given = _QUERY.match(text, _tabs(text, end))
    close = _tabs(text, given.end() if given else end)
    if not text.startswith("}", close):
        return None
    body = Reference(name[1]) if name else read_expression(match[0])
    return Conditional(body, read_query(given[1]) if given else None), close + 1


_OUTER = re.compile(
    r'(?P<blank>(?:\s+|\#[^\n]*)+)|(?P<block>"""(?P<json>.*?)""")|(?P<string>"(?P<text>[^"]*)")'
    r"|(?P<mark>::|[;{}])|(?P<word>[\w/-]+)",
    re.DOTALL,
)


def split_grammar(text: str, source: Source) -> Outline:
    """Read the outer syntax of a grammar file.

    Raises:
        DataDamaged: with the place where the syntax breaks.
    """
    return _Outer(text, source).outline()


class _Outer:
    """The tokens of a grammar file, taken one after another."""

    def __init__(self, text: str, source: Source) -> None:
        self.text = text
        self.source = source
        self.tokens = self._tokenize()
        self.blocks: list[tuple[str, bool]] = []

    def _tokenize(self) -> Iterator[re.Match[str]]:
        position = 0
        while position < len(self.text):
            match = _OUTER.match(self.text, position)
            if match is None:
                raise self._broken(position)
            position = match.end()
            if match.lastgroup != "blank":
                yield match

    def _broken(self, position: int) -> Exception:
        return self.source.damaged(
            f"{self.text[position : position + 20]!r} where the syntax expects something else",
            line_and_column(self.text, position),
        )

    def _next(self) -> re.Match[str]:
        match = next(self.tokens, None)
        if match is None:
            raise self.source.damaged("a text that ends in the middle of a part")
        return match

    def _expect(self, *words: str) -> None:
        for word in words:
            match = self._next()
            if match[0] != word:
                raise self._broken(match.start())

    def _take(self, group: str) -> str:
        match = self._next()
        if match[group] is None:
            raise self._broken(match.start())
        return match[group]

    def outline(self) -> Outline:
        actions: list[ActionPart] = []
        while (match := next(self.tokens, None)) is not None:
            if match[0] == "grammar":
                self._block(of_action=False)
            elif match[0] == "action":
                actions.append(self._action())
            else:
                raise self._broken(match.start())
        return Outline(tuple(actions), tuple(self.blocks))

    def _block(self, of_action: bool) -> None:
        self._expect("::")
        self.blocks.append((self._take("json"), of_action))
        self._expect(";")

    def _action(self) -> ActionPart:
        name = self._take("word")
        self._expect("{")
        texts: dict[str, str] = {}
        block: int | None = None
        while (match := self._next())[0] != "}":
            key = match[0]
            if key == "grammar":
                block = len(self.blocks)
                self._block(of_action=True)
            elif key in ("template", "feedback", "pddl"):
                self._expect("::")
                texts[key] = self._take("json" if key == "pddl" else "text")
                self._expect(";")
            else:
                raise self._broken(match.start())
        for needed in ("template", "feedback"):
            if needed not in texts:
                raise self.source.damaged(f"no {needed} for action {name}")
        return ActionPart(name, texts["template"], texts["feedback"], block)

"""The texts of a grammar, compiled to functions of an episode's state and a context.

A context maps variables (``x``) and placeholders (``x:type``) to entities. Everything here knows
the domain's predicates and types, and nothing of a single game: compiled texts are shared by all
games of a domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentgym_suite.alfworld.expressions import (
    Attribute,
    Expression,
    NotAnExpression,
    Query,
    QueryAtom,
    read_query,
)
from agentgym_suite.alfworld.facts import Access, Atom, Row, Rows, TypeTree
from agentgym_suite.alfworld.plans import Predicates
from agentgym_suite.alfworld.sources import Source
from agentgym_suite.alfworld.twl2 import Conditional, ListOf, Reference, Symbol, Terminal, read_text

Context = dict[str, int]
Key = TypeVar("Key")
Value = TypeVar("Value")
MOST_TEXTS = 4096
#: characters, rules and answers that one text may take; the official ones take under 10,000
MOST_EFFORT = 1_000_000
_MOST_ANSWERS = 10_000  # of one query
_MOST_VISITS = 2_000_000  # of combinations of types, to put one query's answers in order
DEFINITE, INDEFINITE = "the", "a"  # articles of the format: the original gives every entity these
EMPTY, SEPARATOR, LAST_SEPARATOR = "list_empty", "list_separator", "list_last_separator"


class State(Protocol):
    """What texts read of an episode.

    Attributes:
        effort: what the text that is being told has taken so far.
    """

    effort: int

    @property
    def names(self) -> list[str]:
        """Displayed names by entity."""
        ...

    @property
    def ids(self) -> list[str]:
        """Ids by entity."""
        ...

    @property
    def types(self) -> list[str]:
        """Types by entity."""
        ...

    def rows(self, access: Access, key: Row) -> Rows:
        """The facts of a look-up now, ordered for texts where the access has types."""
        ...

    def holds(self, atom: Atom) -> bool:
        """Whether an atom is true now."""
        ...

    def rule(self, name: str) -> tuple[Alternative, ...]:
        """The alternatives of a rule."""
        ...

    def no_rule(self, name: str) -> Exception:
        """The error for a rule none of whose alternatives applies."""
        ...

    def too_long(self) -> Exception:
        """The error for a text that does not come to an end."""
        ...


Writer = Callable[[State, Context], str]
Finder = Callable[[State, Context], list[Context]]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledText:
    """A text that can be told.

    Attributes:
        write: the text in a state and context.
        cut: what parsing dropped at its end.
        symbols: what it was compiled from, for checks.
    """

    write: Writer
    cut: str
    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """One alternative of a rule: its condition's query, answered, and its text.

    Attributes:
        find: the answers of the condition; None for a rule that always applies.
        query: the condition, for checks.
        text: the right-hand side.
        shape: a number that alternatives share which differ in terminals only.
    """

    find: Finder | None
    query: Query
    text: CompiledText
    shape: int


class RuleCompiler:
    """Compiles texts and queries for one domain, each distinct one once."""

    def __init__(self, predicates: Predicates, types: TypeTree) -> None:
        self._predicates = predicates
        self._types = types
        self._texts: dict[str, CompiledText] = {}
        self._alternatives: dict[tuple[str, str], Alternative] = {}
        self._shapes: dict[object, int] = {}

    def text(self, text: str, where: str, source: Source) -> CompiledText:
        """Compile a template, feedback string or right-hand side.

        Raises:
            UnsupportedConstruct: for an expression outside the subset.
            DataDamaged: for a type that the domain lacks.
        """
        found = self._texts.get(text)
        if found is None:
            try:
                parsed = read_text(text)
            except NotAnExpression as problem:
                raise source.unsupported(str(problem), where) from None
            pieces = [self._piece(symbol, where, source) for symbol in parsed.symbols]
            found = CompiledText(_joined(pieces), parsed.cut, parsed.symbols)
            _remember(self._texts, text, found)
        return found

    def alternative(self, text: str, condition: str, where: str, source: Source) -> Alternative:
        """Compile one alternative of a rule.

        Raises:
            UnsupportedConstruct: for an expression or condition outside the subset.
            DataDamaged: for a type that the domain lacks.
        """
        found = self._alternatives.get((text, condition))
        if found is None:
            try:
                query = read_query(condition) if condition.strip() else ()
            except NotAnExpression as problem:
                raise source.unsupported(str(problem), where) from None
            find = self.finder(query, where, source) if query else None
            compiled = self.text(text, where, source)
            outline = tuple(s for s in compiled.symbols if not isinstance(s, Terminal))
            shape = self._shapes.setdefault((query, outline), len(self._shapes))
            found = Alternative(find, query, compiled, shape)
            _remember(self._alternatives, (text, condition), found)
        return found

    def finder(self, query: Query, where: str, source: Source) -> Finder:
        """The function that answers a query, in order."""
        steps = [self._step(atom, where, source) for atom in query]
        if len(steps) == 1:
            return steps[0]

        def find(state: State, context: Context) -> list[Context]:
            contexts = [context]
            for step in steps:
                answers: list[Context] = []
                for known in contexts:
                    answers += step(state, known)
                    if len(answers) > _MOST_ANSWERS:
                        raise state.too_long()
                contexts = answers
            return contexts

        return find

    def _step(self, atom: QueryAtom, where: str, source: Source) -> Finder:
        for placeholder in atom.placeholders:
            if placeholder.type not in self._types:
                raise source.damaged(
                    f"the unknown type {placeholder.type} in the query {atom.predicate}(…)", where
                )
        visits = self._types.most_visits([p.type for p in atom.placeholders])
        if visits > _MOST_VISITS:
            raise source.too_large(f"{visits:,} orders of types in {atom.predicate}(…)", where)
        number = self._predicates.text_number(atom.predicate, atom.negated)
        if number is None:
            return _nothing
        return _matcher(number, atom, self._predicates, self._types)

    def _piece(self, symbol: Symbol, where: str, source: Source) -> str | Writer:
        if isinstance(symbol, Terminal):
            return symbol.text
        if isinstance(symbol, Reference):
            return reference(symbol.name)
        if isinstance(symbol, Conditional):
            body = self._body(symbol.body)
            if symbol.query is None:
                # an article alone is a constant, which its neighbours take in
                constant = _article(symbol.body)
                return body if constant is None else constant
            find = self.finder(symbol.query, where, source)

            def write(state: State, context: Context) -> str:
                return _counted(state, "".join([body(state, c) for c in find(state, context)]))

            return write
        return self._list(symbol, where, source)

    def _list(self, symbol: ListOf, where: str, source: Source) -> Writer:
        body = self._body(symbol.item.body)
        if symbol.item.query is None:
            return body
        find = self.finder(symbol.item.query, where, source)
        empty, separator, last = map(reference, (EMPTY, SEPARATOR, LAST_SEPARATOR))

        def write(state: State, context: Context) -> str:
            items = [body(state, found) for found in find(state, context)]
            if len(items) < 2:
                return items[0] if items else empty(state, context)
            head = separator(state, context).join(items[:-1])
            return _counted(state, f"{head}{last(state, context)}{items[-1]}")

        return write

    def _body(self, body: Expression | Reference) -> Writer:
        return reference(body.name) if isinstance(body, Reference) else _expression(body)


def _remember(cache: dict[Key, Value], key: Key, value: Value) -> None:
    # goal sentences differ from game to game: what they leave behind stays bounded
    if len(cache) >= MOST_TEXTS:
        cache.clear()
    cache[key] = value


def _joined(pieces: Iterable[str | Writer]) -> Writer:
    """One writer for pieces in a row; neighbouring constants become one."""
    joined: list[str | Writer] = []
    for piece in pieces:
        if joined and isinstance(piece, str) and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    match joined:
        case [str(words), last] if not isinstance(last, str):  # what most commands are made of
            return lambda state, context: words + last(state, context)
    writers = [_constant(piece) if isinstance(piece, str) else piece for piece in joined]
    if len(writers) == 1:
        return writers[0]
    if len(writers) == 2:
        first, second = writers
        return lambda state, context: first(state, context) + second(state, context)

    def write(state: State, context: Context) -> str:
        return "".join([writer(state, context) for writer in writers])

    return write


def _constant(text: str) -> Writer:
    return lambda state, context: text


def tell(writer: Writer, state: State, context: Context) -> str:
    """A whole text: what counts towards ``MOST_EFFORT`` begins anew."""
    state.effort = 0
    return writer(state, context)


def _counted(state: State, text: str) -> str:
    """A part of a text: rules that double what they use would never come to an end."""
    state.effort += len(text) + 1
    if state.effort > MOST_EFFORT:
        raise state.too_long()
    return text


def reference(name: str) -> Writer:
    """The text of a rule: that of its first alternative whose condition has an answer."""

    def write(state: State, context: Context) -> str:
        for alternative in state.rule(name):
            if alternative.find is None or alternative.find(state, context):
                return _counted(state, alternative.text.write(state, context))
        raise state.no_rule(name)

    return write


def _article(body: Expression | Reference) -> str | None:
    if isinstance(body, Expression) and len(body.operands) == 1 and len(body.operands[0]) == 1:
        piece = body.operands[0][0]
        found = piece if isinstance(piece, str) else _attribute(piece)
        return found if isinstance(found, str) else None
    return None


def _expression(expression: Expression) -> Writer:
    operands = [
        _joined([p if isinstance(p, str) else _attribute(p) for p in pieces])
        for pieces in expression.operands
    ]
    if len(operands) == 1:
        return operands[0]

    def write(state: State, context: Context) -> str:
        text = ""
        for operand in operands:
            text = operand(state, context)
            if text:
                break
        return text

    return write


def _attribute(attribute: Attribute) -> str | Writer:
    variable, name = attribute.variable, attribute.name
    if name == "name":
        return lambda state, context: state.names[context[variable]]
    if name == "id":
        return lambda state, context: state.ids[context[variable]]
    if name == "type":
        return lambda state, context: state.types[context[variable]]
    return INDEFINITE if name == "indefinite" else DEFINITE


def _nothing(state: State, context: Context) -> list[Context]:
    return []


def _matcher(number: int, atom: QueryAtom, predicates: Predicates, tree: TypeTree) -> Finder:
    """The answers of one predicate of a query, in the order of the facts."""
    keys = tuple(p.key for p in atom.placeholders)
    names = tuple(p.name for p in atom.placeholders)
    types = tuple(p.type for p in atom.placeholders)
    exact = tree.exact(types)
    accesses: dict[tuple[int, ...], tuple[Access, list[tuple[int, str, str]]]] = {}

    def find(state: State, context: Context) -> list[Context]:
        values = [context.get(key) for key in keys]
        if None not in values:
            if not state.holds((number, *values)):  # type: ignore[arg-type]
                return []
            if exact:
                return [context]
            actual = tuple([state.types[value] for value in values])  # type: ignore[index]
            return [context] * len(tree.visits(types, actual))
        given = tuple([i for i, value in enumerate(values) if value is not None])
        known = accesses.get(given)
        if known is None:
            missing = [(i, keys[i], names[i]) for i in range(len(keys)) if i not in given]
            known = accesses[given] = predicates.access(number, given, types), missing
        access, missing = known
        found = []
        for row in state.rows(access, tuple([values[i] for i in given])):  # type: ignore[misc]
            new = context.copy()
            for i, key, name in missing:
                value = row[i]
                bound = new.get(key)
                if bound is None:
                    # two placeholders never stand for one entity
                    if value in new.values():
                        break
                    new[key] = new[name] = value
                elif bound != value:
                    break
            else:
                found.append(new)
        return found

    return find

"""The expressions and queries inside the braces of a grammar, parsed and never evaluated as code.

An expression is ``A or B``, ``A + B``, a quoted string, a variable or one of its attributes. A
query is a conjunction ``p(x:type, y:type) & q(y:type)``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ATTRIBUTES = ("name", "id", "type", "indefinite", "definite")

_TOKEN = re.compile(
    r"""\s*(?:(?P<quote>'[^'\\]*'|"[^"\\]*")|(?P<word>[^\W\d]\w*(?:\.[^\W\d]\w*)?)|(?P<plus>\+))"""
)
_ATOM = re.compile(r"\s*(!?[\w/]+)\s*\(([^()]*)\)\s*")
_PLACEHOLDER = re.compile(r"\s*([\w']+)\s*(?::\s*([\w/-]+)\s*)?")


class Attribute(NamedTuple):
    """An attribute of the entity that a variable stands for."""

    variable: str
    name: str


Piece = str | Attribute


class Expression(NamedTuple):
    """The first operand that is not empty, each the concatenation of its pieces."""

    operands: tuple[tuple[Piece, ...], ...]

    @property
    def variables(self) -> frozenset[str]:
        """The variables that it reads."""
        return frozenset(p.variable for o in self.operands for p in o if isinstance(p, Attribute))


class Placeholder(NamedTuple):
    """What a query binds to an entity: equal only with the same name and the same type."""

    name: str
    type: str

    @property
    def key(self) -> str:
        """Its key in a context; a variable's key holds no colon."""
        return f"{self.name}:{self.type}"


class QueryAtom(NamedTuple):
    """One predicate of a query; ``negated`` asks for an explicit negative fact."""

    predicate: str
    placeholders: tuple[Placeholder, ...]
    negated: bool = False


Query = tuple[QueryAtom, ...]


class NotAnExpression(ValueError):
    """The text is no expression or query of the subset; the message names the part."""


def read_expression(text: str) -> Expression:
    """Parse an expression.

    Raises:
        NotAnExpression: naming what is outside the subset.
    """
    operands: list[tuple[Piece, ...]] = []
    pieces: list[Piece] = []
    operator = True  # whether an operand is due
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position, end)
        if match is None:
            raise NotAnExpression(f"{text[position:end].strip()!r} in the expression {{{text}}}")
        position = match.end()
        if match["word"] == "or" and not operator:
            operands.append(tuple(pieces))
            pieces, operator = [], True
        elif match["plus"] and not operator:
            operator = True
        elif operator and match["quote"] is not None:
            pieces.append(match["quote"][1:-1])
            operator = False
        elif operator and match["word"]:
            pieces.append(_attribute(match["word"], text))
            operator = False
        else:
            raise NotAnExpression(f"{match[0].strip()!r} in the expression {{{text}}}")
    if operator:
        raise NotAnExpression(f"the expression {{{text}}} that ends too early")
    return Expression((*operands, tuple(pieces)))


_RESERVED = frozenset(
    [
        "and",
        "as",
        "assert",
        "async",
        "await",
        "break",
        "class",
        "continue",
        "def",
        "del",
        "elif",
        "else",
        "except",
        "finally",
        "for",
        "from",
        "global",
        "if",
        "import",
        "in",
        "is",
        "lambda",
        "nonlocal",
        "not",
        "or",
        "pass",
        "raise",
        "return",
        "try",
        "while",
        "with",
        "yield",
        "None",
        "True",
        "False",
    ]
)


def _attribute(word: str, text: str) -> Attribute:
    variable, dot, attribute = word.partition(".")
    if variable in _RESERVED:
        raise NotAnExpression(f"{variable!r} in the expression {{{text}}}")
    if dot and attribute not in ATTRIBUTES:
        raise NotAnExpression(f"the attribute {attribute!r} in the expression {{{text}}}")
    return Attribute(variable, attribute if dot else "name")


def read_query(text: str) -> Query:
    """Parse a query.

    Raises:
        NotAnExpression: naming what is no conjunction of predicates.
    """
    atoms: list[QueryAtom] = []
    position = 0
    while True:
        match = _ATOM.match(text, position)
        if match is None:
            rest = text[position:].strip() or "nothing"
            raise NotAnExpression(f"{rest!r} in the query {text!r}")
        atoms.append(_atom(match[1], match[2], text))
        position = match.end()
        if position == len(text):
            return tuple(atoms)
        if text[position] != "&":
            raise NotAnExpression(f"{text[position:].strip()!r} in the query {text!r}")
        position += 1


def _atom(name: str, arguments: str, text: str) -> QueryAtom:
    placeholders: list[Placeholder] = []
    for argument in arguments.split(",") if arguments.strip() else ():
        match = _PLACEHOLDER.fullmatch(argument)
        if match is None:
            raise NotAnExpression(f"the argument {argument.strip()!r} in the query {text!r}")
        placeholders.append(Placeholder(match[1], match[2] or match[1].rstrip("'")))
    negated = name.startswith("!")
    name = name.removeprefix("!")
    if name.startswith("not_"):
        # `!not_p` is the negation of a negation, which no fact can be
        return QueryAtom(name if negated else name.removeprefix("not_"), tuple(placeholders), True)
    return QueryAtom(name, tuple(placeholders), negated)

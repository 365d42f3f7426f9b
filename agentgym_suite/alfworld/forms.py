"""The bracketed forms of a PDDL text: tokens in lower case, nested lists, their places."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from agentgym_suite.alfworld.sources import Source, line_and_column

_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|\?[^\s()?]*|[^\s()?]+")
_DEEPEST = 100  # levels of parentheses; the official texts have 9

_WORDS, _ATOMS = "(:objects", "(:init"  # the long sections of a problem
_GOAL = "(:goal"  # what follows the atoms
_NO_ATOM = frozenset(("(", "(not", "(="))  # what begins a form that is no plain atom
_MOST_RUNS = 64  # every run costs a pass over the tokens; the official texts have at most 15

Form = str | list["Form"]


class Run(NamedTuple):
    """Atoms of one predicate that follow each other.

    Attributes:
        name: the predicate.
        columns: for each argument its words, atom after atom.
    """

    name: str
    columns: tuple[list[str], ...]


class Definition(NamedTuple):
    """A text as read.

    Attributes:
        name: of the domain or problem.
        sections: its forms.
        words: those of ``:objects`` that were read in one go and are not in the sections.
        runs: the same for the atoms of ``:init``.
    """

    name: str
    sections: list[Form]
    words: list[str]
    runs: list[Run]


def are_words(forms: Iterable[Form]) -> bool:
    """Whether no form is a list."""
    return set(map(type, forms)) <= {str}


def _nested(tokens: list[str], start: int, depth: int = 0) -> tuple[Form, int]:
    """The form that begins at a token, and where it ends."""
    if tokens[start] != "(":
        raise ValueError(tokens[start])
    if depth > _DEEPEST:
        raise RecursionError
    form: list[Form] = []
    i = start + 1
    while (token := tokens[i]) != ")":
        if token == "(":
            inner, i = _nested(tokens, i, depth + 1)
            form.append(inner)
            continue
        form.append(token)
        i += 1
    return form, i + 1


def _lifted(text: str) -> tuple[str, list[str], list[Run]]:
    """Take objects and atoms out of a problem: most of its text, read by splitting alone.

    Where they are not as even as in the official files, all stays where it is.
    """
    objects = text.find(_WORDS)
    closed = text.find(")", objects)
    init = text.find(_ATOMS, closed)
    goal = text.find(_GOAL, init)
    if not 0 <= objects < closed < init < goal:
        return text, [], []
    words = text[objects + len(_WORDS) : closed].lower()
    atoms = text[init + len(_ATOMS) : goal].lower()
    head = text[: objects + len(_WORDS)]
    between = text[closed:init]
    runs = _runs(atoms) if words[:1].isspace() and atoms[:1].isspace() else None
    # both sections stand right inside the definition, and the first holds words only
    depths = [part.count("(") - part.count(")") for part in (head, between)]
    if runs is None or depths != [2, -1] or "(" in words or "?" in words:
        return text, [], []
    return f"{head}{between}{_ATOMS}){text[goal:]}", words.split(), runs


def _runs(region: str) -> list[Run] | None:
    """The atoms of ``:init`` up to its closing parenthesis; None if they are not plain."""
    spaced = region.replace(")", " ) ")
    tokens = spaced.split()
    if tokens[-1:] != [")"] or "?" in region:
        return None
    runs: list[Run] = []
    start, end, atoms = 0, len(tokens) - 1, 0
    while start < end:
        head = tokens[start]
        length = tokens.index(")", start) - start
        count = len(list(takewhile(head.__eq__, tokens[start : end : length + 1])))
        stop = start + count * (length + 1)
        closed = tokens[start + length : stop : length + 1].count(")") == count
        plain = closed and head[0] == "(" and head not in _NO_ATOM
        if not plain or len(runs) == _MOST_RUNS:
            return None
        columns = [tokens[start + i : stop : length + 1] for i in range(1, length)]
        runs.append(Run(head[1:], tuple(columns)))
        start, atoms = stop, atoms + count
    # one pair of parentheses an atom: then none is anywhere inside one
    even = region.count("(") == atoms and len(spaced) - len(region) == 2 * (atoms + 1)
    return runs if even else None


def shown(form: Form) -> str:
    """A form as text, cut to 80 characters."""
    if isinstance(form, str):
        return form
    text = "(" + " ".join(shown(part) for part in form) + ")"
    return text if len(text) <= 80 else text[:77] + "..."


class Forms:
    """The forms of one text, and where its tokens stand.

    Args:
        text: as in the file.
        source: named by errors.
    """

    def __init__(self, text: str, source: Source) -> None:
        self.text = text
        self.source = source

    def where(self, token: str) -> str:
        """The place of a token's first appearance outside comments."""
        blanked = _COMMENT.sub(lambda m: " " * len(m[0]), self.text).lower()
        offset = next((m.start() for m in _TOKEN.finditer(blanked) if m[0] == token), -1)
        return "" if offset < 0 else line_and_column(self.text, offset)

    def definition(self, kind: str) -> Definition:
        """What ``(define (kind NAME) …)`` holds."""
        text, words, runs = _lifted(self._plain())
        tokens = text.replace("?", " ?").replace("(", " ( ").replace(")", " ) ").lower().split()
        try:
            form, end = _nested(tokens, 0)
        except (IndexError, ValueError):
            raise self.source.damaged("a definition whose parentheses do not close") from None
        except RecursionError:
            raise self.source.unsupported("a definition nested this deeply") from None
        if end != len(tokens):
            raise self.source.damaged(f"{tokens[end]!r} after the end of the definition")
        match form:
            case ["define", [str(found), str(name)], *sections] if found == kind:
                return Definition(name, sections, words, runs)
        raise self.source.damaged(f"no (define ({kind} NAME) …)")

    def _plain(self) -> str:
        """The text without comments."""
        text = self.text
        if ";" in text:
            text = _COMMENT.sub("", text)
        if not text.isascii():
            bad = next(c for c in text if not c.isascii())
            raise self.source.damaged(
                f"the non-ASCII character {bad!r}", line_and_column(self.text, self.text.index(bad))
            )
        return text

    def head(self, form: Form) -> str:
        """The first word of a form."""
        if isinstance(form, list) and form and isinstance(form[0], str):
            return form[0]
        raise self.source.damaged(f"{shown(form)} where (word …) is expected")

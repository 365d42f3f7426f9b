"""The vocabulary of a literature: concepts with three wordings each, sentences, names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from agentgym_suite.dice import Dice

TOPICS = ("field", "task", "method")
PROPERTIES = ("data", "language", "setting", "finding")
KINDS = (*TOPICS, *PROPERTIES)
SCHOOLS = 3

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True, slots=True)
class Concept:
    """Something that papers are about.

    Attributes:
        kind: one of ``KINDS``.
        number: which one of its kind.
        forms: its wording in each school; no two have a stem in common.
    """

    kind: str
    number: int
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field with the tasks and method families that belong to it."""

    concept: Concept
    tasks: tuple[Concept, ...]
    methods: tuple[Concept, ...]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All tables of the generator.

    Attributes:
        fields: the three levels of topics.
        properties: kind -> its concepts.
        titles: what a title names beside the topic ("plain": nothing) -> forms of titles.
        sentences: move of an abstract -> forms of its sentence.
        slots: name of a blank -> words that fill it.
        people: parts of the names of people.
        systems: parts of the names of systems.
        venues: names of conferences ("series") and journals.
        frames: forms of questions.
        topics: which topics a question names -> forms of its topic.
        parts: property -> forms of its part of a question.
    """

    fields: tuple[Field, ...]
    properties: Mapping[str, tuple[Concept, ...]]
    titles: Mapping[str, tuple[str, ...]]
    sentences: Mapping[str, tuple[str, ...]]
    slots: Mapping[str, tuple[str, ...]]
    people: Mapping[str, tuple[str, ...]]
    systems: Mapping[str, tuple[str, ...]]
    venues: Mapping[str, tuple[str, ...]]
    frames: tuple[str, ...]
    topics: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, tuple[str, ...]]

    @property
    def concepts(self) -> list[Concept]:
        """Every concept, kind by kind within its field."""
        found = [
            concept
            for field in self.fields
            for concept in (field.concept, *field.tasks, *field.methods)
        ]
        return found + [each for kind in PROPERTIES for each in self.properties[kind]]


def load_lexicon() -> Lexicon:
    """Read the tables that lie in ``lexicon/`` beside this module."""
    names, prose, queries = _read("names"), _read("prose"), _read("queries")
    properties = _read("properties")
    return Lexicon(
        fields=_fields(_read("topics")["field"]),
        properties={kind: _concepts(kind, properties[kind]) for kind in PROPERTIES},
        titles=_words(prose["title"]),
        sentences=_words(prose["abstract"]),
        slots=_words(prose["slots"]),
        people=_words(names["people"]),
        systems=_words(names["systems"]),
        venues=_words(names["venues"]),
        frames=tuple(queries["frames"]),
        topics=_words(queries["topic"]),
        parts=_words(queries["part"]),
    )


def fill(form: str, slots: Mapping[str, str], dice: Dice) -> str:
    """A sentence of a form: each ``[a|b]`` is one of its choices, each ``{slot}`` its words."""
    while found := _CHOICE.search(form):
        form = form[: found.start()] + dice.pick(found[1].split("|")) + form[found.end() :]
    return form.format_map(slots)


def _fields(rows: list[dict[str, Any]]) -> tuple[Field, ...]:
    fields = []
    tasks = methods = 0
    for number, row in enumerate(rows):
        fields.append(
            Field(
                Concept("field", number, tuple(row["forms"])),
                _concepts("task", row["tasks"], tasks),
                _concepts("method", row["methods"], methods),
            )
        )
        tasks += len(row["tasks"])
        methods += len(row["methods"])
    return tuple(fields)


def _concepts(kind: str, rows: list[list[str]], first: int = 0) -> tuple[Concept, ...]:
    return tuple(Concept(kind, number, tuple(forms)) for number, forms in enumerate(rows, first))


def _words(table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Lists as they are; a text is a list of the words in it."""
    return {
        name: tuple(words.split() if isinstance(words, str) else words)
        for name, words in table.items()
    }


def _read(name: str) -> dict[str, Any]:
    table = files(__package__).joinpath(f"lexicon/{name}.toml")
    return tomllib.loads(table.read_text(encoding="utf-8"))

"""The tables an encyclopedia is drawn from: relations, names, page texts and question wordings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

#: Entity types in the order in which they come into being: what others point to, first.
TYPES = (
    "country",
    "region",
    "city",
    "mountain",
    "river",
    "person",
    "university",
    "company",
    "band",
    "book",
    "film",
    "award",
    "ship",
    "species",
)
VALUE_KINDS = ("year", "date", "population", "length", "height", "body_length")


@dataclass(frozen=True, slots=True)
class Relation:
    """What can be true of an entity of ``domain`` and one of ``range``, or a value.

    Attributes:
        name: its key.
        domain: the type facts run from.
        range: an entity type, or one of ``VALUE_KINDS``.
        label: its name from the domain's side, as evidences give it.
        inverse: its name from the range's side; "" for values.
        share: the part of the domain's entities that have such a fact.
        back: the part of the facts that is told on the range's page.
        role: the part in life that a person of the range plays; "" for any.
        by: the same for a person of the domain.
        years: bounds of the domain's year minus the range's year.
        within: relations that lead from the range's entity back to the domain's.
        most: facts that may lead to one entity of the range; 0 for any number.
        symmetric: whether it holds in both directions.
    """

    name: str
    domain: str
    range: str
    label: str
    inverse: str
    share: float
    back: float = 0.0
    role: str = ""
    by: str = ""
    years: tuple[int, int] | None = None
    within: tuple[str, ...] = ()
    most: int = 0
    symmetric: bool = False

    @property
    def is_value(self) -> bool:
        """Whether its facts end in a number or a date."""
        return self.range in VALUE_KINDS


@dataclass(frozen=True, slots=True)
class Telling:
    """How a relation is told on the page of one of its two sides, and asked about.

    ``sentences`` and ``asides`` have the blanks [S] (and its cases) and [O]; ``phrases`` and
    ``asks`` have [X], the entity that tells.
    """

    relation: Relation
    forward: bool
    sentences: tuple[str, ...]
    asides: tuple[str, ...]
    phrases: tuple[str, ...]
    asks: tuple[str, ...]

    @property
    def label(self) -> str:
        """The relation's name as seen from the entity that tells."""
        return self.relation.label if self.forward else self.relation.inverse

    @property
    def target(self) -> str:
        """The type at the other end."""
        return self.relation.range if self.forward else self.relation.domain


@dataclass(frozen=True, slots=True)
class PageTable:
    """What is said on the pages of one entity type; a small world has ``count`` of them.

    ``slots`` fill the blanks in braces, those of ``steady`` alike on the whole page; the blank
    {trade} of people is filled from ``trades`` by their role.
    """

    count: int
    nouns: tuple[str, ...]
    openings: tuple[str, ...]
    fillers: tuple[str, ...]
    mentions: tuple[str, ...]
    slots: Mapping[str, tuple[str, ...]]
    steady: frozenset[str]
    trades: Mapping[str, tuple[str, ...]]
    tellings: Mapping[str, Telling]


@dataclass(frozen=True, slots=True)
class NameTable:
    """Forms and parts of the names of one type; see names.toml."""

    keep: str
    forms: tuple[str, ...]
    twin_forms: tuple[str, ...]
    parts: Mapping[str, tuple[str, ...]]
    demonym: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Wordings that compare two entities by a value: ``value``, ``which`` for "high" and "low"."""

    relation: str
    value: Mapping[str, tuple[str, ...]]
    which: Mapping[str, tuple[str, ...]]
    test: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Two relations that together make a third."""

    name: str
    steps: tuple[str, str]
    asks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """All tables of the generator."""

    relations: Mapping[str, Relation]
    names: Mapping[str, NameTable]
    pages: Mapping[str, PageTable]
    comparisons: tuple[Comparison, ...]
    same: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
    any_mentions: tuple[str, ...]


def load_tables() -> Tables:
    """Read the tables that lie beside this module."""
    relations = {name: _relation(name, row) for name, row in _read("relations.toml").items()}
    wordings = _read("wordings.toml")
    return Tables(
        relations=relations,
        names={kind: _names(row) for kind, row in _read("names.toml").items()},
        pages={kind: _page(kind, _read(f"pages/{kind}.toml"), relations) for kind in TYPES},
        comparisons=tuple(_comparison(row) for row in wordings["compare"].values()),
        same={name: tuple(asks) for name, asks in wordings["same"].items()},
        rules=tuple(
            Rule(row["name"], (row["steps"][0], row["steps"][1]), tuple(row["asks"]))
            for row in wordings["rule"]
        ),
        any_mentions=tuple(wordings["mentions"]["any"]),
    )


def _relation(name: str, row: dict[str, Any]) -> Relation:
    row = dict(row)
    low_high = row.pop("years", None)
    return Relation(
        name=name,
        years=(low_high[0], low_high[1]) if low_high else None,
        within=tuple(row.pop("within", ())),
        **row,
    )


def _names(row: dict[str, Any]) -> NameTable:
    parts = {
        key: tuple(value.split())
        for key, value in row.items()
        if isinstance(value, str) and key != "keep"
    }
    return NameTable(
        keep=row["keep"],
        forms=tuple(row["forms"]),
        twin_forms=tuple(row["twin_forms"]),
        parts=parts,
        demonym=row.get("demonym", False),
    )


def _page(kind: str, row: dict[str, Any], relations: Mapping[str, Relation]) -> PageTable:
    tellings = {}
    for name, telling in row["tell"].items():
        relation = relations[name]
        tellings[name] = Telling(
            relation=relation,
            forward=relation.domain == kind,
            sentences=tuple(telling["sentences"]),
            asides=tuple(telling.get("asides", ())),
            phrases=tuple(telling.get("phrases", ())),
            asks=tuple(telling["asks"]),
        )
    return PageTable(
        count=row["count"],
        nouns=tuple(row["nouns"]),
        openings=tuple(row["openings"]),
        fillers=tuple(row["fillers"]),
        mentions=tuple(row["mentions"]),
        slots={name: tuple(words) for name, words in row.get("slots", {}).items()},
        steady=frozenset(row["steady"].split()),
        trades={role: tuple(words) for role, words in row.get("trades", {}).items()},
        tellings=tellings,
    )


def _comparison(row: dict[str, Any]) -> Comparison:
    return Comparison(
        relation=row["relation"],
        value={end: tuple(row[f"{end}_value"]) for end in ("high", "low")},
        which={end: tuple(row[f"{end}_which"]) for end in ("high", "low")},
        test=tuple(row["high_test"]),
    )


def _read(path: str) -> dict[str, Any]:
    table = files(__package__).joinpath(path)
    return tomllib.loads(table.read_text(encoding="utf-8"))

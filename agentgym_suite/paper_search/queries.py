"""One query for papers, whatever data set it comes from, and its form on the disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from agentgym_suite.official_rows import json_line


@dataclass(frozen=True, slots=True)
class PaperQuery:
    """What somebody looks for, and the papers that were annotated as relevant.

    Attributes:
        id: the official id; a row number as text where the data set has none.
        split: ``train``, ``dev``, ``test``; ``real`` for RealScholarQuery beside AutoScholarQuery.
        query: the question, white space collapsed.
        gold: ids of the relevant papers: bare arXiv ids, else the id as published; each once, in
            the order of the data set.
        gold_missing: relevant papers of which no id is known; recall counts them as not found.
        cutoff: papers of this day (``YYYYMMDD``) or month (``YYYY-MM``) and later are invisible;
            "" for no date.
        kind: the part of the data set, such as ``RealScholarQuery``; "" unknown.
        source: the data set: ``embedded``, ``pasa``, ``litsearch``, ``scholargym``.
        date: a date that is information and no cut-off, as published; "" unknown.
        titles: the titles of ``gold``, in its order, as far as the data set gives them.
    """

    id: str
    split: str
    query: str
    gold: tuple[str, ...]
    gold_missing: int = 0
    cutoff: str = ""
    kind: str = ""
    source: str = ""
    date: str = ""
    titles: tuple[str, ...] = ()

    @property
    def task_id(self) -> str:
        """``<source>/<split>/<official id>``."""
        return f"{self.source}/{self.split}/{self.id}"

    @property
    def gold_total(self) -> int:
        """What recall divides by: the known relevant papers and the missing ones."""
        return len(self.gold) + self.gold_missing


# Of a field that must be given, the default is a mark of dataclasses that no value equals.
_DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(PaperQuery)}
_NAMES = tuple(field.name for field in fields(PaperQuery))


def query_line(query: PaperQuery) -> bytes:
    """One line of JSON, without the fields that say nothing."""
    row = {name: getattr(query, name) for name in _NAMES}
    return json_line({name: value for name, value in row.items() if value != _DEFAULTS[name]})


def read_query(line: str | bytes) -> PaperQuery:
    """The query of such a line."""
    values = json.loads(line)
    values["gold"] = tuple(values["gold"])
    values["titles"] = tuple(values.get("titles", ()))
    return PaperQuery(**values)

"""Published numbers: shown beside measured ones, never ranked with them.

``reference_rows.csv`` holds one number a row, with where it was read and how far that can be
trusted. Shares are in percent, as WebShop's score is.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentgym_suite.arguments import shown
from agentgym_suite.errors import DataError, DataMissing, UsageError

PROVENANCES: Mapping[str, str] = {
    "reported:paper": "read in the paper",
    "reported:quoted": "another paper or repository quotes it",
    "reported:readme": "read in a repository's own pages",
    "reported:issue": "a user's rerun in a public thread",
    "recounted": "recomputed from published logs",
    "secondary": "second-hand text",
    "unverified": "remembered, not checked",
    "disputed": "two public versions differ",
}
UNVERIFIED = "unverified"
_SEARCH_QA = ("NQ", "TriviaQA", "PopQA", "HotpotQA", "2WikiMultihopQA", "MuSiQue", "Bamboogle")
BENCHMARKS: Mapping[str, tuple[str, ...]] = {
    "alfworld": ("ALFWorld",),
    "webshop": ("WebShop",),
    "webshop-small": ("WebShop",),
    "hotpotqa": ("HotpotQA",),
    "2wiki": ("2WikiMultihopQA",),
    "musique": ("MuSiQue",),
    "searchqa": ("Search-QA average", *_SEARCH_QA),
    "pasa": ("RealScholarQuery", "AutoScholarQuery"),
}
"""Data set of a suite -> the benchmarks whose published numbers are about it."""


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """One published number; an empty text where the source does not say.

    Attributes:
        row_id: its name in the file, distinct.
        env: Gymnasium id of the environment it belongs to.
        benchmark: the benchmark as the source names it.
        split: split of the tasks.
        n_tasks: how many tasks.
        horizon: most steps of an episode.
        model: the model.
        method: how it was trained or prompted.
        metric: what was measured; shares in percent.
        value: the number, as printed.
        spread: the number printed behind it.
        spread_kind: what that number is.
        seeds: over how many trainings.
        source: where it was read.
        provenance: a name of ``PROVENANCES``.
        note: what differs in the protocol, or is odd about the number.
    """

    row_id: str
    env: str
    benchmark: str
    split: str
    n_tasks: str
    horizon: str
    model: str
    method: str
    metric: str
    value: str
    spread: str
    spread_kind: str
    seeds: str
    source: str
    provenance: str
    note: str

    @property
    def unverified(self) -> bool:
        """Whether nobody has checked it, or a part of it, such as the model's name."""
        return self.provenance == UNVERIFIED or UNVERIFIED in self.note


COLUMNS = tuple(field.name for field in fields(ReferenceRow))


def reference_rows(
    path: Path | None = None,
    *,
    environments: Iterable[str] | None = None,
    benchmarks: Iterable[str] | None = None,
    include_unverified: bool = False,
) -> tuple[ReferenceRow, ...]:
    """The published numbers, in the order of their file.

    Args:
        path: a CSV file of the same columns; None takes the one that comes with the suite.
        environments: Gymnasium ids whose rows are wanted; None takes all.
        benchmarks: names whose rows are wanted; None takes all.
        include_unverified: also those that nobody has checked.

    Raises:
        DataError: the file is absent, cannot be read, or holds no such rows.
    """
    rows = parse_rows(*_lines_of(path))
    wanted = None if environments is None else set(environments)
    named = None if benchmarks is None else set(benchmarks)
    return tuple(
        row
        for row in rows
        if (wanted is None or row.env in wanted)
        and (named is None or row.benchmark in named)
        and (include_unverified or not row.unverified)
    )


def parse_rows(lines: Sequence[str], source: str) -> list[ReferenceRow]:
    """The rows of a CSV text.

    Raises:
        UsageError: naming the line and what is wrong with it.
    """
    reader = csv.DictReader(lines, strict=True)
    rows: dict[str, ReferenceRow] = {}
    try:
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UsageError(
                f"{source} has the columns {shown(','.join(reader.fieldnames or ()))}; "
                f"use {','.join(COLUMNS)}"
            )
        for raw in reader:
            row = _row(raw, f"{source}, line {reader.line_num}")
            if row.row_id in rows:
                raise UsageError(
                    f"{source}, line {reader.line_num} has the row_id {shown(row.row_id)} again; "
                    "give each row its own"
                )
            rows[row.row_id] = row
    except csv.Error as error:
        raise UsageError(
            f"{source}, line {reader.line_num} is no CSV ({error}); correct it"
        ) from error
    return list(rows.values())


def _lines_of(path: Path | None) -> tuple[list[str], str]:
    try:
        if path is None:
            shipped = files("agentgym_suite.evaluation").joinpath("reference_rows.csv")
            return io.StringIO(shipped.read_text("utf-8")).readlines(), shipped.name
        return io.StringIO(path.read_text("utf-8")).readlines(), str(path)
    except FileNotFoundError as error:
        raise DataMissing(f"there is no file {path} of reference rows; check the path") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 ({error.reason}); save it as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); make it readable") from error


def _row(raw: Mapping[str, Any], place: str) -> ReferenceRow:
    """A row whose number is one and whose provenance has a meaning."""
    if None in raw or None in raw.values():
        raise UsageError(f"{place} has not {len(COLUMNS)} fields; give one for each column")
    row = ReferenceRow(**{name: raw[name].strip() for name in COLUMNS})
    if row.provenance not in PROVENANCES:
        known = ", ".join(PROVENANCES)
        raise UsageError(f"{place} has the provenance {shown(row.provenance)}; use {known}")
    for name in ("row_id", "method", "metric", "value", "source"):
        if not getattr(row, name):
            raise UsageError(f"{place} has no {name}; give one")
    for name in ("value", "spread", "n_tasks", "horizon", "seeds"):
        if getattr(row, name) and not _is_number(getattr(row, name)):
            raise UsageError(f"{place} has {name} = {shown(getattr(row, name))}; give a number")
    return row


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False

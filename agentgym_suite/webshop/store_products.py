"""The first phase of a store: products, and whatever goals are made of, into SQLite.

One pass over the products file in file order, a batch at a time. The goal phase and the
index phase read what this one wrote and never see the official files.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

from agentgym_suite.data import Json, Progress
from agentgym_suite.errors import DataDamaged, DataMissing
from agentgym_suite.json_stream import iter_json_list
from agentgym_suite.webshop.goal_sources import human_sources, synthetic_source
from agentgym_suite.webshop.nouns import NounExtractor
from agentgym_suite.webshop.official_files import OfficialFiles
from agentgym_suite.webshop.product_rows import encode_row, facts_of
from agentgym_suite.webshop.products import (
    Cleaned,
    Product,
    clean,
    encodable,
    has_surrogate,
)
from agentgym_suite.webshop.side_tables import SideTables

DATABASE_NAME = "shop.sqlite"

_BATCH = 500
_SCHEMA = """
CREATE TABLE products (position INTEGER PRIMARY KEY, asin TEXT, row BLOB);
CREATE TABLE ranges (position INTEGER PRIMARY KEY, asin TEXT, low REAL, high REAL);
CREATE TABLE synthetic (
    slot INTEGER PRIMARY KEY, position INTEGER, asin TEXT, price REAL,
    instruction TEXT, attributes TEXT, combinations INTEGER);
CREATE TABLE human (
    slot INTEGER PRIMARY KEY, position INTEGER, asin TEXT, price REAL,
    instruction TEXT, attributes TEXT, options TEXT, entry INTEGER);
CREATE TABLE summary (value TEXT);
"""


@dataclass(slots=True)
class ImportReport:
    """What was skipped and mended: reason -> how many, with one ASIN each as an example."""

    strict: bool
    skipped: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    goals_skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, counter: Counter[str], reason: str, asin: str, *, fatal: bool = True) -> None:
        """Count one case, or refuse it when data are to be taken strictly.

        Raises:
            DataDamaged: ``strict`` is set and the original would not get past this case.
        """
        if self.strict and fatal:
            raise DataDamaged(
                f"product {asin}: {reason}; mend the record, or import without --strict-data"
            )
        counter[reason] += 1
        self.examples.setdefault(reason, encodable(asin))

    def as_json(self) -> dict[str, Json]:
        """The report as it stands in the manifest."""
        return {
            "skipped": dict(self.skipped),
            "repaired": dict(self.repaired),
            "goals_skipped": dict(self.goals_skipped),
            "examples": dict(self.examples),
        }


@dataclass(frozen=True, slots=True)
class ProductLimits:
    """How much of the products file is taken.

    Attributes:
        first: only the first so many records, counted before any is skipped.
        at_most: more records than this are refused with ``too_many`` as the sentence.
        too_many: what to tell then.
    """

    first: int | None = None
    at_most: int | None = None
    too_many: str = ""


def write_products(
    folder: Path,
    official: OfficialFiles,
    *,
    limits: ProductLimits,
    extractor: NounExtractor | None,
    strict: bool,
    progress: Progress | None,
) -> Mapping[str, Any]:
    """Write the database unless a finished one is there; return its summary.

    Nouns come from the nouns file where ``extractor`` is None. The summary holds ``digest`` (of
    the catalogue), ``products`` and ``report``.

    Raises:
        DataMissing: a file is not there, or the file has more products than allowed.
        DataDamaged: a file is damaged, or a record is bad and ``strict`` is set.
    """
    path = folder / DATABASE_NAME
    if not path.exists():
        unfinished = folder / f".tmp-{DATABASE_NAME}"
        unfinished.unlink(missing_ok=True)
        database = sqlite3.connect(unfinished, isolation_level=None)
        try:
            with SideTables(folder / ".tmp-side.sqlite", official, progress) as side:
                writer = _ProductWriter(database, side, extractor, ImportReport(strict))
                writer.write(_records(official.items, limits, progress))
        finally:
            database.close()
        os.replace(unfinished, path)
    database = sqlite3.connect(path)
    try:
        summary: dict[str, Any] = json.loads(
            database.execute("SELECT value FROM summary").fetchone()[0]
        )
    finally:
        database.close()
    return summary


def _records(path: Path, limits: ProductLimits, progress: Progress | None) -> Iterator[Any]:
    size = path.stat().st_size if path.suffix == ".json" else None
    for number, (record, offset) in enumerate(islice(iter_json_list(path), limits.first)):
        if limits.at_most is not None and number >= limits.at_most:
            raise DataMissing(limits.too_many)
        if progress is not None and number % _BATCH == 0:
            progress("products (bytes read)", offset, size)
        yield record


class _ProductWriter:
    """Cleans records and inserts them with all that belongs to them."""

    def __init__(
        self,
        database: sqlite3.Connection,
        side: SideTables,
        extractor: NounExtractor | None,
        report: ImportReport,
    ) -> None:
        self._database = database
        self._side = side
        self._extractor = extractor
        self._report = report
        self._digest = hashlib.sha256()
        self._seen: set[str] = set()
        self._positions = count()
        self._synthetic_slots = count()
        self._human_slots = count()

    def write(self, records: Iterator[Any]) -> None:
        execute = self._database.execute
        execute("PRAGMA page_size = 8192")
        execute("PRAGMA journal_mode = OFF")
        execute("PRAGMA synchronous = OFF")
        self._database.executescript(_SCHEMA)
        execute("BEGIN")
        while batch := list(islice(records, _BATCH)):
            cleaned = [one for record in batch if (one := self._clean(record)) is not None]
            nouns = self._nouns([product for product, _ in cleaned])
            for (product, facts), words in zip(cleaned, nouns, strict=True):
                self._insert(product, facts, words)
        execute("CREATE UNIQUE INDEX products_by_asin ON products (asin)")
        summary = {
            "digest": f"sha256:{self._digest.hexdigest()}",
            "products": next(self._positions),
            "report": self._report.as_json(),
        }
        execute("INSERT INTO summary VALUES (?)", (json.dumps(summary),))
        execute("COMMIT")

    def _clean(self, record: Any) -> tuple[Product, str] | None:
        """The product of a record and its facts; None where it is skipped."""
        report = self._report
        asin = str(record.get("asin", "")) if isinstance(record, Mapping) else ""
        entry = self._side.attributes(asin)
        attributes = entry.get("attributes") if isinstance(entry, Mapping) else None
        cleaned = clean(record, encodable(attributes))
        if not isinstance(cleaned, Cleaned):
            report.note(report.skipped, cleaned.reason, asin, fatal=not cleaned.by_design)
            return None
        facts = facts_of(cleaned.product)
        if has_surrogate(facts):
            report.note(report.repaired, "text holds lone surrogates", asin)
            return self._clean(encodable(record))
        if cleaned.product.asin in self._seen:
            report.note(report.skipped, "asin repeated", asin, fatal=False)
            return None
        self._seen.add(cleaned.product.asin)
        for reason in cleaned.repairs:
            report.note(report.repaired, reason, asin)
        return cleaned.product, facts

    def _nouns(self, products: list[Product]) -> list[tuple[str, ...]]:
        if self._extractor is not None:
            return self._extractor.extract([product.name for product in products])
        report, found = self._report, []
        for product in products:
            nouns = self._side.nouns(product.asin)
            if nouns is None:
                report.note(report.repaired, "title missing from the nouns file", product.asin)
            found.append(nouns or ())
        return found

    def _insert(self, product: Product, facts: str, nouns: tuple[str, ...]) -> None:
        execute, position = self._database.execute, next(self._positions)
        self._identify(facts)
        row = encode_row(facts, encodable(list(nouns)))
        execute("INSERT INTO products VALUES (?, ?, ?)", (position, product.asin, row))
        if len(product.prices) > 1:
            execute(
                "INSERT INTO ranges VALUES (?, ?, ?, ?)", (position, product.asin, *product.prices)
            )
        self._insert_goals(product, position)

    def _insert_goals(self, product: Product, position: int) -> None:
        asin, price = product.asin, product.prices[0]

        def complain(reason: str, *, by_design: bool = False) -> None:
            self._report.note(self._report.goals_skipped, reason, asin, fatal=not by_design)

        synthetic = synthetic_source(self._side.attributes(asin), product, complain)
        if synthetic is not None:
            attributes = json.dumps(synthetic.attributes)
            self._identify(f"{synthetic.instruction}\n{attributes}")
            self._database.execute(
                "INSERT INTO synthetic VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    next(self._synthetic_slots), position, asin, price,
                    synthetic.instruction, attributes, synthetic.combinations,
                ),
            )  # fmt: skip
        for human in human_sources(self._side.human(asin), complain):
            attributes, options = json.dumps(human.attributes), json.dumps(human.options)
            self._identify(f"{human.instruction}\n{attributes}\n{options}\n{human.entry}")
            self._database.execute(
                "INSERT INTO human VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    next(self._human_slots), position, asin, price,
                    human.instruction, attributes, options, human.entry,
                ),
            )  # fmt: skip

    def _identify(self, text: str) -> None:
        self._digest.update(text.encode() + b"\n")

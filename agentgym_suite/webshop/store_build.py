"""Building a store: official files in, one published folder out.

Three phases, each finished by a file with its final name, so that a killed build goes on
with the phase it was in: products (``shop.sqlite``), goals (``goals/summary.json``), search
index (``index/manifest.json``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_suite.data import Contents, Json, Manifest, Progress, publish
from agentgym_suite.errors import DataDamaged
from agentgym_suite.indexes.bm25_build import build as build_bm25
from agentgym_suite.webshop.goal_arrays import write_goal_arrays
from agentgym_suite.webshop.goal_sources import NO_OBJECT
from agentgym_suite.webshop.nouns import NounExtractor, RuleNouns, SpacyNouns
from agentgym_suite.webshop.official_files import OfficialFiles
from agentgym_suite.webshop.product_rows import decode_row
from agentgym_suite.webshop.products import indexed_text
from agentgym_suite.webshop.store import INDEX_FOLDER, STORE_KIND, STORE_VERSION
from agentgym_suite.webshop.store_products import DATABASE_NAME, ProductLimits, write_products

_NOUN_DIGEST_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a store is built.

    Attributes:
        limits: how much of the products file is taken.
        legacy_price_seed: draw prices and bounds as the original would from this seed.
        strict_data: refuse records on which the original would die, instead of mending them.
        spacy_model: find title nouns with this model, where no nouns file is given.
        workers: processes that analyse texts for the index.
    """

    limits: ProductLimits = field(default_factory=ProductLimits)
    legacy_price_seed: int | None = None
    strict_data: bool = False
    spacy_model: str | None = None
    workers: int = 1


@dataclass(frozen=True, slots=True)
class StorePlan:
    """A store before it is built.

    Attributes:
        official: the files that go in.
        options: how they are taken.
        extractor: what finds title nouns; None where a file has them.
        inputs: everything the contents are a function of.
    """

    official: OfficialFiles
    options: BuildOptions
    extractor: NounExtractor | None
    inputs: Mapping[str, Json]


def plan_store(
    official: OfficialFiles, options: BuildOptions, digests: Mapping[str, Json]
) -> StorePlan:
    """Settle what a store will be made of.

    Args:
        official: the files that go in.
        options: how they are taken.
        digests: ``official.digests()``.

    Raises:
        MissingExtra: spaCy was asked for and is not installed.
        UsageError: the spaCy model is not installed.
    """
    extractor: NounExtractor | None = None
    if official.nouns is not None:
        digest = str(digests["nouns"])[:_NOUN_DIGEST_CHARACTERS]
        label = official.noun_label or f"file:{digest}"
    else:
        extractor = SpacyNouns(options.spacy_model) if options.spacy_model else RuleNouns()
        label = extractor.label
    inputs: dict[str, Json] = {
        **digests,
        "noun_source": label,
        "num_products": options.limits.first,
        "legacy_price_seed": options.legacy_price_seed,
        "strict_data": options.strict_data,
    }
    return StorePlan(official, options, extractor, inputs)


def build_store(
    folder: Path,
    plan: StorePlan,
    *,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build a store, or return the one that was built by the same plan.

    Raises:
        DataMissing: a file is not there.
        DataDamaged: a file is damaged or gives nothing, or a record is bad and data are taken
            strictly.
        DataError: something else is in that place already.
        DiskFull: no space was left; what was finished is kept.
    """
    options = plan.options

    def write(partial: Path) -> Contents:
        summary = write_products(
            partial,
            plan.official,
            limits=options.limits,
            extractor=plan.extractor,
            strict=options.strict_data,
            progress=progress,
        )
        _refuse_no_products(plan.official, summary)
        database = sqlite3.connect(partial / DATABASE_NAME)
        try:
            goals = write_goal_arrays(
                partial,
                database,
                catalogue_digest=summary["digest"],
                legacy_price_seed=options.legacy_price_seed,
                progress=progress,
            )
            _refuse_no_goals(plan, summary, goals)
            build_bm25(
                partial / INDEX_FOLDER,
                _documents(database),
                inputs={"catalogue": summary["digest"]},
                progress=progress,
                workers=options.workers,
            )
        finally:
            database.close()
        (partial / f"{INDEX_FOLDER}.lock").unlink(missing_ok=True)
        counts = {"products": summary["products"]}
        counts |= {f"{kind}_goals": goals[kind]["count"] for kind in ("human", "synthetic")}
        notes: dict[str, Json] = {
            "catalogue": summary["digest"],
            "goals": goals,
            "human_goal_texts": goals["human_goal_texts"],
            "noun_source": plan.inputs["noun_source"],
            "report": summary["report"],
        }
        return Contents(counts, notes)

    return publish(
        folder,
        kind=STORE_KIND,
        version=STORE_VERSION,
        inputs=plan.inputs,
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


def _refuse_no_products(official: OfficialFiles, summary: Mapping[str, Any]) -> None:
    if not summary["products"]:
        reasons = ", ".join(summary["report"]["skipped"]) or "its list is empty"
        raise DataDamaged(
            f"{official.items} gives no product ({reasons}); give the products file of a catalogue"
        )


def _refuse_no_goals(plan: StorePlan, summary: Mapping[str, Any], goals: Mapping[str, Any]) -> None:
    """Refuse a file that gives no goal, unless the first few products may simply have none."""
    official, reasons = plan.official, summary["report"]["goals_skipped"]
    no_human, no_synthetic = (not goals[kind]["count"] for kind in ("human", "synthetic"))
    every_product = plan.options.limits.first is None
    for name, path, useless in (
        ("human", official.human, no_human and (no_synthetic or every_product)),
        # An attributes file may well have no instructions, beside a human file.
        ("attributes", official.attributes, no_synthetic and (no_human or NO_OBJECT in reasons)),
    ):
        if path is not None and useless:
            why = ", ".join(reasons) or "it names none of the products"
            raise DataDamaged(
                f"{path} gives no goal as the {name} file ({why}); check that --attributes and "
                "--human are not exchanged, or leave that file out"
            )


def _documents(database: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for asin, row in database.execute("SELECT asin, row FROM products ORDER BY position"):
        yield asin, indexed_text(decode_row(row, None))

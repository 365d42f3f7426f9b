"""The commands ``data import`` and ``data generate`` for ``webshop`` and ``webshop-small``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym_suite.arguments import check_count
from agentgym_suite.data import Manifest, Progress, load_manifest, read_manifest, verify_folder
from agentgym_suite.errors import UsageError
from agentgym_suite.files import explain_damage
from agentgym_suite.webshop.catalogue import default_goals
from agentgym_suite.webshop.generated_files import (
    GENERATED_KIND,
    GENERATED_VERSION,
    publish_generated,
)
from agentgym_suite.webshop.official_files import OfficialFiles
from agentgym_suite.webshop.store import INDEX_FOLDER, read_store_manifest
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store
from agentgym_suite.webshop.store_products import ProductLimits

_REPORTED = (
    ("skipped", "products left out"),
    ("repaired", "products mended"),
    ("goals_skipped", "goals left out"),
)


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data import webshop``."""
    add = parser.add_argument
    add("--items", type=Path, required=True, metavar="FILE", help="items_shuffle*.json[.xz]")
    add("--attributes", type=Path, metavar="FILE", help="items_ins_v2*.json[.xz]")
    add("--human", type=Path, metavar="FILE", help="items_human_ins*.json[.xz]")
    add("--nouns", type=Path, metavar="FILE", help="title nouns, JSON lines of asin and nouns")
    add("--spacy", metavar="MODEL", help="find title nouns with this spaCy model")
    add("--num-products", type=int, metavar="N", help="only the first N products")
    add(
        "--legacy-price-seed",
        type=int,
        metavar="S",
        help="draw prices and bounds as the original does from this seed",
    )
    add(
        "--strict-data",
        action="store_true",
        help="refuse records on which the original would die, instead of mending them",
    )
    add("--workers", type=int, default=1, metavar="N", help="processes that analyse texts")
    add("--out", type=Path, metavar="DIR", help="where the store shall be")


def run_import(
    args: argparse.Namespace,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Build a store from official files; return its folder.

    Raises:
        DataMissing: a file is not there.
        DataDamaged: a file is damaged or gives nothing, or a record is bad and ``--strict-data``
            is given.
        DataError: something else is in that place already.
        DiskFull: no space was left; what was finished is kept.
        UsageError: an option is wrong.
    """
    if args.out is None:
        raise UsageError("the store needs a place; add --out DIR")
    for name, value in (("--num-products", args.num_products), ("--workers", args.workers)):
        if value is not None:
            check_count(name, value, 1)
    if args.nouns is not None and args.spacy is not None:
        raise UsageError("--nouns and --spacy both say where title nouns come from; give one")
    official = OfficialFiles(args.items, args.attributes, args.human, args.nouns)
    options = BuildOptions(
        limits=ProductLimits(first=args.num_products),
        legacy_price_seed=args.legacy_price_seed,
        strict_data=args.strict_data,
        spacy_model=args.spacy,
        workers=args.workers,
    )
    plan = plan_store(official, options, official.digests(progress))
    build_store(args.out, plan, progress=progress, on_wait=on_wait)
    return Path(args.out)


def add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``data generate webshop``."""
    add = parser.add_argument
    add("--products", type=int, required=True, metavar="N", help="how many products")
    add("--seed", type=int, metavar="S", help="which catalogue (default: the embedded one's)")
    add("--oddities", action="store_true", help="put in the records that break loaders")
    add("--out", type=Path, required=True, metavar="DIR", help="where the files shall be")


def run_generate(
    args: argparse.Namespace,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Path:
    """Write a generated catalogue in the official formats; return its folder.

    Raises:
        DataError: something else is in that place already.
        DiskFull: no space was left.
        UsageError: an option is wrong.
    """
    check_count("--products", args.products, 1)
    publish_generated(
        args.out,
        products=args.products,
        seed=args.seed,
        oddities=args.oddities,
        progress=progress,
        on_wait=on_wait,
    )
    return Path(args.out)


def describe(path: Path) -> list[str]:
    """For people to read: what is played over a store, and what its import left out or mended.

    Raises:
        DataMissing: no store is there.
        DataDamaged: its manifest is not that of a store.
    """
    manifest = read_store_manifest(path)
    kind = default_goals(manifest)
    lines = [f"goals: {kind} ({manifest.counts[f'{kind}_goals']:,})"]
    report: Any = manifest.notes.get("report", {})
    with explain_damage(path):
        for key, title in _REPORTED:
            for reason, count in report.get(key, {}).items():
                example = report["examples"].get(reason) or "a record without an ASIN"
                lines.append(f"{title}: {reason} ({count:,}, such as {example})")
    return lines


def verify(path: Path, progress: Progress | None = None) -> Manifest:
    """Recompute every digest of a store or of a generated folder.

    Raises:
        DataMissing: nothing finished is there.
        DataVersion: it has another format version.
        DataDamaged: a file is absent, or differs from the manifest or is not in it.
    """
    generated = load_manifest(path).kind == GENERATED_KIND
    if generated:
        read_manifest(path, kind=GENERATED_KIND, version=GENERATED_VERSION)
    else:
        read_store_manifest(path)
    manifest = verify_folder(path, progress)
    if not generated:
        verify_folder(path / INDEX_FOLDER, progress)
    return manifest

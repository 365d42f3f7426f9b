"""The commands ``data import`` and ``data generate`` for ``webshop`` and ``webshop-small``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from agentgym_suite.data import Manifest, Progress, verify_folder
from agentgym_suite.errors import UsageError
from agentgym_suite.webshop.catalogue import default_goals
from agentgym_suite.webshop.generated_files import GENERATED_KIND, publish_generated
from agentgym_suite.webshop.official_files import OfficialFiles
from agentgym_suite.webshop.store import INDEX_FOLDER, read_store_manifest
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store
from agentgym_suite.webshop.store_products import ProductLimits


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
        DataDamaged: a file is damaged, or a record is bad and ``--strict-data`` is given.
        DataError: something else is in that place already.
        DiskFull: no space was left; what was finished is kept.
        UsageError: an option is wrong.
    """
    if args.out is None:
        raise UsageError("the store needs a place; add --out DIR")
    for name, value in (("--num-products", args.num_products), ("--workers", args.workers)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}; give 1 or more")
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
    if args.products < 1:
        raise UsageError(f"--products is {args.products}; give 1 or more")
    publish_generated(
        args.out,
        products=args.products,
        seed=args.seed,
        oddities=args.oddities,
        progress=progress,
        on_wait=on_wait,
    )
    return Path(args.out)


def played(manifest: Manifest) -> str:
    """What is played over a store unless other goals are asked for, for people to read."""
    kind = default_goals(manifest)
    return f"goals: {kind} ({manifest.counts[f'{kind}_goals']:,})"


def verify(path: Path, progress: Progress | None = None) -> Manifest:
    """Recompute every digest of a store or of a generated folder.

    Raises:
        DataMissing: nothing finished is there.
        DataVersion: the store has another format version.
        DataDamaged: a file is absent or its contents differ from the manifest.
    """
    manifest = verify_folder(path, progress)
    if manifest.kind != GENERATED_KIND:
        read_store_manifest(path)
        verify_folder(path / INDEX_FOLDER, progress)
    return manifest

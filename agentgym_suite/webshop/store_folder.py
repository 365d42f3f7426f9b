"""From what a user calls ``data`` to the folder of a built store.

Nothing, a name of the data home, a folder of official files, or a built store. Small
catalogues build themselves under the data home at first use; the folder's name holds the
digest of all that went in.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path

from agentgym_suite.arguments import check_count, check_path, shown
from agentgym_suite.data import (
    Json,
    Manifest,
    Progress,
    data_folder,
    find_data,
    json_digest,
    made_folder,
    read_manifest,
)
from agentgym_suite.errors import DataMissing, UsageError
from agentgym_suite.webshop.generated_files import (
    GENERATED_KIND,
    GENERATED_VERSION,
    manifest_kind,
    noun_label,
    publish_generated,
)
from agentgym_suite.webshop.official_files import OfficialFiles, find_official_files
from agentgym_suite.webshop.store import read_store_manifest
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store
from agentgym_suite.webshop.store_products import ProductLimits

EMBEDDED_PRODUCTS = 1_000
MOST_PRODUCTS_UNBUILT = 5_000

# Five thousand official products are 15 MB; digesting gigabytes at every start helps nobody.
_MOST_BYTES_UNBUILT = 64_000_000


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """Which store is meant.

    Attributes:
        data: None for the embedded catalogue, else a folder.
        num_products: only the first so many products.
        legacy_price_seed: the seed of the original's price draws, to repeat them.
        nouns: a file of title nouns beside the folder.
    """

    data: Path | None = None
    num_products: int | None = None
    legacy_price_seed: int | None = None
    nouns: Path | None = None


def choose_store(
    data: str | Path | None = None,
    num_products: int | None = None,
    legacy_price_seed: int | None = None,
    nouns: str | Path | None = None,
) -> StoreChoice:
    """Which store a user means; checks what can be checked without opening anything.

    Args:
        data: None for the embedded catalogue, a data set's name, or a folder.
        num_products: only the first so many products.
        legacy_price_seed: repeat the original's price draws from this seed.
        nouns: a file of title nouns beside the folder.

    Raises:
        DataMissing: there is no such data set, folder or file.
        UsageError: an argument is of another type, or a number below 1.
    """
    if num_products is not None:
        check_count("num_products", num_products, 1)
    if isinstance(legacy_price_seed, bool) or not isinstance(legacy_price_seed, Integral | None):
        raise UsageError(
            f"legacy_price_seed is {shown(legacy_price_seed)}; give an integer, or None"
        )
    noun_file = None if nouns is None else Path(check_path("nouns", nouns)).absolute()
    if noun_file is not None and not os.path.isfile(noun_file):
        raise DataMissing(f"there is no file {noun_file} for the nouns; check the path")
    folder = None if data is None else find_data(data, "webshop")
    return StoreChoice(folder, num_products, legacy_price_seed, noun_file)


def locate_store(choice: StoreChoice, progress: Progress | None = None) -> tuple[Path, Manifest]:
    """The folder and the manifest of a store, built now if it is small and new.

    Raises:
        DataMissing: there are no such data, or they are too large to be built on the way.
        DataDamaged: a file is damaged.
        DataVersion: the store was built by another version of the suite.
        UsageError: the options contradict those a built store was made with.
    """
    if choice.data is None:
        return _build_under_home(_embedded_folder(progress), choice, progress)
    kind = manifest_kind(choice.data)
    if kind is not None and kind != GENERATED_KIND:
        manifest = read_store_manifest(choice.data)
        _check_built(choice, manifest)
        return choice.data, manifest
    return _build_under_home(choice.data, choice, progress)


def _embedded_folder(progress: Progress | None) -> Path:
    from agentgym_suite.webshop.generator import DEFAULT_SEED, GENERATOR_VERSION

    name = f"embedded-{GENERATOR_VERSION}-{DEFAULT_SEED}-{EMBEDDED_PRODUCTS}"
    folder = data_folder("webshop", name)
    publish_generated(folder, products=EMBEDDED_PRODUCTS, progress=progress)
    return folder


def _build_under_home(
    folder: Path, choice: StoreChoice, progress: Progress | None
) -> tuple[Path, Manifest]:
    generated = manifest_kind(folder) == GENERATED_KIND
    label = noun_label(folder) if generated and choice.nouns is None else None
    official = find_official_files(folder, nouns=choice.nouns, noun_label=label)
    too_many = (
        f"{official.items} has more than {MOST_PRODUCTS_UNBUILT} products, too many to be built "
        f"at first use; run `agentgym-suite data import webshop --items {official.items} "
        "--attributes … --human … --out DIR` and give that DIR"
    )
    if official.items.stat().st_size > _MOST_BYTES_UNBUILT:
        raise DataMissing(too_many)
    options = BuildOptions(
        limits=ProductLimits(choice.num_products, MOST_PRODUCTS_UNBUILT, too_many),
        legacy_price_seed=choice.legacy_price_seed,
    )
    plan = plan_store(official, options, _digests(folder, official, generated))
    store = made_folder("webshop", "cache", json_digest(plan.inputs))
    return store, build_store(store, plan, progress=progress)


def _digests(folder: Path, official: OfficialFiles, generated: bool) -> dict[str, Json]:
    """The digests of the files; of generated ones those that their manifest has."""
    if not generated:
        return official.digests()
    manifest = read_manifest(folder, kind=GENERATED_KIND, version=GENERATED_VERSION)
    known = {folder / name: entry.sha256 for name, entry in manifest.files.items()}
    return official.digests(known=known)


def _check_built(choice: StoreChoice, manifest: Manifest) -> None:
    """A built store cannot be changed by options; those that agree with it are fine."""
    built_with = manifest.inputs
    products = manifest.counts["products"]
    for name, wanted, agrees in (
        (
            "num_products",
            choice.num_products,
            choice.num_products in (built_with.get("num_products"), products),
        ),
        (
            "legacy_price_seed",
            choice.legacy_price_seed,
            choice.legacy_price_seed == built_with.get("legacy_price_seed"),
        ),
        ("nouns", choice.nouns, False),
    ):
        if wanted is not None and not agrees:
            raise UsageError(
                f"{name}={wanted} does not fit the built store {choice.data}, made with "
                f"{name}={built_with.get(name)}; import the official files again with that option"
            )

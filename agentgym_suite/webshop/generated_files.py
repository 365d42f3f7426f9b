"""Generated catalogues as finished folders of official files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentgym_suite.data import (
    MANIFEST_NAME,
    Contents,
    Manifest,
    Progress,
    load_manifest,
    publish,
)

GENERATED_KIND = "webshop-files"
GENERATED_VERSION = 1


def publish_generated(
    folder: Path,
    *,
    products: int,
    seed: int | None = None,
    oddities: bool = False,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Generate a catalogue in the official formats, or return the one that is there.

    Args:
        folder: where the finished folder shall be.
        products: how many products.
        seed: which catalogue; the embedded one's seed by default.
        oddities: whether to put in the records that break loaders.
        progress: called while the products are written.
        on_wait: called once with a sentence when another process is at it.

    Raises:
        DataError: something else is in that place already.
        DiskFull: no space was left.
    """
    # Only a first use generates; everything else starts without the word lists.
    from agentgym_suite.webshop.generator import DEFAULT_SEED, GENERATOR_VERSION, generate

    seed = DEFAULT_SEED if seed is None else seed

    def write(partial: Path) -> Contents:
        generate(partial, products=products, seed=seed, oddities=oddities, progress=progress)
        return Contents(
            counts={"products": products},
            notes={"noun_source": f"generator:{GENERATOR_VERSION}"},
        )

    return publish(
        folder,
        kind=GENERATED_KIND,
        version=GENERATED_VERSION,
        inputs={
            "generator": GENERATOR_VERSION,
            "products": products,
            "seed": seed,
            "oddities": oddities,
        },
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


def manifest_kind(folder: Path) -> str | None:
    """The kind in a folder's manifest; None if it has none.

    Raises:
        DataDamaged: the manifest is not one of this suite.
        DataError: it cannot be read.
    """
    return load_manifest(folder).kind if (folder / MANIFEST_NAME).is_file() else None


def noun_label(folder: Path) -> str | None:
    """Where the title nouns of a generated folder come from; None if it does not say so."""
    if manifest_kind(folder) != GENERATED_KIND:
        return None
    label = load_manifest(folder).notes.get("noun_source")
    return label if isinstance(label, str) else None

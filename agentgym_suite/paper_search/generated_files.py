"""Generated literatures as finished folders of official files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentgym_suite.data import Contents, Manifest, Progress, data_folder, publish
from agentgym_suite.paper_search.generator import (
    DEFAULT_PAPERS,
    DEFAULT_SEED,
    GENERATOR_VERSION,
    QUERY_COUNTS,
)

GENERATED_KIND = "papers-generated"
GENERATED_VERSION = 1


def embedded_folder(progress: Progress | None = None) -> Path:
    """The folder of the embedded literature, generated at first use."""
    folder = data_folder("paper_search", f"embedded-{GENERATOR_VERSION}")
    publish_generated(folder, progress=progress)
    return folder


def publish_generated(
    folder: Path,
    *,
    papers: int = DEFAULT_PAPERS,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Generate a literature in the official formats, or return the one that is there.

    Args:
        folder: where the finished folder shall be.
        papers: how many papers; there are always as many queries.
        seed: which literature.
        progress: called while it is drawn and written.
        on_wait: called once with a sentence when another process is at it.

    Raises:
        UsageError: there would be no paper.
        DataError: something else is in that place already, or the papers are too few.
        DiskFull: no space was left.
    """
    # Only a first use generates; everything else starts without the vocabulary.
    from agentgym_suite.paper_search.generator import generate

    def write(partial: Path) -> Contents:
        counts = generate(partial, papers=papers, seed=seed, progress=progress)
        return Contents(counts, {"generator": GENERATOR_VERSION})

    return publish(
        folder,
        kind=GENERATED_KIND,
        version=GENERATED_VERSION,
        inputs={
            "generator": GENERATOR_VERSION,
            "papers": papers,
            "seed": seed,
            "queries": dict(QUERY_COUNTS),
        },
        write=write,
        progress=progress,
        on_wait=on_wait,
    )

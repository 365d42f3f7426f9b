"""Publishing generated encyclopedias: the embedded one, and others to train and search in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agentgym_suite.data import Contents, Json, Manifest, Progress, data_folder, publish
from agentgym_suite.multihop_qa import generator
from agentgym_suite.multihop_qa.generator import (
    DEFAULT_SEED,
    GENERATOR_VERSION,
    QUESTION_COUNTS,
    SIZES,
)

GENERATED_KIND = "qa-generated"
GENERATED_VERSION = 1


def generate(
    folder: Path,
    *,
    size: str = "small",
    seed: int = DEFAULT_SEED,
    questions: Mapping[str, int] = QUESTION_COUNTS,
    progress: Progress | None = None,
) -> Contents:
    """Write an encyclopedia and its questions in the official formats, in place.

    Args:
        folder: where the files go; created if missing.
        size: "small" (about 1,500 passages), "medium" (20,000) or "large" (500,000).
        seed: which world.
        questions: how many of each split.
        progress: called with (phase, done, total).

    Raises:
        UsageError: there is no such size.
        DataError: the world has too few facts for so many questions.
    """
    counts = generator.generate(
        folder, size=size, seed=seed, questions=questions, progress=progress
    )
    return Contents(counts, {"entities_and_questions": "invented", "size": size})


def publish_generated(
    folder: Path,
    *,
    size: str = "small",
    seed: int = DEFAULT_SEED,
    questions: Mapping[str, int] = QUESTION_COUNTS,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Generate an encyclopedia as a finished folder, or return the one that is there.

    Args:
        folder: where the finished folder shall be.
        size: "small", "medium" or "large".
        seed: which world.
        questions: how many of each split.
        progress: called with (phase, done, total).
        on_wait: called once with a sentence when another process is at it.

    Raises:
        UsageError: there is no such size.
        DataError: something else is in that place already.
        DiskFull: no space was left.
    """
    inputs: dict[str, Json] = {
        "generator_version": GENERATOR_VERSION,
        "size": size,
        "scale": SIZES.get(size, 0),
        "seed": seed,
        "questions": dict(questions),
    }
    return publish(
        folder,
        kind=GENERATED_KIND,
        version=GENERATED_VERSION,
        inputs=inputs,
        write=lambda partial: generate(
            partial, size=size, seed=seed, questions=questions, progress=progress
        ),
        progress=progress,
        on_wait=on_wait,
    )


def embedded_folder(progress: Progress | None = None) -> Path:
    """The folder of the embedded encyclopedia, generated at first use."""
    name = f"embedded-{GENERATOR_VERSION}.{GENERATED_VERSION}"
    folder = data_folder("multihop_qa", name)
    publish_generated(folder, progress=progress)
    return folder

"""Publishing generated households: the embedded ones, and as many as somebody wants to train in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agentgym_suite.alfworld import generator
from agentgym_suite.alfworld.game_index import (
    INDEX_NAME,
    INDEX_VERSION,
    GameIndex,
    is_published,
    read_record,
    write_index,
)
from agentgym_suite.alfworld.game_layout import FAMILIES, LAYOUT_FOLDER, list_games
from agentgym_suite.alfworld.generator import DEFAULT_SEED, EMBEDDED_GAMES, GENERATOR_VERSION
from agentgym_suite.data import Contents, Json, Manifest, Progress, data_folder, publish

GENERATED_KIND = "alfworld-generated"
GENERATED_VERSION = 1


def embedded_folder(progress: Progress | None = None) -> Path:
    """The folder of the embedded households, generated at first use."""
    folder = data_folder("alfworld", f"embedded-{GENERATOR_VERSION}.{INDEX_VERSION}")
    if is_published(folder):  # its name says what it is a function of
        return folder
    publish(
        folder,
        kind=GENERATED_KIND,
        version=GENERATED_VERSION,
        inputs={
            "generator_version": GENERATOR_VERSION,
            "games": EMBEDDED_GAMES,
            "seed": DEFAULT_SEED,
            "index_version": INDEX_VERSION,
        },
        write=lambda partial: _with_index(partial, generator.embedded_world(partial, progress)),
        progress=progress,
    )
    return folder


def publish_generated(
    folder: Path,
    *,
    games: int,
    seed: int = DEFAULT_SEED,
    quirks: bool = True,
    wording: str = "move+help",
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Generate households into a folder, each played to its win before it is kept.

    Args:
        folder: where they shall be.
        games: how many; a tenth goes to each validation split.
        seed: which world.
        quirks: whether they have the oddities of the official games.
        wording: ``move+help``, or ``old``.
        progress: called with the games written.
        on_wait: called when another process is writing the folder.

    Raises:
        DataError: something else is in that place already, or a game could not be made.
        DiskFull: no space was left.
    """
    inputs: dict[str, Json] = {
        "generator_version": GENERATOR_VERSION,
        "games": games,
        "seed": seed,
        "quirks": quirks,
        "wording": wording,
        "index_version": INDEX_VERSION,
    }

    def write(partial: Path) -> Contents:
        sizes = generator.generate(
            partial, games=games, seed=seed, quirks=quirks, wording=wording, progress=progress
        )
        return _with_index(partial, sizes)

    return publish(
        folder,
        kind=GENERATED_KIND,
        version=GENERATED_VERSION,
        inputs=inputs,
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


def _with_index(partial: Path, sizes: Mapping[str, int]) -> Contents:
    root = partial / LAYOUT_FOLDER
    index = GameIndex([read_record(root, game) for game in list_games(root)], str(root))
    write_index(partial / INDEX_NAME, root, index.games)
    table = index.counts()
    families = {
        family.label: sum(row.get(family.name, 0) for row in table.values()) for family in FAMILIES
    }
    counts = {"games": len(index.games), **sizes, **families}
    return Contents(counts, {"data_digest": index.digest})

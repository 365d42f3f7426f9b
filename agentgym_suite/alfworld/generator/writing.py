"""Writing generated games into the official layout."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentgym_suite.alfworld.generator.identity import DEFAULT_SEED, EMBEDDED_GAMES
from agentgym_suite.alfworld.generator.making import SPLITS, GameMaker, MadeGame
from agentgym_suite.alfworld.generator.proof import is_won_by_its_walkthrough
from agentgym_suite.alfworld.generator.quirks import LIKE_THE_OFFICIAL_GAMES, NO_QUIRKS
from agentgym_suite.data import Progress

DATA_FOLDER = "json_2.1.1"
_PROGRESS_STRIDE = 20


def split_sizes(games: int) -> dict[str, int]:
    """How a number of games is dealt: a tenth to each validation split, the rest to training."""
    tenth = games // 10
    return {"train": games - 2 * tenth, "valid_seen": tenth, "valid_unseen": tenth}


def made_games(
    sizes: Mapping[str, int],
    *,
    seed: int = DEFAULT_SEED,
    quirks: bool = True,
    wording: str = "move+help",
    check: bool = True,
) -> Iterator[MadeGame]:
    """Yield the games of a world, split by split; a smaller world is part of a larger one.

    Args:
        sizes: how many games of each split.
        seed: any integer.
        quirks: whether there are the oddities of the official games.
        wording: "move+help", or "old" for the verb ``put`` and no help.
        check: whether each walkthrough is played in the engine before its game is given out.

    Raises:
        DataError: no game that can be won was found at some number.
        UsageError: there is no such wording.
    """
    maker = GameMaker(
        seed,
        quirks=LIKE_THE_OFFICIAL_GAMES if quirks else NO_QUIRKS,
        wording=wording,
        accept=is_won_by_its_walkthrough if check else None,
    )
    for split in SPLITS:
        for number in range(sizes.get(split, 0)):
            yield maker.game(split, number)


def generate(
    folder: Path,
    *,
    games: int | Mapping[str, int],
    seed: int = DEFAULT_SEED,
    quirks: bool = True,
    wording: str = "move+help",
    check: bool = True,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Write games as ``json_2.1.1/<split>/<task dir>/<trial>/game.tw-pddl`` and its companions.

    The bytes are a function of (``GENERATOR_VERSION``, games, seed, quirks, wording). Rooms of
    ``valid_seen`` occur in ``train``, those of ``valid_unseen`` do not.

    Args:
        folder: where ``json_2.1.1`` goes; created if missing. Files are written in place:
            publishing them whole is the caller's business.
        games: how many games altogether, or how many of each split.
        seed: any integer.
        quirks: whether there are the oddities of the official games.
        wording: "move+help", or "old" for the verb ``put`` and no help.
        check: whether each walkthrough is played in the engine first.
        progress: called with (phase, games written, games).

    Returns:
        How many games each split got.

    Raises:
        DataError: no game that can be won was found at some number.
        UsageError: there is no such wording.
    """
    sizes = split_sizes(games) if isinstance(games, int) else dict(games)
    total = sum(sizes.values())
    made = made_games(sizes, seed=seed, quirks=quirks, wording=wording, check=check)
    for done, game in enumerate(made, start=1):
        _write(folder / DATA_FOLDER / game.folder, game)
        if progress is not None and (done % _PROGRESS_STRIDE == 0 or done == total):
            progress("generate games", done, total)
    return sizes


def embedded_world(folder: Path, progress: Progress | None = None) -> dict[str, int]:
    """Write the world that is played when no data is given; return the sizes of its splits.

    Its walkthroughs are not played again on every machine: a test pins the digest of the world
    that was checked.
    """
    return generate(folder, games=EMBEDDED_GAMES, check=False, progress=progress)


def _write(folder: Path, game: MadeGame) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "pddl_domain": game.domain,
        "grammar": game.grammar,
        "pddl_problem": game.problem,
        "solvable": True,
        "walkthrough": game.walkthrough,
    }
    files = {
        "game.tw-pddl": json.dumps(texts),
        "traj_data.json": json.dumps(game.traj_data),
        "initial_state.pddl": game.problem,
    }
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())

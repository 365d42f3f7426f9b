"""The official games and the recordings of TextWorld, from the shared packs."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from agentgym_suite.alfworld.game_files import GameFile

SPLITS = ("train", "valid_seen", "valid_unseen", "valid_train")
_ID = re.compile(r'"id":\s*"([^"]+)"')


def official_games(
    shared: Path, split: str, wanted: Collection[str] | None = None
) -> Iterator[GameFile]:
    """The games of a split, or those of them whose ids are wanted; "handmade" is a split too."""
    folder = shared / "data" / "alfworld"
    domain = (folder / "domain_embedded.pddl").read_text(encoding="utf-8")
    grammar = (folder / "grammar_template.twl2").read_text(encoding="utf-8")
    with lzma.open(folder / f"games_{split}.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            found = _ID.search(line)
            assert found is not None
            if wanted is not None and found[1] not in wanted:
                continue
            row = json.loads(line)
            if "game" in row:
                game = row["game"]
                texts = game["pddl_domain"], game["grammar"], game["pddl_problem"]
                walkthrough = None
            else:
                texts = domain, grammar.replace("{TASK}", row["goal"]), row["pddl_problem"]
                walkthrough = tuple(row["walkthrough"])
            yield GameFile(row["id"], *texts, True, walkthrough, "")


def golden_episodes(shared: Path, name: str) -> list[dict[str, Any]]:
    """The recorded episodes of one file."""
    path = shared / "data" / "alfworld" / "golden" / f"{name}.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]

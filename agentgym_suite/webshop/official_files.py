"""Where the official files of a catalogue are, and what they are by digest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.data import Json, Progress, sha256_file
from agentgym_suite.errors import DataError, DataMissing

_ENDINGS = (".json", ".json.xz", ".json.gz", ".jsonl", ".jsonl.xz", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class OfficialFiles:
    """The files of one catalogue; the last three may be absent.

    Attributes:
        items: JSON list of products (``items_shuffle.json``).
        attributes: JSON object asin -> attributes and instruction (``items_ins_v2.json``).
        human: JSON object asin -> human instructions (``items_human_ins.json``).
        nouns: JSON lines of asin and title nouns.
        noun_label: where the nouns come from, if it is not simply that file.
    """

    items: Path
    attributes: Path | None = None
    human: Path | None = None
    nouns: Path | None = None
    noun_label: str | None = None

    def digests(
        self, progress: Progress | None = None, *, known: Mapping[Path, str] | None = None
    ) -> dict[str, Json]:
        """SHA-256 of each file that is there, None for the others.

        Args:
            progress: called while a file is read.
            known: digests that are known already.

        Raises:
            DataMissing: a file that was named does not exist.
        """
        found: dict[str, Json] = {}
        for name in ("items", "attributes", "human", "nouns"):
            path: Path | None = getattr(self, name)
            if path is not None and not os.path.isfile(path):
                raise DataMissing(f"there is no file {path} for the {name}; check the path")
            elif path is not None and known is not None and path in known:
                found[name] = known[path]
            else:
                found[name] = None if path is None else sha256_file(path, progress)
        return found


def find_official_files(
    folder: Path, *, nouns: Path | None = None, noun_label: str | None = None
) -> OfficialFiles:
    """Find the files of a catalogue by their official names in a folder.

    Raises:
        DataMissing: the folder or the products file is not there.
        DataError: two different files could be meant.
    """
    if not folder.is_dir():
        raise DataMissing(f"there is no folder {folder}; give a folder of official WebShop files")
    items = _one(folder, "items_shuffle")
    if items is None:
        raise DataMissing(
            f"{folder} holds neither a built store nor items_shuffle*.json[.xz]; give a folder "
            "of official WebShop files, or the one that `agentgym-suite data import webshop` made"
        )
    return OfficialFiles(
        items=items,
        attributes=_one(folder, "items_ins_v2"),
        human=_one(folder, "items_human_ins"),
        nouns=nouns or _one(folder, "title_nouns"),
        noun_label=noun_label,
    )


def _one(folder: Path, stem: str) -> Path | None:
    """The one file of that stem; of one name the unpacked one."""
    by_name: dict[str, Path] = {}
    candidates: Mapping[str, list[Path]] = {
        ending: sorted(folder.glob(f"{stem}*{ending}")) for ending in _ENDINGS
    }
    for ending, paths in candidates.items():
        for path in paths:
            by_name.setdefault(path.name.removesuffix(ending), path)
    if len(by_name) > 1:
        names = ", ".join(sorted(path.name for path in by_name.values()))
        raise DataError(f"{folder} holds several {stem} files ({names}); keep one of them there")
    return next(iter(by_name.values()), None)

"""How many questions the publishers report, so that an import can say what differs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Every row count that somebody publishes for a split: the sets differ between their publishers
# (FlashRAG's 2Wiki has a part of train, Search-R1 calls a dev set that it evaluates on a test).
PUBLISHED: Mapping[str, Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "hotpotqa": {"train": (90_447,), "dev": (7_405,), "test": (7_405,)},
        "2wikimultihopqa": {"train": (167_454, 15_000), "dev": (12_576,), "test": (12_576,)},
        "musique": {
            "train": (19_938, 39_876),
            "dev": (2_417, 4_834),
            "test": (2_459, 4_918, 2_417),
        },
        "nq": {"train": (79_168,), "dev": (8_757, 3_610), "test": (3_610,)},
        "triviaqa": {"train": (78_785,), "dev": (8_837,), "test": (11_313,)},
        "popqa": {"test": (14_267,)},
        "bamboogle": {"test": (125,)},
    }
)


def differences(rows: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What differs from the published sizes, one sentence each; nothing is said of unknown sets.

    Args:
        rows: data set -> split -> how many questions were imported.
    """
    found = []
    for dataset, splits in rows.items():
        for split, published in PUBLISHED.get(dataset, {}).items():
            count = splits.get(split, 0)
            if count and count not in published:
                known = " or ".join(f"{each:,}" for each in published)
                found.append(f"{dataset} {split}: {count:,} questions, {known} are published")
    return found

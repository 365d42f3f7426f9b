"""What every index answers: document ids with scores, best first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import numpy as np

_TIED = np.float32(1e-4)
_STEP = np.float32(1e-6)


@dataclass(frozen=True, slots=True)
class Hits:
    """A ranked result list: score descending, then id ascending.

    Attributes:
        ids: document ids.
        scores: one for each id, as the index computes them (float32 values for BM25).
    """

    ids: tuple[str, ...]
    scores: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.ids)


def reported_scores(scores: Sequence[float]) -> tuple[float, ...]:
    """BM25 scores as Anserini prints them; for showing, never for ordering.

    Each is rounded half up to four decimals. One that is not more than 1e-4 below the number
    printed before it is lowered by 1e-6, the next such one by 2e-6 and so on, which keeps ties
    in order for tools that sort by score (Anserini's ScoreTiesAdjusterReranker).

    Args:
        scores: the raw scores of one result list, in its order.
    """
    reported: list[np.float32] = []
    ties = 0
    for score in scores:
        rounded = np.float32(floor(score * 10_000 + 0.5) / 10_000)
        tied = bool(reported) and not reported[-1] - rounded > _TIED
        ties = ties + 1 if tied else 0
        reported.append(rounded - _STEP * np.float32(ties))
    return tuple(float(score) for score in reported)

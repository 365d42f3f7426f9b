"""BM25 as the formula reads: one document at a time, float32 where Lucene has float32."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np


def plain_search(
    documents: Mapping[str, Sequence[str]], query: Sequence[str], k: int
) -> list[tuple[str, float]]:
    """The k best (id, score) for a query of terms, over documents of terms."""
    f32 = np.float32
    scored = [terms for terms in documents.values() if terms]
    if not scored:
        return []
    average = f32(sum(map(len, scored)) / len(scored))
    ranked = []
    for name, terms in documents.items():
        total = 0.0
        for term, times in Counter(query).items():
            frequency = terms.count(term)
            if not frequency:
                continue
            holders = sum(1 for other in scored if term in other)
            idf = f32(math.log(1 + (len(scored) - holders + 0.5) / (holders + 0.5)))
            weight = f32(idf * f32(times))
            length = f32(plain_length(len(terms)))
            inverse = f32(1) / (f32(0.9) * ((f32(1) - f32(0.4)) + f32(0.4) * length / average))
            total += float(weight - weight / (f32(1) + f32(frequency) * inverse))
        if total:
            ranked.append((name, float(f32(total))))
    return sorted(ranked, key=lambda hit: (-hit[1], hit[0]))[:k]


def plain_length(length: int) -> int:
    """A length with what its one byte can hold: exact below 24, else four leading bits."""
    rest = length - 24
    if rest < 8:
        return length
    cut = rest.bit_length() - 4
    return 24 + (rest >> cut << cut)

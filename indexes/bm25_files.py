"""How a BM25 index lies on disk, and the arithmetic that building and searching share.

    terms.npy            uint8   every term in UTF-8, sorted by its bytes, end to end
    term_starts.npy      int64   terms + 1 offsets into it
    posting_starts.npy   int64   terms + 1 offsets into the two posting arrays
    documents.npy        int32   document numbers, ascending within a term
    pairs.npy            uint16  the number of the posting's pair (uint32 past 65,536 pairs)
    pair_table.npy       int32   pairs x 2: term frequency, length code; sorted
    lengths.npy          uint8   one length code a document
    ids.npy              uint8   every document id in UTF-8, end to end, ascending
    id_starts.npy        int64   documents + 1 offsets into it

Documents are numbered by ascending id, so "ties by id" is "ties by document number". Only
about 1,200 distinct (term frequency, length code) pairs occur in a large shop, which is what
lets two bytes a posting give the exact float32 part of the score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

KIND = "bm25-index"
VERSION = 1
MEND = "build it with `agentgym-suite index build bm25`"

TERMS = "terms.npy"
TERM_STARTS = "term_starts.npy"
POSTING_STARTS = "posting_starts.npy"
DOCUMENTS = "documents.npy"
PAIRS = "pairs.npy"
PAIR_TABLE = "pair_table.npy"
LENGTHS = "lengths.npy"
IDS = "ids.npy"
ID_STARTS = "id_starts.npy"

K1 = np.float32(0.9)
B = np.float32(0.4)

_EXACT_LENGTHS = 24
"""Lengths below this are their own code, as in Lucene's SmallFloat."""


def length_codes(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """One byte for each document length: exact below 24, then four leading bits."""
    rest = np.maximum(lengths - _EXACT_LENGTHS, 0)
    # A float's exponent is the number of bits less one; lengths are far below 2**53.
    bits = np.frexp(rest.astype(np.float64))[1]
    shift = np.maximum(bits - 4, 0)
    # From four bits on: three bits of mantissa, the leading one implied, above the exponent.
    mantissa = rest >> shift
    coded = np.where(bits < 4, rest, (mantissa & 7) | ((shift + 1) << 3))
    codes = np.where(lengths < _EXACT_LENGTHS, lengths, coded + _EXACT_LENGTHS)
    return codes.astype(np.uint8)


def code_lengths() -> NDArray[np.int64]:
    """The length that each of the 256 codes stands for: the shortest that has this code."""
    coded = np.arange(256, dtype=np.int64) - _EXACT_LENGTHS
    exponent = np.maximum((coded >> 3) - 1, 0)
    large = ((coded & 7) | 8) << exponent
    lengths = np.where(coded < 8, coded, large) + _EXACT_LENGTHS
    return np.where(coded < 0, np.arange(256), lengths)


def pair_denominators(
    pair_table: NDArray[np.int32], total_tokens: int, scored_documents: int
) -> NDArray[np.float32]:
    """``1 + f * inv`` of each pair, float32, operations in the order of Lucene's BM25Similarity.

    Args:
        pair_table: pairs x 2, term frequency and length code.
        total_tokens: tokens of all documents.
        scored_documents: documents with at least one token.
    """
    average = np.float32(max(total_tokens, 1) / max(scored_documents, 1))
    lengths = code_lengths().astype(np.float32)
    one = np.float32(1)
    inverse = one / (K1 * ((one - B) + B * lengths / average))
    frequencies = pair_table[:, 0].astype(np.float32)
    denominators: NDArray[np.float32] = one + frequencies * inverse[pair_table[:, 1]]
    return denominators

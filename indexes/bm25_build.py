"""Building a BM25 index in bounded memory, published through ``data.publish``.

Two passes. The first analyses the documents in the order in which they come and appends each
one's (term, frequency) postings to a file. Sorting the ids then numbers the documents, and the
second pass takes ranges of these numbers, sorts their postings by term and puts them in their
places in the final arrays. These come out the same for every order of the documents and every
number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Contents, Json, Manifest, Progress, publish
from agentgym_suite.errors import UsageError
from agentgym_suite.files import write_array
from agentgym_suite.indexes import bm25_files as files
from agentgym_suite.indexes.bm25_collect import Collection, collect

ANALYSIS = "unicode9-possessive-lower-stop-porter/1"
"""Names what turns a text into terms; changes whenever a term could change."""

_RANGE_BITS = 15
"""The second pass takes up to 2 ** 15 documents at a time: about 2.6 million postings."""

_FORWARD = "forward.tmp"
_ZEROS = bytes(1 << 20)


def build(
    folder: Path | str,
    documents: Iterable[tuple[str, str]],
    *,
    inputs: Mapping[str, Json],
    progress: Progress | None = None,
    workers: int = 1,
    prepare: Callable[[Path], None] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build an index of (id, text) documents, or return the one that is there.

    Args:
        folder: where the index shall be.
        documents: ids, all different, and texts, in any order. Texts are analysed as they
            are: the caller lower-cases them where its source does.
        inputs: what the documents are a function of, such as the digest of their source. A
            folder built from equal inputs is returned untouched, without reading documents.
        progress: called with the phases ``analyse``, ``invert`` and those of ``publish``.
        workers: processes that analyse, at most one a processor; 1 analyses in this process.
        prepare: called first, with the working folder: adds files that belong to the index.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        UsageError: ``workers`` is below 1, or a document id comes twice or cannot be encoded.
        DataError: the folder holds something else, or cannot be written.
        DiskFull: no space was left.
    """
    if workers < 1:
        raise UsageError(f"workers is {workers}; an index is built by at least 1 process")

    def write(working: Path) -> Contents:
        if prepare is not None:
            prepare(working)
        with (working / _FORWARD).open("w+b", buffering=0) as forward:
            collection = collect(documents, forward, workers, progress)
            counts = _write_index(working, collection, progress)
        (working / _FORWARD).unlink()
        return Contents(counts, {})

    return publish(
        folder,
        kind=files.KIND,
        version=files.VERSION,
        inputs={**inputs, "analysis": ANALYSIS},
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


def _write_index(folder: Path, collection: Collection, progress: Progress | None) -> dict[str, int]:
    """Second pass: number documents and terms, and write every array of the index."""
    ids = collection.ids
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)
    _refuse_repeats(ids, order)
    _write_strings(folder, files.IDS, files.ID_STARTS, [ids[number] for number in order])

    terms = collection.terms
    term_order = np.array(sorted(range(len(terms)), key=terms.__getitem__), np.int64)
    _write_strings(folder, files.TERMS, files.TERM_STARTS, [terms[number] for number in term_order])
    term_numbers = np.empty(len(terms), np.int64)
    term_numbers[term_order] = np.arange(len(terms))

    starts = _offsets(collection.document_counts[term_order])
    write_array(folder / files.POSTING_STARTS, starts)
    pair_keys = collection.pair_keys()
    table = np.stack([pair_keys >> 8, pair_keys & 0xFF], axis=1).astype(np.int32)
    write_array(folder / files.PAIR_TABLE, table)
    codes = files.length_codes(collection.lengths[order])
    write_array(folder / files.LENGTHS, codes)

    pair_dtype = np.uint16 if len(pair_keys) <= 1 << 16 else np.uint32
    _reserve(folder / files.DOCUMENTS, int(starts[-1]), np.int32)
    _reserve(folder / files.PAIRS, int(starts[-1]), pair_dtype)
    _place_postings(folder, collection, order, term_numbers, starts, pair_keys, codes, progress)
    return {
        "documents": len(ids),
        "scored_documents": int(np.count_nonzero(collection.lengths)),
        "tokens": int(collection.lengths.sum()),
        "terms": len(terms),
        "postings": int(starts[-1]),
        "pairs": len(pair_keys),
    }


def _place_postings(
    folder: Path,
    collection: Collection,
    order: NDArray[np.int64],
    term_numbers: NDArray[np.int64],
    starts: NDArray[np.int64],
    pair_keys: NDArray[np.int64],
    codes: NDArray[np.uint8],
    progress: Progress | None,
) -> None:
    """Sort the postings of one range of documents after the other into the final arrays."""
    documents = np.load(folder / files.DOCUMENTS, mmap_mode="r+")
    pairs = np.load(folder / files.PAIRS, mmap_mode="r+")
    free = starts[:-1].copy()
    # Term, document and pair share one 64-bit key: sorting it needs no second array.
    pair_bits = len(pair_keys).bit_length()
    range_bits = min(_RANGE_BITS, 63 - len(term_numbers).bit_length() - pair_bits)
    for first in range(0, len(order), 1 << range_bits):
        chosen = order[first : first + (1 << range_bits)]
        postings = collection.postings(chosen)
        local = np.repeat(np.arange(len(chosen)), collection.distinct[chosen])
        own = np.searchsorted(
            pair_keys, postings[:, 1].astype(np.int64) << 8 | codes[first:][local]
        )
        keys = (term_numbers[postings[:, 0]] << range_bits | local) << pair_bits | own
        keys.sort()
        numbers = keys >> (range_bits + pair_bits)
        run_starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        run_lengths = np.diff(run_starts, append=len(keys))
        runs = numbers[run_starts]
        places = np.arange(len(keys)) + np.repeat(free[runs] - run_starts, run_lengths)
        documents[places] = first + (keys >> pair_bits & (1 << range_bits) - 1)
        pairs[places] = keys & (1 << pair_bits) - 1
        free[runs] += run_lengths
        if progress is not None:
            progress("invert", first + len(chosen), len(order))


def _refuse_repeats(ids: list[str], order: NDArray[np.int64]) -> None:
    previous = None
    for number in order:
        if ids[number] == previous:
            raise UsageError(f"document id {previous!r} comes twice; give every document its own")
        previous = ids[number]


def _write_strings(folder: Path, name: str, starts_name: str, strings: list[str]) -> None:
    encoded = [text.encode("utf-8") for text in strings]
    write_array(folder / name, np.frombuffer(b"".join(encoded), np.uint8))
    write_array(folder / starts_name, _offsets(np.array([len(text) for text in encoded], np.int64)))


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _reserve(path: Path, count: int, dtype: type[np.generic]) -> None:
    """Write an array of zeros; a mapped hole in a file kills the process on a full disk."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (count,)}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        left = count * np.dtype(dtype).itemsize
        while left > 0:
            left -= stream.write(_ZEROS[:left])

"""LitSearch questions on 41,099 papers: recall by words, by vectors, and by both.

    python benchmarks/litsearch.py [--data FOLDER] [--folder DIR] [--vectors FILE.npy] [--papers N]
                                   [--dense qdrant|faiss] [--encoder minilm]

Corpus, questions and figures are those of the specification's test data, in the folder that
AGENTGYM_SUITE_SHARED names or in `--data`: 170 questions, 144 of them with every gold paper and
its abstract in the corpus. Store and index are kept in `--folder` (default: a temporary one).
Encoding takes about 1,500 s of CPU time; `--vectors` keeps the vectors in a file, row by row, also
when it is stopped, and later runs use them. `--papers N` takes every gold paper and evenly spread
others, N in all, to try the script; the figures are then no comparison.

Needs the extra `retrieval`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.data import Json
from agentgym_suite.indexes.encoders import Encoder, OnDone, open_encoder
from agentgym_suite.indexes.paper_index import RETRIEVALS, PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.indexes.paper_vectors import ENGINES, build_paper_vectors

_DEPTHS = (5, 10, 20, 50)
_AT_ONCE = 256
_CHECKED = 4
# From the specification, measured with sentence-transformers 6.2.0 and an exact dense index.
_RECORDED: dict[tuple[str, int], tuple[float | None, ...]] = {
    ("sparse", 170): (0.3765, 0.4353, 0.5147, 0.5971),
    ("dense", 170): (0.4000, 0.4500, 0.5324, 0.6059),
    ("hybrid", 170): (0.4588, 0.5118, 0.5882, 0.6853),
    ("sparse", 144): (0.4132, None, 0.5694, 0.6597),
    ("dense", 144): (0.4132, 0.4653, 0.5451, 0.6181),
    ("hybrid", 144): (0.4965, 0.5521, 0.6389, 0.7257),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the papers here that answer it, how many do anywhere, whether all are here."""

    text: str
    gold: frozenset[str]
    answers: int
    full: bool


class KeptVectors:
    """An encoder whose vectors of known texts come from an array."""

    def __init__(self, encoder: Encoder, texts: Sequence[str], vectors: NDArray[np.float32]):
        self._encoder = encoder
        self._rows = {text: row for row, text in enumerate(texts)}
        self._vectors = vectors
        self.name, self.dim = encoder.name, encoder.dim

    def identity(self) -> dict[str, Json]:
        """That of the encoder they came from."""
        return self._encoder.identity()

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """By the encoder."""
        return self._encoder.encode_queries(texts)

    def encode_passages(
        self, texts: Sequence[str], on_done: OnDone | None = None
    ) -> NDArray[np.float32]:
        """From the array."""
        return self._vectors[[self._rows[text] for text in texts]]


def main() -> int:
    """Build the store and the index, ask every question in all three ways, print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of corpus and questions")
    parser.add_argument("--folder", type=Path, help="keep store and index here")
    parser.add_argument("--vectors", type=Path, help="keep the vectors of the papers in this file")
    parser.add_argument("--papers", type=int, help="so many of the papers, to try the script")
    parser.add_argument("--dense", choices=ENGINES, default="qdrant")
    parser.add_argument("--encoder", default="minilm")
    options = parser.parse_args()
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if options.data is None and not shared:
        parser.error("AGENTGYM_SUITE_SHARED is not set: give --data FOLDER")
    data = options.data or Path(str(shared)) / "data" / "papers"
    questions = _questions(data)
    with tempfile.TemporaryDirectory(prefix="litsearch-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        corpus = data / "corpus.jsonl.xz"
        if options.papers is not None:
            corpus = _smaller(corpus, folder / "some.jsonl", options.papers, questions)
        place = folder / f"store-{options.papers or 'all'}"
        build_paper_store(place, corpus, data / "citations.tsv.xz")
        encoder: Encoder = open_encoder(options.encoder)
        store = PaperStore.open(place)
        if options.vectors is not None:
            texts = [f"{one.title} {one.abstract}".strip() for one in store.iterate()]
            encoder = KeptVectors(encoder, texts, _vectors(options.vectors, encoder, texts))
        vectors = place.with_name(f"{place.name}-{options.dense}")
        started = time.monotonic()
        build_paper_vectors(
            store,
            vectors,
            engine=options.dense,
            encoder=encoder,
            shard_rows=2_000,  # small, so that little is lost when it is stopped
            progress=_say,
        )
        seconds = time.monotonic() - started
        store.close()
        print(f"{len(store):,} papers, vectors by {options.dense} in {seconds:,.0f} s\n")
        index = PaperIndex.open(place, vectors=vectors, encoder=encoder)
        _table(index, questions, compares=options.papers is None)
        index.close()
        if options.dense == "qdrant":
            _print_misses(place, vectors, encoder, questions)
    return 0


def _questions(data: Path) -> list[Question]:
    lines = (data / "litsearch_queries.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        Question(
            row["query"],
            frozenset(row["gold"]),
            len(row["gold"]) + len(row["gold_missing_arxiv"]),
            row["coverage"] == "full",
        )
        for row in rows
    ]


def _smaller(corpus: Path, path: Path, count: int, questions: Sequence[Question]) -> Path:
    gold = {paper for question in questions for paper in question.gold}
    with lzma.open(corpus, "rt", encoding="utf-8") as lines:
        rows = [line for line in lines if line.strip()]
    kept = [row for row in rows if json.loads(row)["paper_id"] in gold]
    others = [row for row in rows if json.loads(row)["paper_id"] not in gold]
    wanted = max(count - len(kept), 1)
    path.write_text("".join(kept + others[:: len(others) // wanted][:wanted]), encoding="utf-8")
    return path


def _vectors(path: Path, encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of the texts, encoded where the file does not have them yet."""
    shape = (len(texts), encoder.dim)
    partial = path.with_name(path.name + ".partial")
    if not path.exists():
        if partial.exists():
            array = np.lib.format.open_memmap(partial, "r+")
        else:
            array = np.lib.format.open_memmap(partial, "w+", np.float32, shape)
            array[:] = np.nan
        missing = np.flatnonzero(np.isnan(array[:, 0]))
        for start in range(0, len(missing), _AT_ONCE):
            rows = missing[start : start + _AT_ONCE]
            array[rows] = encoder.encode_passages([texts[row] for row in rows])
            array.flush()
            _say("encode", len(texts) - len(missing) + start + len(rows), len(texts))
        partial.rename(path)
    vectors: NDArray[np.float32] = np.load(path)
    if vectors.shape != shape:
        raise SystemExit(f"{path} has the shape {vectors.shape}, not {shape}; name another file")
    places = list(range(0, len(texts), max(1, len(texts) // _CHECKED)))[:_CHECKED]
    found = encoder.encode_passages([texts[place] for place in places])
    if not np.allclose(found, vectors[places], atol=1e-5):
        raise SystemExit(f"{path} holds vectors of other papers or another encoder")
    return vectors


def _table(index: PaperIndex, questions: Sequence[Question], *, compares: bool) -> None:
    depths = " | ".join(f"@{depth}" for depth in _DEPTHS)
    print(f"| questions | retrieval | {depths} | CPU ms a question | the specification's |")
    print("|---|---|" + "---|" * (len(_DEPTHS) + 2))
    texts = [question.text for question in questions]
    index.search_batch(texts, 1, retrieval="hybrid")  # so that no way pays for the vectors
    for retrieval in RETRIEVALS:
        started = time.process_time()
        lists = index.search_batch(texts, max(_DEPTHS), retrieval=retrieval)
        each = (time.process_time() - started) * 1000 / len(texts)
        for chosen in (questions, [question for question in questions if question.full]):
            kept = [
                (question, hits.ids)
                for question, hits in zip(questions, lists, strict=True)
                if question in chosen
            ]
            means = [
                sum(
                    len(question.gold & {*ids[:depth]}) / question.answers for question, ids in kept
                )
                / len(kept)
                for depth in _DEPTHS
            ]
            ours = " | ".join(f"{mean:.4f}" for mean in means)
            recorded = _RECORDED.get((retrieval, len(kept))) if compares else None
            theirs = " / ".join("-" if one is None else f"{one:.4f}" for one in recorded or ())
            print(f"| {len(kept)} | {retrieval} | {ours} | {each:.2f} | {theirs} |")


def _print_misses(
    store: Path, vectors: Path, encoder: Encoder, questions: Sequence[Question]
) -> None:
    """How often the graph of Qdrant finds what a look at every point finds."""
    lists = []
    for exact in (False, True):
        index = PaperIndex.open(store, vectors=vectors, encoder=encoder, exact=exact)
        texts = [question.text for question in questions]
        lists.append(index.search_batch(texts, 10, retrieval="dense"))
        index.close()
    shared = sum(len({*one.ids} & {*two.ids}) for one, two in zip(*lists, strict=True))
    print(f"\nthe graph finds {shared / sum(map(len, lists[1])):.4f} of the exact top 10")


def _say(phase: str, done: int, total: int | None) -> None:
    if phase in ("encode", "write points", "build graph"):
        print(f"\r{phase}: {done:,} of {total:,}   ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

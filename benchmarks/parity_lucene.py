"""Proof that `indexes/bm25` ranks as Lucene does.

    python benchmarks/parity_lucene.py [compare] [--sizes 1000 100000] [--corpus FILE.jsonl]
    python benchmarks/parity_lucene.py record [--out FIXTURE.jsonl.xz]

`compare` builds both indexes over the same products of the embedded catalogue (or over a corpus
file), runs the same 200 queries through both, prints the first difference and exits
with 1 when there is any. `record` writes what Lucene makes of the catalogue's texts and of
queries to a file, so that a machine without Java can repeat the proof: the tests do.

Both need the extra `lucene`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

from agentgym_suite.indexes import bm25_build, lucene
from agentgym_suite.indexes.analyzer import Analyzer
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.corpus_rows import read_passages
from agentgym_suite.indexes.hits import Hits, reported_scores
from agentgym_suite.indexes.lucene import LuceneIndex
from agentgym_suite.webshop.generator import products
from agentgym_suite.webshop.products import Cleaned, clean, indexed_text

_K = 50
_EMBEDDED = 1_000
_FIXTURE = Path(__file__).parents[1] / "tests" / "indexes" / "fixtures" / "embedded_lucene.jsonl.xz"
_SCORE_TOLERANCE = 2e-6
_AWKWARD = ("", "the of and", '1/4 "zip" & <b> (x) +y -z *', "O'Neill's U.S.A. café naïve ½ ™")


def main() -> int:
    """Run the chosen command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", nargs="?", choices=["compare", "record"], default="compare")
    parser.add_argument("--corpus", type=Path, help="JSON lines with id and contents")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the queries")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--tokens", type=int, default=200, help="documents recorded with tokens")
    parser.add_argument("--out", type=Path, default=_FIXTURE)
    options = parser.parse_args()
    return _compare(options) if options.command == "compare" else _record(options)


def _compare(options: argparse.Namespace) -> int:
    different = 0
    for size in options.sizes:
        started = time.perf_counter()
        documents = _documents(options, size)
        with tempfile.TemporaryDirectory(prefix="parity-lucene-") as temporary:
            folder = Path(temporary)
            inputs = {"documents": size, "seed": options.seed}
            lucene.build(folder / "lucene", documents, inputs=inputs)
            bm25_build.build(folder / "bm25", documents, inputs=inputs)
            queries = _queries(documents, options.queries, options.seed)
            with LuceneIndex.open(folder / "lucene") as theirs:
                found = _differences(BM25Index.open(folder / "bm25"), theirs, queries)
                first = next(found, None)
                count = (first is not None) + sum(1 for _ in found)
        different += count
        print(
            f"{len(documents):,} documents, {len(queries)} queries: {count} differing lists "
            f"({time.perf_counter() - started:.0f} s)"
        )
        if first is not None:
            print(first)
    return 1 if different else 0


def _record(options: argparse.Namespace) -> int:
    documents = _documents(options, _EMBEDDED)
    queries = _queries(documents, options.queries, options.seed)
    with tempfile.TemporaryDirectory(prefix="parity-lucene-") as temporary:
        folder = Path(temporary) / "lucene"
        manifest = lucene.build(folder, documents, inputs={})
        with LuceneIndex.open(folder) as index, _create(options.out) as out:
            about = {
                "engine": manifest.inputs["engine"],
                "documents": len(documents),
                "documents_sha256": manifest.notes["documents_sha256"],
            }
            _write_line(out, about)
            chosen = random.Random(options.seed).sample(documents, options.tokens)
            for identifier, text in chosen:
                _write_line(out, {"id": identifier, "tokens": index.analyze(text)})
            for query in queries:
                hits = index.search(query, _K)
                _write_line(
                    out,
                    {
                        "q": query,
                        "tokens": index.analyze(query),
                        "hits": [list(hit) for hit in zip(hits.ids, hits.scores, strict=True)],
                    },
                )
    print(f"{options.out}: tokens of {len(chosen)} documents, hits of {len(queries)} queries")
    return 0


def _documents(options: argparse.Namespace, size: int) -> list[tuple[str, str]]:
    """The first `size` (id, lower-cased text) of the file or of the embedded catalogue."""
    if options.corpus is not None:
        passages = islice(read_passages(options.corpus), size)
        return [(passage.id, passage.contents.lower()) for passage in passages]
    cleaned = (clean(made.item, None) for made in products(size))
    return [
        (entry.product.asin, indexed_text(entry.product))
        for entry in cleaned
        if isinstance(entry, Cleaned)
    ]


def _queries(documents: Sequence[tuple[str, str]], count: int, seed: int) -> list[str]:
    """Words of the documents, as a customer might put them together; some awkward ones."""
    draw = random.Random(seed)
    queries = list(_AWKWARD)
    while len(queries) < count:
        words = draw.choice(documents)[1].split()
        chosen = draw.sample(words, min(len(words), draw.randint(1, 14)))
        if draw.random() < 0.3:
            chosen += draw.choice(documents)[1].split()[:3]
        if draw.random() < 0.1 and chosen:
            chosen.append(chosen[0])
        queries.append(" ".join(chosen))
    return queries[:count]


def _differences(ours: BM25Index, theirs: LuceneIndex, queries: Sequence[str]) -> Iterator[str]:
    """A sentence for every query whose terms, ids or scores differ."""
    analyzer = Analyzer()
    for query in queries:
        terms = theirs.analyze(query)
        if analyzer(query) != terms:
            yield f"terms of {query!r}: ours {analyzer(query)}, Lucene's {terms}"
            continue
        difference = _difference(ours.search(query, _K), theirs.search(query, _K))
        if difference is not None:
            yield f"{query!r}: {difference}"


def _difference(ours: Hits, theirs: Hits) -> str | None:
    if len(ours) != len(theirs):
        return f"{len(ours)} hits, Lucene has {len(theirs)}"
    scores = reported_scores(ours.scores)
    for rank, (mine, other) in enumerate(zip(ours.ids, theirs.ids, strict=True)):
        if mine != other:
            return f"rank {rank + 1} is {mine}, Lucene's is {other}"
        if abs(scores[rank] - theirs.scores[rank]) > _SCORE_TOLERANCE:
            return f"{mine} scores {scores[rank]}, in Lucene {theirs.scores[rank]}"
    return None


def _create(path: Path) -> IO[str]:
    if path.suffix == ".xz":
        return lzma.open(path, "wt", encoding="utf-8")
    return path.open("w", encoding="utf-8")


def _write_line(out: IO[str], value: object) -> None:
    out.write(json.dumps(value, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())

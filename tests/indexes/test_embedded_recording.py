"""What Lucene made of the embedded catalogue, recorded: the ranking, proved by a clone alone."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.data import canonical_json
from agentgym_suite.indexes.analyzer import Analyzer
from agentgym_suite.indexes.bm25 import BM25Index
from agentgym_suite.indexes.bm25_build import build
from agentgym_suite.indexes.hits import reported_scores
from agentgym_suite.webshop.generator import products
from agentgym_suite.webshop.products import Cleaned, clean, indexed_text

FIXTURE = Path(__file__).parent / "fixtures" / "embedded_lucene.jsonl.xz"
RECORD_AGAIN = "the catalogue changed: run `python benchmarks/parity_lucene.py record`"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    with lzma.open(FIXTURE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def texts(rows: list[dict[str, Any]]) -> dict[str, str]:
    cleaned = [clean(made.item, None) for made in products(rows[0]["documents"])]
    found = [entry.product for entry in cleaned if isinstance(entry, Cleaned)]
    texts = {product.asin: indexed_text(product) for product in found}
    digest = hashlib.sha256()
    for name, text in texts.items():
        digest.update(canonical_json([name, text]).encode("utf-8"))
    assert digest.hexdigest() == rows[0]["documents_sha256"], RECORD_AGAIN
    return texts


def test_tokens_of_products(rows: list[dict[str, Any]], texts: dict[str, str]) -> None:
    analyzer = Analyzer()
    documents = [row for row in rows if "id" in row]
    assert len(documents) == 200
    for row in documents:
        assert analyzer(texts[row["id"]]) == row["tokens"], row["id"]


def test_hits_of_queries(rows: list[dict[str, Any]], texts: dict[str, str], tmp_path: Path) -> None:
    build(tmp_path / "index", texts.items(), inputs={})
    index = BM25Index.open(tmp_path / "index")
    analyzer = Analyzer()
    queries = [row for row in rows if "q" in row]
    assert len(queries) == 200
    for row in queries:
        assert analyzer(row["q"]) == row["tokens"], row["q"]
        hits = index.search(row["q"])
        assert list(hits.ids) == [name for name, _ in row["hits"]], row["q"]
        assert reported_scores(hits.scores) == pytest.approx(
            [score for _, score in row["hits"]], abs=2e-6
        )

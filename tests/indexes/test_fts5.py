"""FTS5: its scores by the formula, its order, and searching from threads, forks and copies."""

from __future__ import annotations

import gc
import json
import math
import os
import pickle
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentgym_suite.errors import (
    DataDamaged,
    DataMissing,
    DataVersion,
    RetrievalError,
    UsageError,
)
from agentgym_suite.indexes.fts5 import DATABASE, FTS5Index
from agentgym_suite.indexes.fts5_build import build_fts5
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.match_query import query_words
from agentgym_suite.indexes.passages import Passage, RankedIndex
from tests.indexes.corpus_files import WORDS, passages, write_corpus
from tests.manifest_edits import edit_manifest

ROWS = passages(400)
QUERIES = [" ".join(WORDS[first::step]) for first in range(8) for step in (3, 5, 7)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fts5")
    build_fts5(place / "index", write_corpus(place / "corpus.jsonl", ROWS), tokenizer="unicode61")
    return place / "index"


@pytest.fixture
def index(folder: Path) -> Iterator[FTS5Index]:
    opened = FTS5Index.open(folder)
    yield opened
    opened.close()


def small(tmp_path: Path, rows: list[Passage], **options: float | str) -> FTS5Index:
    corpus = write_corpus(tmp_path / "corpus.jsonl", rows)
    build_fts5(tmp_path / "index", corpus, **options)  # type: ignore[arg-type]
    return FTS5Index.open(tmp_path / "index")


def formula(rows: list[Passage], words: list[str], weights: tuple[float, float]) -> list[float]:
    """BM25 as the specification writes it, of every row, over all words of the query."""
    cells = [(row.title.split(), row.text.split()) for row in rows]
    lengths = [len(title) + len(text) for title, text in cells]
    average = sum(lengths) / len(rows)
    totals = [0.0] * len(rows)
    for word in words:
        matching = sum(word in title or word in text for title, text in cells)
        odds = math.log((len(rows) - matching + 0.5) / (matching + 0.5))
        weight = odds if odds > 0 else 1e-6
        for place, (title, text) in enumerate(cells):
            f = weights[0] * title.count(word) + weights[1] * text.count(word)
            totals[place] += (
                weight * f * 2.2 / (f + 1.2 * (1 - 0.75 + 0.75 * lengths[place] / average))
            )
    return totals


@pytest.mark.parametrize("weights", [(2.0, 1.0), (1.0, 1.0), (0.5, 3.0)])
def test_scores_are_the_formula(tmp_path: Path, weights: tuple[float, float]) -> None:
    title, text = weights
    index = small(tmp_path, ROWS, title_weight=title, text_weight=text, tokenizer="unicode61")
    ids = [row.id for row in ROWS]
    compared = 0
    for query in QUERIES:
        totals = dict(zip(ids, formula(ROWS, query_words(query), weights), strict=True))
        hits = index.search(query, 400)
        assert len(hits) > 20
        for name, score in zip(hits.ids, hits.scores, strict=True):
            # Words in at least half of the rows are left out: each would add at most 2.2e-6.
            assert score == pytest.approx(totals[name], abs=len(query_words(query)) * 2.2e-6)
            compared += 1
        missed = set(ids).difference(hits.ids)
        assert all(totals[name] < len(query_words(query)) * 2.2e-6 for name in missed)
    assert compared > 2000
    index.close()


def test_scores_are_the_formula_to_the_last_digit(tmp_path: Path) -> None:
    rows = passages(60, seed=4)
    index = small(tmp_path, rows, tokenizer="unicode61")
    rare = [w for w in WORDS if 0 < sum(w in (r.title + " " + r.text).split() for r in rows) < 30]
    totals = dict(zip([r.id for r in rows], formula(rows, rare, (2.0, 1.0)), strict=True))
    hits = index.search(" ".join(rare), 60)
    assert len(rare) > 5 and len(hits) > 40
    for name, score in zip(hits.ids, hits.scores, strict=True):
        assert score == pytest.approx(totals[name], rel=1e-12)
    index.close()


def test_a_word_twice_counts_once_and_two_of_one_stem_twice(tmp_path: Path) -> None:
    rows = [Passage("a", "", "runs here"), Passage("b", "", "walks"), Passage("c", "", "sits")]
    index = small(tmp_path, rows)
    once = index.search("run", 1).scores[0]
    assert index.search("RUN run Run", 1).scores[0] == once
    assert index.search("run running", 1).scores[0] == pytest.approx(2 * once)
    index.close()


def test_porter_folds_words_and_accents(tmp_path: Path) -> None:
    rows = [Passage("a", "Café", "the runners"), Passage("b", "", "x"), Passage("c", "", "y z")]
    index = small(tmp_path, rows)
    for query in ("cafe", "CAFÉ", "runner", "Running runner", "ｃａｆｅ"):
        assert index.search(query, 3).ids == ("a",)
    index.close()


def test_trigram_finds_a_part_of_a_run(tmp_path: Path) -> None:
    rows = [Passage("a", "", "日本語の検索エンジン"), Passage("b", "", "東京都の天気予報")]
    porter = small(tmp_path, rows)
    assert porter.search("検索エンジン", 2).ids == ()
    porter.close()
    build_fts5(tmp_path / "trigram", tmp_path / "corpus.jsonl", tokenizer="trigram")
    trigram = FTS5Index.open(tmp_path / "trigram")
    assert trigram.search("検索エンジン", 2).ids == ("a",)
    assert trigram.search("天気", 2).ids == ()  # shorter than three characters
    trigram.close()


def test_ties_come_in_the_order_of_ids_also_at_the_cut(tmp_path: Path) -> None:
    names = [str(number) for number in (10, 9, 2, 100, 33, 1, 20)] + ["é", "z", "Z"]
    rows = [Passage(name, "same", "words") for name in names] + [Passage("zz", "", "other")] * 1
    rows += [Passage(f"filler{number}", "", "nothing") for number in range(20)]
    index = small(tmp_path, rows)
    for k in range(1, 12):
        assert index.search("words", k).ids == tuple(sorted(names)[:k])
    index.close()


def test_frequent_words_are_left_out_only_while_a_rare_one_finds_rows(tmp_path: Path) -> None:
    rows = [Passage(str(n), "", "common " + ("rare" if n == 3 else "filler")) for n in range(10)]
    index = small(tmp_path, rows)
    assert index.search("common rare", 10).ids == ("3",)
    assert len(index.search("common", 10)) == 10
    assert len(index.search("common filler", 10)) == 10
    assert len(index.search("common zebra", 10)) == 10  # a word nowhere finds no rows
    assert index.search("zebra", 10) == Hits((), ())
    index.close()


def test_pruning_keeps_the_best(folder: Path, index: FTS5Index) -> None:
    frequent = [w for w in WORDS if sum(w in (r.title + " " + r.text).split() for r in ROWS) > 200]
    assert frequent
    for word in WORDS[8:]:
        alone = index.search(word, 10)
        assert index.search(" ".join([*frequent, word]), 10) == alone


def test_what_every_search_checks(index: FTS5Index) -> None:
    for k in (0, -1, True, 1.5, None, "3"):
        with pytest.raises(UsageError, match="ask for at least 1"):
            index.search("river", k)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="query 1 is 3; give text"):
        index.search_batch(["river", 3], 1)  # type: ignore[list-item]
    with pytest.raises(UsageError, match="give a list of texts"):
        index.retrieve("river", 1)
    with pytest.raises(RetrievalError, match="no passage with id 'nobody'"):
        index.passages(["nobody"])


@pytest.mark.parametrize("query", ["", " \n\t", "?!", "\0", "\ud800", "zebra", "\u3000"])
def test_nothing_to_search_for_gives_nothing(index: FTS5Index, query: str) -> None:
    assert index.retrieve([query, "river"], 3)[0] == []


def test_huge_queries_and_huge_k(index: FTS5Index) -> None:
    assert len(index.search("river", 10**30)) <= 400
    long = " ".join(["river"] * 8_000)
    assert index.search(long, 5) == index.search("river", 5)
    assert index.search("river\0stone " + "x" * (1 << 20), 5) == index.search("river stone", 5)
    assert index.search("\ud800river\udfff", 5) == index.search("river", 5)


def test_passages_with_nul_and_surrogates_are_found(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(
        json.dumps({"title": "a\0b", "text": "before\0after \ud800 end"}) + "\n"
        '{"title": "", "text": "other"}\n{"title": "", "text": "more"}\n'
    )
    build_fts5(tmp_path / "index", path)
    index = FTS5Index.open(tmp_path / "index")
    for query in ("before", "after", "end", "a", "b"):
        assert index.search(query, 3).ids == ("0",)
    assert index.retrieve(["after"], 1)[0][0].passage.text == "before\0after \ufffd end"
    index.close()


def test_one_passage_is_enough(tmp_path: Path) -> None:
    index = small(tmp_path, [Passage("only", "One", "row here")])
    assert index.search("row zebra", 3).ids == ("only",)
    index.close()


def test_a_batch_gives_what_one_by_one_gives(index: FTS5Index) -> None:
    single = [index.retrieve([query], 7)[0] for query in QUERIES]
    assert index.retrieve(QUERIES, 7) == single
    assert index.retrieve([], 7) == []
    ranked = index.search_batch(QUERIES, 7)
    assert [[one.passage.id for one in found] for found in single] == [list(h.ids) for h in ranked]
    by_id = {row.id: row for row in ROWS}
    assert all(one.passage == by_id[one.passage.id] for found in single for one in found)


def test_threads_give_what_one_gives(index: FTS5Index) -> None:
    alone = {query: index.retrieve([query], 5) for query in QUERIES}
    with ThreadPoolExecutor(16) as pool:
        for _ in range(3):
            together = list(pool.map(lambda query: index.retrieve([query], 5), QUERIES * 8))
            assert together == [alone[query] for query in QUERIES * 8]


def test_it_is_a_ranked_index_and_says_what_it_is(index: FTS5Index) -> None:
    assert isinstance(index, RankedIndex)
    about = index.info()
    assert (about["kind"], about["rows"], len(index)) == ("fts5-index", 400, 400)
    assert about["digest"] == index.digest and re.fullmatch("sha256:[0-9a-f]{64}", index.digest)
    json.dumps(about)


def test_copies_and_forks(index: FTS5Index) -> None:
    expected = index.search(QUERIES[0], 5)
    copy = pickle.loads(pickle.dumps(index))
    assert copy.search(QUERIES[0], 5) == expected
    copy.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork while threads exist
        child = os.fork()
    if child == 0:
        same = index.search(QUERIES[0], 5) == expected
        index.close()
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert index.search(QUERIES[0], 5) == expected


def test_closing_while_others_search(folder: Path) -> None:
    for _ in range(5):
        index = FTS5Index.open(folder)
        started = threading.Barrier(5)
        odd: list[BaseException] = []

        def searching(index: FTS5Index, started: threading.Barrier, odd: list) -> None:  # type: ignore[type-arg]
            started.wait()
            try:
                while True:
                    index.search(QUERIES[0], 5)
            except RetrievalError:
                return
            except BaseException as error:
                odd.append(error)

        threads = [threading.Thread(target=searching, args=(index, started, odd)) for _ in range(4)]
        for thread in threads:
            thread.start()
        started.wait()
        index.close()
        index.close()
        for thread in threads:
            thread.join()
        assert not odd
        with pytest.raises(RetrievalError, match="was closed"):
            index.search("river", 1)


EXIT = """
import sys, threading
from agentgym_suite.indexes.fts5 import FTS5Index
index = FTS5Index.open(sys.argv[1])
ready = threading.Barrier(5)
def forever():
    index.search("river stone", 5)
    ready.wait()
    while True:
        index.search("river stone harbour", 5)
for _ in range(4):
    threading.Thread(target=forever, daemon=True).start()
ready.wait()
print("bye")
"""


def test_a_process_ends_in_peace_while_threads_search(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXIT, str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "bye\n", "")


def test_an_index_that_is_dropped_leaves_no_connection(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        index = FTS5Index.open(folder)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(index.search, QUERIES, [3] * len(QUERIES)))
        del index
        gc.collect()
        if before:
            assert len(os.listdir("/proc/self/fd")) <= before


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    index = small(tmp_path, ROWS[:50])
    index.close()
    database = tmp_path / "index" / DATABASE
    whole = database.read_bytes()
    database.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    broken = FTS5Index.open(tmp_path / "index")
    with pytest.raises(DataDamaged, match="is damaged"):
        broken.search("river", 3)
    broken.close()
    database.write_bytes(whole[:-1])
    with pytest.raises(DataDamaged, match=r"index\.sqlite has \d+ bytes, not \d+"):
        FTS5Index.open(tmp_path / "index")
    database.unlink()
    with pytest.raises(DataDamaged, match=r"index\.sqlite is absent"):
        FTS5Index.open(tmp_path / "index")
    with pytest.raises(DataMissing, match="index build fts5"):
        FTS5Index.open(tmp_path / "nowhere")
    edit_manifest(tmp_path / "index", version=99)
    with pytest.raises(DataVersion, match="format version 99"):
        FTS5Index.open(tmp_path / "index")


def test_a_folder_with_odd_characters(tmp_path: Path) -> None:
    place = tmp_path / "a ?#%41 é'\";&=b"
    place.mkdir()
    index = small(place, ROWS[:20])
    assert len(index.search(ROWS[0].text, 20)) > 0
    index.close()

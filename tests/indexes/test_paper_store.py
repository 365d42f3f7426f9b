"""A store of papers: ids in every spelling, the order of citations, dates, search, threads."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import (
    DataDamaged,
    DataMissing,
    DataVersion,
    RetrievalError,
    UsageError,
)
from agentgym_suite.indexes import postings
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.paper_dates import cutoff_day, paper_day, read_date
from agentgym_suite.indexes.paper_ranking import PaperRanking
from agentgym_suite.indexes.paper_store import Paper, PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from tests.indexes.corpus_files import WORDS
from tests.indexes.literature import citations, papers, write_citations, write_papers
from tests.manifest_edits import edit_manifest

ROWS = papers(600)
EDGES = citations(ROWS, 3_000)
QUERIES = [" ".join(WORDS[first::step]) for first in range(8) for step in (3, 5, 7)]
DAY = {row["paper_id"]: paper_day(read_date(row["published"] or "")) for row in ROWS}


def build(
    place: Path, rows: list[dict[str, Any]], edges: list[tuple[str, str]] | None = None
) -> PaperStore:
    place.mkdir(exist_ok=True)
    corpus = write_papers(place / "papers.jsonl", rows)
    cites = write_citations(place / "citations.tsv", edges) if edges is not None else None
    build_paper_store(place / "store", corpus, cites)
    return PaperStore.open(place / "store")


@pytest.fixture(scope="module", params=["FTS5", "arrays"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PaperStore]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "arrays":
            patch.setattr(postings, "ROWS_WORTH_IT", 1)
        opened = build(tmp_path_factory.mktemp("papers"), ROWS, EDGES)
    assert opened.info()["postings_arrays"] is (request.param == "arrays")
    yield opened
    opened.close()


def test_papers_are_numbered_by_their_ids(store: PaperStore) -> None:
    names = sorted(row["paper_id"] for row in ROWS)
    assert len(store) == len(ROWS)
    assert store.ids(range(1, len(store) + 1)) == names
    assert [paper.paper_id for paper in store.iterate()] == names
    assert [paper.rowid for paper in store.iterate(5, 9)] == [5, 6, 7, 8, 9]
    assert list(store.iterate(601)) == [] and len(list(store.iterate(600, 10**30))) == 1
    by_id = {row["paper_id"]: row for row in ROWS}
    cited = {name: 0 for name in names}
    for _, name in EDGES:
        cited[name] += 1
    for paper in store.iterate():
        row = by_id[paper.paper_id]
        assert paper == Paper(
            names.index(paper.paper_id) + 1,
            row["paper_id"],
            None,
            row["title"],
            row["abstract"] or "",
            tuple(row["authors"]),
            None,
            read_date(row["published"] or ""),
            row["venue"],
            cited[paper.paper_id],
            DAY[paper.paper_id],
        )
        assert store.days[paper.rowid - 1] == paper.day


@pytest.mark.parametrize("before", [None, "2005-06-15", "2004-03", "2003", "1999", "2100-01-01"])
def test_citations_are_filtered_then_ordered_then_cut(
    store: PaperStore, before: str | None
) -> None:
    cutoff = cutoff_day(before)
    names = store.ids(range(1, len(store) + 1))
    for rowid in range(1, len(store) + 1, 7):
        name = names[rowid - 1]
        for ends, find, count in (
            ([a for a, b in EDGES if b == name], store.citing, store.citing_count),
            ([b for a, b in EDGES if a == name], store.references, store.references_count),
        ):
            kept = [one for one in ends if cutoff is None or DAY[one] < cutoff]
            expected = sorted(sorted(kept), key=lambda one: -DAY[one])
            assert store.ids(find(rowid, before=cutoff)) == expected
            assert store.ids(find(rowid, 3, cutoff)) == expected[:3]
            assert store.ids(find(rowid, 3, cutoff, offset=2)) == expected[2:5]
            assert find(rowid, 0) == [] and count(rowid, cutoff) == len(expected)
    assert len(store.citing(1, 10**30, 10**30, offset=10**30)) == 0


def test_what_a_citation_search_checks(store: PaperStore) -> None:
    for wrong in (0, -1, 601, 10**30):
        for call in (store.citing, store.references, store.citing_count, store.paper):
            with pytest.raises(RetrievalError, match=f"has no paper {wrong}; its 600 papers"):
                call(wrong)
    with pytest.raises(UsageError, match="limit -1"):
        store.citing(1, -1)
    with pytest.raises(UsageError, match="offset -2"):
        store.references(1, offset=-2)


@pytest.mark.parametrize("before", [None, "2005-06-15", "2004-03", "2000"])
@pytest.mark.parametrize("since", [None, 20030000])
def test_search_filters_before_the_cut(
    store: PaperStore, before: str | None, since: int | None
) -> None:
    cutoff = cutoff_day(before)
    for query in QUERIES:
        everything = store.search_sparse(query, 600)
        kept = [
            (name, score)
            for name, score in zip(everything.ids, everything.scores, strict=True)
            if (cutoff is None or DAY[name] < cutoff) and (since is None or DAY[name] >= since)
        ]
        found = store.search_sparse(query, 10, cutoff, since=since)
        assert list(zip(found.ids, found.scores, strict=True)) == kept[:10]
        assert list(found.ids) == [
            name for name, _ in sorted(kept, key=lambda one: (-one[1], one[0]))[:10]
        ]


def test_both_ways_of_searching_agree(store: PaperStore) -> None:
    plain = PaperRanking(store._connections, store.days, store._splitter, None)
    for query in QUERIES:
        rows = store.search_rows(query, 10)
        expected = plain.best(query, 10, None, None)
        assert [score for _, score in rows] == pytest.approx(
            [score for _, score in expected], abs=64 * 2.2e-6
        )


def test_what_every_search_checks(store: PaperStore) -> None:
    for k in (0, -1, True, 1.5, None):
        with pytest.raises(UsageError, match="ask for at least 1"):
            store.search_sparse("river", k)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give text"):
        store.search_sparse(7, 1)  # type: ignore[arg-type]
    for budget in (0, -1, float("nan")):
        with pytest.raises(UsageError, match="give more than 0"):
            store.search_within("river", 1, budget)
    for query in ("", " \n", "?!", "\0", "\ud800", "zebra", "AND", "NEAR", '"', "*", "-x"):
        assert store.search_sparse(query, 3) == Hits((), ())
        assert store.search_within(query, 3, 1000) == (Hits((), ()), False)
    same = store.search_sparse("river stone", 5)
    for query in (
        "river\0stone",
        "title: river AND (stone)",
        "^river stone*",
        "RIVER-stone " * 900,
    ):
        assert len(store.search_sparse(query, 5)) == 5
    assert store.search_sparse("river\0stone", 5) == same
    assert store.search_sparse('"river" + {stone', 5, 10**30, since=-(10**9)) == same
    assert len(store.search_sparse("river", 10**30)) < 600


def test_a_word_that_is_a_phrase_goes_to_fts5(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(postings, "ROWS_WORTH_IT", 1)
    # U+19B0, a vowel sign, is a letter to Python and parts words in FTS5's Unicode 6.1.
    titles = ["a\u19b0b", "a", "b", "c", "d", "e"]
    rows = [{"paper_id": f"p{n}", "title": title} for n, title in enumerate(titles)]
    opened = build(tmp_path, rows)
    assert opened.search_sparse("a\u19b0b", 4).ids == ("p0",)
    assert opened.search_within("a\u19b0b c", 4, 10_000)[0].ids == ("p3", "p0")
    opened.close()


def test_ids_in_every_spelling(tmp_path: Path) -> None:
    rows = [
        {"paper_id": "1706.03762v5", "title": "A"},
        {"paper_id": "math.GT/0309136", "title": "B"},
        {"paper_id": "2020.acl-main.148", "title": "C", "arxiv_id": "2005.14165"},
        {"paper_id": "A00-1009", "title": "D", "aliases": ["CorpusId:77", "2005.14165", "E9"]},
        {"paper_id": "a00-1009b", "title": "E"},
        {"paper_id": "e9", "title": "F"},
        {"paper_id": "Straße 1", "title": "G"},
    ]
    opened = build(tmp_path, rows)
    spellings = {
        "1706.03762": ["1706.03762", "arXiv:1706.03762v1 [cs.CL]", " 1706.03762v9\n"]
        + ["https://arxiv.org/abs/1706.03762v2?x=1", "10.48550/arXiv.1706.03762"],
        "math/0309136": ["math/0309136", "math.GT/0309136v3", "MATH/0309136"]
        + ["https://arxiv.org/pdf/math/0309136.pdf"],
        "2020.acl-main.148": ["2020.acl-main.148", "2020.ACL-MAIN.148", "2005.14165"]
        + ["https://ar5iv.org/abs/2005.14165"],
        "A00-1009": ["A00-1009", " a00-1009 ", "CorpusId:77", "corpusid:77", "CORPUSID:77", "E9"],
        "a00-1009b": ["a00-1009b", "A00-1009B"],
        "e9": ["e9"],
        "Straße 1": ["Straße 1", "STRASSE 1", "strasse 1"],
    }
    for name, texts in spellings.items():
        for text in texts:
            rowid = opened.find(text)
            assert rowid is not None and opened.ids([rowid]) == [name], text
            assert opened.paper(text).paper_id == name
    for text in ("", "  ", "A00-100", "1706.03763", None, 1706.03762, 3, b"e9", "\ud800", "e\0"):
        assert opened.find(text) is None
    with pytest.raises(RetrievalError, match="has no paper 'nobody'"):
        opened.paper("nobody")
    opened.close()


def test_titles(tmp_path: Path) -> None:
    titles = ["Attention Is All You Need", "attention is ALL  you need!", "BERT", "", "?!", "GPT-4"]
    rows = [{"paper_id": f"p{9 - n}", "title": title} for n, title in enumerate(titles)]
    opened = build(tmp_path, rows)
    for title, name in (
        ("ATTENTION is all-you need.", "p8"),
        ("ｂｅｒｔ", "p7"),
        ("gpt4", "p4"),
        ("GPT-3", None),
        ("", None),
        ("…", None),
        ("\ud800", None),
    ):
        found = opened.find_title(title)
        assert (None if found is None else opened.ids([found])[0]) == name
    opened.close()


def test_stems_and_how_frequent_they_are(tmp_path: Path) -> None:
    rows = [
        {"paper_id": "a", "title": "Running runners", "abstract": "Café runs"},
        {"paper_id": "b", "title": "A run"},
    ]
    opened = build(tmp_path, rows)
    (stems, nothing) = opened.stems(["Runs, cafés & RUNNING", ""])
    assert stems == ("run", "cafe", "run") and nothing == ()
    assert opened.df(["run", "cafe", "zebra", "\ud800"[:0], "runner"]) == [2, 1, 0, 0, 1]
    assert opened.search_sparse("cafe", 2).ids == ("a",)
    opened.close()


def test_a_budget_that_is_enough_and_one_that_is_not(
    store: PaperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for query in QUERIES:
        for cutoff in (None, 20050101):
            found, truncated = store.search_within(query, 10, 60_000, cutoff)
            assert (found, truncated) == (store.search_sparse(query, 10, cutoff), False)
    if store.info()["postings_arrays"]:
        return
    from agentgym_suite.indexes import paper_ranking

    # The clock stands still for the first statement, and has run out in the second one.
    statements: list[str] = []
    original = PaperRanking._by_fts5

    def counted(self: PaperRanking, connection: Any, words: Any, *rest: Any) -> Any:
        statements.append(" ".join(words))
        return original(self, connection, words, *rest)

    monkeypatch.setattr(PaperRanking, "_by_fts5", counted)
    monkeypatch.setattr(paper_ranking, "_ESSENTIAL_ROWS", 100)
    monkeypatch.setattr(paper_ranking, "_STEPS_BETWEEN_LOOKS", 1)
    monkeypatch.setattr(
        paper_ranking.time, "monotonic", lambda: 100.0 if len(statements) > 1 else 0.0
    )
    found, truncated = store.search_within(QUERIES[0], 10, 1000)
    assert truncated and len(found) == 10
    essential, everything = statements
    assert set(essential.split()) < set(everything.split())
    monkeypatch.undo()
    assert found == store.search_sparse(essential, 10)
    assert store.search_within(QUERIES[0], 10, 1e-6) == (Hits((), ()), True)
    assert store.search_within(QUERIES[0], 10, 60_000)[1] is False


def test_threads_copies_and_forks_give_what_one_gives(store: PaperStore) -> None:
    def ask(number: int) -> object:
        query = QUERIES[number % len(QUERIES)]
        rowid = number % len(store) + 1
        return (
            store.search_sparse(query, 7, 20060101),
            store.citing(rowid, 30, 20060101),
            store.paper(rowid),
            store.find(store.paper(rowid).paper_id.lower()),
        )

    alone = [ask(number) for number in range(200)]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(200))) == alone
    copy = pickle.loads(pickle.dumps(store))
    assert copy.search_sparse(QUERIES[0], 7) == store.search_sparse(QUERIES[0], 7)
    assert copy.digest == store.digest
    copy.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork while threads exist
        child = os.fork()
    if child == 0:
        os._exit(0 if [ask(number) for number in range(20)] == alone[:20] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_pruning_is_a_switch_that_is_marked(store: PaperStore) -> None:
    pruned = PaperStore.open(store.folder, prune_df=0.2)
    assert (pruned.info()["approximate"], store.info()["approximate"]) == (True, False)
    assert pruned.digest != store.digest
    copy = pickle.loads(pickle.dumps(pruned))
    words = [word for word in WORDS if store.df([word])[0] < 120]
    frequent = [word for word in WORDS if store.df([word])[0] >= 120]
    assert words and frequent
    mixed = " ".join([frequent[0], *words])
    for one in (pruned, copy):
        assert one.search_sparse(mixed, 10) == one.search_sparse(" ".join(words), 10)
        assert len(one.search_sparse(frequent[0], 10)) == 10
        one.close()
    for share in (0.0, 0.5, -1.0, float("nan")):
        with pytest.raises(UsageError, match="prune_df is"):
            PaperStore.open(store.folder, prune_df=share)


def test_info_and_what_is_missing(store: PaperStore, tmp_path: Path) -> None:
    about = store.info()
    assert (about["kind"], about["papers"], about["citations"]) == ("paper-store", 600, 3000)
    json.dumps(about)
    with pytest.raises(DataMissing, match="index build papers"):
        PaperStore.open(tmp_path / "nowhere")


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    build(tmp_path, ROWS[:50]).close()
    folder = tmp_path / "store"
    database = folder / "papers.sqlite"
    whole = database.read_bytes()
    database.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    broken = PaperStore.open(folder)
    for call in (lambda: broken.search_sparse("river", 3), lambda: broken.paper(1)):
        with pytest.raises(DataDamaged, match="is damaged"):
            call()
    broken.close()
    database.write_bytes(whole[:-1])
    with pytest.raises(DataDamaged, match=r"papers\.sqlite has \d+ bytes, not \d+"):
        PaperStore.open(folder)
    edit_manifest(folder, version=99)
    with pytest.raises(DataVersion, match="format version 99"):
        PaperStore.open(folder)


def test_after_closing(tmp_path: Path) -> None:
    opened = build(tmp_path, ROWS[:20], [])
    opened.close()
    opened.close()
    for call in (lambda: opened.search_sparse("river", 1), lambda: opened.paper(1)):
        with pytest.raises(RetrievalError, match="was closed"):
            call()

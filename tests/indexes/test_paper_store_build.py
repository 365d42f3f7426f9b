"""Building a store of papers: odd citations counted, killed anywhere, the same every time."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.data import load_manifest, verify_folder
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, RetrievalError
from agentgym_suite.files import partial_folder
from agentgym_suite.indexes import paper_growing, paper_store_build, postings
from agentgym_suite.indexes.citation_cycles import papers_in_cycles
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from tests.indexes.literature import citations, papers, write_citations, write_papers

ROWS = papers(700)
EDGES = citations(ROWS, 1_500)


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Path, Path]:
    return (
        write_papers(tmp_path / "papers.jsonl", ROWS),
        write_citations(tmp_path / "citations.tsv", EDGES),
    )


def test_odd_papers_and_citations_are_counted(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"paper_id": "2001.00001v1", "title": "first version", "year": 2020},
        {"paper_id": "b", "title": "b", "published": "2019-05-01"},
        {"paper_id": "arXiv:2001.00001v2", "title": "second version"},
        {"paper_id": "c", "title": "c", "abstract": "words", "citation_count": 99},
        {"paper_id": "b", "title": "b again"},
        {"paper_id": "D", "title": "d", "abstract": " "},
    ]
    edges = [
        ("b", "2001.00001"),
        ("https://arxiv.org/abs/2001.00001v7", "b"),  # a circle of two
        ("c", "b"),
        ("c", "b"),
        ("c", "ARXIV:2001.00001v3"),
        ("c", "2001.00001"),  # the same once more
        ("c", "c"),
        ("d", "c"),  # casefolded
        ("nobody", "b"),
        ("b", "nobody"),
        ("nobody", "nobody"),
    ]
    manifest = build_paper_store(
        tmp_path / "store",
        write_papers(tmp_path / "papers.jsonl", rows),
        write_citations(tmp_path / "citations.tsv", edges),
    )
    assert manifest.counts == {"papers": 4, "abstracts": 1, "citations": 5}
    notes = dict(manifest.notes)
    notes.pop("sqlite")
    assert notes == {
        "duplicate_papers": 2,
        "papers_with_the_arxiv_id_of_another": 0,
        "citations_read": 11,
        "citations_of_unknown_papers": 3,
        "self_citations": 1,
        "duplicate_citations": 2,
        "papers_in_citation_cycles": 2,
    }
    store = PaperStore.open(tmp_path / "store")
    assert store.paper("2001.00001").title == "first version"
    assert store.paper("b").title == "b"
    assert store.ids(store.references(store.paper("c").rowid)) == ["2001.00001", "b"]
    assert store.ids(store.citing(store.paper("b").rowid)) == ["c", "2001.00001"]
    assert [store.paper(name).citation_count for name in ("b", "c", "D")] == [2, 99, 0]
    store.close()
    assert build_paper_store(tmp_path / "alone", tmp_path / "papers.jsonl").counts["citations"] == 0


def test_cycles() -> None:
    def count(*edges: tuple[int, int]) -> int:
        ends = np.array(edges, np.int32).reshape(-1, 2)
        return papers_in_cycles(ends[:, 0], ends[:, 1], 8)

    assert count() == 0
    assert count((0, 1), (1, 2), (0, 2), (3, 2)) == 0
    assert count((0, 1), (1, 0)) == 2
    assert count((0, 1), (1, 2), (2, 0), (2, 3), (4, 0), (3, 5)) == 3
    assert count((0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 3)) == 5  # 2 lies between two circles
    assert count((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0)) == 8


KILLED = """
import os, signal, sys
from agentgym_suite.indexes import paper_growing, paper_store_build, postings, postings_build
out, corpus, citations, when = sys.argv[1:]
paper_growing._ROWS_AT_ONCE = 100
postings.ROWS_WORTH_IT = 1
postings_build._INSTANCES_AT_ONCE = 1000
calls = 0
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
def progress(phase, done, total):
    global calls
    calls += phase == when.split()[0]
    if phase == when or f"{phase} {calls}" == when or f"{phase} {done}" == when:
        kill()
if when.startswith("inside "):
    owner, name = when.split()[1].rsplit(".", 1)
    owner = getattr(paper_growing, owner)
    original = getattr(owner, name)
    def within(*args):
        original(*args)
        kill()
    setattr(owner, name, within)
paper_store_build.build_paper_store(out, corpus, citations, progress=progress)
"""


@pytest.mark.parametrize(
    "when",
    [
        "read papers 100",
        "inside Growing._add_papers",
        "inside Growing._number",
        "read citations 700",
        "inside Growing._link",
        "inside Growing._place_papers",
        "index 300",
        "inside Growing._finish",
        "inside Growing.copy_to",
        "postings 3",
        "digest",
    ],
)
def test_a_killed_build_goes_on_and_gives_the_same(
    tmp_path: Path,
    sources: tuple[Path, Path],
    when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "store"
    command = [sys.executable, "-c", KILLED, str(out), *map(str, sources), when]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert not out.exists()
    with pytest.raises(DataMissing, match=r"is not finished \(.*goes on where it stopped"):
        PaperStore.open(out)
    monkeypatch.setattr(paper_growing, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(postings, "ROWS_WORTH_IT", 1)
    said: list[tuple[str, int]] = []
    resumed = build_paper_store(out, *sources, progress=lambda *one: said.append(one[:2]))
    if when == "index 300":
        assert [done for phase, done in said if phase == "index"] == [400, 500, 600, 700]
    if when in ("postings 3", "digest"):
        assert not {"read papers", "index", "merge"} & {phase for phase, _ in said}
    whole = build_paper_store(tmp_path / "whole", *sources)
    assert resumed.files == whole.files
    assert not partial_folder(out).exists()
    verify_folder(out)
    assert {path.name for path in out.iterdir()} == {
        "days.npy",
        "manifest.json",
        "papers.sqlite",
        "postings",
    }


def test_a_build_is_a_function_of_its_inputs(tmp_path: Path, sources: tuple[Path, Path]) -> None:
    one, other = (build_paper_store(tmp_path / name, *sources) for name in ("one", "other"))
    assert one == other
    assert build_paper_store(tmp_path / "one", *sources) == one
    with pytest.raises(DataError, match="already holds"):
        build_paper_store(tmp_path / "one", sources[0])
    write_papers(sources[0], ROWS[::-1])
    write_citations(sources[1], EDGES[::-1])
    turned = build_paper_store(tmp_path / "turned", *sources)
    assert turned.files == one.files  # the order of the rows changes nothing


def test_two_builders_end_with_one_store(tmp_path: Path, sources: tuple[Path, Path]) -> None:
    out = tmp_path / "store"
    begun, waiting = threading.Event(), threading.Event()
    made = []

    def hold(phase: str, done: int, total: int | None) -> None:
        if phase == "index":
            begun.set()
            waiting.wait(30)

    first = threading.Thread(
        target=lambda: made.append(build_paper_store(out, *sources, progress=hold))
    )
    first.start()
    begun.wait(30)
    made.append(build_paper_store(out, *sources, on_wait=lambda _: waiting.set()))
    first.join()
    assert made[0] == made[1] == load_manifest(out)


def test_wrong_files(tmp_path: Path, sources: tuple[Path, Path]) -> None:
    corpus, edges = sources
    out = tmp_path / "store"
    for wrong in ((tmp_path / "no.jsonl", edges), (corpus, tmp_path / "no.tsv")):
        with pytest.raises(DataMissing, match="there is no file"):
            build_paper_store(out, *wrong)
    edges.write_text("a\tb\nc\n")
    with pytest.raises(DataDamaged, match=r"citations\.tsv line 2"):
        build_paper_store(out, corpus, edges)
    corpus.write_text('{"paper_id": 7}\n')
    with pytest.raises(DataDamaged, match=r"papers\.jsonl line 1"):
        build_paper_store(out, corpus)
    corpus.write_text("\n\n")
    with pytest.raises(DataDamaged, match="holds no paper"):
        build_paper_store(out, corpus)
    assert not out.exists()


def test_a_corpus_that_changes_while_it_is_read(
    tmp_path: Path, sources: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = paper_store_build.sha256_file

    def then_change(path: Path, progress: object) -> str:
        digest = original(path)
        if path == sources[0]:
            write_papers(path, ROWS[1:])
        return digest

    monkeypatch.setattr(paper_store_build, "sha256_file", then_change)
    with pytest.raises(RetrievalError, match="changed while it was read"):
        build_paper_store(tmp_path / "store", *sources)
    monkeypatch.undo()
    write_papers(sources[0], ROWS)  # the file that the unfinished build began with
    assert build_paper_store(tmp_path / "store", *sources).counts["papers"] == 700


def test_the_tables_are_those_of_the_description(
    tmp_path: Path, sources: tuple[Path, Path]
) -> None:
    build_paper_store(tmp_path / "store", *sources)
    with sqlite3.connect(tmp_path / "store" / "papers.sqlite") as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        (settings,) = connection.execute("SELECT sql FROM sqlite_master WHERE name='texts'")
        for table, key in (("cites", "src"), ("cited_by", "dst")):
            plan = connection.execute(
                f"EXPLAIN QUERY PLAN SELECT * FROM {table} WHERE {key} = 1 AND day < 20200101 "
                f"ORDER BY day DESC LIMIT 30"
            ).fetchall()
            assert len(plan) == 1 and "SEARCH" in plan[0][3] and "PRIMARY KEY" in plan[0][3]
    connection.close()
    assert {"papers", "aliases", "titles", "cites", "cited_by", "texts", "df", "meta"} <= names
    assert not {"read_papers", "numbered", "linked"} & names
    assert "content='papers'" in settings[0] and "porter unicode61" in settings[0]
    # The texts are in the database once.
    words = next(row["abstract"] for row in ROWS if row["abstract"] and len(row["abstract"]) > 99)
    assert (tmp_path / "store" / "papers.sqlite").read_bytes().count(words.encode()) == 1
    assert os.path.getsize(tmp_path / "store" / "days.npy") > 0


def test_papers_of_one_arxiv_id_are_counted_and_damaged_days_are_noticed(tmp_path: Path) -> None:
    corpus = tmp_path / "papers.jsonl"
    rows = [{"paper_id": one, "arxiv_id": "1706.03762", "title": one} for one in ("b", "a", "c")]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = build_paper_store(tmp_path / "store", corpus)
    assert manifest.notes["papers_with_the_arxiv_id_of_another"] == 2
    with closing(PaperStore.open(tmp_path / "store")) as store:
        assert store.paper("1706.03762").paper_id == "a"
    days = tmp_path / "store" / "days.npy"
    days.write_bytes(days.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(DataDamaged, match=r"days\.npy is not as it was built"):
        PaperStore.open(tmp_path / "store")

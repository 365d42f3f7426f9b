"""`data import`, `generate` and `verify` of paper queries, and what ``data`` means."""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import data_cli
from agentgym_suite.errors import DataDamaged, DataMissing, UsageError
from agentgym_suite.indexes.paper_ids import normalize_arxiv_id
from agentgym_suite.paper_search.choosing import split_named
from agentgym_suite.paper_search.generated_files import embedded_folder, publish_generated
from agentgym_suite.paper_search.generator import BROAD_SET, NARROW_SET
from agentgym_suite.paper_search.generator.literature import Literature
from agentgym_suite.paper_search.query_set import open_query_set
from agentgym_suite.source_texts import SourceText

Capture = pytest.CaptureFixture[str]

PAPERS = [
    {"paper_id": "2001.00001", "title": "One", "abstract": "x", "published": "2020-01"},
    {"paper_id": "A00-1009", "title": "Two", "abstract": None, "year": 2000},
]


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser(prog="agentgym-suite")
    data_cli.register(parser.add_subparsers(required=True))
    args = parser.parse_args(["data", *map(str, words)])
    return int(args.run(args))


def pasa(qid: str, *gold: str, date: str = "20240131") -> dict[str, Any]:
    return {
        "qid": qid,
        "question": f"What of {qid}?",
        "answer": [f"Title of {each}" for each in gold],
        "answer_arxiv_id": list(gold),
        "source_meta": {"published_time": date},
    }


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """A folder as the hub delivers PaSa's, with papers beside it."""
    place = tmp_path / "official"
    folder = place / "pasa-dataset"
    auto = folder / NARROW_SET
    write(auto / "train.jsonl", pasa(f"{NARROW_SET}_train_0", "2001.00001v2", "2001.00001"))
    write(auto / "dev.jsonl", pasa(f"{NARROW_SET}_dev_0", "2001.00002"))
    write(auto / "test.jsonl", pasa(f"{NARROW_SET}_test_0", "2001.00003"))
    write(folder / BROAD_SET / "test.jsonl", pasa(f"{BROAD_SET}_0", "cs/0112017", date="20241001"))
    write(folder / "README.json", {"about": "nothing to play"})
    write(place / "papers.jsonl", *PAPERS)
    (place / "edges.tsv").write_text("citing\tcited\n2001.00001\tA00-1009\n", encoding="utf-8")
    return place


# --- importing


def test_pasa_by_its_folder(official: Path, fresh_home: Path, capsys: Capture) -> None:
    corpus, edges = official / "papers.jsonl", official / "edges.tsv"
    folder = official / "pasa-dataset"
    words = ("import", "pasa", "--folder", folder, "--corpus", corpus, "--citations", edges)
    assert run(*words) == 0
    told = capsys.readouterr().out
    assert "train: 1 (published 33,551)" in told
    assert "real: 1 (published 50)" in told
    assert "train: 1 queries, 2 relevant papers given, 1 after versions (1) and repeats" in told
    assert "papers: 2, citations: 1" in told and "index build papers" not in told
    opened = open_query_set("pasa")
    assert opened.folder == fresh_home / "paper_search" / "pasa"
    assert list(opened.tasks) == [
        "pasa/train/AutoScholarQuery_train_0",
        "pasa/dev/AutoScholarQuery_dev_0",
        "pasa/test/AutoScholarQuery_test_0",
        "pasa/real/RealScholarQuery_0",
    ]
    assert list(opened.tasks.splits) == ["train", "dev", "test", "real"]
    assert opened.query(0).gold == ("2001.00001",)
    assert (opened.query(3).cutoff, opened.query(3).kind) == ("20241001", BROAD_SET)
    assert opened.corpus is not None and opened.citations is not None
    assert [
        json.loads(line)["paper_id"] for line in opened.corpus.read_text("utf-8").splitlines()
    ] == [
        "2001.00001",
        "A00-1009",
    ]
    assert opened.citations.read_text() == "citing\tcited\n2001.00001\tA00-1009\n"
    assert opened.corpus_digest.count("-") == 1
    with pytest.raises(DataDamaged, match="is whole but is not the published pasa"):
        run("verify", "pasa")


def test_pasa_by_its_splits(official: Path, fresh_home: Path) -> None:
    auto = official / "pasa-dataset" / NARROW_SET
    out = official / "out"
    run("import", "pasa", "--dev", auto / "test.jsonl", "--out", out)
    opened = open_query_set(out)
    assert list(opened.tasks) == ["pasa/dev/AutoScholarQuery_test_0"]
    assert (opened.corpus, opened.citations) == (None, None)


def test_what_import_needs(official: Path, fresh_home: Path) -> None:
    with pytest.raises(UsageError, match="say where the queries are"):
        run("import", "pasa")
    with pytest.raises(DataMissing, match="hold papers and no queries"):
        run("import", "pasa", official / "papers.jsonl")
    with pytest.raises(DataMissing, match="holds no rows in a format that is known"):
        run("import", "pasa", official / "pasa-dataset" / "README.json")
    with pytest.raises(DataMissing, match="there is no file .*nowhere"):
        run("import", "pasa", official / "nowhere")


def test_bad_rows_and_repeated_ids(tmp_path: Path, fresh_home: Path, capsys: Capture) -> None:
    one, other = pasa("Q_0", "2001.00001"), pasa("Q_0", "2001.00002")
    path = write(tmp_path / "test.jsonl", one, one, other, {"question": "q?"}, pasa("Q_1"))
    with pytest.raises(DataDamaged, match=r"line 3: the id 'Q_0' comes twice, with different"):
        run("import", "pasa", path)
    run("import", "pasa", path, "--skip-bad")
    told = capsys.readouterr().out
    assert "repeated queries left out: 1" in told
    assert "bad rows left out: 2" in told
    assert "line 4: it is no row of pasa like those before it" in told
    assert len(open_query_set("pasa")) == 2


def test_files_are_imported_into_the_home_once(official: Path, fresh_home: Path) -> None:
    given = [official / "pasa-dataset", official / "papers.jsonl", official / "edges.tsv"]
    opened = open_query_set(given)
    assert opened.folder.parent == fresh_home / "paper_search"
    assert opened.corpus is not None and opened.citations is not None
    assert open_query_set(given).folder == opened.folder
    assert open_query_set(official).digest == opened.digest


def test_an_archive_is_read_as_its_files_are(official: Path, fresh_home: Path) -> None:
    with zipfile.ZipFile(official.parent / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(official.rglob("*.*")):
            archive.write(path, path.relative_to(official))
    packed = open_query_set(official.parent / "all.zip")
    plain = open_query_set(official)
    assert packed.folder != plain.folder and packed.digest == plain.digest


def test_what_data_may_be(fresh_home: Path) -> None:
    with pytest.raises(DataMissing, match="'nothing', neither a file or folder nor a data set"):
        open_query_set("nothing")
    for wrong in ([], 7, [7]):
        with pytest.raises(UsageError, match="give a name"):
            open_query_set(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("AutoScholarQuery/train.jsonl", "train"),
        ("AutoScholarQuery/test.jsonl", "test"),
        ("RealScholarQuery/test.jsonl", "real"),
        ("RealScholarQuery/dev.jsonl", "dev"),
        ("realscholar.jsonl", "real"),
        ("x/validation-00000.parquet", "dev"),
        ("litsearch_queries.jsonl", "test"),
    ],
)
def test_splits_are_told_by_names(path: str, split: str) -> None:
    assert split_named(SourceText(Path(path))) == split


# --- real files


def test_litsearch_sample(shared: Path, fresh_home: Path, tmp_path: Path, capsys: Capture) -> None:
    papers = shared / "data" / "papers"
    run(
        "import", "litsearch", papers / "litsearch_queries.jsonl",
        "--corpus", papers / "corpus.jsonl.xz", "--citations", papers / "citations.tsv.xz",
        "--out", tmp_path / "out",
    )  # fmt: skip
    told = capsys.readouterr().out
    assert "papers: 41,099, citations: 11,693" in told
    opened = open_query_set(tmp_path / "out")
    queries = [opened.query(number) for number in range(len(opened))]
    assert len(queries) == 170
    assert list(opened.tasks.splits) == ["test"]
    assert sum(query.gold_missing for query in queries) == 3
    assert all(query.cutoff == "" and len(query.date) == 7 for query in queries)
    assert opened.corpus is not None
    rows = [json.loads(line) for line in opened.corpus.read_text("utf-8").splitlines()]
    assert sum(row["abstract"] is not None for row in rows) == 21_274
    ids = {row["paper_id"] for row in rows}
    assert all(set(query.gold) <= ids for query in queries)


# --- the embedded literature


def test_the_embedded_literature_is_played(literature: Literature) -> None:
    opened = open_query_set(None)
    assert opened.dataset == "embedded"
    assert {split: len(places) for split, places in opened.tasks.splits.items()} == {
        "train": 1_000, "dev": 50, "test": 50,
        "auto_train": 1_000, "auto_dev": 50, "auto_test": 50,
    }  # fmt: skip
    for split, name in (("test", BROAD_SET), ("auto_test", NARROW_SET)):
        asked = literature.questions[name]["test"]
        for place, question in zip(opened.tasks.split(split), asked, strict=True):
            query = opened.query(place)
            assert query.query == question.text
            assert query.cutoff == question.cutoff
            assert set(query.gold) == {
                literature.papers[number].draft.arxiv_id for number in question.relevant
            }
            assert len(query.titles) == len(query.gold)
            assert (query.kind, query.source) == (name, "embedded")
    assert opened.tasks.ids[1_050] == "embedded/test/RealScholarQuery_test_0"
    assert opened.corpus is not None and opened.citations is not None
    ids = [json.loads(line)["paper_id"] for line in opened.corpus.read_text("utf-8").splitlines()]
    assert ids == [normalize_arxiv_id(each) for each in ids]
    assert len(ids) == 3_000


def test_a_generated_folder_is_played_too(
    fresh_home: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "mine"
    assert run("generate", "pasa", "--papers", "2500", "--seed", "5", "--out", out) == 0
    assert run("verify", out) == 0
    opened = open_query_set(out)
    assert len(opened) == 2_200
    publish_generated(out, papers=2_500, seed=5)  # the same again is nothing new
    with pytest.raises(UsageError, match="papers is 0"):
        run("generate", "pasa", "--papers", "0", "--out", tmp_path / "none")


def test_the_embedded_folder_is_made_once(home: Path) -> None:
    folder = embedded_folder()
    assert folder.parent == home / "paper_search"
    before = (folder / "corpus.jsonl").stat().st_mtime_ns
    assert embedded_folder() == folder
    assert (folder / "corpus.jsonl").stat().st_mtime_ns == before

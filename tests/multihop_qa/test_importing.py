"""`data import` and `data verify` of question sets and passages, and what ``data`` means."""

from __future__ import annotations

import argparse
import gzip
import json
import zipfile
from pathlib import Path

import pytest

from agentgym_suite import data, data_cli
from agentgym_suite.data import Contents, publish
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, UsageError
from agentgym_suite.multihop_qa.published_sizes import PUBLISHED, differences
from agentgym_suite.multihop_qa.question_set import open_question_set
from tests.multihop_qa import official_rows as official
from tests.multihop_qa.official_rows import Row, variant, write_lines, write_list

Capture = pytest.CaptureFixture[str]


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser(prog="agentgym-suite")
    data_cli.register(parser.add_subparsers(required=True))
    args = parser.parse_args(["data", *map(str, words)])
    return int(args.run(args))


@pytest.fixture(autouse=True)
def home(fresh_home: Path) -> Path:
    return fresh_home


def hotpot(*numbers: int, row: Row = official.HOTPOT) -> list[Row]:
    return [variant(row, _id=f"{number:024x}") for number in numbers]


def test_hotpotqa_by_splits(tmp_path: Path, home: Path, capsys: Capture) -> None:
    train = write_list(tmp_path / "a.json", hotpot(1, 2))
    dev = write_lines(tmp_path / "b.json", hotpot(3))
    assert run("import", "hotpotqa", "--train", train, "--dev", dev) == 0
    told = capsys.readouterr().out
    assert "train: 2 (published 90,447)" in told
    assert "passages: 2 (published 509,308)" in told
    assert "differs: hotpotqa train: 2 questions, 90,447 are published" in told
    assert "differs: 2 passages, 509,308 are published" in told
    assert "passages: 2 of 6 (contexts of train and dev)" in told  # those without text never count
    folder = home / "multihop_qa" / "hotpotqa"
    opened = open_question_set("hotpotqa")
    assert opened.folder == folder
    assert opened.corpus == folder / "corpus.jsonl"
    assert f"index build fts5 --corpus {opened.corpus}" in told
    assert opened.corpus_digest == data.sha256_file(opened.corpus)
    assert list(opened.tasks.ids) == [
        "hotpotqa/train/000000000000000000000001",
        "hotpotqa/train/000000000000000000000002",
        "hotpotqa/dev/000000000000000000000003",
    ]
    # the same again is nothing new, something else is refused
    assert run("import", "hotpotqa", "--train", train, "--dev", dev) == 0
    with pytest.raises(DataError, match="already holds qa-questions"):
        run("import", "hotpotqa", "--dev", dev)


def test_verify_finds_what_has_changed(tmp_path: Path, home: Path, capsys: Capture) -> None:
    dev = write_list(tmp_path / "dev.json", hotpot(1))
    out = tmp_path / "out"
    run("import", "hotpotqa", "--dev", dev, "--out", out)
    assert run("verify", out) == 0
    rows = out / "questions.jsonl"
    rows.write_bytes(rows.read_bytes().replace(b"river", b"rivet"))
    with pytest.raises(DataDamaged, match=r"questions\.jsonl has SHA-256"):
        run("verify", out)


def test_twowiki_from_its_archive(tmp_path: Path, capsys: Capture) -> None:
    archive = tmp_path / "data_ids_april7.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("dev.json", json.dumps([official.TWOWIKI]))
        hidden = variant(
            official.TWOWIKI, _id="t", answer="", evidences=[], evidences_id=[], answer_id=None
        )
        made.writestr("test.json", json.dumps([hidden]))
        made.writestr("id_aliases.json", "\n".join(map(json.dumps, official.ALIASES)))
        made.writestr("notes.json", '{"made": "by hand"}')
    passages = write_lines(
        tmp_path / "para_with_hyperlink.jsonl",
        [{"id": "12", "title": "Vale", "sentences": ["One.", "Two."], "mentions": []}],
    )
    assert run("import", "2wiki", "--questions", archive, "--passages", passages) == 0
    told = capsys.readouterr().out
    assert "without answers: 1 of test" in told
    assert "differs: 1 passages, 5,902,082 are published" in told
    opened = open_question_set("2wiki")
    assert opened.dataset == "2wikimultihopqa"
    assert opened.question(0).golds == ("Grey Lantern", "The Grey Lantern")
    assert opened.question(1).golds == ()
    assert opened.evaluation_split == "dev"


def musique_archive(path: Path) -> Path:
    other = variant(official.MUSIQUE, id="2hop__1_2", answer="x", answer_aliases=[])
    twin = variant(official.MUSIQUE, answerable=False)
    rows = {
        "musique_ans_v1.0_dev": [official.MUSIQUE],
        "musique_ans_v1.0_train": [other],
        "musique_full_v1.0_dev": [official.MUSIQUE, twin],
        "musique_full_v1.0_train": [other, variant(other, answerable=False)],
    }
    with zipfile.ZipFile(path, "w") as made:
        for name, each in rows.items():
            made.writestr(f"data/{name}.jsonl", "\n".join(map(json.dumps, each)))
        made.writestr("data/dev_test_singlehop_questions_v1.0.json", '{"natural_questions": []}')
    return path


def test_musique_plays_ans_or_full(tmp_path: Path, capsys: Capture) -> None:
    archive = musique_archive(tmp_path / "musique_v1.0.zip")
    run("import", "musique", "--archive", archive, "--out", tmp_path / "ans")
    ans = open_question_set(tmp_path / "ans")
    assert list(ans.tasks.ids) == ["musique/train/2hop__1_2", "musique/dev/3hop1__11_22_33"]
    run("import", "musique", "--archive", archive, "--full", "--out", tmp_path / "full")
    full = open_question_set(tmp_path / "full")
    assert list(full.tasks.ids)[2:] == [
        "musique/dev/3hop1__11_22_33",
        "musique/dev/3hop1__11_22_33~unanswerable",
    ]
    assert not full.question(3).answerable
    assert full.question(3).id == "3hop1__11_22_33"
    assert ans.corpus_digest == full.corpus_digest
    assert "passages: 4 of 24 (paragraphs of Ans and Full)" in capsys.readouterr().out


def test_searchqa_from_mixed_files(tmp_path: Path, capsys: Capture) -> None:
    sets = tmp_path / "FlashRAG_datasets"
    write_lines(sets / "nq" / "test.jsonl", [official.FLASHRAG])
    write_lines(sets / "popqa" / "test.jsonl", [variant(official.FLASHRAG, id="test_1")])
    nq = write_lines(tmp_path / "NQ-open.dev.jsonl", [official.NQ_OPEN])
    bamboogle = write_lines(tmp_path / "bamboogle.jsonl", [official.BAMBOOGLE])
    assert run("import", "searchqa", nq, bamboogle, "--sets", sets) == 0
    told = capsys.readouterr().out
    opened = open_question_set("searchqa")
    assert list(opened.tasks.ids) == [
        "nq/dev/0",
        "bamboogle/test/bamboogle_1",
        "nq/test/test_0",
        "popqa/test/test_1",
    ]
    assert opened.dataset == "nq,bamboogle,popqa"
    assert "nq: dev 1, test 1" in told
    assert "differs: popqa test: 1 questions, 14,267 are published" in told
    assert opened.corpus is None


def test_a_file_that_does_not_say_its_data_set(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [official.FLASHRAG])
    with pytest.raises(UsageError, match="--dataset nq"):
        run("import", "searchqa", path)
    run("import", "searchqa", "--test", path, "--dataset", "house")
    assert list(open_question_set("searchqa").tasks.ids) == ["house/test/test_0"]


def test_bad_rows_are_errors_or_counted(tmp_path: Path, capsys: Capture) -> None:
    rows = hotpot(1, 2)
    rows.insert(1, variant(official.HOTPOT, _id="x", question=None))
    rows.insert(2, variant(official.HOTPOT, _id="y", context=[["T", "no list"]]))
    rows.append({"note": "not a question"})
    path = write_list(tmp_path / "hotpot_dev.json", rows)
    with pytest.raises(DataDamaged) as told:
        run("import", "hotpotqa", path)
    assert f"{path} line 3: no 'question'" in str(told.value)
    assert run("import", "hotpotqa", path, "--skip-bad") == 0
    printed = capsys.readouterr().out
    assert "bad rows left out: 3" in printed
    assert f"{path} line 6: no 'id'" in printed
    assert f"{path} line 4: 'context' holds" in printed
    opened = open_question_set("hotpotqa")
    assert len(opened) == 3  # the row whose context is bad is a question all the same
    assert opened.notes["skipped"] == 3


def test_numbers_of_rows_stay_when_bad_ones_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "nq_dev.jsonl"
    good = json.dumps(official.NQ_OPEN)
    path.write_text(f"{good}\n{{bad\n{good}\n\n{{}}\n[]\n{good}\n", "utf-8")
    run("import", "searchqa", path, "--skip-bad")
    opened = open_question_set("searchqa")
    assert list(opened.tasks.ids) == ["nq/dev/0", "nq/dev/2", "nq/dev/5"]


def test_one_question_twice_and_two_with_one_id(tmp_path: Path, capsys: Capture) -> None:
    path = write_list(tmp_path / "hotpot_dev.json", hotpot(1, 2, 1))
    run("import", "hotpotqa", path, "--out", tmp_path / "a")
    assert "repeated questions left out: 1" in capsys.readouterr().out
    write_list(path, [*hotpot(1), variant(official.HOTPOT, _id=f"{1:024x}", answer="else")])
    with pytest.raises(DataDamaged, match=r"line 3: the id '0+1' comes twice"):
        run("import", "hotpotqa", path, "--out", tmp_path / "b")


def test_the_passages_of_wiki_18(tmp_path: Path, home: Path, capsys: Capture) -> None:
    lines = b"".join(b'{"id": "%d", "contents": "\\"T\\"\\nx"}\n' % n for n in range(9))
    packed = tmp_path / "wiki-18.jsonl.gz"
    packed.write_bytes(gzip.compress(lines))
    assert run("import", "wiki-18", "--corpus", packed, "--index", tmp_path) == 0
    told = capsys.readouterr().out
    folder = home / "multihop_qa" / "wiki-18"
    assert (folder / "corpus.jsonl").read_bytes() == lines
    assert "passages: 9 (published 21,015,324)" in told
    assert f"--corpus {folder / 'corpus.jsonl'}" in told
    assert f"the published index lies in {tmp_path}" in told
    assert run("verify", folder) == 0
    with pytest.raises(DataMissing, match="holds qa-corpus, not qa-questions"):
        open_question_set("wiki-18")
    with pytest.raises(UsageError, match="say where the passages are"):
        run("import", "wiki-18", "--out", tmp_path / "w")
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(DataMissing, match="holds no passage"):
        run("import", "wiki-18", empty, "--out", tmp_path / "w")


def test_wrong_options_are_explained(tmp_path: Path) -> None:
    dev = write_list(tmp_path / "hotpot_dev.json", hotpot(1))
    corpus = write_lines(tmp_path / "corpus.jsonl", [{"title": "T", "text": "x"}])
    with pytest.raises(UsageError, match="say where the questions are"):
        run("import", "hotpotqa")
    with pytest.raises(UsageError, match="give one of them"):
        run("import", "hotpotqa", dev, "--corpus", corpus, "--no-corpus")
    with pytest.raises(DataMissing, match="passages and no questions"):
        run("import", "hotpotqa", corpus)
    with pytest.raises(DataMissing, match="no rows in a format that is known"):
        run("import", "hotpotqa", write_lines(tmp_path / "x.jsonl", [{"a": 1}]))
    with pytest.raises(DataMissing, match="there is no file"):
        run("import", "hotpotqa", tmp_path / "absent.json")
    run("import", "hotpotqa", dev, "--no-corpus", "--out", tmp_path / "a")
    assert open_question_set(tmp_path / "a").corpus is None
    run("import", "hotpotqa", dev, corpus, "--out", tmp_path / "b")
    given = open_question_set(tmp_path / "b").corpus
    assert given is not None
    assert json.loads(given.read_text("utf-8")) == {"title": "T", "text": "x"}


def test_official_files_are_imported_at_first_use(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "files"
    write_list(folder / "hotpot_train.json", hotpot(1))
    dev = write_list(folder / "hotpot_dev.json", hotpot(2))
    opened = open_question_set(folder)
    assert opened.folder.parent == home / "multihop_qa"
    assert opened.folder.name.startswith("cache-")
    before = (opened.folder / "manifest.json").stat().st_mtime_ns
    assert open_question_set(str(folder)).digest == opened.digest
    assert (opened.folder / "manifest.json").stat().st_mtime_ns == before
    assert len(open_question_set(dev)) == 1
    assert len(open_question_set([folder / "hotpot_train.json", dev])) == 2
    write_list(dev, hotpot(2, 3))
    assert len(open_question_set(folder)) == 3
    nonsense: tuple[object, ...] = (7, [], b"x")
    for wrong in nonsense:
        with pytest.raises(UsageError, match="give a name, a path, a list of files, or None"):
            open_question_set(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="data is ''; give a name or a path"):
        open_question_set("")


def test_a_generated_folder_plays_its_twowiki_files(tmp_path: Path) -> None:
    def write(partial: Path) -> Contents:
        write_list(partial / "2wiki" / "train.json", [official.TWOWIKI])
        write_list(partial / "2wiki" / "dev.json", [variant(official.TWOWIKI, _id="other")])
        write_lines(partial / "2wiki" / "id_aliases.jsonl", official.ALIASES)
        write_list(partial / "hotpotqa" / "train.json", [official.HOTPOT])
        write_lines(partial / "corpus.jsonl", [{"id": "0", "contents": '"T"\nx'}])
        return Contents({}, {})

    folder = tmp_path / "made"
    publish(folder, kind="qa-generated", version=1, inputs={}, write=write)
    opened = open_question_set(folder)
    assert opened.dataset == "embedded"
    assert opened.tasks.ids[0] == "embedded/train/8813f87c0bdd11eba7f7acde48001122"
    assert opened.question(0).golds == ("Grey Lantern", "The Grey Lantern")
    assert opened.corpus is not None
    assert opened.corpus.read_bytes() == (folder / "corpus.jsonl").read_bytes()
    assert opened.notes["differences"] == []


def test_published_sizes() -> None:
    assert differences({"hotpotqa": {"train": 90_447, "dev": 7_405}, "house": {"dev": 1}}) == []
    assert differences({"nq": {"dev": 3_610}, "musique": {"dev": 4_834}}) == []
    assert differences({"bamboogle": {"test": 124}}) == [
        "bamboogle test: 124 questions, 125 are published"
    ]
    parquet = {"nq": 3_610, "triviaqa": 11_313, "popqa": 14_267, "hotpotqa": 7_405}
    parquet |= {"2wikimultihopqa": 12_576, "musique": 2_417, "bamboogle": 125}
    assert sum(parquet.values()) == 51_713  # the test rows of Search-R1
    assert all(count in PUBLISHED[name]["test"] for name, count in parquet.items())
    assert 79_168 + 90_447 - 169_615 == 0  # its training rows are NQ and HotpotQA


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"question": " \n"}, "the question is empty"),
        ({"_id": "two\nlines"}, "has a line end or control character"),
        ({"_id": "two\u2028lines"}, "has a line end or control character"),
        ({"_id": "bell\x07"}, "has a line end or control character"),
    ],
)
def test_questions_that_nobody_could_ask_are_bad_rows(
    tmp_path: Path, wrong: Row, reason: str
) -> None:
    path = write_list(tmp_path / "hotpot_dev.json", [*hotpot(1), variant(official.HOTPOT, **wrong)])
    with pytest.raises(DataDamaged, match=reason):
        run("import", "hotpotqa", "--dev", path, "--out", tmp_path / "out")
    assert run("import", "hotpotqa", "--dev", path, "--skip-bad", "--out", tmp_path / "out") == 0
    assert open_question_set(tmp_path / "out").notes["skipped"] == 1


def test_how_to_play_fits_what_was_imported(tmp_path: Path, home: Path, capsys: Capture) -> None:
    path = write_list(tmp_path / "hotpot_dev.json", hotpot(1))
    run("import", "hotpotqa", "--dev", path)
    assert "--data hotpotqa\n" in capsys.readouterr().out
    run("import", "hotpotqa", "--dev", path, "--no-corpus", "--out", tmp_path / "bare")
    assert f"--data {tmp_path / 'bare'} --set index=DIR\n" in capsys.readouterr().out
    passages = write_lines(tmp_path / "wiki.jsonl", [{"id": "0", "contents": '"T"\nx'}])
    run("import", "wiki-18", "--corpus", passages)
    out = capsys.readouterr().out
    assert "index build fts5" in out and "play it" not in out

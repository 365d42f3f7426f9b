"""Rows of every official format, told by content, and what becomes of bad ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import DataDamaged, UnknownTask
from agentgym_suite.multihop_qa.question_set import QuestionSet, open_question_set
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.row_formats import (
    RowPlace,
    dataset_named,
    format_of,
    split_named,
)
from agentgym_suite.multihop_qa.searchqa_items import (
    SEARCHQA_ITEMS,
    SearchQAItem,
    find_searchqa_item,
)
from agentgym_suite.multihop_qa.twowiki_files import read_aliases
from agentgym_suite.official_rows import BadRows
from agentgym_suite.source_texts import SourceText
from tests.multihop_qa import official_rows as official
from tests.multihop_qa.official_rows import Row, variant, write_lines


def loaded(row: Row, dataset: str = "", **place: Any) -> Question:
    form = format_of(row)
    assert form is not None
    at = RowPlace(dataset or form.dataset, "dev", place.pop("number", 0), **place)
    return form.question(row, at)


def questions_of(opened: QuestionSet) -> list[Question]:
    return [opened.question(position) for position in range(len(opened))]


# --- formats ------------------------------------------------------------------------


def test_hotpotqa() -> None:
    assert loaded(official.HOTPOT) == Question(
        id="5adf00000000000000000001",
        dataset="hotpotqa",
        split="dev",
        question="Which river does the birthplace of Odrin Vale lie on?",
        answer='Morne" Upper',
        kind="bridge",
        level="hard",
        supporting=(("Odrin Vale", 1), ("Tessaly", 0)),
    )
    hub = loaded(official.HOTPOT_HUB)
    assert (hub.id, hub.kind, hub.level) == ("5adf00000000000000000002", "comparison", "easy")
    assert hub.supporting == (("Harrow", 0), ("Tessaly", 0))


def test_a_test_file_without_answers_is_loaded() -> None:
    hidden = variant(official.HOTPOT, answer=None, type=None, level=None, supporting_facts=None)
    question = loaded(hidden)
    assert (question.answer, question.golds, question.supporting) == ("", (), ())


def test_twowiki_takes_aliases_and_demonyms_of_the_answer(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "id_aliases.jsonl", official.ALIASES)
    aliases = read_aliases(SourceText(path), BadRows())
    assert aliases == {"Q1": ("The Grey Lantern", "Grey Lantern"), "Q3": ("O. Vale", "Valean")}
    question = loaded(official.TWOWIKI, aliases=aliases)
    assert question.kind == "bridge-comparison"
    assert question.golds == ("Grey Lantern", "The Grey Lantern")
    assert question.hops == 2
    assert question.evidences == (
        ("Grey Lantern", "director", "Odrin Vale"),
        ("Odrin Vale", "date of birth", "1 May 1900"),
    )
    older = variant(official.TWOWIKI, answer_id=None, evidences_id=None, type="comparison")
    assert loaded(older, aliases=aliases).golds == ("Grey Lantern",)


def test_musique() -> None:
    question = loaded(official.MUSIQUE)
    assert question.hops == 3
    assert question.golds == ("Ilse Dorn", "Ilse")
    assert question.supporting == (("Odrin Vale", 1), ("Tessaly", 3), ("Harrow", 0))
    assert question.answerable
    hidden = variant(
        official.MUSIQUE, answer=None, answer_aliases=None, question_decomposition=None,
        answerable=None,
    )  # fmt: skip
    assert loaded(hidden).golds == ()
    assert loaded(hidden).supporting == (("Harrow", 0), ("Odrin Vale", 1), ("Tessaly", 3))


def test_flashrag_nq_open_and_bamboogle() -> None:
    flashrag = loaded(official.FLASHRAG, "nq")
    assert (flashrag.id, flashrag.golds) == ("test_0", ("Odrin Vale", "Vale"))
    assert (flashrag.kind, flashrag.level) == ("bridge", "easy")
    nq = loaded(official.NQ_OPEN, "nq", number=17)
    assert (nq.id, nq.golds) == ("17", ("14 May 1900", "May 1900"))
    assert loaded(official.BAMBOOGLE, "bamboogle").id == "bamboogle_1"
    numbered = {"idx": 3, "question": "?", "answer": 1900, "type": "bridge"}
    assert (loaded(numbered, "nq").id, loaded(numbered, "nq").golds) == ("3", ("1900",))


def test_search_r1_and_verl() -> None:
    search_r1 = loaded(official.SEARCH_R1)
    assert search_r1.dataset == "nq"
    assert search_r1.id == "test_7"
    assert search_r1.question == "what does Question: mean?"
    assert search_r1.golds == ("asking", "to ask")
    verl = loaded(official.VERL)
    assert (verl.dataset, verl.id) == ("hotpotqa", "3")
    assert verl.question == "where is harrow?"


def test_targets_that_arrive_as_arrays_are_read() -> None:
    numpy = pytest.importorskip("numpy")
    model = {"ground_truth": {"target": numpy.array(["a", "b"], dtype=object)}}
    assert loaded(variant(official.SEARCH_R1, reward_model=model)).golds == ("a", "b")


BAD: list[tuple[Row, str]] = [
    (variant(official.HOTPOT, _id=None), "no 'id'"),
    (variant(official.HOTPOT, question=["?"]), "'question' is ['?'], not text"),
    (variant(official.HOTPOT, answer={"text": "x"}), "'answer' is {'text': 'x'}, not a list"),
    (variant(official.HOTPOT, supporting_facts=[["T"]]), "'supporting_facts' holds ['T']"),
    (variant(official.HOTPOT, supporting_facts=[["T", "0"]]), "not [title, number]"),
    (
        variant(official.HOTPOT_HUB, supporting_facts={"title": ["a"], "sent_id": []}),
        "1 of 'title' and 0 of 'sent_id'",
    ),
    (variant(official.TWOWIKI, evidences=[["a", "b"]]), "not [subject, relation, object]"),
    (variant(official.MUSIQUE, paragraphs=["text"]), "'paragraphs' holds 'text'"),
    (variant(official.MUSIQUE, answerable="yes"), "'answerable' is 'yes'"),
    (variant(official.FLASHRAG, golden_answers=[None]), "'golden_answers' holds None"),
    (variant(official.FLASHRAG, golden_answers={}), "'golden_answers' is {}, not a list"),
    (variant(official.SEARCH_R1, reward_model={}, golden_answers=None), "no 'golden_answers'"),
    (variant(official.SEARCH_R1, prompt=[]), "no 'Question: '"),
]


@pytest.mark.parametrize(("row", "reason"), BAD, ids=lambda part: str(part)[:30])
def test_a_bad_row_says_what_is_wrong(row: Row, reason: str) -> None:
    with pytest.raises(ValueError) as told:
        loaded(row, "nq")
    assert reason in str(told.value)


# --- names --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dataset", "split"),
    [
        ("hotpot_train_v1.1.json", "hotpotqa", "train"),
        ("hotpot_dev_distractor_v1.json", "hotpotqa", "dev"),
        ("NQ-open.dev.jsonl", "nq", "dev"),
        ("FlashRAG/triviaqa/test.jsonl", "triviaqa", "test"),
        ("distractor/validation-00000-of-00001.parquet", "", "dev"),
        ("musique_ans_v1.0_dev.jsonl", "musique", "dev"),
        ("bamboogle_125.jsonl.xz", "bamboogle", "test"),
        ("popqa/rows.jsonl", "popqa", "test"),
        ("2wiki_qa.jsonl", "2wikimultihopqa", "dev"),
        ("latest.json", "", "dev"),
    ],
)
def test_data_set_and_split_by_name(name: str, dataset: str, split: str) -> None:
    text = SourceText(Path("/somewhere") / name)
    assert dataset_named(text) == dataset
    assert split_named(text, dataset) == split


# --- parquet ------------------------------------------------------------------------


def test_parquet_of_search_r1(tmp_path: Path, fresh_home: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        variant(official.SEARCH_R1, id=f"test_{n}", data_source=name)
        for n, name in enumerate(["nq", "nq", "hotpotqa"])
    ]
    path = tmp_path / "test.parquet"
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    opened = open_question_set(path)
    assert list(opened.tasks.ids) == ["nq/test/test_0", "nq/test/test_1", "hotpotqa/test/test_2"]
    assert opened.dataset == "nq,hotpotqa"
    assert opened.question(2).golds == ("asking", "to ask")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataDamaged, match="damaged parquet"):
        open_question_set(path)


def test_parquet_of_the_hub(tmp_path: Path, fresh_home: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "validation-00000-of-00001.parquet"
    parquet.write_table(arrow.Table.from_pylist([official.HOTPOT_HUB]), path)
    opened = open_question_set(path)
    assert opened.question(0) == loaded(official.HOTPOT_HUB)
    assert opened.corpus is not None


# --- AgentGym's items ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "dataset", "split", "row"),
    [
        (0, "nq", "test", 0),
        (3_609, "nq", "test", 3_609),
        (3_610, "triviaqa", "test", 0),
        (14_922, "triviaqa", "test", 11_312),
        (29_189, "popqa", "test", 14_266),
        (36_594, "hotpotqa", "test", 7_404),
        (49_170, "2wikimultihopqa", "test", 12_575),
        (51_587, "musique", "test", 2_416),
        (51_712, "bamboogle", "test", 124),
        (51_713, "nq", "train", 0),
        (130_880, "nq", "train", 79_167),
        (130_881, "hotpotqa", "train", 0),
        (221_327, "hotpotqa", "train", 90_446),
    ],
)
def test_the_items_of_agentgym(number: int, dataset: str, split: str, row: int) -> None:
    assert find_searchqa_item(number) == SearchQAItem(dataset, split, row)


@pytest.mark.parametrize("number", [-1, SEARCHQA_ITEMS])
def test_items_that_agentgym_does_not_have(number: int) -> None:
    assert SEARCHQA_ITEMS == 221_328
    with pytest.raises(UnknownTask, match="0 to 221,327"):
        find_searchqa_item(number)


# --- the shared data (retrieval 21) ---------------------------------------------------


def test_hotpotqa_samples(shared: Path, fresh_home: Path) -> None:
    folder = shared / "data" / "qa"
    files = [folder / f"hotpot_distractor_{part}100.json" for part in ("train", "dev")]
    opened = open_question_set(files)
    questions = questions_of(opened)
    assert {name: len(split) for name, split in opened.tasks.splits.items()} == {
        "train": 80,
        "dev": 80,
    }
    assert Counter(one.kind for one in questions) == {"bridge": 130, "comparison": 30}
    assert Counter(one.level for one in questions) == {"easy": 12, "medium": 57, "hard": 91}
    assert sum(one.answer in ("yes", "no") for one in questions) == 10
    assert all(len(one.supporting_titles) == 2 for one in questions)
    assert any(one.answer == 'Jonny" Craig' for one in questions)


def test_musique_sample(shared: Path, fresh_home: Path) -> None:
    questions = questions_of(open_question_set(shared / "data" / "qa" / "musique_100.jsonl"))
    assert len(questions) == 70
    assert Counter(one.hops for one in questions) == {2: 47, 3: 19, 4: 4}
    assert sum(bool(one.aliases) for one in questions) == 18
    assert all(len(one.supporting) == one.hops for one in questions)


@pytest.mark.parametrize(
    ("name", "dataset", "split", "count"),
    [
        ("nq_open_dev.jsonl.xz", "nq", "dev", 3_610),
        ("bamboogle_125.jsonl", "bamboogle", "test", 125),
        ("hotpot_dev_qa.jsonl.xz", "hotpotqa", "dev", 7_385),
        ("2wiki_qa_covered.jsonl", "2wikimultihopqa", "dev", 54),
    ],
)
def test_other_samples(
    shared: Path, fresh_home: Path, name: str, dataset: str, split: str, count: int
) -> None:
    opened = open_question_set(shared / "data" / "qa" / name)
    assert opened.dataset == dataset
    assert list(opened.tasks.split(split)) == list(range(count))
    assert all(one.golds and one.question for one in questions_of(opened))
    assert opened.corpus is None

"""Questions on the disk: found by id and number, opened without being read."""

from __future__ import annotations

import pickle
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.data import Contents, publish
from agentgym_suite.errors import DataDamaged, DataMissing, UnknownSplit, UnknownTask
from agentgym_suite.multihop_qa import question_folder
from agentgym_suite.multihop_qa.question_folder import (
    QUESTIONS_KIND,
    QUESTIONS_VERSION,
    write_questions,
)
from agentgym_suite.multihop_qa.question_set import (
    QuestionSet,
    open_finished,
    open_question_set,
)
from agentgym_suite.multihop_qa.questions import Question, question_line, read_question

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
QUESTIONS = st.builds(
    Question,
    id=TEXT,
    dataset=TEXT,
    split=st.sampled_from(question_folder.SPLITS),
    question=TEXT,
    answer=TEXT,
    aliases=st.lists(TEXT, max_size=3).map(tuple),
    kind=TEXT,
    level=TEXT,
    hops=st.integers(0, 9),
    supporting=st.lists(st.tuples(TEXT, st.integers(-1, 99)), max_size=3).map(tuple),
    evidences=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=3).map(tuple),
    answerable=st.booleans(),
)


def question(number: int, split: str = "train") -> Question:
    return Question(f"q{number}", "small", split, f"What is {number}?", str(number), kind="bridge")


def stored(folder: Path, questions: list[Question], dataset: str = "small") -> QuestionSet:
    def write(partial: Path) -> Contents:
        return Contents(write_questions(partial, questions), {"dataset": dataset})

    publish(folder, kind=QUESTIONS_KIND, version=QUESTIONS_VERSION, inputs={}, write=write)
    return open_finished(folder)


@given(QUESTIONS)
def test_a_question_comes_back_from_its_line(one: Question) -> None:
    line = question_line(one)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert read_question(line.decode("utf-8")) == one


def test_what_a_question_says_of_itself() -> None:
    one = Question("7", "nq", "test", "?", "a", ("b",), supporting=(("T", 0), ("U", 1), ("T", 2)))
    assert one.golds == ("a", "b")
    assert one.task_id == "nq/test/7"
    assert one.supporting_titles == ("T", "U")
    assert one.family == ""
    assert Question("7", "m", "dev", "?", "a", hops=3).family == "3hop"
    assert Question("7", "m", "dev", "?", "a", hops=3, kind="bridge").family == "bridge"
    assert Question("7", "m", "dev", "?", "").golds == ()
    twin = Question("7", "m", "dev", "?", "a", answerable=False)
    assert twin.task_id == "m/dev/7~unanswerable"


def test_tasks_are_found_by_id_and_by_number(tmp_path: Path) -> None:
    kept = [question(0), question(1), question(0, "dev"), question(5, "test")]
    opened = stored(tmp_path / "set", kept)
    tasks = opened.tasks
    assert list(tasks.ids) == ["small/train/q0", "small/train/q1", "small/dev/q0", "small/test/q5"]
    assert [tasks.resolve(key) for key in (*tasks.ids, 2, "3", np.int64(1))] == [
        0,
        1,
        2,
        3,
        2,
        3,
        1,
    ]
    assert {name: list(split) for name, split in tasks.splits.items()} == {
        "train": [0, 1],
        "dev": [2],
        "test": [3],
    }
    assert [opened.question(position) for position in range(4)] == kept
    assert tasks.task(2).split == "dev"
    assert tasks.task(2).family == "bridge"
    assert opened.evaluation_split == "test"
    for unknown in ("small/train/q5", "q0", "", "\ud800", 4, -1):
        with pytest.raises(UnknownTask):
            tasks.resolve(unknown)
    with pytest.raises(UnknownSplit):
        tasks.split("validation")


@pytest.mark.parametrize("seed", range(3))
def test_ids_with_equal_hashes_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(question_folder, "hash_of", lambda task_id: (len(task_id) + seed) % 2)
    opened = stored(tmp_path / "set", [question(number) for number in range(12)])
    assert [opened.tasks.resolve(task_id) for task_id in opened.tasks.ids] == list(range(12))
    with pytest.raises(UnknownTask):
        opened.tasks.resolve("small/train/q12")


def test_splits_that_come_out_of_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'train' comes after dev"):
        write_questions(tmp_path, [question(0, "dev"), question(1)])


def test_opening_reads_nothing_but_what_is_asked_for(tmp_path: Path) -> None:
    stored(tmp_path / "set", [question(number) for number in range(20_000)])
    open_question_set(tmp_path / "set")  # imports what opening needs
    tracemalloc.start()
    opened = open_question_set(tmp_path / "set")
    assert opened.tasks.resolve("small/train/q19999") == 19_999
    assert opened.question(19_999).answer == "19999"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000  # the questions take 2 MB


def test_a_set_is_shared_by_threads_and_pickled_as_its_folder(tmp_path: Path) -> None:
    opened = stored(tmp_path / "set", [question(number) for number in range(200)])
    wrong: list[int] = []

    def read() -> None:
        wrong.extend(n for n in range(200) if opened.question(n) != question(n))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    again = pickle.loads(pickle.dumps(opened))
    assert again.digest == opened.digest
    assert again.question(7) == question(7)


def test_damage_and_foreign_folders_are_explained(tmp_path: Path) -> None:
    opened = stored(tmp_path / "set", [question(number) for number in range(3)])
    rows = tmp_path / "set" / "questions.jsonl"
    rows.write_bytes(rows.read_bytes().replace(b'"', b"'"))
    with pytest.raises(DataDamaged, match="data verify"):
        open_finished(tmp_path / "set").question(0)
    assert opened.corpus is None
    assert opened.corpus_digest == ""
    with pytest.raises(DataMissing, match="neither a file or folder nor a data set"):
        open_question_set(tmp_path / "nothing")
    publish(tmp_path / "x", kind="other", version=1, inputs={}, write=lambda _: Contents({}, {}))
    with pytest.raises(DataMissing, match="holds other"):
        open_question_set(tmp_path / "x")

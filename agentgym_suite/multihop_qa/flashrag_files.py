"""Rows of open-domain sets: FlashRAG's, NQ-open's, Bamboogle's, Search-R1's and veRL's parquet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentgym_suite.multihop_qa.hotpot_files import supporting_facts
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.official_rows import Row, answers_of, list_of, text_of

_VERL_PREFIX = "searchR1_"
_QUESTION_MARK = "Question: "


def is_search_r1(row: Row) -> bool:
    """Whether a row is one of the training files of Search-R1 or veRL."""
    return "data_source" in row and "prompt" in row


def is_flashrag(row: Row) -> bool:
    """Whether a row is one of FlashRAG."""
    return "golden_answers" in row and "question" in row


def is_plain(row: Row) -> bool:
    """Whether a row is a question with its answers, as in NQ-open and Bamboogle."""
    return "question" in row and "answer" in row


def search_r1_dataset(row: Row) -> str:
    """The data set that a row says it comes from, without veRL's prefix.

    Raises:
        ValueError: it does not say.
    """
    return text_of(row, "data_source").removeprefix(_VERL_PREFIX)


def search_r1_split(row: Row) -> str:
    """The split that a row says it belongs to, "" where it does not say."""
    return text_of(_object(row.get("extra_info")), "split", "")


def flashrag_question(row: Row, dataset: str, split: str, number: int) -> Question:
    """The question of a FlashRAG row; type, level and supporting facts come from its metadata.

    Raises:
        ValueError: a field is absent or of another form; the sentence says which.
    """
    about = _object(row.get("metadata"))
    question = _question(row, "golden_answers", about, (dataset, split, number))
    return replace(question, supporting=supporting_facts(about.get("supporting_facts")))


def plain_question(row: Row, dataset: str, split: str, number: int) -> Question:
    """The question of a row of NQ-open, Bamboogle or the like.

    Raises:
        ValueError: a field is absent or of another form; the sentence says which.
    """
    return _question(row, "answer", row, (dataset, split, number))


def search_r1_question(row: Row, split: str, number: int) -> Question:
    """The question of a parquet row: what its prompt says after ``Question: ``.

    Args:
        row: of Search-R1 or, with prefix and tool arguments, of veRL; names its data set.
        split: what the file is.
        number: of the row in its file, the id where there is no other.

    Raises:
        ValueError: a field is absent or of another form; the sentence says which.
    """
    truth = _object(_object(row.get("reward_model")).get("ground_truth"))
    golds = answers_of(truth, "target") if "target" in truth else ()
    golds = golds or answers_of(row, "golden_answers")
    if not golds:
        raise ValueError("no answer in 'reward_model.ground_truth.target'")
    index = _object(row.get("extra_info")).get("index")
    return Question(
        id=_identity({"id": row.get("id"), "idx": index}, number),
        dataset=search_r1_dataset(row),
        split=split,
        question=_asked(row),
        answer=golds[0],
        aliases=golds[1:],
    )


def _question(row: Row, answers: str, about: Row, place: tuple[str, str, int]) -> Question:
    """The question of a row whose answers have that name; ``about`` says of what kind it is."""
    dataset, split, number = place
    golds = answers_of(row, answers)
    return Question(
        id=_identity(row, number),
        dataset=dataset,
        split=split,
        question=text_of(row, "question"),
        answer=golds[0] if golds else "",
        aliases=golds[1:],
        kind=text_of(about, "type", "").replace("_", "-"),
        level=text_of(about, "level", ""),
    )


def _asked(row: Row) -> str:
    messages = list_of(row, "prompt")
    users = [m for m in messages if isinstance(m, dict) and m.get("role") == "user"]
    told = text_of(users[-1], "content") if users else ""
    _, found, question = told.partition(_QUESTION_MARK)
    if not found:
        question = text_of(row, "question", "")
    if not question.strip():
        raise ValueError(f"no {_QUESTION_MARK!r} in the last user message of 'prompt'")
    return question.strip()


def _identity(row: Row, number: int) -> str:
    for key in ("id", "_id", "idx"):
        value = row.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return str(number)


def _object(value: Any) -> Row:
    return value if isinstance(value, dict) else {}

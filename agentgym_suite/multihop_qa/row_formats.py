"""What a row of an official file is: told by its fields, never by the name of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from agentgym_suite.multihop_qa.flashrag_files import (
    flashrag_question,
    is_flashrag,
    is_plain,
    is_search_r1,
    plain_question,
    search_r1_question,
)
from agentgym_suite.multihop_qa.hotpot_files import hotpot_question, is_hotpot
from agentgym_suite.multihop_qa.musique_files import is_musique, musique_question
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.twowiki_files import Aliases, is_twowiki, twowiki_question
from agentgym_suite.official_rows import Row
from agentgym_suite.source_texts import SourceText


@dataclass(frozen=True, slots=True)
class RowPlace:
    """What a row does not say of itself.

    Attributes:
        dataset: what its data set is called.
        split: ``train``, ``dev`` or ``test``.
        number: of the row in its file, from 0.
        aliases: other names of the entities of 2Wiki.
    """

    dataset: str
    split: str
    number: int
    aliases: Aliases = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowFormat:
    """One official format.

    Attributes:
        name: how it is called in messages and manifests.
        dataset: the data set that is published in it, "" where several are.
        recognises: whether a row has it.
        question: makes the question; ``ValueError`` says what is wrong with the row.
    """

    name: str
    dataset: str
    recognises: Callable[[Row], bool]
    question: Callable[[Row, RowPlace], Question]


# In this order: the first that recognises a row has it.
FORMATS: Mapping[str, RowFormat] = MappingProxyType(
    {
        one.name: one
        for one in (
            RowFormat(
                "musique",
                "musique",
                is_musique,
                lambda row, at: musique_question(row, at.dataset, at.split),
            ),
            RowFormat(
                "2wiki",
                "2wikimultihopqa",
                is_twowiki,
                lambda row, at: twowiki_question(row, at.dataset, at.split, at.aliases),
            ),
            RowFormat(
                "hotpotqa",
                "hotpotqa",
                is_hotpot,
                lambda row, at: hotpot_question(row, at.dataset, at.split),
            ),
            RowFormat(
                "search-r1",
                "",
                is_search_r1,
                lambda row, at: search_r1_question(row, at.split, at.number),
            ),
            RowFormat(
                "flashrag",
                "",
                is_flashrag,
                lambda row, at: flashrag_question(row, at.dataset, at.split, at.number),
            ),
            RowFormat(
                "plain",
                "",
                is_plain,
                lambda row, at: plain_question(row, at.dataset, at.split, at.number),
            ),
        )
    }
)

_DATASET_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "nq": "nq",
        "triviaqa": "triviaqa",
        "popqa": "popqa",
        "hotpotqa": "hotpotqa",
        "hotpot": "hotpotqa",
        "2wikimultihopqa": "2wikimultihopqa",
        "2wikimultihop": "2wikimultihopqa",
        "2wiki": "2wikimultihopqa",
        "musique": "musique",
        "bamboogle": "bamboogle",
    }
)
_SPLIT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "train": "train",
        "dev": "dev",
        "valid": "dev",
        "val": "dev",
        "validation": "dev",
        "test": "test",
    }
)
# Published with a test split alone, so that a file of theirs can be nothing else.
_ONLY_TEST = frozenset({"popqa", "bamboogle"})


def format_of(row: Row) -> RowFormat | None:
    """The format of a row, None when it is a question in none of them."""
    return next((one for one in FORMATS.values() if one.recognises(row)), None)


def dataset_named(text: SourceText) -> str:
    """The data set that a file or its folder is named for, "" when neither is."""
    for name in (text.stem, text.inner_path.parent.name):
        for word in re.split(r"[^a-z0-9]+", name.lower()):
            if word in _DATASET_WORDS:
                return _DATASET_WORDS[word]
    return ""


def split_named(text: SourceText, dataset: str) -> str:
    """The split that a file is named for; the one that its data set has; else ``dev``."""
    for word in re.split(r"[^a-z]+", text.stem.lower()):
        if word in _SPLIT_WORDS:
            return _SPLIT_WORDS[word]
    return "test" if dataset in _ONLY_TEST else "dev"


def full_named(text: SourceText) -> bool:
    """Whether a file of MuSiQue is named for Full, whose rows are those of Ans otherwise."""
    return "full" in text.stem.lower()

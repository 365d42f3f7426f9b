r"""Passages: what a corpus is built from for each data set, and which passages count as one.

A corpus is a file of JSON lines, ``{"id", "title", "text"}`` or ``{"id", "contents"}`` with
``contents = '"' + title + '"\n' + text``; both are read and kept as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from agentgym_suite.data import Progress
from agentgym_suite.multihop_qa.hotpot_files import hotpot_context
from agentgym_suite.multihop_qa.musique_files import musique_paragraphs
from agentgym_suite.official_rows import (
    BadRows,
    Row,
    check_id,
    iter_lines,
    iter_rows,
    json_line,
    list_of,
    text_of,
)
from agentgym_suite.source_texts import SourceText

Passages = list[tuple[str, str]]

# wiki-18 has 21 million rows: seldom enough not to slow the copy, often enough to be seen
_ROWS_A_REPORT = 5_000


@dataclass(frozen=True, slots=True)
class CorpusRule:
    """How the corpus of a data set is built from the rows of its questions.

    Attributes:
        name: what it is called in reports.
        splits: the splits whose rows give passages, in the order in which they are read.
        passages: (title, text) of the passages of a row.
        separator: between title and text in the key by which passages are the same.
        published: how many passages others report.
    """

    name: str
    splits: tuple[str, ...]
    passages: Callable[[Row], Passages]
    separator: str
    published: int


@dataclass(frozen=True, slots=True)
class CorpusCounts:
    """How many paragraphs were read, and how many passages were left of them."""

    paragraphs: int
    passages: int


def hotpot_passages(row: Row) -> Passages:
    """The passages of the distractor setting.

    A blank joins sentences that begin with one already: the double blanks are part of the key
    and of the embedded text, so they stay. Passages without text are left out.
    """
    joined = ((title.strip(), " ".join(told).strip()) for title, told in hotpot_context(row))
    return [(title, text) for title, text in joined if text]


def twowiki_passages(row: Row) -> Passages:
    """The passages of 2Wiki's contexts, as IRCoT makes them."""
    return [(title, " ".join(sentences)) for title, sentences in hotpot_context(row)]


# By the format of the rows. MuSiQue is read in the order of IRCoT's index: Ans before Full.
RULES: Mapping[str, CorpusRule] = MappingProxyType(
    {
        "hotpotqa": CorpusRule(
            "contexts of train and dev", ("train", "dev"), hotpot_passages, "\0", 509_308
        ),
        "2wiki": CorpusRule("contexts", ("train", "dev", "test"), twowiki_passages, " ", 430_225),
        "musique": CorpusRule(
            "paragraphs of Ans and Full", ("dev", "test", "train"), musique_paragraphs, " ", 139_416
        ),
    }
)
# By data set: how many passages the official dumps hold, which are given as files of their own.
PUBLISHED_DUMPS: Mapping[str, int] = MappingProxyType(
    {"2wikimultihopqa": 5_902_082, "hotpotqa": 5_233_329, "wiki-18": 21_015_324}
)


def is_corpus_row(row: Row) -> bool:
    """Whether a row is a passage, in either shape or as 2Wiki and HotpotQA dump them."""
    titled = "title" in row and ("text" in row or "sentences" in row)
    return ("contents" in row or titled) and "question" not in row


def write_corpus(path: Path, paragraphs: Iterable[tuple[str, str, str]]) -> CorpusCounts:
    """Write each different passage once, numbered from 0.

    Args:
        path: the file.
        paragraphs: (title, text, separator): passages with equal keys are one.
    """
    seen: set[bytes] = set()
    count = 0
    with path.open("wb") as stream:
        for title, text, separator in paragraphs:
            count += 1
            key = f"{title}{separator}{text}".encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(key, digest_size=16).digest()
            if digest not in seen:
                stream.write(json_line({"id": str(len(seen)), "title": title, "text": text}))
                seen.add(digest)
    return CorpusCounts(count, len(seen))


def copy_corpus(
    path: Path, texts: Iterable[SourceText], bad: BadRows, progress: Progress | None
) -> int:
    """Write given passages to one file of JSON lines; return how many.

    Lines that are in one of the two shapes are copied byte by byte, so that a published corpus
    stays what it is; the dumps of 2Wiki and HotpotQA are brought into the second shape.

    Raises:
        DataDamaged: a file is damaged, or a row is bad and not to be skipped.
    """
    count = 0
    with path.open("wb") as stream:
        for text in texts:
            for number, line, row in iter_lines(text, bad):
                try:
                    stream.write(_corpus_line(row, line))
                except ValueError as error:
                    bad.add(text, number, error)
                    continue
                count += 1
                if progress is not None and count % _ROWS_A_REPORT == 0:
                    progress("copy passages", count, None)
    return count


def _corpus_line(row: Row, line: bytes) -> bytes:
    identity = row.get("id", "")
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise ValueError(f"'id' is {identity!r:.80}, neither text nor a number")
    check_id(str(identity))
    if "contents" in row:
        text_of(row, "contents")
    elif "sentences" in row or isinstance(row.get("text"), list):
        sentences = list_of(row, "sentences" if "sentences" in row else "text")
        if not all(isinstance(sentence, str) for sentence in sentences):
            raise ValueError("a sentence is not text")
        joined = " ".join(sentence.strip() for sentence in sentences).strip()
        told = {"title": text_of(row, "title"), "text": joined}
        return json_line({"id": str(identity), **told} if "id" in row else told)
    else:
        text_of(row, "title")
        text_of(row, "text")
    return line.rstrip(b"\r\n") + b"\n" if line else json_line(row)


def paragraphs_of(
    text: SourceText, rule: CorpusRule, bad: BadRows
) -> Iterable[tuple[str, str, str]]:
    """(title, text, separator) of every paragraph of a file of questions.

    Raises:
        DataDamaged: the file is damaged, or a row is bad and not to be skipped.
    """
    for line, row in iter_rows(text, bad):
        try:
            passages = rule.passages(row)
        except ValueError as error:
            bad.add(text, line, error)
            continue
        for title, told in passages:
            yield title, told, rule.separator

"""Writing a generated encyclopedia and its questions into the official files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from agentgym_suite.dice import Dice
from agentgym_suite.errors import UsageError
from agentgym_suite.files import Progress
from agentgym_suite.multihop_qa.generator.contexts import Contexts
from agentgym_suite.multihop_qa.generator.growing import grow_world
from agentgym_suite.multihop_qa.generator.identity import (
    DEFAULT_SEED,
    GENERATOR_VERSION,
    QUESTION_COUNTS,
    SIZES,
)
from agentgym_suite.multihop_qa.generator.prose import PageWriter, Passage
from agentgym_suite.multihop_qa.generator.questions import Question
from agentgym_suite.multihop_qa.generator.rows import Row, RowMaker
from agentgym_suite.multihop_qa.generator.splits import draw_splits
from agentgym_suite.multihop_qa.generator.tables import load_tables
from agentgym_suite.multihop_qa.generator.wording import Asker
from agentgym_suite.multihop_qa.generator.world import World

HOTPOT_PARAGRAPHS, MUSIQUE_PARAGRAPHS = 10, 20
_PROGRESS_STRIDE = 100


def generate(
    folder: Path,
    *,
    size: str = "small",
    seed: int = DEFAULT_SEED,
    questions: Mapping[str, int] = QUESTION_COUNTS,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Write an encyclopedia and questions over it.

    The files are hotpotqa/, 2wiki/ and musique/ with train, dev and test, 2wiki/id_aliases.jsonl,
    flashrag/, and the corpus as ``{"id","contents"}`` (corpus.jsonl) and as
    ``{"id","title","text"}`` (corpus_titles.jsonl). MuSiQue has the chains alone, since its
    decomposition cannot express a comparison. The bytes are a function of
    (``GENERATOR_VERSION``, size, seed, questions).

    Args:
        folder: where the files go; created if missing. They are written in place: publishing them
            whole is the caller's business.
        size: "small" (about 1,500 passages), "medium" (20,000) or "large" (500,000).
        seed: any integer.
        questions: how many of each of "train", "dev" and "test".
        progress: called with (phase, done, total).

    Returns:
        How many entities, facts and passages there are, and how many questions of each split.

    Raises:
        UsageError: there is no such size.
        DataError: the world has too few facts for so many questions.
    """
    if size not in SIZES:
        raise UsageError(f"size is {size!r}: give one of {', '.join(SIZES)}")
    tables = load_tables()
    world = grow_world(tables, SIZES[size], seed, progress)
    writer = PageWriter(world, tables, seed)
    folder.mkdir(parents=True, exist_ok=True)
    passages = _write_corpus(folder, world, writer, progress)
    splits = draw_splits(world, tables, seed, questions, progress)
    contexts = Contexts(world, writer)
    rows = RowMaker(world, Asker(world, tables), contexts)
    done, total = 0, sum(questions.values())
    for split, drawn in splits.items():
        with _Files(folder, split) as files:
            for number, question in enumerate(drawn):
                _write_question(files, rows, contexts, question, f"{split}_{number}", seed)
                done += 1
                if progress is not None and (done % _PROGRESS_STRIDE == 0 or done == total):
                    progress("write questions", done, total)
    _write_lines(folder / "2wiki" / "id_aliases.jsonl", rows.aliases())
    counts = {split: len(drawn) for split, drawn in splits.items()}
    sizes = {"entities": len(world.entities), "facts": len(world.facts), "passages": passages}
    return {**sizes, **counts}


def _write_question(
    files: _Files, rows: RowMaker, contexts: Contexts, question: Question, name: str, seed: int
) -> None:
    dice = Dice(GENERATOR_VERSION, seed, "context", question.text)
    hotpot = rows.hotpot(question, contexts.paragraphs(question, HOTPOT_PARAGRAPHS, dice))
    files.add("hotpotqa", hotpot)
    files.add("2wiki", rows.twowiki(question, hotpot))
    files.add("flashrag", rows.flashrag(question, hotpot, name))
    if question.steps:
        paragraphs = contexts.paragraphs(question, MUSIQUE_PARAGRAPHS, dice)
        files.add("musique", rows.musique(question, paragraphs))


def _write_corpus(folder: Path, world: World, writer: PageWriter, progress: Progress | None) -> int:
    """Write both shapes of the corpus, pages in the order of their titles; count passages."""
    order = sorted(world.entities, key=lambda entity: (entity.title.casefold(), entity.title))
    number = 0
    with (
        _open(folder / "corpus.jsonl") as contents,
        _open(folder / "corpus_titles.jsonl") as titles,
    ):
        for done, entity in enumerate(order, start=1):
            for passage in writer.page(entity.number).passages:
                contents.write(_line(_contents_row(number, passage)))
                row = {"id": str(number), "title": passage.title, "text": passage.text}
                titles.write(_line(row))
                number += 1
            if progress is not None and (done % _PROGRESS_STRIDE == 0 or done == len(order)):
                progress("write pages", done, len(order))
    return number


def _contents_row(number: int, passage: Passage) -> Row:
    return {"id": str(number), "contents": f'"{passage.title}"\n{passage.text}'}


class _Files:
    """The question files of one split, one row a line in all of them."""

    def __init__(self, folder: Path, split: str) -> None:
        self._stack = ExitStack()
        self._lists = {
            name: self._file(folder / name / f"{split}.json") for name in ("hotpotqa", "2wiki")
        }
        self._lines = {
            name: self._file(folder / name / f"{split}.jsonl") for name in ("musique", "flashrag")
        }
        self._joints = dict.fromkeys(self._lists, "[\n")

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            for name, file in self._lists.items():
                file.write("\n]\n" if self._joints[name] != "[\n" else "[]\n")

    def add(self, name: str, row: Row) -> None:
        """Write a row into the file of a format."""
        if name in self._lines:
            self._lines[name].write(_line(row))
            return
        self._lists[name].write(self._joints[name] + _json(row))
        self._joints[name] = ",\n"

    def _file(self, path: Path) -> TextIO:
        path.parent.mkdir(parents=True, exist_ok=True)
        return self._stack.enter_context(_open(path))


_json = json.JSONEncoder(ensure_ascii=False).encode


def _line(row: Row) -> str:
    return _json(row) + "\n"


def _open(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def _write_lines(path: Path, rows: Iterable[Row]) -> None:
    with _open(path) as file:
        file.writelines(map(_line, rows))

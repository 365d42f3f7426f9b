"""From official files to a finished folder of questions: what is read, as what, and in which order.

Questions are written split by split, and inside a split in the order of the files, so that a
task's number is its place in the official file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym_suite.data import Contents, Json, Manifest, Progress, publish, sha256_file
from agentgym_suite.errors import DataMissing
from agentgym_suite.multihop_qa.corpora import (
    PUBLISHED_DUMPS,
    RULES,
    CorpusRule,
    copy_corpus,
    paragraphs_of,
    write_corpus,
)
from agentgym_suite.multihop_qa.published_sizes import differences
from agentgym_suite.multihop_qa.question_folder import (
    CORPUS_NAME,
    QUESTIONS_KIND,
    QUESTIONS_VERSION,
    SPLITS,
    write_questions,
)
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.row_formats import FORMATS, RowPlace, full_named
from agentgym_suite.multihop_qa.twowiki_files import Aliases, read_aliases
from agentgym_suite.official_rows import BadRows, check_id, iter_rows
from agentgym_suite.source_texts import SourceText

_ROWS_A_REPORT = 500


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """One file of questions.

    Attributes:
        text: the file.
        form: its format, a key of ``FORMATS``.
        dataset: what to call the data set where the rows do not say.
        split: ``train``, ``dev`` or ``test``.
        played: whether its rows are questions of the set; the others give passages only.
    """

    text: SourceText
    form: str
    dataset: str
    split: str
    played: bool = True


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Everything that a folder of questions is made from.

    Attributes:
        files: the questions, in the order in which they were given.
        aliases: 2Wiki's names of entities.
        corpus: passages that are given; none means those of the contexts.
        without_corpus: make no corpus at all.
        skip_bad: leave bad rows out instead of stopping at the first.
        digests: SHA-256 of files that is known already.
    """

    files: tuple[QuestionFile, ...]
    aliases: SourceText | None = None
    corpus: tuple[SourceText, ...] = ()
    without_corpus: bool = False
    skip_bad: bool = False
    digests: Mapping[Path, str] = field(default_factory=dict)

    def inputs(self, progress: Progress | None = None) -> dict[str, Json]:
        """What the contents are a function of: the digests of the files and the choices."""
        known = dict(self.digests)

        def told(text: SourceText) -> dict[str, Json]:
            if text.path not in known:
                known[text.path] = sha256_file(text.path, progress)
            return {"sha256": known[text.path], "member": text.member}

        return {
            "files": [
                {
                    **told(one.text),
                    "form": one.form,
                    "dataset": one.dataset,
                    "split": one.split,
                    "played": one.played,
                }
                for one in self.files
            ],
            "aliases": None if self.aliases is None else told(self.aliases),
            "corpus": [told(text) for text in self.corpus],
            "without_corpus": self.without_corpus,
            "skip_bad": self.skip_bad,
        }


def publish_questions(
    out: Path,
    plan: ImportPlan,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Make the folder of a plan, or return it untouched when it is there already.

    Raises:
        DataMissing: a file is not there, or holds no question.
        DataDamaged: a file is damaged, or a row is bad and not to be skipped.
        DataError: something else is in that place already.
        DiskFull: no space was left.
        MissingExtra: a parquet file without the package that reads it.
    """
    return publish(
        out,
        kind=QUESTIONS_KIND,
        version=QUESTIONS_VERSION,
        inputs=plan.inputs(progress),
        write=lambda partial: _write(partial, plan, progress),
        progress=progress,
        on_wait=on_wait,
    )


def _write(partial: Path, plan: ImportPlan, progress: Progress | None) -> Contents:
    bad = BadRows(plan.skip_bad)
    reading = _Reading(bad, read_aliases(plan.aliases, bad), progress)
    counts = write_questions(partial, reading.questions(plan.files))
    if not counts:
        names = ", ".join(str(one.text) for one in plan.files)
        raise DataMissing(f"{names} holds no question; give another file")
    datasets = ",".join(reading.rows)
    notes: dict[str, Json] = {
        "dataset": datasets,
        "rows": {name: dict(rows) for name, rows in reading.rows.items()},
        "without_answers": dict(reading.without_answers),
        "repeated": reading.repeated,
    }
    if not plan.without_corpus:
        counts |= _write_corpus(partial / CORPUS_NAME, plan, bad, notes, progress)
    notes["skipped"] = bad.count
    notes["bad_rows"] = list(bad.listed)
    notes["differences"] = differences(reading.rows)
    return Contents(counts, notes)


def _write_corpus(
    path: Path,
    plan: ImportPlan,
    bad: BadRows,
    notes: dict[str, Json],
    progress: Progress | None,
) -> dict[str, int]:
    """Write what passages there are; {} where there are none."""
    if plan.corpus:
        count = copy_corpus(path, plan.corpus, bad, progress)
        names = {one.dataset for one in plan.files}
        published = PUBLISHED_DUMPS.get(names.pop(), 0) if len(names) == 1 else 0
        notes["corpus"] = {"rule": "as given", "paragraphs": count, "published": published}
        return {"passages": count}
    sources = list(_corpus_files(plan.files))
    if not sources:
        return {}

    def paragraphs() -> Iterator[tuple[str, str, str]]:
        for count, (one, rule) in enumerate(sources, 1):
            yield from paragraphs_of(one.text, rule, bad)
            if progress is not None:
                progress("read passages", count, len(sources))

    made = write_corpus(path, paragraphs())
    rules = {rule.name: rule.published for _, rule in sources}
    notes["corpus"] = {
        "rule": ", ".join(rules),
        "paragraphs": made.paragraphs,
        "published": sum(rules.values()),
    }
    return {"passages": made.passages}


def _corpus_files(files: Sequence[QuestionFile]) -> Iterator[tuple[QuestionFile, CorpusRule]]:
    """The files that give passages, data set by data set, in the order of each one's rule."""
    for form, rule in RULES.items():
        mine = [one for one in files if one.form == form and one.split in rule.splits]
        # Ans before Full: Full's file names sort after those of Ans
        order = sorted(mine, key=lambda one: (full_named(one.text), rule.splits.index(one.split)))
        yield from ((one, rule) for one in order)


@dataclass(slots=True)
class _Reading:
    """What is noticed while questions are read."""

    bad: BadRows
    aliases: Aliases
    progress: Progress | None
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    without_answers: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    _seen: dict[str, int] = field(default_factory=dict)
    _done: int = 0

    def questions(self, files: Iterable[QuestionFile]) -> Iterator[Question]:
        """The questions of the files that are played, split by split."""
        played = [one for one in files if one.played]
        for split in SPLITS:
            for one in played:
                if one.split == split:
                    yield from self._file(one)

    def _file(self, one: QuestionFile) -> Iterator[Question]:
        make = FORMATS[one.form].question
        number, bad_before = -1, self.bad.count
        for line, row in iter_rows(one.text, self.bad):
            # rows that were no JSON at all have a number too
            number += 1 + self.bad.count - bad_before
            try:
                question = make(row, RowPlace(one.dataset, one.split, number, self.aliases))
                _check(question)
                if self._is_new(question):
                    yield self._counted(question)
            except ValueError as error:
                self.bad.add(one.text, line, error)
            bad_before = self.bad.count

    def _is_new(self, question: Question) -> bool:
        """Whether the id is new; the same question again is left out, another one is an error."""
        content = hash((question.question, question.golds))
        known = self._seen.get(question.task_id)
        if known is None:
            self._seen[question.task_id] = content
            return True
        if known != content:
            raise ValueError(f"the id {question.id!r} comes twice, with different questions")
        self.repeated += 1
        return False

    def _counted(self, question: Question) -> Question:
        rows = self.rows.setdefault(question.dataset, Counter())
        rows[question.split] += 1
        if not question.golds:
            self.without_answers[question.split] += 1
        self._done += 1
        if self.progress is not None and self._done % _ROWS_A_REPORT == 0:
            self.progress("read questions", self._done, None)
        return question


def _check(question: Question) -> None:
    if not question.question.strip():
        raise ValueError("the question is empty")
    check_id(question.task_id)

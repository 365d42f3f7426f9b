"""The questions that an environment plays: a finished folder, opened in milliseconds.

Nothing is read but what is asked for, so that a hundred thousand questions cost no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentgym_suite.arguments import check_data
from agentgym_suite.data import Json, Manifest, Progress
from agentgym_suite.files import explain_damage
from agentgym_suite.multihop_qa.question_folder import (
    CORPUS_NAME,
    ID_HASHES_NAME,
    ID_STARTS_NAME,
    IDS_NAME,
    QUESTIONS_NAME,
    SPLITS,
    STARTS_NAME,
    Lines,
    QuestionTasks,
    mapped,
    read_questions_manifest,
)
from agentgym_suite.multihop_qa.questions import Question, read_question
from agentgym_suite.tasks import TaskSet, split_ranges


class QuestionSet:
    """The questions of one finished folder; read-only, safe in several threads.

    Made by ``open_question_set``. Pickles as its folder.

    Attributes:
        folder: where it is.
        dataset: what it is called; of a folder with several data sets all their names.
        digest: what identifies questions and corpus, ``sha256:`` + hex.
        tasks: ids ``<dataset>/<split>/<official id>``; the number is the place in the file.
        corpus: the passages that belong to the questions, JSON lines; None where there are none.
        corpus_digest: the SHA-256 of that file in hex, "" where there is none.
        notes: what the import had to say: differences from what is published, rows left out.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.digest = manifest.digest
        self.notes: Mapping[str, Json] = manifest.notes
        corpus = manifest.files.get(CORPUS_NAME)
        self.corpus = None if corpus is None else folder / CORPUS_NAME
        self.corpus_digest = "" if corpus is None else corpus.sha256
        with explain_damage(folder):
            self.dataset = str(manifest.notes["dataset"])
            self._rows = Lines(folder / QUESTIONS_NAME, mapped(folder / STARTS_NAME))
            self.tasks: TaskSet = QuestionTasks(
                Lines(folder / IDS_NAME, mapped(folder / ID_STARTS_NAME)),
                mapped(folder / ID_HASHES_NAME),
                split_ranges(manifest.counts, SPLITS),
                digest=self.digest,
                family=lambda position: self.question(position).family,
            )

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def evaluation_split(self) -> str:
        """The split that results are reported on: test where it has answers, else dev, else train.

        FlashRAG's order; the tests of HotpotQA, 2Wiki and MuSiQue are published without answers.
        """
        hidden = self.notes.get("without_answers")
        kept = hidden if isinstance(hidden, Mapping) else {}
        playable = [split for split in self.tasks.splits if not kept.get(split)]
        return next((split for split in reversed(SPLITS) if split in playable), "train")

    def question(self, position: int) -> Question:
        """The question at a position, parsed when asked for.

        Raises:
            DataDamaged: its row is not what the import wrote.
        """
        with explain_damage(self.folder):
            return read_question(self._rows[position])

    def __reduce__(self) -> tuple[Callable[[Path], QuestionSet], tuple[Path]]:
        return open_finished, (self.folder,)


def open_finished(folder: Path) -> QuestionSet:
    """Open a folder of the kind ``qa-questions``.

    Raises:
        DataMissing: nothing finished is there, or something of another kind.
        DataVersion: it has another format version.
        DataDamaged: a file is absent or is not what the manifest says.
    """
    folder = Path(folder)
    return QuestionSet(folder, read_questions_manifest(folder))


def open_question_set(
    data: str | Path | Sequence[str | Path] | None = None, progress: Progress | None = None
) -> QuestionSet:
    """Open the questions that ``data`` means.

    Args:
        data: None for the embedded encyclopedia (generated at first use); the name of a data
            set of the data home; a folder that ``data import`` made; an official file, several
            of them, or a folder of them, imported into the data home the first time.
        progress: called while something is generated or imported.

    Raises:
        DataMissing: there are no such data.
        DataDamaged: a file is damaged, with its line.
        DataVersion: the folder was made by another version of the suite.
        UsageError: it cannot be told what data set or split a file is.
        MissingExtra: a parquet file without the package that reads it.
    """
    # Here, because importing brings every loader, and a finished folder needs none of them.
    from agentgym_suite.multihop_qa.choosing import locate_questions

    return open_finished(locate_questions(check_data(data), progress))

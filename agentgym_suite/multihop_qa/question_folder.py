"""A folder of questions on the disk: its files, how they are written, and what finds a line.

questions.jsonl    one question a line, splits one after another
starts.npy         uint64: where each line begins, and where the last one ends
ids.txt            the task ids, one a line
id_starts.npy      the same of ``ids.txt``
id_hashes.npy      uint64 [2, n]: the sorted hashes of the task ids, and whose they are
corpus.jsonl       the passages that belong to the questions, where there are any
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from agentgym_suite.data import Manifest, read_manifest
from agentgym_suite.files import load_array, write_array
from agentgym_suite.multihop_qa.questions import Question, question_line
from agentgym_suite.tasks import TaskSet, count_split

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUESTIONS_KIND = "qa-questions"
QUESTIONS_VERSION = 1
SPLITS = ("train", "dev", "test")

QUESTIONS_NAME = "questions.jsonl"
STARTS_NAME = "starts.npy"
IDS_NAME = "ids.txt"
ID_STARTS_NAME = "id_starts.npy"
ID_HASHES_NAME = "id_hashes.npy"
CORPUS_NAME = "corpus.jsonl"


class Lines(Sequence[str]):
    """The lines of a file by their number, read from a memory map.

    Args:
        path: a file whose every line ends in a line feed.
        starts: uint64 [n + 1], where each line begins and the last one ends.
    """

    def __init__(self, path: Path, starts: NDArray[np.uint64]) -> None:
        self._starts = starts
        self._bytes = np.memmap(path, np.uint8, "r").data

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        first, last = int(self._starts[number]), int(self._starts[number + 1])
        return bytes(self._bytes[first : last - 1]).decode("utf-8")


class QuestionTasks(TaskSet):
    """The tasks over stored questions; an id is found by its hash, without a table of all."""

    def __init__(
        self,
        ids: Lines,
        hashes: NDArray[np.uint64],
        splits: Mapping[str, Sequence[int]],
        *,
        digest: str,
        family: Callable[[int], str],
    ) -> None:
        super().__init__(ids, splits, digest=digest, family=family)
        self._hashes, self._owners = hashes

    def _position(self, task_id: str) -> int | None:
        wanted = hash_of(task_id)
        place = int(np.searchsorted(self._hashes, np.uint64(wanted)))
        while place < len(self._hashes) and int(self._hashes[place]) == wanted:
            position = int(self._owners[place])
            if self.ids[position] == task_id:
                return position
            place += 1
        return None


def read_questions_manifest(folder: Path) -> Manifest:
    """The checked manifest of such a folder.

    Raises:
        DataMissing: nothing finished is there, or something of another kind.
        DataVersion: it has another format version.
        DataDamaged: a file is absent or is not what the manifest says.
    """
    return read_manifest(
        folder,
        kind=QUESTIONS_KIND,
        version=QUESTIONS_VERSION,
        mend="`agentgym-suite data import NAME` makes it from the official files",
    )


def write_questions(folder: Path, questions: Iterable[Question]) -> dict[str, int]:
    """Write the files of a set except the corpus.

    Args:
        folder: the working folder that ``publish`` gave.
        questions: all of train, then all of dev, then all of test; their task ids differ.

    Returns:
        How many questions each split has, in the order of the splits.

    Raises:
        ValueError: a split comes after one that it goes before.
    """
    counts: dict[str, int] = {}
    starts, id_starts, hashes = [0], [0], []
    with (folder / QUESTIONS_NAME).open("wb") as rows, (folder / IDS_NAME).open("wb") as ids:
        for question in questions:
            count_split(counts, question.split, SPLITS)
            starts.append(starts[-1] + rows.write(question_line(question)))
            id_starts.append(id_starts[-1] + ids.write(question.task_id.encode("utf-8") + b"\n"))
            hashes.append(hash_of(question.task_id))
    write_array(folder / STARTS_NAME, np.array(starts, np.uint64))
    write_array(folder / ID_STARTS_NAME, np.array(id_starts, np.uint64))
    values = np.array(hashes, np.uint64)
    order = np.argsort(values, kind="stable")
    write_array(folder / ID_HASHES_NAME, np.stack([values[order], order.astype(np.uint64)]))
    return counts


def mapped(path: Path) -> NDArray[np.uint64]:
    """An array of the folder, memory-mapped."""
    array: NDArray[np.uint64] = load_array(path)
    return array


def hash_of(task_id: str) -> int:
    """64 bits of a task id; a lone surrogate in what somebody asks for finds nothing."""
    text = task_id.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")

"""AgentGym's SearchQA names a question by one number; this says which question that is.

Its items are the rows of Search-R1's test file in their order, then those of its training file.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_suite.errors import UnknownTask

# (data set, split, rows), in the order of the numbers.
_STRETCHES = (
    ("nq", "test", 3_610),
    ("triviaqa", "test", 11_313),
    ("popqa", "test", 14_267),
    ("hotpotqa", "test", 7_405),
    ("2wikimultihopqa", "test", 12_576),
    ("musique", "test", 2_417),
    ("bamboogle", "test", 125),
    ("nq", "train", 79_168),
    ("hotpotqa", "train", 90_447),
)
SEARCHQA_ITEMS = sum(rows for _, _, rows in _STRETCHES)


@dataclass(frozen=True, slots=True)
class SearchQAItem:
    """Where an item stands.

    Attributes:
        dataset: the data set.
        split: ``train`` or ``test``, as Search-R1's files are called.
        row: its row among those of the data set in that file, from 0.
    """

    dataset: str
    split: str
    row: int


def find_searchqa_item(number: int) -> SearchQAItem:
    """The question that AgentGym's number means.

    Raises:
        UnknownTask: there is no such item.
    """
    first = 0
    for dataset, split, rows in _STRETCHES:
        if first <= number < first + rows:
            return SearchQAItem(dataset, split, number - first)
        first += rows
    raise UnknownTask(
        f"item {number} does not exist in SearchQA; its items are 0 to {SEARCHQA_ITEMS - 1:,}"
    )

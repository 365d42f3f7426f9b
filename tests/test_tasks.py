from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UnknownSplit, UnknownTask, UsageError
from agentgym_suite.tasks import NumberedIds, TaskSet

NUMBERED = TaskSet(
    NumberedIds("human", 12), {"test": range(4), "train": range(4, 12), "all": range(12)}
)
NAMED = TaskSet(["pick_mug", "heat_egg", "7"], {"train": [2, 0]}, family=lambda i: "abc"[i])


@pytest.mark.parametrize("key", ["human-5", 5, np.int64(5), np.uint8(5), "5"])
def test_a_task_is_named_by_id_or_number(key: object) -> None:
    assert NUMBERED.resolve(key) == 5


def test_an_id_wins_over_the_number_it_looks_like() -> None:
    assert NAMED.resolve("7") == 2
    assert NAMED.resolve(1) == 1


@pytest.mark.parametrize("key", ["human-12", "human-05", "human--1", 12, -1, "-1", "x", "٣", ""])
def test_unknown_tasks_name_the_range(key: object) -> None:
    with pytest.raises(UnknownTask, match="12 tasks, human-0 to human-11"):
        NUMBERED.resolve(key)


def test_unknown_ids_name_the_nearest() -> None:
    with pytest.raises(UnknownTask, match="nearest: pick_mug"):
        NAMED.resolve("pick_mugg")


@pytest.mark.parametrize("key", [True, 1.0, None, ["human-1"], np.bool_(True)])
def test_other_types_are_refused(key: object) -> None:
    with pytest.raises(UsageError):
        NUMBERED.resolve(key)


def test_splits_are_named_and_preferred_ones_win() -> None:
    with pytest.raises(UnknownSplit, match="test, train, all"):
        NUMBERED.split("dev")
    assert NUMBERED.split_of(2) == "test"
    assert NUMBERED.split_of(2, "all") == "all"
    assert NUMBERED.split_of(2, "train") == "test"
    assert NAMED.task(1).split == ""
    assert NAMED.task(2, "train").family == "c"


def test_the_digest_follows_ids_and_order() -> None:
    digests = {TaskSet(ids, {}).digest for ids in (["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""])}
    assert len(digests) == 4
    assert TaskSet(["a"], {}, digest="sha256:x").digest == "sha256:x"


def test_an_empty_set_says_so() -> None:
    with pytest.raises(UnknownTask, match="empty"):
        TaskSet([], {}).resolve(0)


@given(st.integers(0, 50), st.text(max_size=8))
def test_numbered_ids_find_exactly_their_own(n: int, text: str) -> None:
    ids = NumberedIds("t", n)
    assert [ids.index(task_id) for task_id in ids] == list(range(n))
    assert (text in ids) == (text in list(ids))
    assert len(ids) == n

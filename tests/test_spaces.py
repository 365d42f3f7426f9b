from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.spaces import UnicodeText

unicode_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def live_view(texts: tuple[str, ...], max_length: int = 200):
    space = UnicodeText(max_length)
    memory = create_shared_memory(space, len(texts))
    for i, text in enumerate(texts):
        write_to_shared_memory(space, i, text, memory)
    return read_from_shared_memory(space, memory, len(texts)), space, memory


def test_contains_bounds_and_encodable_text_only() -> None:
    space = UnicodeText(3, min_length=1)
    assert "é你😀" in space
    assert np.str_("abc") in space
    for wrong in ("", "abcd", "\ud800", 3, None, b"abc"):
        assert wrong not in space


@pytest.mark.parametrize("lengths", [(-1, 3), (4, 3)])
def test_impossible_lengths_are_refused(lengths: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="lengths are"):
        UnicodeText(lengths[1], min_length=lengths[0])


def test_equality_ignores_examples_and_hash_agrees() -> None:
    left, right = UnicodeText(9, examples=("a",)), UnicodeText(9)
    assert left == right and hash(left) == hash(right)
    assert left != UnicodeText(8) and left != UnicodeText(9, min_length=1) and left != "text"
    assert repr(UnicodeText(65536)) == "UnicodeText(0, 65536)"
    assert len(repr(UnicodeText(65536))) == 21
    assert not left.is_np_flattenable


def test_samples_are_bounded_members_and_repeat_with_the_seed() -> None:
    space = UnicodeText(10**9, seed=3)
    samples = [space.sample() for _ in range(50)]
    assert all(sample in space and len(sample) <= 64 for sample in samples)
    assert [UnicodeText(10**9, seed=3).sample()] == samples[:1]
    assert len(UnicodeText(200, min_length=150, seed=0).sample()) >= 150
    assert {UnicodeText(9, examples=("a", "b"), seed=i).sample() for i in range(20)} == {"a", "b"}


def test_pickle_copy_and_json_are_faithful() -> None:
    space = UnicodeText(7, examples=("x",))
    for twin in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert twin == space and twin.examples == space.examples
    assert space.from_jsonable(space.to_jsonable(["a", "é"])) == ["a", "é"]


@given(st.lists(unicode_text, min_size=1, max_size=4))
def test_shared_memory_carries_any_text(texts: list[str]) -> None:
    view, _, _ = live_view(tuple(texts))
    assert tuple(view) == tuple(texts) and len(view) == len(texts)
    assert copy.deepcopy(view) == tuple(texts)


def test_the_longest_text_of_four_byte_characters_fits() -> None:
    view, _, _ = live_view(("😀" * 65536,), 65536)
    assert view[0] == "😀" * 65536


def test_a_text_beyond_the_buffer_is_refused() -> None:
    _, space, memory = live_view(("a",), 4)
    with pytest.raises(ValueError, match="cut it to 4 characters"):
        write_to_shared_memory(space, 0, "😀" * 5, memory)


def test_a_live_view_reads_like_a_tuple_in_every_way() -> None:
    texts = ("b", "é😀", "b")
    view, space, memory = live_view(texts)
    assert view == texts and texts == view and (view != texts) is False
    assert view != ("b",) and view != 3
    assert "é😀" in view and "x" not in view
    assert view.index("é😀") == 1 and view.count("b") == 2
    assert view + ("c",) == (*texts, "c") and ("c",) + view == ("c", *texts)
    assert view * 2 == texts * 2 and 2 * view == texts * 2
    assert view < ("c",) and view <= texts and view > ("a",) and view >= texts
    assert hash(view) == hash(texts) and repr(view) == repr(texts)
    assert pickle.loads(pickle.dumps(view)) == texts and copy.copy(view) == texts
    assert type(copy.deepcopy(view)) is tuple and type(copy.copy(view)) is tuple
    assert list(reversed(view)) == list(reversed(texts)) and view[0:2] == texts[0:2]
    kept = copy.deepcopy(view)
    write_to_shared_memory(space, 0, "changed", memory)
    assert view[0] == "changed" and kept[0] == "b"

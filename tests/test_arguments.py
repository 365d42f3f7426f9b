"""Arguments: refused where nothing takes them, checked by kind, shown when wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.arguments import (
    check_choice,
    check_count,
    check_flag,
    check_path,
    check_seconds,
    json_kind,
    offers,
    refuse_unknown,
    settings,
    shown,
    shown_json,
)
from agentgym_suite.errors import UsageError


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("null", "null", "null"),
        ("false", "boolean", "false"),
        ("3", "number", "3"),
        ("-0.5", "number", "-0.5"),
        ('"a"', "text", "'a'"),
        ("[null]", "list", "a list"),
        ('{"a": 1}', "object", "an object"),
    ],
)
def test_json_is_told_in_its_own_words(text: str, kind: str, words: str) -> None:
    value = json.loads(text)
    assert (json_kind(value), shown_json(value)) == (kind, words)


def test_what_json_has_no_form_for_is_called_by_its_type() -> None:
    assert (json_kind(b"a"), shown_json(b"a")) == ("bytes", "a bytes")
    assert len(shown_json("a" * 10_000)) < 120


class Shop:
    def __init__(self, data: str, *, goals: int = 0, **rest: Any) -> None: ...


def opened(place: str, *, token: str = "") -> None: ...


def test_arguments_of_any_taker_pass() -> None:
    refuse_unknown(["data", "goals", "place", "token"], Shop.__init__, opened)
    refuse_unknown([], opened)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gaols", "no argument 'gaols'; did you mean 'goals'?"),
        ("zzz", "no argument 'zzz'; choose data, goals, place, token"),
        ("self", "no argument 'self'"),
        ("rest", "no argument 'rest'"),
    ],
)
def test_others_are_refused_with_advice(name: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_unknown(["data", name], Shop.__init__, opened)
    assert says in str(refused.value)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@given(st.text() | st.binary() | st.integers() | st.recursive(st.floats(), st.lists))
def test_a_value_is_shown_on_one_short_line(value: object) -> None:
    text = shown(value)
    assert len(text) < 500 and "\n" not in text
    text.encode("utf-8")


def test_long_values_say_how_long_they_are() -> None:
    assert shown("short") == "'short'"
    assert shown("x" * 10_000) == f"{'x' * 80!r}… (10,000 characters)"
    assert len(shown(["x" * 1_000] * 1_000)) < 200
    assert shown(10**5_000) == "int of too many digits to show"
    assert "Unprintable" in shown(Unprintable())
    assert "\n" not in shown(np.zeros((9, 9)))


def test_flags_are_flags() -> None:
    assert [check_flag("strict", value) for value in (True, False, np.False_)] == [1, 0, 0]
    for wrong in ("no", 0, 1, None, np.zeros(2)):
        with pytest.raises(UsageError, match=r"strict is .*; give True or False"):
            check_flag("strict", wrong)


def test_counts_are_whole_numbers_in_their_range() -> None:
    assert check_count("n", np.int64(3), 1) == 3
    with pytest.raises(UsageError, match="n is 9; give at most 8"):
        check_count("n", 9, 1, 8)
    for wrong in (None, True, 0, -1, 1.0, "3", 10**30, 10**5_000):
        with pytest.raises(UsageError, match=r"n is .*; give "):
            check_count("n", wrong, 1)


def test_times_are_numbers() -> None:
    check_seconds(timeout_s=1, lease_s=0.5)
    with pytest.raises(UsageError, match="lease_s is 'x'; give seconds"):
        check_seconds(timeout_s=1, lease_s="x")


def test_choices_are_texts() -> None:
    assert check_choice("mode", "a", ("a", "b")) == "a"
    for wrong in ("c", None, 1, ["a"], np.zeros(2)):
        with pytest.raises(UsageError, match="use 'a' or 'b'"):
            check_choice("mode", wrong, ("a", "b"))


def test_paths_are_texts_that_a_path_can_be(tmp_path: Path) -> None:
    assert check_path("data", tmp_path / "none") == str(tmp_path / "none")
    for wrong in ("", b"abc", 5, None, "a\0b", "\ud800", "x" * 100_000, "~nobody-here/x"):
        with pytest.raises(UsageError, match="data is "):
            check_path("data", wrong)


def test_a_setting_is_json_or_text() -> None:
    deep = "[" * 100_000
    assert settings(["a=true", "b=no", f"c={deep}"]) == {"a": True, "b": "no", "c": deep}


class Searcher(Protocol):
    @property
    def size(self) -> int: ...

    def search(self, query: str) -> str: ...


class Distant:
    """Somebody whose properties cost a question to a server."""

    @property
    def size(self) -> int:
        raise ConnectionError

    def search(self, query: str) -> str:
        return query


def test_what_an_object_offers_is_told_without_asking_it() -> None:
    assert offers(Distant(), Searcher)
    for wrong in (Distant, 5, "x", object()):
        assert not offers(wrong, Searcher)


def test_an_empty_text_is_written_as_one() -> None:
    assert settings(['unseen_split=""', "kwargs={}"]) == {"unseen_split": "", "kwargs": {}}
    with pytest.raises(UsageError, match="""is 'split='; write NAME=VALUE, 'split=""' for an em"""):
        settings(["split="])
    with pytest.raises(UsageError, match="is '=3'; write NAME=VALUE"):
        settings(["=3"])

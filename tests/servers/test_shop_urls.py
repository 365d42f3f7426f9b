from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.servers.literals import LiteralError, parse_dict, parse_list
from agentgym_suite.servers.problems import Problem
from agentgym_suite.servers.shop_urls import (
    RESERVED,
    Address,
    ShopUrls,
    parse_address,
    parse_keywords,
    split_path,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(TEXTS))
def test_lists_in_both_notations_are_read(texts: list[str]) -> None:
    assert parse_list(repr(texts)) == texts
    assert parse_list(json.dumps(texts)) == texts
    assert parse_list(json.dumps(texts, ensure_ascii=False)) == texts


@given(st.dictionaries(TEXTS, TEXTS))
def test_dictionaries_in_both_notations_are_read(texts: dict[str, str]) -> None:
    assert parse_dict(repr(texts)) == texts
    assert parse_dict(json.dumps(texts)) == texts


@given(st.text(max_size=30) | st.text("[]{}'\",:\\x0ue1 n", max_size=30))
def test_whatever_is_read_is_what_python_or_json_read(text: str) -> None:
    for parse in (parse_list, parse_dict):
        try:
            value = parse(text)
        except LiteralError:
            continue
        assert value in _readings(text)


def _readings(text: str) -> list[object]:
    readings: list[object] = []
    for read in (json.loads, ast.literal_eval):
        try:
            readings.append(read(text))
        except (ValueError, SyntaxError):
            continue
    return readings


@pytest.mark.parametrize(
    "text",
    ["", "[", "[1]", "['a'", "['a' 'b']", "['a',,]", "[,]", "['a']x", "{'a'}", "{'a': 1}"]
    + ["__import__('os')", "['a'.upper()]", r"['\q']", r"['\u12']", r'["\ud800"]', "['a\\"]
    + ["[f'{1}']", "[b'x']", "{**{}}", "[None]", r"['\U00110000']", "[" * 10_000],
)
def test_anything_else_is_refused(text: str) -> None:
    for parse in (parse_list, parse_dict):
        with pytest.raises(LiteralError):
            parse(text)


SESSIONS = st.from_regex(r"[a-z0-9][A-Za-z0-9_.~-]{0,20}", fullmatch=True).filter(
    lambda name: name not in RESERVED
)
ASINS = st.from_regex(r"[A-Z0-9]{1,10}", fullmatch=True)
WORDS = st.lists(TEXTS.map(str.lower).filter(lambda word: word == word.lower()), min_size=1).filter(
    lambda words: any(word.strip() for word in words)
)
PAGES = st.integers(1, 10_000)
OPTIONS = st.dictionaries(TEXTS, TEXTS)
SUB_PAGES = st.sampled_from(["Description", "Features", "Reviews", "Attributes"])
ADDRESSES = st.one_of(
    st.builds(Address, st.just("index"), SESSIONS),
    st.builds(
        Address,
        st.just("results"),
        SESSIONS,
        keywords=WORDS.map(tuple),
        page_number=PAGES,
    ),
    st.builds(
        Address,
        st.just("item"),
        SESSIONS,
        asin=ASINS,
        keywords=WORDS.map(tuple),
        page_number=PAGES,
        options=OPTIONS,
    ),
    st.builds(
        Address,
        st.just("sub page"),
        SESSIONS,
        asin=ASINS,
        keywords=WORDS.map(tuple),
        page_number=PAGES,
        options=OPTIONS,
        sub_page=SUB_PAGES,
    ),
    st.builds(Address, st.just("done"), SESSIONS, asin=ASINS, options=OPTIONS),
)


@given(ADDRESSES)
def test_addresses_survive_being_written_and_read(address: Address) -> None:
    path = ShopUrls().write(address)
    assert path.isascii() and " " not in path and '"' not in path
    assert parse_address(split_path(path.encode())) == address


@given(st.lists(st.text(max_size=10) | st.sampled_from(sorted(RESERVED)), max_size=8))
def test_any_parts_are_read_or_refused(parts: list[str]) -> None:
    try:
        parse_address(parts)
    except Problem as problem:
        assert problem.status in (404, 422)


@given(st.binary(max_size=60))
def test_any_raw_path_is_split_or_refused(raw: bytes) -> None:
    try:
        split_path(b"/" + raw)
    except Problem as problem:
        assert problem.status == 422


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (b"/search_results/abc/[blue/1", "keywords"),
        (b"/search_results/abc/[]/1", "keywords"),
        (b"/search_results/abc/%20/1", "keywords"),
        (b"/search_results/abc/blue/x", "page"),
        (b"/search_results/abc/blue/0", "page"),
        (b"/search_results/abc/blue/-1", "page"),
        (b"/search_results/abc/blue/%C2%B2", "page"),
        (b"/item_page/abc/no-asin/blue/1/{}", "product"),
        (b"/item_page/abc/B00/blue/1/[]", "options"),
        (b"/item_page/abc/B00/blue/1/{'a':open('x')}", "options"),
        (b"/item_sub_page/abc/B00/blue/1/Secrets/{}", "sub page"),
        (b"/done/a b/B00/{}", "session"),
        (b"/..", "session"),
    ],
)
def test_the_wrong_part_is_named(path: bytes, part: str) -> None:
    with pytest.raises(Problem) as problem:
        parse_address(split_path(path))
    assert (problem.value.status, problem.value.fields) == (422, {"field": part})
    assert part in problem.value.detail


def test_the_original_spellings_are_read() -> None:
    old = split_path(b"/item_page/abc/b07tvzjj7f/['1%2F4', \"men's\"]/2/{'color': 'Blue'}")
    assert parse_address(old) == Address(
        "item",
        "abc",
        asin="B07TVZJJ7F",
        keywords=("1/4", "men's"),
        page_number=2,
        options={"color": "Blue"},
    )
    assert parse_keywords("blue+Shoes") == ("blue+shoes",)

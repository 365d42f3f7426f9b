"""No text that a user can write reaches FTS5 as anything but words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.fts5_table import TOKENIZERS
from agentgym_suite.indexes.match_query import match_any, query_words

# What fails or misleads when it is given to MATCH as it is, and the words it is here.
RAW = {
    "": [],
    "   \t\n": [],
    '"': [],
    '"unclosed phrase': ["unclosed", "phrase"],
    "attention's": ["attention", "s"],
    "state-of-the-art": ["state", "of", "the", "art"],
    "GPT-4": ["GPT", "4"],
    "AND": ["AND"],
    "a AND": ["a", "AND"],
    "NOT paper": ["NOT", "paper"],
    "foo:bar": ["foo", "bar"],
    "C++": ["C"],
    "c#": ["c"],
    "a.b": ["a", "b"],
    "50%": ["50"],
    "?": [],
    "&": [],
    ",": [],
    "!": [],
    ";": [],
    "\\": [],
    "(a, b)": ["a", "b"],
    "*": [],
    "-x": ["x"],
    "a\0b": ["a", "b"],
    "(" * 200 + "a" + ")" * 200: ["a"],
    "title: x": ["title", "x"],
    "abstract:BM25": ["abstract", "BM25"],
    "{title text}: x": ["title", "text", "x"],
    "NEAR(x y)": ["NEAR", "x", "y"],
    "NEAR(x y, 5)": ["NEAR", "x", "y", "5"],
    "^first": ["first"],
    "pre*": ["pre"],
    "@nasa": ["nasa"],
    "a + b": ["a", "b"],
    "ubuntu 20.04": ["ubuntu", "20", "04"],
    "eﬃcient ﬁne": ["efficient", "fine"],
    "snake_case": ["snake", "case"],
    "Köln kÖLN KÖLN": ["Köln"],
    "straße STRASSE": ["straße"],
    "a\ud800b \udfff": ["ab"],
    "ｆｕｌｌ　ｗｉｄｔｈ": ["full", "width"],
    "日本語の検索": ["日本語の検索"],
    "x OR y OR x": ["x", "OR", "y"],
    "'; DROP TABLE passages; --": ["DROP", "TABLE", "passages"],
}


@pytest.fixture(scope="module")
def tables() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for name, tokenizer in TOKENIZERS.items():
            connection.execute(
                f"CREATE VIRTUAL TABLE {name} USING fts5(title, text, content='', "
                f"tokenize='{tokenizer}')"
            )
            for rowid, words in enumerate(RAW.values()):
                row = (rowid, " ".join(words).encode("utf-8", "replace").decode(), "a b c")
                connection.execute(f"INSERT INTO {name}(rowid, title, text) VALUES (?,?,?)", row)
        yield connection


def search(connection: sqlite3.Connection, table: str, text: str) -> list[int]:
    match = match_any(query_words(text))
    if not match:
        return []
    found = connection.execute(
        f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY bm25({table}, 2.0, 1.0), rowid",
        (match,),
    )
    return [rowid for (rowid,) in found]


@pytest.mark.parametrize("text", RAW)
def test_raw_texts_become_their_words(tables: sqlite3.Connection, text: str) -> None:
    assert query_words(text) == RAW[text]
    found = {name: search(tables, name, text) for name in TOKENIZERS}
    if RAW[text]:
        own = list(RAW).index(text)
        assert own in found["porter"] and own in found["unicode61"]
    else:
        assert not any(found.values())


@given(st.text(max_size=300) | st.text("ab\"'()*:^-+,{}[]\0\\ ANDORTNE", max_size=60))
@settings(max_examples=500, deadline=None)
def test_no_text_is_an_error(tables: sqlite3.Connection, text: str) -> None:
    for name in TOKENIZERS:
        search(tables, name, text)


@given(st.text(st.characters(), max_size=50))
def test_words_hold_nothing_but_letters_and_digits(text: str) -> None:
    words = query_words(text)
    assert all(word and all(letter.isalnum() for letter in word) for word in words)
    assert len({word.casefold() for word in words}) == len(words)


def test_lone_surrogates_of_any_kind() -> None:
    for code in range(0xD800, 0xE000, 37):
        assert query_words(f"a{chr(code)}b c") == ["ab", "c"]


def test_long_texts_are_cut(tables: sqlite3.Connection) -> None:
    words = [f"w{number}" for number in range(8000)]
    assert query_words(" ".join(words)) == words[:64]
    assert query_words("x" * (1 << 20)) == ["x" * 8192]
    assert query_words(" " * 8192 + "x") == []
    assert len(query_words("\ufdfa" * 100_000)) == 5  # NFKC makes 18 characters of one
    for name in TOKENIZERS:
        for text in (" ".join(words), "x" * (1 << 20), "(" * (1 << 20), '" OR ' * 100_000):
            search(tables, name, text)


@pytest.mark.parametrize("text", [None, 3, b"x", ["x"]])
def test_only_text_is_a_query(text: object) -> None:
    with pytest.raises(UsageError, match="give text"):
        query_words(text)  # type: ignore[arg-type]

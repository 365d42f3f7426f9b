"""The analyzer: recorded tokens, the rules one by one, and inputs of any kind."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.indexes.analyzer import STOP_WORDS, Analyzer
from agentgym_suite.indexes.porter import stem
from agentgym_suite.indexes.tokenizer import MAX_TOKEN_UNITS, tokenize
from agentgym_suite.indexes.word_breaks import class_table, ranges


@pytest.fixture(scope="module")
def analyzer() -> Analyzer:
    return Analyzer()


def test_recorded_tokens_of_documents(
    recorded: Callable[[str], list[Any]], official_texts: dict[str, str], analyzer: Analyzer
) -> None:
    rows = recorded("analyzer_docs.jsonl.xz")
    assert len(rows) == 300
    for row in rows:
        assert analyzer(official_texts[row["id"]]) == row["tokens"], row["id"]


def test_recorded_tokens_of_queries(
    recorded: Callable[[str], list[Any]], analyzer: Analyzer
) -> None:
    rows = recorded("search_1k.jsonl.xz")
    assert len(rows) == 434
    for row in rows:
        assert analyzer(row["q"].lower()) == row["tokens"], row["q"]


def test_the_example_of_the_original(analyzer: Analyzer) -> None:
    text = (
        "Women's running shoes (1/4-zip), USB-C 6.76 fl-oz the O'Neill u.s.a. don't 100% "
        "Crème wi-fi 10x10ft T-shirts"
    )
    assert " ".join(analyzer(text)) == (
        "women run shoe 1 4 zip usb c 6.76 fl oz o'neil u.s.a don't 100 crème wi fi 10x10ft t shirt"
    )


# What Lucene 8's StandardTokenizer makes of each text, before any filter.
TOKENS = {
    "letters and digits join": ("10x10ft 3.5mm h2o", ["10x10ft", "3.5mm", "h2o"]),
    "underscores join": ("a_b _x", ["a_b", "_x"]),
    "joints of letters": ("a.b d:s rock'n'roll", ["a.b", "d:s", "rock'n'roll"]),
    "other joints of letters": ("it’s a：b", ["it’s", "a：b"]),
    "joints of digits": ("3,000 1.2.3.4 5'6 1;2", ["3,000", "1.2.3.4", "5'6", "1;2"]),
    "no joint between kinds": ("a.1 10,a 1's", ["a", "1", "10", "a", "1", "s"]),
    "no other joint": ("5:30 a,b", ["5", "30", "a", "b"]),
    "hyphens split": ("wi-fi a‐b a‑b a–b a—b", ["wi", "fi", *"abababab"]),
    "signs split": ("a/b+c&d@e#f=g~h^i|j*k×l…m", [*"abcdefghijklm"]),
    "signs are no tokens": ("½ ² ° № ① $ € % _ __", []),
    "ideographs and hiragana one by one": ("漢字ひら", [*"漢字ひら"]),
    "katakana and hangul in runs": ("カタカナ 한국어", ["カタカナ", "한국어"]),
    "thai in runs": ("ภาษาไทย", ["ภาษาไทย"]),
    "invisible and inside": ("so\xadft wo\u2060rd", ["so\xadft", "wo\u2060rd"]),
    "invisible and between": ("a\u200bb\xa0c\u3000d", [*"abcd"]),
    "marks stay": ("cafe\u0301 naïve", ["cafe\u0301", "naïve"]),
    "emoji": ("a❤b 👍🏽 ❤️", ["a", "❤", "b", "👍🏽", "❤️"]),
    "emoji sequences": ("👩‍👩‍👧 🇫🇷🇩🇪 1️⃣ #️⃣ *⃣", ["👩‍👩‍👧", "🇫🇷", "🇩🇪", "1️⃣", "#️⃣", "*⃣"]),
    "marks of trade": ("Brand™ ® ©", ["Brand", "™", "®", "©"]),
    "hebrew quotes": ("א'ב צה\"ל א' ב\"", ["א'ב", 'צה"ל', "א'", "ב"]),
}


@pytest.mark.parametrize(("text", "tokens"), TOKENS.values(), ids=TOKENS.keys())
def test_tokens(text: str, tokens: list[str]) -> None:
    assert [token for token in tokenize(text) if token.strip("_")] == tokens
    # The quick path for ASCII and the general one must agree.
    assert [token for token in tokenize(text + " é") if token.strip("_")] == [*tokens, "é"]


def test_long_tokens_are_cut_by_utf16_units(analyzer: Analyzer) -> None:
    assert [len(token) for token in tokenize("x" * 600)] == [255, 255, 90]
    assert [len(token) for token in tokenize("é" * 600)] == [255, 255, 90]
    assert [len(token) for token in tokenize("\U00010428" * 200)] == [127, 73]
    # The joint needs its second letter inside the window.
    assert [len(token) for token in tokenize("x" * 254 + "'y")] == [254, 1]
    assert analyzer("_" * 300) == []
    assert [len(token) for token in analyzer("_" * 300 + "b")] == [255]


def test_possessive_case_and_stop_words(analyzer: Analyzer) -> None:
    assert analyzer("Shop's SHOP’S shop＇s O'NEIL's") == ["shop", "shop", "shop", "o'neil"]
    assert analyzer("İzmir") == ["izmir"]
    assert analyzer("crème ß ﬁne") == ["crème", "ß", "ﬁne"]
    assert len(STOP_WORDS) == 33
    assert analyzer(" ".join(STOP_WORDS).upper()) == []
    # Removed before stemming: what stems to a stop word stays.
    assert analyzer("its thes") == ["it", "the"]


STEMS = (
    "caresses>caress ponies>poni ties>ti caress>caress cats>cat feed>feed agreed>agre "
    "plastered>plaster bled>bled motoring>motor sing>sing conflated>conflat troubled>troubl "
    "sized>size hopping>hop tanned>tan falling>fall hissing>hiss fizzed>fizz failing>fail "
    "filing>file happy>happi sky>sky relational>relat conditional>condit rational>ration "
    "valenci>valenc digitizer>digit conformabli>conform possibly>possibl radicalli>radic "
    "differentli>differ vileli>vile analogousli>analog vietnamization>vietnam predication>predic "
    "operator>oper feudalism>feudal decisiveness>decis hopefulness>hope callousness>callous "
    "formaliti>formal sensitiviti>sensit sensibiliti>sensibl technology>technolog "
    "triplicate>triplic formative>form formalize>formal electriciti>electr electrical>electr "
    "hopeful>hope goodness>good revival>reviv allowance>allow inference>infer airliner>airlin "
    "gyroscopic>gyroscop adjustable>adjust defensible>defens irritant>irrit replacement>replac "
    "adjustment>adjust dependent>depend adoption>adopt homologou>homolog communism>commun "
    "activate>activ angulariti>angular homologous>homolog effective>effect bowdlerize>bowdler "
    "probate>probat rate>rate cease>ceas controll>control roll>roll key>kei value>valu "
    "easily>easili generically>gener dying>dy skies>ski gas>ga uses>us naïve>naïv 3packs>3pack "
    "o'neill>o'neil we're>we'r rock'n'roll>rock'n'rol is>is by>by eed>eed ing>ing s>s ies>i"
)


@pytest.mark.parametrize("pair", STEMS.split())
def test_stems(pair: str) -> None:
    word, _, expected = pair.partition(">")
    assert stem(word) == expected


@given(st.text(max_size=200))
def test_any_text_gives_terms_of_it(text: str) -> None:
    analyzer = Analyzer()
    terms = analyzer(text)
    assert analyzer(text) == terms
    assert all(
        0 < len(term.encode("utf-16-le", "surrogatepass")) <= 2 * MAX_TOKEN_UNITS + 2
        for term in terms
    )
    assert all(" " not in term for term in terms)


@given(st.lists(st.text(alphabet="abe1_.:',;-\"", max_size=12), max_size=8))
def test_the_ascii_path_equals_the_general_one(words: list[str]) -> None:
    text = " ".join(words)
    general = [token for word in words for token in tokenize(word + "\u3000é") if token != "é"]
    assert tokenize(text) == general


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_blank_always_separates(left: str, right: str) -> None:
    assert tokenize(f"{left} {right}") == tokenize(left) + tokenize(right)


@pytest.mark.parametrize(
    "pattern",
    [
        "_",
        "\u200d",
        "a",
        "é",
        "_é",
        "a.b",
        "é.",
        "é.1",
        'א"',
        "\u0301",
        "❤\u200d",
        "_\u0301",
        "#\u20e3",
    ],
    ids=ascii,
)
def test_a_megabyte_takes_linear_time(pattern: str, analyzer: Analyzer) -> None:
    # A quadratic tokeniser would not come back from these.
    analyzer(pattern * (1_000_000 // len(pattern)) + " é")


def test_the_cache_is_bounded_and_never_changes_a_term() -> None:
    small = Analyzer(cache_size=4)
    words = [f"running{number}s" for number in range(50)] * 2
    assert small(" ".join(words)) == Analyzer()(" ".join(words))
    assert len(small._terms) <= 4
    assert pickle.loads(pickle.dumps(small))("shoes") == ["shoe"]


def test_class_table() -> None:
    assert ranges("41-43 5f") == [(0x41, 0x43), (0x5F, 0x5F)]
    table = class_table()
    assert len(table) == 0x110000
    # ⓜ is a letter too, ั is Thai and extends, the full stop joins letters and digits.
    classes = {"a": "L", "Ⓜ": "M", "א": "H", "7": "N", "カ": "K", "漢": "I", "ก": "S", "ั": "s"}
    classes |= {"_": "_", "\u0301": "x", ":": ":", ",": ",", ".": ".", "'": "'", '"': '"'}
    classes |= {"❤": "P", "👍": "B", "🏽": "m", "🇫": "R", "\u200d": "z", "#": "#", "-": " "}
    assert {character: table[ord(character)] for character in classes} == classes

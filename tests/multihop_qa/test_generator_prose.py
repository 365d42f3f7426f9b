"""The pages of the embedded encyclopedia: told once, told variously, and readable."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from agentgym_suite.dice import Dice
from agentgym_suite.multihop_qa.generator import DEFAULT_SEED, SIZES, values
from agentgym_suite.multihop_qa.generator.growing import grow_world
from agentgym_suite.multihop_qa.generator.naming import with_article_for_vowels
from agentgym_suite.multihop_qa.generator.prose import Page, PageWriter
from agentgym_suite.multihop_qa.generator.references import Speaker
from agentgym_suite.multihop_qa.generator.tables import TYPES, VALUE_KINDS, Tables, load_tables
from agentgym_suite.multihop_qa.generator.world import Entity, Fact, World


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


@pytest.fixture(scope="module")
def world(tables: Tables) -> World:
    return grow_world(tables, SIZES["small"], DEFAULT_SEED)


@pytest.fixture(scope="module")
def pages(world: World, tables: Tables) -> list[Page]:
    writer = PageWriter(world, tables, DEFAULT_SEED)
    return [writer.page(entity.number) for entity in world.entities]


def written(fact: Fact, world: World) -> list[str]:
    """What a sentence may call the object of a fact."""
    if fact.value is not None:
        return list(fact.value.written)
    return [world.entities[fact.told].text]


# --- tables


def test_every_relation_has_at_least_six_sentences_on_every_page_that_tells_it(
    tables: Tables,
) -> None:
    told: dict[str, set[bool]] = defaultdict(set)
    for kind in TYPES:
        for name, telling in tables.pages[kind].tellings.items():
            told[name].add(telling.forward)
            assert len(set(telling.sentences)) >= 6
            assert all("[O]" in sentence for sentence in telling.sentences + telling.asides)
            assert len(telling.asks) >= 4 and all("[X]" in ask for ask in telling.asks)
            # a value ends a path, so nothing is described by one
            assert bool(telling.phrases) != telling.relation.is_value
            assert all("[X]" in phrase for phrase in telling.phrases)
    for name, relation in tables.relations.items():
        assert relation.domain in TYPES and relation.range in (*TYPES, *VALUE_KINDS)
        assert told[name] == {True, False} if relation.back else told[name] == {True}
        assert relation.label and bool(relation.inverse) != relation.is_value


def test_every_blank_of_a_sentence_can_be_filled(tables: Tables) -> None:
    for page in tables.pages.values():
        for line in (*page.openings, *page.fillers):
            for slot in re.findall(r"\{(\w+)\}", line):
                assert slot in page.slots or (slot == "trade" and page.trades), line
        assert page.steady <= page.slots.keys() | ({"trade"} if page.trades else set())
        assert all("[N][alias]" in line for line in page.openings)
        assert all("[M]" in line for line in (*page.mentions, *tables.any_mentions))


# --- pages


def test_passages_have_60_to_120_words_and_pages_one_to_three(pages: list[Page]) -> None:
    counts = Counter(len(page.passages) for page in pages)
    assert set(counts) == {1, 2, 3} and min(counts.values()) > 50
    words = [len(passage.text.split()) for page in pages for passage in page.passages]
    assert min(words) >= 60 and max(words) <= 120


def test_every_fact_is_told_in_one_sentence_of_one_page(world: World, pages: list[Page]) -> None:
    told = [number for page in pages for number in page.places]
    assert sorted(told) == [fact.number for fact in world.facts]
    for entity, page in zip(world.entities, pages, strict=True):
        assert page.places.keys() == {fact.number for fact in world.pages[entity.number]}
        for number, (passage, sentence) in page.places.items():
            text = page.passages[passage].sentences[sentence].casefold()
            names = written(world.facts[number], world)
            assert any(name.casefold() in text for name in names), text


def test_a_number_stands_only_where_a_fact_is_told(pages: list[Page]) -> None:
    for page in pages:
        for number, passage in enumerate(page.passages):
            for row, sentence in enumerate(passage.sentences):
                if (number, row) not in page.places.values():
                    assert not re.search(r"\d", sentence), sentence


def test_some_sentences_tell_two_facts(world: World, pages: list[Page]) -> None:
    sentences = Counter(
        (number, place) for number, page in enumerate(pages) for place in page.places.values()
    )
    shared = sum(count for count in sentences.values() if count > 1)
    assert 0.08 < shared / len(world.facts) < 0.4


def test_a_relation_is_told_in_many_ways(world: World, pages: list[Page]) -> None:
    ways: dict[str, Counter[str]] = defaultdict(Counter)
    for fact in world.facts:
        passage, sentence = pages[fact.teller].places[fact.number]
        text = pages[fact.teller].passages[passage].sentences[sentence].strip()
        for name in (*written(fact, world), world.entities[fact.teller].text):
            text = text.replace(name, "…")
        ways[fact.relation][text] += 1
    for relation, counts in ways.items():
        total = sum(counts.values())
        if total >= 30:
            assert len(counts) >= 8, relation
            assert max(counts.values()) < 0.35 * total, (relation, counts.most_common(1))


def test_no_two_passages_are_alike(pages: list[Page]) -> None:
    texts = [passage.text for page in pages for passage in page.passages]
    assert len(set(texts)) == len(texts)
    openings = Counter(page.passages[0].sentences[0] for page in pages)
    assert max(openings.values()) == 1
    sentences = Counter(
        sentence.strip() for page in pages for p in page.passages for sentence in p.sentences
    )
    assert max(sentences.values()) < 0.05 * len(texts)


def test_pronouns_stand_for_the_title(world: World, pages: list[Page]) -> None:
    pronouns = {"f": {"She", "Her"}, "m": {"He", "His"}, "": {"It", "Its"}}
    using = 0
    for entity, page in zip(world.entities, pages, strict=True):
        first_words = {s.split()[0] for p in page.passages for s in p.sentences}
        using += bool(first_words & pronouns[entity.gender])
        foreign = [words for gender, words in pronouns.items() if gender != entity.gender]
        if entity.gender:
            assert not any(first_words & words - {"It", "Its"} for words in foreign)
        else:
            assert not any(first_words & words for words in foreign)
        named = (entity.text.casefold(), entity.title.split()[-1].casefold())
        assert all(any(n in p.text.casefold() for n in named) for p in page.passages)
    assert using > 0.7 * len(pages)


def test_texts_are_clean(pages: list[Page]) -> None:
    for page in pages:
        for passage in page.passages:
            text = passage.text
            assert not re.search(r"[\[\]{}]|  |,,|,\.| \.|\.\.|\b[Aa] [aeio](?!ne\b)", text), text
            assert all(s.strip()[0].isupper() for s in passage.sentences), text
            assert re.search(r'[.!?]"?$', text), text
            assert all(s.startswith(" ") for s in passage.sentences[1:])


# --- references and values


def test_the_first_mention_is_the_name() -> None:
    entity = Entity(0, "person", "Ora Vell", article=False, gender="f")
    speaker = Speaker(entity, ("writer",), Dice("speaker"))
    assert speaker.say("[S's] birthplace was [O].", O="Port Arven") == (
        "Ora Vell's birthplace was Port Arven."
    )
    assert speaker.say("Nobody saw [him] when [s] left [s's] house.") == (
        "Nobody saw her when she left her house."
    )
    starts = {speaker.say("[S] laughed.") for _ in range(60)}
    assert starts == {"She laughed.", "Vell laughed."}


def test_articles_are_written_in_running_text_only() -> None:
    prize = Entity(0, "award", "Silver Oar Prize", article=True, aliases=("SOP",))
    speaker = Speaker(prize, ("award",), Dice("speaker"))
    assert re.fullmatch(
        r"The Silver Oar Prize \((also known as|also called|sometimes called) SOP\) is an award\.",
        speaker.say("[N][alias] is a award."),
    )
    assert Entity(0, "species", "Grey marsh tarrin", article=True).text == "the grey marsh tarrin"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a apple and a unit", "an apple and a unit"),
        ("A Archivist of Tides", "An Archivist of Tides"),
        ("a one-eyed goat", "a one-eyed goat"),
        ("a upturned boat, a university", "an upturned boat, a university"),
    ],
)
def test_a_before_a_vowel_is_an(text: str, expected: str) -> None:
    assert with_article_for_vowels(text) == expected


def test_dates_and_numbers_have_one_answer_and_several_forms() -> None:
    dates = [values.date(1893, Dice("date", n)) for n in range(50)]
    assert all(re.fullmatch(r"\d{1,2} [A-Z][a-z]+ 1893", date.answer) for date in dates)
    assert all(len(set(date.written)) == 3 for date in dates)
    assert any(" the 1st of " in f" {form}" or "2nd" in form for d in dates for form in d.written)
    assert all(set(date.written) <= {date.answer, *date.aliases} for date in dates)
    numbers = [values.population(Dice("people", n)) for n in range(200)]
    for number in numbers:
        assert number.answer == f"{number.order:,}"
        assert set(number.written) <= {number.answer, *number.aliases}
        for form in number.written:
            word = form.replace(",", "").split()
            scale = {"thousand": 1_000, "million": 1_000_000}[word[1]] if len(word) > 1 else 1
            assert round(float(word[0]) * scale) == number.order
    assert any("million" in form for n in numbers for form in n.written)
    assert any("thousand" in form for n in numbers for form in n.written)
    height = values.make_value("height", 0, Dice("height"))
    assert height.answer.replace(",", "") == str(height.order)
    assert height.aliases == (f"{height.answer} metres", f"{height.answer} m")
    year = values.make_value("year", 1904, Dice("year"))
    assert year.answer == "1904" and len(set(year.written)) == 3
    assert all("1904" in form for form in year.written)

"""The embedded literature: its bytes, its papers and citations, and how hard its questions are."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from agentgym_suite.dice import Dice
from agentgym_suite.errors import DataError, UsageError
from agentgym_suite.indexes.match_query import query_words
from agentgym_suite.indexes.paper_ids import normalize_arxiv_id
from agentgym_suite.indexes.porter import stem
from agentgym_suite.paper_search.generator import BROAD_SET, NARROW_SET, generate
from agentgym_suite.paper_search.generator.citations import FEWEST_REFERENCES, MOST_REFERENCES
from agentgym_suite.paper_search.generator.literature import Literature, make_literature
from agentgym_suite.paper_search.generator.papers import FIRST_YEAR, MONTHS, month_text
from agentgym_suite.paper_search.generator.prose import FEWEST_WORDS, MOST_WORDS
from agentgym_suite.paper_search.generator.vocabulary import (
    TOPICS,
    Concept,
    fill,
    load_lexicon,
)
from tests.paper_search.small_library import (
    month_before,
    words_for,
)

# As sha256sum prints them.
PINNED = """
3d10462114b2677d3ae423ea76e4ffacc5bf176a4b86b8a76adfd11de6407947  AutoScholarQuery/dev.jsonl
c817736b25662c31532de25b7946e9a829fa7f11e7279ee3e860f1fba5655bbc  AutoScholarQuery/test.jsonl
064bc587c4941caa94db9b7cfb537347b259778f040f931d9f65c27504e6a37e  AutoScholarQuery/train.jsonl
3f2f021bd03e75baf039ed67219f4266adac56ccdd59ef4659cb35005c6576a0  RealScholarQuery/dev.jsonl
56ec492f7910d9b55007d0e67ecdf7b73d245a98ef8edd59371b12c837d87ca7  RealScholarQuery/test.jsonl
88c384e0016235c585a5c83647b4d88973b6036f7346677f32ea94bfdfe140c0  RealScholarQuery/train.jsonl
59acf7192327a510c517d99545fe7a621d4618f8f0bfad43673e3bab003ead90  citations.tsv
beb2232589765221f2f55bb9983782b07c451c15ce362e4d6cc8cd2edff9df59  corpus.jsonl
"""
LITTLE_WORDS = {"a", "an", "and", "by", "for", "from", "in", "into", "of", "on", "over", "that"}
LITTLE_WORDS |= {
    "the",
    "to",
    "without",
    "be",
    "is",
    "not",
    "are",
    "most",
    "more",
    "at",
    "up",
    "off",
}
PRINT_DIGEST = """
import hashlib
from agentgym_suite.paper_search.generator.literature import make_literature
made = repr(make_literature(300, 5, {"train": 20, "dev": 5, "test": 5})).encode()
print(hashlib.sha256(made).hexdigest())
"""
SPLITS = [(name, split) for name in (BROAD_SET, NARROW_SET) for split in ("train", "dev", "test")]
SMALL_SPLITS = [each for each in SPLITS if each[1] != "train"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the embedded literature."""
    folder = tmp_path_factory.mktemp("literature")
    generate(folder)
    return folder


def rows(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


# --- bytes


def test_files_are_pinned(folder: Path) -> None:
    found = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}"
        for path in sorted(folder.rglob("*.*"))
    ]
    assert found == PINNED.split("\n")[1:-1]


def test_hash_seed_and_locale_change_nothing() -> None:
    def digest(hash_seed: str, locale: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "LC_ALL": locale}
        command = [sys.executable, "-c", PRINT_DIGEST]
        return subprocess.run(
            command, env=environment, capture_output=True, check=True, text=True
        ).stdout

    assert digest("1", "C") == digest("2", "C.UTF-8")


def test_seeds_and_sizes_give_other_literatures() -> None:
    few = {"train": 3, "dev": 1, "test": 1}
    one, two = make_literature(200, 1, few), make_literature(200, 2, few)
    assert {paper.title for paper in one.papers} != {paper.title for paper in two.papers}
    assert len(make_literature(50, 1, {"test": 1}).papers) == 50


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(UsageError, match="papers is 0; give 1 or more"):
        make_literature(0)
    with pytest.raises(DataError, match="20 papers are too few for so many questions"):
        make_literature(20, 1, {"test": 5_000})


def test_progress_reaches_its_totals(tmp_path: Path) -> None:
    last: dict[str, tuple[int, int | None]] = {}

    def note(phase: str, done: int, total: int | None) -> None:
        assert done >= last.get(phase, (0, 0))[0]
        last[phase] = (done, total)

    generate(tmp_path, papers=500, queries={"dev": 20, "test": 20}, progress=note)
    assert last["write papers"] == (500, 500)
    assert last["draw citations"] == (500, 500)
    assert last[f"draw questions of {BROAD_SET}/test"] == (20, 20)


# --- files


def test_files_hold_the_literature(folder: Path, literature: Literature) -> None:
    papers = list(rows(folder / "corpus.jsonl"))
    assert [row["title"] for row in papers] == [paper.title for paper in literature.papers]
    assert papers[0].keys() == {
        "paper_id", "arxiv_id", "title", "abstract", "year", "published", "venue", "authors",
    }  # fmt: skip
    assert [row["abstract"] or "" for row in papers] == [p.abstract for p in literature.papers]
    ids = {row["paper_id"] for row in papers}
    header, *edges = (folder / "citations.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "citing\tcited"
    assert len(edges) == sum(len(paper.references) for paper in literature.papers)
    assert {each for edge in edges for each in edge.split("\t")} <= ids
    for name, split in SPLITS:
        asked = literature.questions[name][split]
        for number, row in enumerate(rows(folder / name / f"{split}.jsonl")):
            assert row["qid"] == f"{name}_{split}_{number}"
            assert row["question"].strip() == asked[number].text
            gold = {normalize_arxiv_id(each) for each in row["answer_arxiv_id"]}
            assert gold == {
                literature.papers[each].draft.arxiv_id for each in asked[number].relevant
            }
            assert len(row["answer"]) == len(row["answer_arxiv_id"])
            assert row["source_meta"] == {"published_time": asked[number].cutoff}


def test_ids_of_papers_have_the_oddities_of_the_published_ones(folder: Path) -> None:
    found = [each for name, split in SPLITS for each in rows(folder / name / f"{split}.jsonl")]
    given = [each for row in found for each in row["answer_arxiv_id"]]
    assert 0.03 < sum("v" in each for each in given) / len(given) < 0.07
    twice = [row for row in found if len(row["answer"]) != len(set(row["answer"]))]
    assert 5 < len(twice) < 60
    assert sum(row["question"].endswith("\n") for row in found) == len(SPLITS)


# --- papers


def test_papers_are_spread_over_fifteen_years(literature: Literature) -> None:
    months = [paper.draft.month for paper in literature.papers]
    assert len(months) == 3_000
    assert months == sorted(months)
    assert {month // 12 for month in months} == set(range(15))
    assert max(months) < MONTHS
    assert (month_text(0), month_text(179)) == (f"{FIRST_YEAR}-01", "2020-12")


def test_ids_are_those_of_the_month(literature: Literature) -> None:
    ids = [paper.draft.arxiv_id for paper in literature.papers]
    assert len(set(ids)) == len(ids)
    for paper in literature.papers:
        arxiv_id, month = paper.draft.arxiv_id, month_text(paper.draft.month)
        assert normalize_arxiv_id(arxiv_id) == arxiv_id
        assert arxiv_id.removeprefix("cs/")[:4] == month[2:4] + month[5:]
        assert arxiv_id.startswith("cs/") == (month < "2007-04")
    assert 20 < sum(each.startswith("cs/") for each in ids) < 150


def test_abstracts_have_80_to_180_words_and_vary(literature: Literature) -> None:
    abstracts = [paper.abstract for paper in literature.papers if paper.abstract]
    lengths = [len(text.split()) for text in abstracts]
    assert min(lengths) >= FEWEST_WORDS
    assert max(lengths) <= MOST_WORDS
    assert 0.012 < 1 - len(abstracts) / 3_000 < 0.032
    assert len(set(abstracts)) == len(abstracts)
    assert not [text for text in abstracts if re.search(r"[\[\]{}|]|\s\s", text)]
    sentences = Counter(s for text in abstracts for s in re.split(r"(?<=\.) (?=[A-Z])", text))
    assert sentences.most_common(1)[0][1] < 0.12 * len(abstracts)
    assert len(sentences) > 8_000


def test_few_titles_occur_twice(literature: Literature) -> None:
    titles = Counter(paper.title for paper in literature.papers)
    assert 3 <= sum(count - 1 for count in titles.values()) <= 60


def test_everything_a_paper_is_about_is_said(literature: Literature) -> None:
    for paper in literature.papers:
        text = (paper.abstract or paper.title).casefold()
        assert paper.draft.concepts.keys() == paper.draft.wordings.keys()
        assert set(TOPICS) <= paper.draft.concepts.keys()
        for words in paper.draft.wordings.values():
            assert words.casefold() in text, paper


def test_some_abstracts_name_a_version_of_an_earlier_paper(literature: Literature) -> None:
    named = [
        (paper, normalize_arxiv_id(found[0]))
        for paper in literature.papers
        if (found := re.search(r"arXiv:\S+v\d", paper.abstract))
    ]
    ids = {paper.draft.arxiv_id: paper.draft.number for paper in literature.papers}
    assert 20 < len(named) < 200
    assert all(ids[str(arxiv_id)] < paper.draft.number for paper, arxiv_id in named)


def test_wordings_of_a_concept_share_no_stem() -> None:
    for concept in load_lexicon().concepts:
        stems = [
            {stem(word.casefold()) for word in query_words(form) if word not in LITTLE_WORDS}
            for form in concept.forms
        ]
        assert all(stems), concept
        for one, two in combinations(stems, 2):
            assert not one & two, concept


def test_no_two_concepts_have_a_wording_in_common() -> None:
    forms = [form.casefold() for concept in load_lexicon().concepts for form in concept.forms]
    assert len(set(forms)) == len(forms)


def test_every_form_can_be_filled() -> None:
    lexicon = load_lexicon()
    slots = {name: words[0] for name, words in lexicon.slots.items()}
    slots |= dict.fromkeys((*TOPICS, "data", "language", "setting", "finding", "name"), "x")
    slots |= dict.fromkeys(("other", "one", "two", "earlier", "version"), "y")
    for forms in (*lexicon.titles.values(), *lexicon.sentences.values()):
        for form in forms:
            for seed in range(5):
                assert not re.search(r"[\[\]{}|]", fill(form, slots, Dice("form", seed)))


# --- citations


def test_papers_cite_5_to_40_earlier_ones(literature: Literature) -> None:
    papers = literature.papers
    for paper in papers:
        earlier = sum(other.draft.month < paper.draft.month for other in papers[:60])
        assert len(paper.references) <= MOST_REFERENCES
        assert len(paper.references) >= min(FEWEST_REFERENCES, earlier)
        assert len(set(paper.references)) == len(paper.references)
        for cited in paper.references:
            assert papers[cited].draft.month < paper.draft.month
    assert 12 < mean(len(paper.references) for paper in papers) < 22


def test_citations_stay_close_and_the_cited_are_cited(literature: Literature) -> None:
    papers = literature.papers
    pairs = [(paper, papers[cited]) for paper in papers for cited in paper.references]
    same = mean(one.draft.concepts["field"] == two.draft.concepts["field"] for one, two in pairs)
    assert same > 0.6
    other_school = mean(
        one.draft.wordings["field"] != two.draft.wordings["field"]
        for one, two in pairs
        if one.draft.concepts["field"] == two.draft.concepts["field"]
    )
    assert other_school > 0.5
    counts = sorted(Counter(two.draft.number for _, two in pairs).values(), reverse=True)
    assert sum(counts[:300]) > 0.35 * len(pairs)


# --- questions


@pytest.mark.parametrize(("name", "split"), SPLITS)
def test_relevant_papers_are_all_that_fulfil_the_constraints_in_time(
    literature: Literature, name: str, split: str
) -> None:
    about: defaultdict[Concept, set[int]] = defaultdict(set)
    for paper in literature.papers:
        for concept in paper.draft.concepts.values():
            about[concept].add(paper.draft.number)
    for question in literature.questions[name][split]:
        assert 2 <= len(question.constraints) <= 4
        fulfilled = set.intersection(*(about[concept] for concept in question.constraints))
        before = month_before(question)
        in_time = {n for n in fulfilled if literature.papers[n].draft.month < before}
        assert in_time == set(question.relevant)
        assert len(words_for(question)) == len(question.constraints)


def test_there_are_as_many_questions_as_asked_for_and_none_twice(literature: Literature) -> None:
    sizes = {split: len(literature.questions[name][split]) for name, split in SPLITS}
    assert sizes == {"train": 1_000, "dev": 50, "test": 50}
    owners: dict[tuple[Any, ...], tuple[str, str]] = {}
    for place in SPLITS:
        for question in literature.questions[place[0]][place[1]]:
            assert owners.setdefault(question.constraints, place) == place
    texts = [q.text + q.cutoff for name, split in SPLITS for q in literature.questions[name][split]]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("name", "low", "high", "most"), [(BROAD_SET, 10.0, 14.0, 65), (NARROW_SET, 2.1, 2.9, 16)]
)
def test_sizes_are_like_the_published_ones(
    literature: Literature, name: str, low: float, high: float, most: int
) -> None:
    for questions in literature.questions[name].values():
        sizes = [len(question.relevant) for question in questions]
        assert low <= mean(sizes) <= high
        assert min(sizes) == 1
        assert max(sizes) <= most


def test_the_date_hides_papers_that_fulfil_the_constraints(literature: Literature) -> None:
    hidden = 0
    for question in literature.questions[BROAD_SET]["test"]:
        late = [
            paper
            for paper in literature.papers[max(question.relevant) :]
            if paper.draft.month >= month_before(question)
            and all(paper.draft.concepts.get(c.kind) == c for c in question.constraints)
        ]
        hidden += bool(late)
    assert hidden > 25

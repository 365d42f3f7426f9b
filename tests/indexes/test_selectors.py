"""Selectors without a model, the cache before all of them, and the prompt of those with one."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.lexical_selector import LexicalSelector
from agentgym_suite.indexes.oracle_selector import OracleSelector
from agentgym_suite.indexes.paper_store import Paper, PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.indexes.selector_prompts import PROMPTS, fill_prompt, selector_prompt
from agentgym_suite.indexes.selectors import SELECTORS, CachedSelector, Selector, open_selector
from tests.indexes.literature import papers as drawn_papers
from tests.indexes.literature import write_papers


def paper(
    paper_id: str = "P1", title: str = "", abstract: str = "", arxiv_id: str | None = None
) -> Paper:
    return Paper(0, paper_id, arxiv_id, title, abstract, (), None, "", "", 0, 99_999_999)


class Lengths:
    """A selector that says how long a title is, and remembers what it was asked."""

    name = "lengths"

    def __init__(self, digest: str = "d") -> None:
        self.digest = digest
        self.batches: list[list[str]] = []
        self.closed = 0

    def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
        self.batches.append([one.paper_id for one in papers])
        return [len(one.title) / 100 for one in papers]

    def info(self) -> dict[str, Json]:
        return {"name": self.name}

    def close(self) -> None:
        self.closed += 1


# --- the cache


def test_pairs_are_judged_once() -> None:
    inner = Lengths()
    cached = CachedSelector(inner)
    assert isinstance(cached, Selector)
    a, b, c = paper("A", "1"), paper("B", "22"), paper("C", "333")
    assert cached.score("q", [a, b, a]) == [0.01, 0.02, 0.01]
    assert cached.score("q", [c, b]) == [0.03, 0.02]
    assert cached.score("other", [b]) == [0.02]
    assert cached.score("q", []) == []
    assert inner.batches == [["A", "B"], ["C"], ["B"]]
    assert cached.info() == {"name": "lengths", "judged": 4, "reused": 2}
    inner.digest = "e"
    cached.score("q", [a])
    assert inner.batches[-1] == ["A"]
    assert (cached.name, cached.digest) == ("lengths", "e")
    cached.close()
    assert inner.closed == 1


def test_the_cache_keeps_what_was_used_last() -> None:
    inner = Lengths()
    cached = CachedSelector(inner, 2)
    a, b, c = paper("A"), paper("B"), paper("C")
    for one in (a, b, a, c, a, b):
        cached.score("q", [one])
    assert inner.batches == [["A"], ["B"], ["C"], ["B"]]
    assert cached.score("q", [a, b, c]) == [0, 0, 0]
    nothing = CachedSelector(Lengths(), 0)
    assert nothing.score("q", [a]) == nothing.score("q", [a]) == [0]
    with pytest.raises(UsageError, match="-1"):
        CachedSelector(inner, -1)


def test_the_cache_pickles_as_its_selector() -> None:
    cached = CachedSelector(OracleSelector(["A"]), 7)
    cached.score("q", [paper("A")])
    again = pickle.loads(pickle.dumps(cached))
    assert again.score("q", [paper("A"), paper("B")]) == [1.0, 0.0]
    assert again.digest == cached.digest and again.info()["judged"] == 2


def test_threads_share_a_cache() -> None:
    cached = CachedSelector(Lengths(), 50)
    many = [paper(f"P{n}", "x" * n) for n in range(90)]
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda n: cached.score("q", many[n:]), range(60)):
            assert found == [n / 100 for n in range(90 - len(found), 90)]


@pytest.mark.parametrize("answer", [[], [0.1], [0.1, 0.2, 0.3], [0.5, 1.5], [-0.1, 0], [math.nan]])
def test_scores_that_are_none_are_an_error(answer: list[float]) -> None:
    class Wrong(Lengths):
        def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
            return answer

    cached = CachedSelector(Wrong())
    for _ in range(2):
        with pytest.raises(RetrievalError, match="the selector lengths gave"):
            cached.score("q", [paper("A"), paper("B")])


def test_a_failure_is_kept_for_no_pair() -> None:
    class Failing(Lengths):
        def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
            if not self.batches:
                self.batches.append([])
                raise RetrievalError("gone")
            return super().score(query, papers)

    cached = CachedSelector(Failing())
    with pytest.raises(RetrievalError, match="gone"):
        cached.score("q", [paper("A", "1")])
    assert cached.score("q", [paper("A", "1")]) == [0.01]


# --- oracle


def test_the_oracle_knows_ids_in_any_spelling() -> None:
    oracle = OracleSelector(["arXiv:2005.12345v2", "2020.ACL-main.148 ", "W1"])
    judged = {
        paper("2005.12345"): 1.0,
        paper("X", arxiv_id="2005.12345"): 1.0,
        paper("2020.acl-main.148"): 1.0,
        paper("W1"): 1.0,
        paper("2005.12346"): 0.0,
        paper("W1.2"): 0.0,
    }
    assert oracle.score("whatever", list(judged)) == list(judged.values())
    same = OracleSelector(["w1", "2020.acl-main.148", "2005.12345", "2005.12345v1"])
    assert oracle.digest == same.digest != OracleSelector(["W1"]).digest
    assert oracle.info()["gold"] == 3


# --- lexical


class Counts:
    """A store of eight papers in which words are their own terms."""

    digest = "eight"
    known = {"the": 6, "of": 4, "parsing": 1, "neural": 3, "trees": 2}

    def __len__(self) -> int:
        return 8

    def stems(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [tuple(text.lower().split()) for text in texts]

    def df(self, terms: Sequence[str]) -> list[int]:
        return [self.known.get(term, 0) for term in terms]


def idf(count: int) -> float:
    return math.log((8 - count + 0.5) / (count + 0.5))


def test_the_share_of_a_query_by_hand() -> None:
    selector = LexicalSelector(Counts())
    parsing, neural, total = idf(1), idf(3), idf(1) + idf(3)
    scores = selector.score(
        "the neural Parsing, parsing of",
        [
            paper(title="Parsing", abstract="neural parsing"),
            paper(title="the of", abstract="Neural"),
            paper(title="parsing neural"),
            paper(title="neural"),
            paper(title="trees", abstract="the of"),
            paper(),
        ],
    )
    shares = [
        min(1.0, (1.5 * parsing + neural) / total),
        neural / total,
        1.0,
        1.5 * neural / total,
        0.0,
        0.0,
    ]
    assert scores == pytest.approx(shares, abs=1e-12)


def test_a_word_of_half_the_papers_is_ignored_and_an_unknown_one_is_not() -> None:
    selector = LexicalSelector(Counts())
    assert selector.score("of trees", [paper(abstract="trees")]) == [1.0]
    (score,) = selector.score("zebra trees", [paper(abstract="trees")])
    assert score == pytest.approx(idf(2) / (idf(2) + idf(0)))


def test_a_query_of_frequent_words_weighs_them_alike() -> None:
    assert LexicalSelector(Counts()).score("of the", [paper(abstract="of")]) == [0.5]


@pytest.mark.parametrize("query", ["", "  ", "?!", "\x00"])
def test_a_query_without_words_finds_nothing_relevant(query: str) -> None:
    assert LexicalSelector(Counts()).score(query, [paper(title="trees")]) == [0.0]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> PaperStore:
    folder = tmp_path_factory.mktemp("papers")
    rows = drawn_papers(60)
    rows[0]["title"], rows[0]["abstract"] = "Parsing Trees", "We parsed é{title} \x00 treebanks."
    build_paper_store(folder / "store", write_papers(folder / "papers.jsonl", rows))
    return PaperStore.open(folder / "store")


def test_words_are_stemmed_as_the_store_stems_them(store: PaperStore) -> None:
    selector = LexicalSelector(store)
    found = store.paper("P0")
    full, none = selector.score("parse", [found, store.paper(2)])
    assert (full, none) == (1.0, 0.0)
    (part,) = selector.score("trees E\N{COMBINING ACUTE ACCENT} zebras", [found])
    here, nowhere = math.log(59.5 / 1.5), math.log(60.5 / 0.5)
    assert part == pytest.approx(2.5 * here / (2 * here + nowhere))
    assert selector.score("parse \ud800", [paper(title="\udfff parsing")]) == [1.0]
    assert selector.info()["papers"] == 60


@given(query=st.text(max_size=60), title=st.text(max_size=40), abstract=st.text(max_size=80))
def test_any_text_has_a_share(query: str, title: str, abstract: str) -> None:
    (score,) = LexicalSelector(Counts()).score(query, [paper(title=title, abstract=abstract)])
    assert 0 <= score <= 1


def test_annotated_papers_share_more_words_than_others(shared: Path, tmp_path: Path) -> None:
    import json
    import lzma

    data = shared / "data" / "papers"
    with lzma.open(data / "corpus.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for _, line in zip(range(4000), lines, strict=False)]
    build_paper_store(tmp_path / "store", write_papers(tmp_path / "some.jsonl", rows))
    part = PaperStore.open(tmp_path / "store")
    selector = open_selector("lexical", store=part)
    gold, others = [], []
    for line in (data / "litsearch_queries.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        found = [rowid for text in row["gold"] if (rowid := part.find(text))]
        if found:
            gold += selector.score(row["query"], part.papers(found))
            others += selector.score(row["query"], part.papers(range(1, 4000, 400)))
    part.close()
    assert len(gold) > 20
    assert sum(gold) / len(gold) > 4 * sum(others) / len(others)


# --- by name


def test_selectors_by_name(store: PaperStore) -> None:
    assert set(SELECTORS) == {"lexical", "local", "vllm_classify", "openai_logprobs", "oracle"}
    lexical = open_selector("lexical", store=store)
    assert (lexical.name, lexical.digest) == ("lexical", LexicalSelector(store).digest)
    assert isinstance(lexical, CachedSelector)
    assert pickle.loads(pickle.dumps(lexical)).digest == lexical.digest
    oracle = open_selector("oracle", gold=["A"], store=store)
    assert oracle.score("q", [paper("A")]) == [1.0]
    for name, options in (
        ("vllm_classify:http://host:1", {}),
        ("vllm_classify", {"url": "http://host:1"}),
        ("openai_logprobs:http://host:1/v1", {"model": "m", "top_logprobs": 5}),
    ):
        selector = open_selector(name, store=None, **options)
        assert isinstance(selector, Selector)
        assert selector.name == name.partition(":")[0] == selector.info()["name"]
        assert pickle.loads(pickle.dumps(selector)).digest == selector.digest
        selector.close()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("bm25", {}, "choose one of lexical, oracle, local:MODEL, vllm_classify:URL"),
        ("", {}, "choose one of"),
        ("lexical:x", {}, "choose one of"),
        ("lexical", {}, "a paper API has none"),
        ("lexical", {"store": Counts(), "prompt": "pasa"}, "cannot be made with this"),
        ("oracle", {}, "missing a required argument: 'gold'"),
        ("local", {}, "write local:MODEL"),
        ("local:", {"model": "x"}, "write local:MODEL"),
        ("openai_logprobs:", {}, "write openai_logprobs:URL"),
        ("vllm_classify", {}, "write vllm_classify:URL"),
        ("local:nowhere.gguf", {}, "neither a folder nor a .gguf file"),
        ("vllm_classify", {"url": "http://h", "top_logprobs": 1}, "top_logprobs"),
        ("vllm_classify:host", {}, "give http://host:port"),
        ("openai_logprobs:http://h", {"prompt": "gpt"}, "choose one of pasa, steppo"),
        ("openai_logprobs:http://h", {"top_logprobs": 0}, "at least 1"),
        ("openai_logprobs:http://h", {"wrong": 1}, "wrong"),
    ],
)
def test_wrong_names_and_options(name: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_selector(name, **options)  # type: ignore[arg-type]


# --- prompts


def test_the_prompt_as_the_selector_was_trained_on_it() -> None:
    filled = fill_prompt(selector_prompt("pasa"), "Q?", "A title", "An abstract.")
    assert filled == (
        "You are an elite researcher in the field of AI, conducting research on Q?. Evaluate "
        "whether the following paper fully satisfies the detailed requirements of the user query "
        "and provide your reasoning. Ensure that your decision and reasoning are consistent.\n\n"
        "Searched Paper:\nTitle: A title\nAbstract: An abstract.\n\nUser Query: Q?\n\n"
        "Output format: Decision: True/False\nReason:... \nDecision:"
    )
    steppo = fill_prompt(selector_prompt("steppo"), "Q?", "A title", "An abstract.")
    assert steppo == filled.replace("... \n", "...\n")
    assert set(PROMPTS) == {"pasa", "steppo"}
    with pytest.raises(UsageError, match="'chat'"):
        selector_prompt("chat")


def test_braces_stay_braces() -> None:
    filled = fill_prompt(
        "{user_query}|{title}|{abstract}|{user_query}", "{title}", "{0} {x!r} {{", "{abstract}}"
    )
    assert filled == "{title}|{0} {x!r} {{|{abstract}}|{title}"


@pytest.mark.parametrize("given", [None, "0.5", 0.5, [None], ["0.5"], [2.0], [math.nan], []])
def test_what_is_no_score_is_one_sentence(given: object) -> None:
    class Odd(Lengths):
        def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
            return given  # type: ignore[return-value]

    with pytest.raises(RetrievalError, match="the selector lengths gave .*mend it"):
        CachedSelector(Odd()).score("q", [paper()])

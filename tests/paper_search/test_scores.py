from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.paper_search.annotated import Annotated
from agentgym_suite.paper_search.pool import Pool, PoolEntry
from agentgym_suite.paper_search.queries import PaperQuery
from agentgym_suite.paper_search.scores import (
    Gold,
    Scored,
    SetScore,
    bare_ids,
    f1_at,
    f1_of_set,
    litsearch_of_set,
    pasa_figures,
    pasa_of_set,
    ranking,
    recall_at,
    set_score,
)
from tests.paper_search.handmade import BEACON, BY_ID, GLOW, LANTERN, MOSS, WICK


def scored(**scores: float) -> list[Scored]:
    return [Scored(name, score) for name, score in scores.items()]


def test_ids_are_bare_and_given_once() -> None:
    given = ["arXiv:1706.03762v5", "1706.03762", " A00-1009 ", "A00-1009", "cs.CL/0112017v1"]
    assert bare_ids(given) == ["1706.03762", "A00-1009", "cs/0112017"]


@pytest.mark.parametrize(
    ("found", "gold", "missing", "expected"),
    [
        ("", "", 0, (0.0, 0.0, 0.0)),
        ("", "a", 0, (0.0, 0.0, 0.0)),
        ("a", "", 0, (0.0, 0.0, 0.0)),
        ("a", "b", 0, (0.0, 0.0, 0.0)),
        ("ab", "bc", 0, (0.5, 0.5, 0.5)),
        ("abc", "c", 0, (1 / 3, 1.0, 0.5)),
        ("a", "a", 1, (1.0, 0.5, 2 / 3)),
        ("", "", 2, (0.0, 0.0, 0.0)),
    ],
)
def test_precision_recall_and_f1(
    found: str, gold: str, missing: int, expected: tuple[float, ...]
) -> None:
    score = set_score(list(found), list(gold), missing)
    assert (score.precision, score.recall, score.f1) == pytest.approx(expected)


def test_a_ranking_is_by_score_then_id_each_once_at_its_best() -> None:
    papers = [Scored("b", 0.5), Scored("a", 0.5), Scored("c", 0.9), Scored("b", 0.7)]
    assert ranking(papers) == ["c", "b", "a"]
    assert ranking(papers, 0.6) == ["c", "b"]
    assert ranking([Scored("1706.03762v2", 0.1), Scored("1706.03762", 0.9)]) == ["1706.03762"]


def test_f1_is_cut_and_thresholded() -> None:
    papers = scored(a=0.9, b=0.8, c=0.7, d=0.0)
    gold = Gold(("a", "c"))
    assert f1_at(papers, gold) == SetScore(0.5, 1.0, pytest.approx(2 / 3))
    assert f1_at(papers, gold, threshold=0.75) == SetScore(0.5, 0.5, 0.5)
    assert f1_at(papers, gold, cut=1).precision == 1.0
    assert recall_at(ranking(papers), gold, 2) == 0.5


def test_the_mean_is_that_of_the_queries_and_missing_results_count_zero() -> None:
    golds = {"q1": Gold(("a",)), "q2": Gold(("a", "b")), "q3": Gold(("z",))}
    results = {"q1": scored(a=0.9, x=0.4), "q2": scored(a=0.6), "other": scored(z=1.0)}
    figures = f1_of_set(results, golds)
    assert figures["f1_all"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert figures["recall_all"] == pytest.approx(0.5)
    assert figures["precision_all"] == pytest.approx(0.5)
    assert figures["coverage"] == pytest.approx(2 / 3)
    assert f1_of_set(results, golds, threshold=0.5)["precision_all"] == pytest.approx(2 / 3)
    names = {f"{figure}_{cut}" for figure in ("f1", "recall", "precision")
             for cut in ("all", "100", "50", "25")}  # fmt: skip
    assert set(figures) == names | {"coverage"}
    assert set(f1_of_set({}, {}).values()) == {0.0}


def test_a_cut_is_seen_in_a_long_ranking() -> None:
    papers = [Scored(f"p{number:03}", 1.0 - number / 1_000) for number in range(200)]
    golds = {"q": Gold(tuple(f"p{number:03}" for number in range(0, 200, 2)))}
    figures = f1_of_set({"q": papers}, golds)
    assert [figures[f"recall_{cut}"] for cut in ("all", 100, 50, 25)] == [1.0, 0.5, 0.25, 0.13]


def test_pasas_figures_by_hand() -> None:
    papers = [
        Scored("GPT-4 Report", 0.9), Scored("gpt 3 report", 0.1), Scored("Other", 0.6),
        Scored("Half", 0.5),
    ]  # fmt: skip
    figures = pasa_figures(papers, ["GPT-3: Report!", "Half", "Absent"])
    assert figures == {
        "crawler_recall": pytest.approx(2 / 3),  # digits do not count
        "precision": 0.5,  # above 0.5, not from it; the first score of a title counts
        "recall": pytest.approx(1 / 3),
        "recall_20": pytest.approx(2 / 3),
        "recall_50": pytest.approx(2 / 3),
        "recall_100": pytest.approx(2 / 3),
    }
    many = [Scored("abcdefgh"[i % 8] * (i // 8 + 1), 0.9 - i / 1_000) for i in range(120)]
    found = pasa_figures(many, [many[19].id, many[20].id, many[49].id, many[100].id])
    assert [found[f"recall_{cut}"] for cut in (20, 50, 100)] == [0.25, 0.75, 0.75]


def test_pasas_figures_of_a_set_are_means_of_its_queries() -> None:
    results = {"q1": [Scored("A", 0.9)], "q2": [Scored("B", 0.9), Scored("C", 0.9)]}
    figures = pasa_of_set(results, {"q1": ["A"], "q2": ["B"], "q3": ["D"]})
    assert figures["precision"] == pytest.approx(0.5)
    assert figures["crawler_recall"] == pytest.approx(2 / 3) == figures["coverage"]
    assert set(pasa_of_set({}, {}).values()) == {0.0}


def test_litsearch_recall() -> None:
    results = {"q1": ["x", "a", "1706.03762v1", "b", "c", "d"], "q2": ["a"]}
    golds = {"q1": Gold(("1706.03762", "d")), "q2": Gold(("a",), missing=1), "q3": Gold(("a",))}
    figures = litsearch_of_set(results, golds)
    assert figures == {
        "recall_5": pytest.approx((0.5 + 0.5 + 0) / 3),
        "recall_20": pytest.approx((1.0 + 0.5 + 0) / 3),
        "recall_50": pytest.approx((1.0 + 0.5 + 0) / 3),
        "coverage": pytest.approx(2 / 3),
    }


NAMES = st.text("abcdef", min_size=1, max_size=2)


@given(st.lists(st.tuples(NAMES, st.floats(0, 1)), max_size=30), st.lists(NAMES, max_size=8))
def test_figures_stay_between_0_and_1(found: list[tuple[str, float]], gold: list[str]) -> None:
    papers = [Scored(*each) for each in found]
    figures = [*f1_of_set({"q": papers}, {"q": Gold(tuple(gold))}).values()]
    figures += pasa_figures(papers, gold).values()
    assert all(math.isfinite(figure) and 0.0 <= figure <= 1.0 for figure in figures)
    whole = f1_at(papers, Gold(tuple(gold)))
    for cut in range(len(papers) + 1):
        assert f1_at(papers, Gold(tuple(gold)), cut=cut).recall <= whole.recall


# --- the annotation of a query


def entry(paper_id: str, score: float) -> PoolEntry:
    return PoolEntry(BY_ID[paper_id], score, "search", "q", 1)


def query(**changes: object) -> PaperQuery:
    given = {"id": "q", "split": "test", "query": "q", "gold": ("a",), **changes}
    return PaperQuery(**given)  # type: ignore[arg-type]


def test_papers_are_told_by_id_first_and_by_title_second() -> None:
    asked = query(
        gold=("arXiv:cs/0112017v2", "a00-1009", "lost", LANTERN),
        titles=("", "", "glow  TREES!", "Moss 3"),
    )
    annotated = Annotated(asked, lambda ids: {LANTERN: LANTERN})
    known = {each: annotated.known_as(BY_ID[each]) for each in BY_ID}
    assert {each: gold for each, gold in known.items() if gold} == {
        WICK: "cs/0112017",
        "A00-1009": "a00-1009",
        GLOW: "lost",
        LANTERN: LANTERN,  # it is in the store, so another paper of its title is another paper
    }


def test_a_paper_under_another_id_of_the_store_is_known() -> None:
    annotated = Annotated(query(gold=("CorpusId:7",)), lambda ids: {"CorpusId:7": LANTERN})
    assert annotated.known_as(BY_ID[LANTERN]) == "CorpusId:7"
    assert annotated.papers == (LANTERN,)


def test_the_figures_of_a_pool() -> None:
    annotated = Annotated(query(gold=(LANTERN, BEACON, WICK), gold_missing=1), lambda ids: {})
    pool = Pool()
    for number, each in enumerate(MOSS):
        pool.add(entry(each, 0.6 + number / 100))
    for each, score in ((LANTERN, 0.9), (BEACON, 0.5), (WICK, 0.49)):
        pool.add(entry(each, score))
    figures = annotated.figures(pool.ranked(), 0.5)
    assert figures == {
        "f1_all": pytest.approx(2 * (2 / 21) * 0.5 / (2 / 21 + 0.5)),
        "recall_all": 0.5,
        "precision_all": pytest.approx(2 / 21),
        "f1_all_t0": pytest.approx(2 * (3 / 22) * 0.75 / (3 / 22 + 0.75)),
        "recall_all_t0": 0.75,
        "crawler_recall": 0.75,
        "recall_20": 0.25,
        "recall_50": 0.75,
        "recall_100": 0.75,
    }
    assert set(annotated.figures([], 0.5).values()) == {0.0}

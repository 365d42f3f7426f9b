from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.paper_search.pool import Pool, PoolEntry
from tests.paper_search.handmade import BY_ID, EMBER, LANTERN, MOSS, TORCH, WICK, paper


def pool_of(*scored: tuple[str, float], expanded: tuple[str, ...] = ()) -> Pool:
    pool = Pool()
    for paper_id, score in scored:
        pool.add(PoolEntry(BY_ID[paper_id], score, "search", "q", 1))
    for paper_id in expanded:
        pool.mark_expanded(paper_id)
    return pool


@pytest.mark.parametrize(
    ("text", "paper_id"),
    [
        (LANTERN, LANTERN),
        (f" arXiv:{LANTERN}v3 [cs.CL] ", LANTERN),
        (f"https://arxiv.org/pdf/{LANTERN}v2.pdf#page=3", LANTERN),
        (f"10.48550/arXiv.{LANTERN}", LANTERN),
        (f"https://doi.org/10.48550/ARXIV.{LANTERN}", LANTERN),
        (f"ar5iv.labs.arxiv.org/html/{LANTERN}", LANTERN),
        (WICK, WICK),
        ("CS.CL/0112017v1", WICK),
        ("arxiv.org/abs/cs/0112017", WICK),
        (EMBER, EMBER),
        ("a00-1009", EMBER),
        (TORCH, TORCH),
        ("2020.ACL-main.148", TORCH),
        ("1501.0000", None),
        ("1501.000011", None),
        (f"{LANTERN}vX", None),
        ("2020.acl-main.14", None),
        ("", None),
        ("None", None),
        ("\x00", None),
    ],
)
def test_ids_are_found_in_every_spelling(text: str, paper_id: str | None) -> None:
    pool = pool_of((LANTERN, 0.5), (WICK, 0.5), (EMBER, 0.5), (TORCH, 0.5))
    found = pool.find(text)
    assert (found.id if found else None) == paper_id


def test_ids_that_differ_in_case_alone_stay_apart() -> None:
    pool = Pool()
    for paper_id in ("ab-1", "AB-1"):
        pool.add(PoolEntry(paper(paper_id, "t", "a"), 0.5, "search", "q", 1))
    found = [pool.find(text) for text in ("ab-1", "AB-1", "Ab-1")]
    assert [each.id if each else "" for each in found] == ["ab-1", "AB-1", "ab-1"]


def test_a_paper_is_found_by_its_arxiv_id_and_by_other_names() -> None:
    pool = Pool()
    held = paper("P19-1", "t", "a")
    object.__setattr__(held, "arxiv_id", "1905.00001")
    pool.add(PoolEntry(held, 0.5, "search", "q", 1))
    found = pool.find("arXiv:1905.00001v2")
    assert found is not None and found.id == "P19-1"
    names = {"CorpusId:9": "P19-1", "CorpusId:8": "P19-2"}
    assert pool.find("CorpusId:9", names.get) is found
    assert pool.find("CorpusId:8", names.get) is None and pool.find("x", names.get) is None


def test_a_copy_changes_on_its_own() -> None:
    pool = pool_of((LANTERN, 0.5))
    twin = pool.copy()
    twin.mark_expanded(LANTERN)
    twin.add(PoolEntry(BY_ID[WICK], 0.1, "expand", LANTERN, 2))
    assert len(pool) == 1 and WICK not in pool and LANTERN in pool
    assert [entry.expanded for entry in pool] == [False]
    assert [entry.expanded for entry in twin] == [True, False]


def test_ten_of_a_kind_are_shown_best_first() -> None:
    scored = [(each, 0.1 + number / 100) for number, each in enumerate(MOSS)]
    pool = pool_of(*scored, (LANTERN, 0.9), (WICK, 0.05), expanded=(LANTERN, WICK))
    shown = pool.shown(0.0, 10)
    assert [entry.id for entry in shown] == [LANTERN, *reversed(MOSS[-10:]), WICK]
    assert [entry.id for entry in pool.shown(0.2, 10)] == [LANTERN, *reversed(MOSS[10:])]
    assert pool.shown(0.95, 10) == []


def test_equal_scores_are_shown_by_id_and_by_steppo_the_other_way_round() -> None:
    pool = pool_of(*((each, 0.5) for each in MOSS[:14]), expanded=MOSS[:12])
    assert [entry.id for entry in pool.shown(0.0, 10)] == [*MOSS[:10], *MOSS[12:14]]
    steppo = [entry.id for entry in pool.shown(0.0, 10, "steppo")]
    assert steppo == [*reversed(MOSS[2:12]), *reversed(MOSS[12:14])]
    mixed = pool_of((MOSS[0], 0.5), (MOSS[1], 0.5), (MOSS[2], 0.6), expanded=(MOSS[0],))
    assert [entry.id for entry in mixed.shown(0.0, 10)] == [MOSS[2], MOSS[0], MOSS[1]]
    assert [entry.id for entry in mixed.shown(0.0, 10, "steppo")] == [MOSS[2], MOSS[0], MOSS[1]]
    other = pool_of((MOSS[0], 0.5), (MOSS[1], 0.5), expanded=(MOSS[1],))
    assert [entry.id for entry in other.shown(0.0, 10)] == [MOSS[0], MOSS[1]]
    assert [entry.id for entry in other.shown(0.0, 10, "steppo")] == [MOSS[1], MOSS[0]]


@given(
    st.lists(st.tuples(st.sampled_from(MOSS), st.sampled_from([0.1, 0.2, 0.3])), max_size=15),
)
def test_the_order_in_which_papers_came_changes_nothing(
    scored: list[tuple[str, float]],
) -> None:
    once = list(dict(scored).items())
    for order in ("id", "steppo"):
        shown = pool_of(*once).shown(0.0, 10, order)  # type: ignore[arg-type]
        again = pool_of(*reversed(once)).shown(0.0, 10, order)  # type: ignore[arg-type]
        assert shown == again
    assert pool_of(*once).ranked() == pool_of(*reversed(once)).ranked()

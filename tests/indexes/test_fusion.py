"""Reciprocal rank fusion: exact, and the same whatever comes first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.fusion import fuse, rrf
from agentgym_suite.indexes.hits import Hits

IDS = st.lists(st.sampled_from("abcdefghijklmnop"), max_size=20)
LISTS = st.lists(IDS, max_size=5)


def plain(lists: list[list[str]], k: int) -> list[tuple[str, Fraction]]:
    """The definition, in fractions."""
    totals: dict[str, Fraction] = {}
    ranks: dict[str, int] = {}
    for ids in lists:
        for rank, name in enumerate(dict.fromkeys(ids), start=1):
            totals[name] = totals.get(name, Fraction(0)) + Fraction(1, k + rank)
            ranks[name] = min(rank, ranks.get(name, rank))
    return sorted(totals.items(), key=lambda item: (-item[1], ranks[item[0]], item[0]))


@given(LISTS, st.integers(0, 100))
def test_it_is_the_definition(lists: list[list[str]], k: int) -> None:
    wanted = [(name, float(total)) for name, total in plain(lists, k)]
    assert rrf(lists, k=k) == wanted


@given(LISTS, st.randoms())
def test_the_order_of_the_lists_does_not_matter(lists: list[list[str]], draw: Random) -> None:
    turned = lists[:]
    draw.shuffle(turned)
    assert rrf(turned) == rrf(lists)


@given(LISTS)
def test_a_hundred_runs_are_equal(lists: list[list[str]]) -> None:
    first = rrf(lists)
    with ThreadPoolExecutor(4) as pool:
        assert all(again == first for again in pool.map(rrf, [lists] * 100))


@given(IDS)
def test_one_list_and_an_empty_one_keep_the_order(ids: list[str]) -> None:
    distinct = list(dict.fromkeys(ids))
    assert [name for name, _ in rrf([ids, []])] == distinct
    assert [name for name, _ in rrf([ids])] == distinct


def test_an_id_twice_in_a_list_counts_at_its_better_rank() -> None:
    assert rrf([["a", "b", "a", "a"]]) == rrf([["a", "b"]])
    assert dict(rrf([["b", "a", "b", "c"]]))["c"] == 1 / 63


def test_ties() -> None:
    assert [name for name, _ in rrf([["b", "a"], ["a", "b"]])] == ["a", "b"]
    # 1/(1+2) twice is 1/(1+1) + 1/(1+5): rounded fractions could tell them apart.
    lists = [["x", "t", "p", "q", "s"], ["y", "t", "r", "u", "x"]]
    assert [name for name, _ in rrf(lists, k=1)][:2] == ["x", "t"]
    assert dict(rrf(lists, k=1))["x"] == dict(rrf(lists, k=1))["t"]


def test_scores_of_sixty() -> None:
    assert rrf([["a"], ["a"]]) == [("a", 2 / 61)]
    assert rrf([]) == rrf([[], []]) == []


@pytest.mark.parametrize("k", [-1, 60.0, True, None])
def test_k_is_an_integer_from_0_on(k: object) -> None:
    with pytest.raises(UsageError, match="give an integer from 0 on"):
        rrf([["a"]], k=k)  # type: ignore[arg-type]


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 3))), max_size=3),
    st.integers(1, 9),
    st.randoms(),
)
def test_equally_scored_ids_may_come_in_any_order(
    scored: list[list[tuple[str, int]]], limit: int, draw: Random
) -> None:
    def ranked(shuffled: bool) -> list[Hits]:
        lists = []
        for pairs in scored:
            own = list(dict(pairs).items())
            if shuffled:
                draw.shuffle(own)
            own.sort(key=lambda pair: -pair[1])
            lists.append(Hits(tuple(n for n, _ in own), tuple(float(s) for _, s in own)))
        return lists

    fused = fuse(ranked(False), limit)
    assert fused == fuse(ranked(True), limit)
    assert len(fused) <= limit


def test_long_lists_are_exact() -> None:
    lists = [
        [f"d{number}" for number in range(2000)],
        [f"d{number}" for number in range(1999, -1, -1)],
    ]
    assert rrf(lists) == [(name, float(total)) for name, total in plain(lists, 60)]

"""What an environment is given, and says plainly: selectors, splits, ids in brackets, a server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.indexes import remote_papers
from agentgym_suite.paper_search.env import PaperSearchEnv
from agentgym_suite.paper_search.query_set import QuerySet
from tests.paper_search.handmade import (
    GLOW,
    LANTERN,
    QUERIES,
    QUESTION,
    TableSelector,
    TableSource,
    handmade_env,
    handmade_queries,
    outcomes,
)


def found_env(queries: QuerySet, task: str = QUESTION, **kwargs: Any) -> PaperSearchEnv:
    source = TableSource({"lanterns": [LANTERN, GLOW]})
    return handmade_env(queries, task, papers=source, **kwargs)


def test_a_selector_has_a_name_and_a_digest_and_gives_numbers(queries: QuerySet) -> None:
    class Bare:
        def score(self, query: str, papers: Any) -> Any:
            return [0.5 for _ in papers]

    bare: Any = Bare()
    with pytest.raises(UsageError, match="Bare has None as its name"):
        PaperSearchEnv(selector=bare)
    bare.name = "bare"
    with pytest.raises(UsageError, match="bare has no digest"):
        PaperSearchEnv(selector=bare)
    bare.digest = 7
    with pytest.raises(UsageError, match="bare has 7 as its digest"):
        found_env(queries, selector=bare)
    for score in (None, "0.5", 2.0, float("nan")):
        selector: Any = TableSelector(rest=score)  # type: ignore[arg-type]
        env = found_env(queries, selector=selector)
        with pytest.raises(RetrievalError, match="the selector table gave the paper"):
            env.step("search[lanterns]")
        assert not len(env.state.pool)


def test_words_are_weighed_only_where_a_store_counts_them(queries: QuerySet) -> None:
    for searched, named in (
        ({"index": "HTTP://h:4000"}, "those of 'HTTP://h:4000' have none"),
        ({"papers": TableSource()}, "the given papers have none"),
    ):
        with pytest.raises(UsageError, match=named) as refused:
            PaperSearchEnv(queries=queries, **searched)  # type: ignore[arg-type]
        assert "index=" in str(refused.value) and "oracle" in str(refused.value)


def test_without_a_split_the_reported_one_is_played(tmp_path: Path) -> None:
    for split in ("real", "train"):
        own = handmade_queries(tmp_path / split, [replace(QUERIES[0], split=split)])
        env = PaperSearchEnv(queries=own, papers=TableSource(), selector=TableSelector())
        assert env.reset(seed=1)[1]["split"] == split


def test_what_is_below_the_floor_is_told_as_not_relevant(queries: QuerySet) -> None:
    env = found_env(queries, selector=TableSelector(rest=0.0))
    calls = json.loads(env.step("search[lanterns]")[4]["calls"])
    assert calls[0]["message"].endswith("found nothing relevant")


def test_ids_in_brackets_are_expanded(queries: QuerySet) -> None:
    env = found_env(queries)
    env.step("search[lanterns]")
    told = outcomes(env.step(f'expand[[{LANTERN}]]\nexpand["{GLOW}".]')[4])
    assert [status for status, _ in told] == ["ok", "ok"]


def test_a_server_that_cannot_search_so_is_told_at_reset(
    queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sparse(remote_papers.RemotePapers):
        def search_papers(self, *_: Any, retrieval: str | None = None, **__: Any) -> Any:
            raise RetrievalError(f"retrieval is {retrieval}")

    monkeypatch.setattr(remote_papers, "RemotePapers", Sparse)
    env = PaperSearchEnv(
        queries=queries, index="http://h", retrieval="dense", selector="oracle", reward="steppo"
    )
    with pytest.raises(RetrievalError, match="retrieval is dense"):
        env.reset(seed=1)

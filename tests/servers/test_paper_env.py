"""PaperSearch through the paper server is PaperSearch over the store, word for word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import gymnasium as gym
import pytest

import agentgym_suite  # noqa: F401  registers the environments
from agentgym_suite.indexes.lexical_selector import LexicalSelector
from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import PaperStore
from agentgym_suite.indexes.paper_store_build import build_paper_store
from agentgym_suite.indexes.remote_papers import RemotePapers
from agentgym_suite.paper_search.env import PaperSearchEnv
from agentgym_suite.paper_search.paper_sources import RemoteSource, StoreSource
from agentgym_suite.paper_search.query_set import QuerySet
from tests.paper_search.handmade import BY_ID, PAPERS, handmade_queries
from tests.servers.small_papers import transport
from tests.servers.test_cli import served, wait_until_ready

QUERIES = ("lantern", "light \ud800", "", "*", "a & b = c", "moss?")
NO_PAPERS = ("search", "search/title", "x/citations", "..", "%2F", "é 😀", "?", "CorpusId:7")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> QuerySet:
    folder = tmp_path_factory.mktemp("queries") / "data"
    return handmade_queries(folder, with_papers=True)


@pytest.fixture(scope="module")
def store(data: QuerySet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaperStore]:
    assert data.corpus is not None
    folder = tmp_path_factory.mktemp("papers") / "store"
    build_paper_store(folder, data.corpus, data.citations)
    opened = PaperStore.open(folder)
    yield opened
    opened.close()


def action(dice: Random) -> str:
    """Up to seven calls: sound ones, and such as agents write."""
    lines = []
    for _ in range(dice.randint(1, 7)):
        paper = dice.choice(PAPERS)
        spelled = (paper.paper_id, f"arXiv:{paper.paper_id}v3", f" {paper.paper_id.upper()} ")
        words = f"{paper.title} {dice.choice(PAPERS).abstract}".split()
        lines.append(
            dice.choice(
                [
                    f"search[{' '.join(dice.sample(words, min(3, len(words))))}]",
                    f"search[{dice.choice(QUERIES)}]",
                    f"expand[{dice.choice(spelled)}]",
                    f"expand[{dice.choice(list(BY_ID))}]",
                    f"expand[{dice.choice(NO_PAPERS)}]",
                    "nonsense",
                ]
            )
        )
    return "\n".join(lines)


def told(step: Any) -> Any:
    """What an agent and a trainer see of a reset or a step."""
    *rest, info = step
    return [rest, {key: value for key, value in info.items() if key != "provenance"}]


@pytest.mark.parametrize("reward", ["paper", "steppo", "paperscout"])
@pytest.mark.parametrize("date_cutoff", ["query", None, "2018-04"])
def test_every_step_is_the_same(
    data: QuerySet, store: PaperStore, reward: str, date_cutoff: str | None
) -> None:
    index = PaperIndex(store)
    selector = LexicalSelector(store)
    with transport(index, threads=2) as travel:
        papers = RemotePapers("http://localhost", transport=travel)

        def played(source: Any) -> list[Any]:
            dice = Random(11)
            seen = []
            env = PaperSearchEnv(
                queries=data,
                papers=source,
                selector=selector,
                reward=reward,
                date_cutoff=date_cutoff,
                references_limit=3,
            )
            env.horizon = 5
            for task in ("small/train/q1", "small/test/q2", "small/test/q3"):
                for _ in range(2):
                    seen.append(told(env.reset(options={"task_id": task})))
                    for _ in range(5):
                        seen.append(told(env.step(action(dice))))
                        if seen[-1][0][2]:
                            break
            return seen

        remote, local = played(RemoteSource(papers)), played(StoreSource(index))
        assert remote == local and len(local) > 12
        calls = "".join(info["calls"] for _, info in local)
        assert all(f'"{status}"' in calls for status in ("ok", "unknown_id", "repeated"))
        papers.close()


def test_by_an_address_as_by_a_folder(data: QuerySet, store: PaperStore, tmp_path: Path) -> None:
    def played(index: str) -> list[Any]:
        env = gym.make(
            "PaperSearch-v0", data=data.folder, split="test", index=index, selector="oracle"
        )
        first = env.reset(seed=5)
        identity = json.loads(first[1]["provenance"])
        assert identity["index_digest"] == identity["index"]["digest"] == store.digest
        seen = [told(first)]
        dice = Random(3)
        for _ in range(5):
            seen.append(told(env.step(action(dice))))
            if seen[-1][0][2] or seen[-1][0][3]:
                break
        env.close()
        return seen

    with served(tmp_path, "papers", "--store", str(store.folder)) as (_, address):
        wait_until_ready(address)
        assert played(address) == played(str(store.folder))

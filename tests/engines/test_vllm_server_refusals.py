"""What a training says of a server that cannot be its engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.engines import vllm_server
from agentgym_suite.engines.loading import LoadedPolicy, save_policy
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.vllm_server import (
    FORGET,
    GENERATE,
    NAME,
    NAMED,
    RELOAD,
    VllmServerEngine,
)
from agentgym_suite.errors import EngineError, UsageError
from agentgym_suite.trainers.run_checks import check_engine
from agentgym_suite.trainers.run_settings import RunSettings
from tests.engines.small_policy import small_module, small_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("policy")
    save_policy(LoadedPolicy(small_module(0), small_tokenizer()), made)
    return made


def opened(folder: Path, answer: httpx.Response) -> VllmServerEngine:
    """An engine of a server that answers everything alike."""
    return VllmServerEngine(
        "http://server",
        folder,
        policy_version="start",
        exchange=folder / "weights",
        transport=httpx.MockTransport(lambda request: answer),
    )


def test_a_server_of_another_kind_is_told_how_to_start(folder: Path) -> None:
    answer = httpx.Response(200, json={"paths": {"/inference/v1/generate": {}}})
    with pytest.raises(UsageError, match=r"has no /collective_rpc, .*VLLM_SERVER_DEV_MODE=1 and"):
        opened(folder, answer)


def test_an_answer_that_is_none_of_vllm_s_is_told(folder: Path) -> None:
    with pytest.raises(EngineError, match=r"does not answer /openapi\.json"):
        opened(folder, httpx.Response(200, text="<html>"))
    with pytest.raises(EngineError, match=r"with 500 \(out of memory\)"):
        opened(folder, httpx.Response(500, json={"error": {"message": "out of memory"}}))


def test_nobody_listens(folder: Path) -> None:
    with pytest.raises(EngineError, match="does not answer"):
        VllmServerEngine(
            "http://127.0.0.1:9", folder, policy_version="start", exchange=folder / "weights"
        )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"engine_url": "http://server"}, "set engine = vllm"),
        ({"engine": "vllm", "engine_url": "http://a,http://a"}, "an address twice or an empty one"),
        ({"engine": "vllm", "engine_url": "http://a,"}, "an address twice or an empty one"),
        ({"engine": "vllm", "engine_url": "http://a, http://a/"}, "an address twice"),
        ({"engine": "vllm", "engine_url": "http://"}, "engine_url has 'http:'; give addresses"),
        ({"engine": "vllm", "engine_url": "host:8000"}, "engine_url has 'host:8000'"),
        ({"engine": "vllm", "engine_url": "http://a:port"}, "engine_url has 'http://a:port'"),
        (
            {"engine": "vllm", "engine_url": "http://server", "engine_options": {"seed": 1}},
            "engine vllm here .seed.; leave them out",
        ),
        ({"engine_options": {"seed": 1}}, "engine vllm here .seed.; leave them out"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_engine(RunSettings(**given), 2)


class Server:
    """A server that answers requests for replies with what it is given, one after the other."""

    def __init__(self, *replies: httpx.Response) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append((request.method, path))
        if path == GENERATE:
            return self.replies.pop(0)
        if path == "/v1/models":
            return httpx.Response(200, json={"data": [{"max_model_len": 64}]})
        paths = (GENERATE, RELOAD, FORGET, NAME, NAMED)
        return httpx.Response(200, json={"paths": dict.fromkeys(paths, {})})

    def engine(self, folder: Path, *, pushes: bool = True) -> VllmServerEngine:
        return VllmServerEngine(
            "http://server",
            folder,
            policy_version="start",
            exchange=folder / "weights",
            pushes=pushes,
            transport=httpx.MockTransport(self),
        )


def reply(
    ids: Any = (5,), logprobs: Any = (-1.0,), version: str = "start", **more: Any
) -> httpx.Response:
    content = None if logprobs is None else [{"logprob": one} for one in logprobs]
    choice = {
        "token_ids": ids,
        "logprobs": {"content": content},
        "weight_versions": [{"version": version}],
        "finish_reason": "stop",
    }
    text = json.dumps({"choices": [choice | more]})  # nan, too, which httpx would refuse
    return httpx.Response(200, text=text)


def test_a_process_that_pushes_nothing_asks_the_server_to_change_nothing(folder: Path) -> None:
    server = Server()
    engine = server.engine(folder, pushes=False)
    engine.load_weights({}, "newer")
    assert engine.policy_version == "newer"
    assert {method for method, _ in server.asked} == {"GET"}
    engine.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (httpx.Response(200, json=[1, 2]), "without ids and log-probabilities .KeyError"),
        (httpx.Response(200, json={"choices": []}), "without ids and log-probabilities .IndexErr"),
        (reply(ids=None), "without ids and log-probabilities .TypeError"),
        (reply(logprobs=None), "without ids and log-probabilities .TypeError"),
        (reply(ids=(), logprobs=()), "gave 0 ids with 0 log-probabilities"),
        (reply(ids=(5, 6)), "gave 2 ids with 1 log-probabilities"),
        (reply(ids=(10**6,)), "not all of which can be"),
        (reply(ids=(-1,)), "not all of which can be"),
        (reply(logprobs=(float("nan"),)), "not all of which can be"),
        (reply(version="other"), "samples with other after it was given start"),
        (reply(weight_versions=None), "samples with weights of no name"),
        (httpx.Response(404, text="<html>"), "with 404 .Not Found."),
    ],
)
def test_replies_that_cannot_be_are_told(answer: httpx.Response, told: str, folder: Path) -> None:
    engine = Server(answer).engine(folder)
    with pytest.raises(EngineError, match=told):
        engine.generate([[1, 2]], Sampling(max_new_tokens=4), [0])
    engine.close()


def test_a_reply_is_asked_for_again_where_the_server_stumbles(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(vllm_server.time, "sleep", pauses.append)
    busy = httpx.Response(503, text="<html>")
    server = Server(busy, busy, reply())
    engine = server.engine(folder)
    assert engine.generate([[1, 2]], Sampling(max_new_tokens=4), [0])[0].ids == (5,)
    assert len(pauses) == 2 < sum(path == GENERATE for _, path in server.asked)
    server.replies = [busy] * 4
    with pytest.raises(EngineError, match="with 503 .Service Unavailable."):
        engine.generate([[1, 2]], Sampling(max_new_tokens=4), [0])
    engine.close()


def test_no_address_is_told(folder: Path) -> None:
    with pytest.raises(UsageError, match="is no address of a server"):
        VllmServerEngine(
            "http://127.0.0.1:abc", folder, policy_version="start", exchange=folder / "weights"
        )

"""What a training says of a server that cannot be its engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.engines.loading import LoadedPolicy, save_policy
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


def test_a_process_that_pushes_nothing_asks_the_server_to_change_nothing(folder: Path) -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path))
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"max_model_len": 64}]})
        paths = (GENERATE, RELOAD, FORGET, NAME, NAMED)
        return httpx.Response(200, json={"paths": dict.fromkeys(paths, {})})

    engine = VllmServerEngine(
        "http://server",
        folder,
        policy_version="start",
        exchange=folder / "weights",
        pushes=False,
        transport=httpx.MockTransport(answer),
    )
    engine.load_weights({}, "newer")
    assert engine.policy_version == "newer"
    assert {method for method, _ in asked} == {"GET"}
    engine.close()

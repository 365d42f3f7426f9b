"""How veRL's runs are played, as far as it needs no veRL."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.trainers.privileged import plain_encode
from agentgym_suite.trainers.run_settings import resolve
from agentgym_suite.trainers.verl_settings import play_settings
from tests.trainers.tiny_training import policy


def test_counting_leaves_the_tokenizer_as_others_write_their_prompts_with_it() -> None:
    _, tokenizer = policy()
    prompt = play_settings(resolve("grpo", "tiny", None, {"prompt": "terse"}).run, tokenizer).prompt
    assert prompt is not None and prompt.counter is not None
    assert prompt.counter("now Count to") == len(plain_encode(tokenizer)("now Count to")) > 0
    assert not tokenizer.backend_tokenizer.encode_special_tokens
    tokenizer("now", split_special_tokens=True)
    prompt.counter("now Count to")  # which asks for words of the template as they are in prompts
    assert not tokenizer.backend_tokenizer.encode_special_tokens

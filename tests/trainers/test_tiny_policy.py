"""Words, network and files of the tiny policy."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import EpisodeRequest, PlaySettings
from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import Message, StepPrompt
from agentgym_suite.trainers.demonstrations import cover, noisy_teacher, play_all
from agentgym_suite.trainers.exports import generation_config, save_policy
from agentgym_suite.trainers.task_lists import select_tasks
from agentgym_suite.trainers.tiny_policy import (
    SPECIAL_TOKENS,
    TinyShape,
    build_policy,
    build_tokenizer,
)

TEXTS = ("go to desk 1", "put mug 12 in/on shelf 3", "Goal: x,\ny | z.", "it's open-ended")
SMALL = TinyShape(hidden=16, layers=1, mlp=16, heads=2, kv_heads=1, head_width=8)


def test_the_same_words_give_the_same_tokenizer() -> None:
    one, other = build_tokenizer(TEXTS), build_tokenizer(reversed(TEXTS))
    assert one.backend_tokenizer.to_str() == other.backend_tokenizer.to_str()
    assert one.convert_ids_to_tokens(range(8)) == list(SPECIAL_TOKENS)


@given(st.lists(st.sampled_from([w for text in TEXTS for w in text.split()]), min_size=1))
def test_known_words_come_back_exactly(words: list[str]) -> None:
    tokenizer = build_tokenizer([*TEXTS, *(w for text in TEXTS for w in text.split())])
    text = " ".join(words)
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_words_beyond_the_limit_are_refused() -> None:
    with pytest.raises(UsageError, match="12 different words.*19"):
        build_tokenizer([" ".join("abcdefghijkl")], largest=19)
    with pytest.raises(UsageError, match="no word"):
        build_tokenizer([])


def test_a_conversation_ends_where_the_reply_begins() -> None:
    tokenizer = build_tokenizer(TEXTS)
    ids = TransformersChatTokenizer(tokenizer).chat_ids([Message("user", "go to desk 1")])
    assert tokenizer.convert_ids_to_tokens(ids) == (
        ["<bos>", "<obs>", "▁go", "▁to", "▁desk", "▁1", "<act>"]
    )


def test_the_network_has_a_third_of_a_million_weights_and_two_rows_more_than_words() -> None:
    tokenizer = build_tokenizer(TEXTS)
    before = torch.random.get_rng_state()
    model = build_policy(tokenizer)
    assert torch.equal(before, torch.random.get_rng_state())
    assert 300_000 < sum(weight.numel() for weight in model.parameters()) < 400_000
    assert model.get_output_embeddings().weight.shape[0] == len(tokenizer) + 2
    assert model.generation_config.suppress_tokens == [len(tokenizer), len(tokenizer) + 1]


def test_the_ids_that_end_a_reply_are_exported_whatever_the_tokenizer_says() -> None:
    tokenizer = build_tokenizer(TEXTS)
    end, rows = tokenizer.eos_token_id, len(tokenizer) + 2
    for stops, wanted in (((), end), ((5,), 5), ((2, 5), [2, 5])):
        assert generation_config(tokenizer, rows=rows, stop_ids=stops).eos_token_id == wanted


def test_a_saved_policy_is_loaded_as_any_model_and_never_samples_a_value_row(
    tmp_path: Path,
) -> None:
    tokenizer = build_tokenizer(TEXTS)
    model = build_policy(tokenizer, shape=SMALL)
    with torch.no_grad():  # the two rows would win every draw
        model.get_output_embeddings().weight[-2:] *= 1e3
    save_policy(tmp_path, model, tokenizer, prompt="terse")
    engine = TransformersEngine.load(tmp_path, device="cpu")
    prompt = engine.tokenizer.chat_ids([Message("user", "go to desk 1")])
    sampling = Sampling(max_new_tokens=8, stop_ids=engine.tokenizer.stop_ids)
    replies = engine.generate([prompt] * 8, sampling, range(8))
    assert all(token < len(tokenizer) for reply in replies for token in reply.ids)


def household(**kwargs: Any) -> gym.Env[str, str]:
    return gym.make("ALFWorld-v0", disable_env_checker=True, **kwargs)


def test_every_command_of_small_households_comes_back_and_hardly_a_word_is_unknown() -> None:
    tasks = select_tasks(household, "train", 15)
    assert len(tasks) == 48
    dice = random.Random(0)
    shown, held_out = tasks[::2], dice.sample(tasks[1::2], 6)
    play = PlaySettings(prompt=StepPrompt("terse"), max_steps=20)

    def texts(ids: list[str]) -> list[str]:
        requests = [EpisodeRequest(task, 0) for task in ids]
        return cover(play_all(household, noisy_teacher(0.0), requests, play))

    tokenizer = build_tokenizer(texts(tasks))
    assert len(tokenizer) < 500
    commands = {text for text in texts(shown[:6]) if "\n" not in text}
    for text in commands:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    ids = [token for text in texts(held_out) for token in tokenizer(text)["input_ids"]]
    assert ids.count(tokenizer.unk_token_id) / len(ids) < 0.001

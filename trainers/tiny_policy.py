"""A policy of a third of a million parameters for learning on a CPU: words, weights and files.

The tokenizer knows the words of one environment and is exact in both directions; the network is
a small Qwen3. Both are saved as plain Hugging Face files, so every engine loads them as any model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.exports import generation_config

Model = TypeVar("Model", bound=PreTrainedModel)

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>", "<obs>", "<act>", "<pi>", "</pi>")
"""In the order of their ids."""
VALUE_ROWS = 2
"""Rows of the network behind the tokenizer's last id: read-outs that are never sampled."""

_BLANK = "▁"  # stands for the blank in front of a word, so that decoding loses nothing
_TOKEN = rf"{_BLANK}?(?:[0-9]+|[A-Za-z]+|[^0-9A-Za-z{_BLANK}])|{_BLANK}"
_CHAT = (
    "{{ '<bos>' }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{{ '<act>' + message['content'] + '<eos>' }}"
    "{% else %}{{ '<obs>' + message['content'] }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<act>' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class TinyShape:
    """The size of the network.

    Attributes:
        hidden: width of the residual stream.
        layers: decoder layers.
        mlp: width inside a feed-forward block.
        heads: attention heads.
        kv_heads: key-value heads, a divisor of ``heads``.
        head_width: width of one head.
        window: longest sequence in tokens.
        spread: standard deviation of the weights at the start; a narrow network learns sooner
            with more than the 0.02 of wide ones.
    """

    hidden: int = 96
    layers: int = 3
    mlp: int = 256
    heads: int = 3
    kv_heads: int = 3
    head_width: int = 32
    window: int = 2048
    spread: float = 0.06


def split_words(text: str) -> list[str]:
    """The pieces that become tokens: runs of letters, runs of digits, single other characters.

    A blank in front of a word belongs to it.
    """
    return re.findall(_TOKEN, _BLANK + text.replace(" ", _BLANK))


def build_tokenizer(
    texts: Iterable[str], *, largest: int = 1000, others: Iterable[str] = ()
) -> PreTrainedTokenizerFast:
    """A word-level tokenizer over the words of the texts; the same texts give the same ids.

    Args:
        texts: everything the policy may read or write.
        largest: most words.
        others: texts whose rarer words may stay unknown: the most frequent ones fill the room
            that ``texts`` leave.

    Returns:
        A tokenizer with a chat template; ``decode(encode(text))`` is the text wherever its words
        are known and its blanks are single.

    Raises:
        UsageError: there are no words, or more than ``largest``.
    """
    words = sorted({word for text in texts for word in split_words(text)})
    if not words:
        raise UsageError("there is no word to build a tokenizer from; give texts of environments")
    if len(words) + len(SPECIAL_TOKENS) > largest:
        raise UsageError(
            f"the texts have {len(words)} different words; give fewer texts, or raise {largest}"
        )
    counts = Counter(word for text in others for word in split_words(text))
    for word in words:
        del counts[word]
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    words = sorted([*words, *frequent[: largest - len(words) - len(SPECIAL_TOKENS)]])
    vocabulary = {word: number for number, word in enumerate((*SPECIAL_TOKENS, *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(_BLANK), normalizers.Replace(" ", _BLANK)]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_TOKEN), "isolated")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_BLANK, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        pad_token="<pad>",
        additional_special_tokens=["<obs>", "<act>", "<pi>", "</pi>"],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = _CHAT
    return fast


def build_policy(
    tokenizer: PreTrainedTokenizerFast, *, shape: TinyShape | None = None, seed: int = 0
) -> Qwen3ForCausalLM:
    """A network with random weights for a tokenizer, with two rows more for value read-outs.

    Args:
        tokenizer: gives the vocabulary and the end token.
        shape: its size.
        seed: of the weights; torch's own generator is left as it was.
    """
    shape = shape or TinyShape()
    config = Qwen3Config(
        vocab_size=len(tokenizer) + VALUE_ROWS,
        initializer_range=shape.spread,
        hidden_size=shape.hidden,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_width,
        max_position_embeddings=shape.window,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return random_model(Qwen3ForCausalLM, config, tokenizer, seed=seed)


def random_model(
    kind: Callable[[Any], Model], config: Any, tokenizer: PreTrainedTokenizerFast, *, seed: int
) -> Model:
    """A network with random weights that decodes with a tokenizer.

    Args:
        kind: the network's class.
        config: its configuration.
        tokenizer: gives the end token; rows of the network behind its words are never sampled.
        seed: of the weights; torch's own generator is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(config)
    model.generation_config = generation_config(tokenizer, rows=config.vocab_size)
    model.eval()
    return model

"""A random Qwen3-architecture policy of a few thousand parameters, with a tokenizer of words."""

from __future__ import annotations

from typing import Any

VOCABULARY = 61
CHAT_TEMPLATE = (
    "{% for tool in tools or [] %}<tool> {{ tool.name }} {% endfor %}"
    "{% for message in messages %}<{{ message.role }}> {{ message.content }}"
    "{% if not loop.last or add_generation_prompt %} <end> {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def small_module(seed: int = 0, **changes: Any) -> Any:
    """The model; its weights are large enough that its distributions are far from uniform."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 96,
        "tie_word_embeddings": True,
        "eos_token_id": 1,
        "pad_token_id": 0,
        "bos_token_id": None,
        "initializer_range": 0.25,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = Qwen3ForCausalLM(Qwen3Config(**{**settings, **changes}))
    return module.eval()


def small_tokenizer() -> Any:
    """Words ``w5`` … ``w60`` and the marks of a chat, ids as the model's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    marks = ["<pad>", "<end>", "<user>", "<assistant>", "<tool>"]
    words = {word: place for place, word in enumerate(marks)}
    words |= {f"w{place}": place for place in range(len(marks), VOCABULARY)}
    plain = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    plain.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", eos_token="<end>", unk_token="<pad>"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer

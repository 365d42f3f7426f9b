"""The encoders that go by a short name: which model, how it pools, what it wants before a text.

Facts from the models' own pages. Pooling and prefixes differ from model to model, and a wrong one
gives vectors that look right and rank badly: Search-R1's server pools every model by mean, which
is wrong for BGE. So they stand here, and an encoder whose files say otherwise is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class EncoderPreset:
    """One model and the only right way to use it.

    Attributes:
        name: the short name.
        model: where its publisher keeps it, ``owner/name`` on the Hugging Face hub.
        dim: numbers in a vector.
        pooling: ``cls`` (the first token's vector) or ``mean`` (of all tokens).
        query_prefix: stands before every query.
        passage_prefix: stands before every passage.
        max_length: tokens kept of a text.
    """

    name: str
    model: str
    dim: int
    pooling: str
    query_prefix: str = ""
    passage_prefix: str = ""
    max_length: int = 512


OFFLINE = "minilm"
"""The preset whose weights come with the extra ``retrieval``, by pip, without a download."""

_BGE_QUERY = "Represent this sentence for searching relevant passages: "

PRESETS: Mapping[str, EncoderPreset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            EncoderPreset(
                OFFLINE, "sentence-transformers/all-MiniLM-L6-v2", 384, "mean", max_length=256
            ),
            EncoderPreset("bge-large", "BAAI/bge-large-en-v1.5", 1024, "cls", _BGE_QUERY),
            EncoderPreset("bge-base", "BAAI/bge-base-en-v1.5", 768, "cls", _BGE_QUERY),
            EncoderPreset("bge-small", "BAAI/bge-small-en-v1.5", 384, "cls", _BGE_QUERY),
            EncoderPreset("bge-m3", "BAAI/bge-m3", 1024, "cls", max_length=8192),
            EncoderPreset("e5-base", "intfloat/e5-base-v2", 768, "mean", "query: ", "passage: "),
            EncoderPreset("e5-large", "intfloat/e5-large-v2", 1024, "mean", "query: ", "passage: "),
        )
    }
)

"""The sizes of decoder-only models, and how many weights follow from them.

Known are the models of published comparisons, and every folder whose ``config.json`` is of the
same family: Qwen2's and Qwen3's blocks of attention and gated feed-forward.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.arguments import check_count, shown, shown_json
from agentgym_suite.errors import UsageError

_KNOWN = Path(__file__).parent / "architectures.toml"
_FAMILIES = ("qwen2", "qwen3")
ALL_LINEAR = "all-linear"
LINEAR_MAPS = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)
"""A layer's linear maps by name, in the order of ``Architecture.linear_shapes``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A decoder-only model.

    Attributes:
        name: how the model is called.
        hidden: width of the residual stream.
        layers: decoder layers.
        heads: attention heads.
        kv_heads: key-value heads.
        head_width: width of one head.
        mlp: width inside a feed-forward block.
        vocabulary: rows of the embeddings.
        tied: the head is the embeddings.
        query_key_norm: queries and keys are normalised, head by head.
        query_key_value_bias: the layers that make them have a bias.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    mlp: int
    vocabulary: int
    tied: bool = False
    query_key_norm: bool = False
    query_key_value_bias: bool = False

    @property
    def query_width(self) -> int:
        """Of all heads together."""
        return self.heads * self.head_width

    @property
    def key_width(self) -> int:
        """Of all key-value heads together."""
        return self.kv_heads * self.head_width

    @property
    def linear_shapes(self) -> tuple[tuple[int, int], ...]:
        """(in, out) of a layer's linear maps: query, key, value, output, gate, up, down."""
        hidden, query, key = self.hidden, self.query_width, self.key_width
        attention = ((hidden, query), (hidden, key), (hidden, key), (query, hidden))
        return (*attention, (hidden, self.mlp), (hidden, self.mlp), (self.mlp, hidden))

    @property
    def layer_matrices(self) -> int:
        """Weights of a layer that tokens are multiplied with."""
        return sum(wide * narrow for wide, narrow in self.linear_shapes)

    @property
    def layer_parameters(self) -> int:
        """Weights of a layer."""
        norms = 2 * self.hidden + (2 * self.head_width if self.query_key_norm else 0)
        bias = self.query_width + 2 * self.key_width if self.query_key_value_bias else 0
        return self.layer_matrices + norms + bias

    @property
    def embedding(self) -> int:
        """Weights of the embeddings, and as many of a head that is not tied."""
        return self.vocabulary * self.hidden

    @property
    def trunk_parameters(self) -> int:
        """Weights of all but the head: embeddings, layers and the last norm."""
        return self.embedding + self.layers * self.layer_parameters + self.hidden

    @property
    def parameters(self) -> int:
        """Weights of the model."""
        return self.trunk_parameters + (0 if self.tied else self.embedding)

    @property
    def critic_parameters(self) -> int:
        """Weights of a value network on the same trunk: one output with a bias."""
        return self.trunk_parameters + self.hidden + 1

    def adapter_shapes(self, targets: str = ALL_LINEAR) -> tuple[tuple[int, int], ...]:
        """(in, out) of those linear maps of a layer that an adapter lies beside.

        Args:
            targets: ``all-linear``, or names of ``LINEAR_MAPS`` or ends of them, with commas.

        Raises:
            UsageError: a name of no such map.
        """
        if targets == ALL_LINEAR:
            return self.linear_shapes
        ends = [f".{name.strip()}" for name in targets.split(",")]
        for end in ends:
            if not any(f".{name}".endswith(end) for name in LINEAR_MAPS):
                raise UsageError(
                    f"lora_targets has {end[1:]!r}, which is no linear layer of {self.name}; use "
                    f"{ALL_LINEAR}, or some of {', '.join(LINEAR_MAPS)}"
                )
        shapes = zip(LINEAR_MAPS, self.linear_shapes, strict=True)
        return tuple(shape for name, shape in shapes if f".{name}".endswith(tuple(ends)))

    @property
    def cached_elements(self) -> int:
        """Numbers that the keys and values of one token are."""
        return 2 * self.layers * self.key_width


def known_architectures() -> dict[str, Architecture]:
    """The models of published comparisons by name.

    Raises:
        UsageError: the table of sizes contradicts its sums.
    """
    found = {}
    for name, row in tomllib.loads(_KNOWN.read_text("utf-8")).items():
        stated = row.pop("parameters")
        found[name] = Architecture(name=name, **row)
        if found[name].parameters != stated:
            raise UsageError(
                f"{_KNOWN.name} gives {name} {stated:,} weights, its sizes give "
                f"{found[name].parameters:,}; correct the row"
            )
    return found


def architecture(model: str) -> Architecture:
    """The sizes of a model, by its name or its folder.

    Args:
        model: a folder with a ``config.json``, a name such as ``Qwen/Qwen3-1.7B``, or its last
            part in any case.

    Raises:
        UsageError: the model is not known, or of another family.
    """
    file = Path(model) / "config.json"
    if os.path.isfile(file):
        return architecture_of(model, _read_config(file))
    known = known_architectures()
    for name, found in known.items():
        if model.lower() in (name.lower(), name.lower().rpartition("/")[2]):
            return found
    raise UsageError(
        f"the model {shown(model)} is not known; give its folder, or one of {', '.join(known)}"
    )


def architecture_of(name: str, config: Mapping[str, Any]) -> Architecture:
    """The sizes of a model, by what its ``config.json`` holds.

    Args:
        name: how it is called.
        config: of transformers.

    Raises:
        UsageError: it is of another family, or a size is missing or cannot be.
    """
    family = config.get("model_type")
    if family not in _FAMILIES:
        raise UsageError(
            f"{name} is a {family} model, whose weights are not counted here; use one of the "
            f"families {', '.join(_FAMILIES)}"
        )

    def size(of: str, otherwise: int | None = None) -> int:
        return check_count(f"{of} of {name}", config.get(of) or otherwise, 1)

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    return Architecture(
        name=name,
        hidden=hidden,
        layers=size("num_hidden_layers"),
        heads=heads,
        kv_heads=size("num_key_value_heads", heads),
        head_width=size("head_dim", hidden // heads),
        mlp=size("intermediate_size"),
        vocabulary=size("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
        query_key_norm=family == "qwen3",
        query_key_value_bias=family == "qwen2",
    )


def _read_config(file: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{file} cannot be read ({error}); bring the model's folder over whole"
        ) from error
    if not isinstance(config, dict):
        raise UsageError(
            f"{file} holds {shown_json(config)} instead of an object; bring the model's folder "
            "over whole"
        )
    return config

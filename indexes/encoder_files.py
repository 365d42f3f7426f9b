"""What the folder of a sentence-transformers model says of it, read without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.errors import RetrievalError
from agentgym_suite.files import Json
from agentgym_suite.indexes.encoder_presets import EncoderPreset
from agentgym_suite.model_files import json_at, weights_sha256

_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_DEFAULT_LENGTH = 512


@dataclass(frozen=True, slots=True)
class EncoderFiles:
    """A model's folder and how its vectors are made.

    Attributes:
        folder: where the model lies.
        name: the preset's, or the folder's.
        dim: numbers in a vector.
        pooling: how token vectors become one, as sentence-transformers names it.
        query_prefix: stands before every query.
        passage_prefix: stands before every passage.
        max_length: tokens kept of a text.
    """

    folder: Path
    name: str
    dim: int
    pooling: str
    query_prefix: str
    passage_prefix: str
    max_length: int

    def identity(self) -> dict[str, Json]:
        """All that decides a vector; see ``encoders.Encoder``.

        Raises:
            RetrievalError: the folder has no weights.
        """
        return {
            "name": self.name,
            "dim": self.dim,
            "weights_sha256": weights_sha256(self.folder),
            "pooling": self.pooling,
            "query_prefix": self.query_prefix,
            "passage_prefix": self.passage_prefix,
            "max_length": self.max_length,
            "normalize": True,
        }


def read_encoder_files(folder: Path, preset: EncoderPreset | None = None) -> EncoderFiles:
    """Read how a model is to be used.

    Args:
        folder: a model of sentence-transformers.
        preset: what the model should be; decides the prefixes and the length. Without one they
            come from the folder's own files.

    Raises:
        RetrievalError: it is no such model, or not the preset's.
    """
    modules = _read(folder, "modules.json")
    if modules is None:
        raise RetrievalError(
            f"{folder} has no modules.json, which says how the model pools its tokens; give a "
            "folder that sentence-transformers has saved"
        )
    try:
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        if kinds[:2] != ["Transformer", "Pooling"] or set(kinds) - set(_MODULES):
            raise RetrievalError(
                f"{folder} is made of {', '.join(kinds)}; only a Transformer, its Pooling and "
                "Normalize are understood here"
            )
        pooling = _read(folder, f"{modules[1]['path']}/config.json") or {}
        model = _read(folder, "config.json") or {}
        settings = _read(folder, "sentence_bert_config.json") or {}
        prompts = (_read(folder, "config_sentence_transformers.json") or {}).get("prompts") or {}
        found = EncoderFiles(
            folder=folder,
            name=folder.name,
            dim=int(model["hidden_size"]),
            pooling=_pooling(pooling),
            query_prefix=str(prompts.get("query") or ""),
            passage_prefix=str(prompts.get("passage") or prompts.get("document") or ""),
            max_length=int(settings.get("max_seq_length") or _DEFAULT_LENGTH),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise RetrievalError(
            f"{folder} is no model of sentence-transformers that can be read ({error!r}); bring "
            "its folder over whole"
        ) from error
    return found if preset is None else _as_preset(found, preset)


def _as_preset(found: EncoderFiles, preset: EncoderPreset) -> EncoderFiles:
    for what, ours, theirs in (
        ("vectors of", preset.dim, found.dim),
        ("pooling by", preset.pooling, found.pooling),
    ):
        if ours != theirs:
            raise RetrievalError(
                f"{found.folder} has {what} {theirs}, the encoder {preset.name} ({preset.model}) "
                f"{ours}; give the folder of that model"
            )
    return EncoderFiles(
        folder=found.folder,
        name=preset.name,
        dim=preset.dim,
        pooling=preset.pooling,
        query_prefix=preset.query_prefix,
        passage_prefix=preset.passage_prefix,
        max_length=preset.max_length,
    )


def _pooling(config: Mapping[str, Any]) -> str:
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for key, mode in _POOLING_KEYS.items() if config.get(key)] or ["mean"]
    elif isinstance(modes, str):
        modes = [modes]
    if len(modes) != 1:
        raise ValueError(f"{len(modes)} ways of pooling at once")
    return str(modes[0])


def _read(folder: Path, name: str) -> Any:
    return json_at(folder / name)

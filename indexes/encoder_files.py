"""What the folder of a sentence-transformers model says of it, read without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.data import data_home
from agentgym_suite.errors import DataError, RetrievalError
from agentgym_suite.files import Json, make_folder, sha256_file, write_json_atomic
from agentgym_suite.indexes.encoder_presets import EncoderPreset

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


def weights_sha256(folder: Path) -> str:
    """The SHA-256 of a model's weights, in hex; computed once and noted in the data home.

    Raises:
        RetrievalError: the folder has no weights.
    """
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise RetrievalError(
            f"{folder} has no weights (*.safetensors or pytorch_model*.bin); bring them over"
        )
    state: list[Json] = []
    for path in files:
        status = path.stat()
        state.append([str(path.resolve()), status.st_size, status.st_mtime_ns])
    key = hashlib.sha256(str(files[0].resolve()).encode()).hexdigest()[:20]
    note = data_home() / "encoders" / f"{key}.json"
    known = _load(note)
    if isinstance(known, Mapping) and known.get("files") == state:
        return str(known["sha256"])
    digests = [sha256_file(path) for path in files]
    digest = digests[0]
    if len(digests) > 1:
        digest = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    with suppress(OSError, DataError):  # a data home that is only read: computed again next time
        make_folder(note.parent)
        write_json_atomic(note, {"files": state, "sha256": digest})
    return digest


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
    return _load(folder / name)


def _load(path: Path) -> Any:
    """What a JSON file holds; None when it is not there or is no JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None

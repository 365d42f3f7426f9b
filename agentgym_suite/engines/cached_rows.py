"""Rows of a causal model with their keys and values: rows join, go one token further, and leave.

Rows are aligned at their last token, so that the next one is the same column for all of them. What
is short is filled up on the left, where nothing attends; positions count from the first real
token. Filling therefore changes no value beyond the rounding of another summation order.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from agentgym_suite.errors import EngineError

ROOM, ROOM_SHARE = 128, 4
"""Columns that a cache grows by: at least so many, and a fourth of those in use."""


def cache_keyword(module: Any) -> str:
    """What a model's ``forward`` calls the keys and values of earlier tokens."""
    # transformers renames the keyword; a forward that takes both warns about the old one
    accepted = inspect.signature(module.forward).parameters
    return "cache" if "cache" in accepted else "past_key_values"


class CausalForward:
    """Calls a causal language model of transformers for the logits after each row's last token.

    Args:
        module: the model; it is used as it is, neither copied nor moved.

    Attributes:
        vocabulary: how many ids it knows.
        window: tokens of prompt and reply together, None when it does not say.

    Raises:
        EngineError: its layers keep something other than keys and values of every token.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        config = module.config.get_text_config()
        kinds = {type(layer) for layer in DynamicCache(config=module.config).layers}
        strange = [kind.__name__ for kind in kinds if not issubclass(kind, DynamicLayer)]
        if strange:
            raise EngineError(
                f"the model {type(module).__name__} keeps its past in {strange[0]}, which rows "
                "cannot join; use the vllm engine, or a model with attention layers alone"
            )
        self._cache_keyword = cache_keyword(module)
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        self.vocabulary = int(module.get_input_embeddings().num_embeddings)
        window = getattr(config, "max_position_embeddings", None)
        self.window = window if isinstance(window, int) else None

    @property
    def device(self) -> torch.device:
        """Where the model's first weights are."""
        return next(self.module.parameters()).device

    def __call__(self, ids: Tensor, pads: Sequence[int], cached: int, cache: Any) -> Tensor:
        """Logits after the last column.

        Args:
            ids: int64, shape (rows, columns): the columns that follow the cached ones.
            pads: filled columns at each row's beginning, cached ones included.
            cached: columns that ``cache`` holds.
            cache: keys and values; the new columns' are added.

        Returns:
            Shape (rows, vocabulary), in the model's dtype.
        """
        end = cached + ids.shape[1]
        columns = torch.arange(end, device=ids.device)
        first = torch.tensor(pads, device=ids.device)[:, None]
        inputs: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": (columns >= first).long() if any(pads) else None,
            "position_ids": (columns[cached:] - first).clamp(min=0),
            "use_cache": True,
            self._cache_keyword: cache,
        }
        if self._keeps_logits:
            inputs["logits_to_keep"] = 1
        logits: Tensor = self.module(**inputs).logits[:, -1]
        return logits


class CachedRows:
    """The running rows: made by ``prefill``, made more by ``join``, fewer by ``keep``."""

    def __init__(self, forward: CausalForward, cache: DynamicCache, lengths: list[int]) -> None:
        self._forward = forward
        self._cache = cache
        self._lengths = lengths

    def __len__(self) -> int:
        return len(self._lengths)

    @classmethod
    def prefill(
        cls, forward: CausalForward, prompts: Sequence[Sequence[int]]
    ) -> tuple[CachedRows, Tensor]:
        """Read prompts together.

        Returns:
            The rows, and the logits after each prompt, shape (rows, vocabulary).
        """
        columns = max(map(len, prompts))
        pads = [columns - len(prompt) for prompt in prompts]
        filled = [[0] * pad + list(prompt) for pad, prompt in zip(pads, prompts, strict=True)]
        cache = DynamicCache()
        cache.layer_class_to_replicate = _GrowingLayer
        logits = forward(torch.tensor(filled, device=forward.device), pads, 0, cache)
        return cls(forward, cache, [len(prompt) for prompt in prompts]), logits

    def advance(self, ids: Sequence[int]) -> Tensor:
        """Add one id to each row.

        Returns:
            The logits after it, shape (rows, vocabulary).
        """
        columns = max(self._lengths)
        pads = [columns - length for length in self._lengths]
        given = torch.tensor(ids, device=self._forward.device)[:, None]
        logits = self._forward(given, pads, columns, self._cache)
        self._lengths = [length + 1 for length in self._lengths]
        return logits

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows in this order; one named twice is copied, the others leave."""
        lengths = [self._lengths[row] for row in rows]
        unused = max(self._lengths) - max(lengths)
        index = torch.tensor(rows, device=self._forward.device)
        for layer in self._cache.layers:
            layer.keep(index, unused)
        self._lengths = lengths

    def join(self, others: CachedRows) -> None:
        """Take in the rows of another, behind one's own; the other is used up."""
        columns = max(*self._lengths, *others._lengths)
        for layer, other in zip(self._cache.layers, others._cache.layers, strict=True):
            layer.join(other, columns)
        self._lengths += others._lengths


class _GrowingLayer(DynamicLayer):  # type: ignore[misc]
    """A layer's keys and values with room behind them, so that one more token copies nothing.

    Shapes are (rows, heads, columns, features); ``keys`` and ``values`` are views of the used
    columns.
    """

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._key_room, self._value_room = key_states, value_states
            self.keys, self.values = key_states, value_states
            return self.keys, self.values
        used = self.keys.shape[-2]
        end = used + key_states.shape[-2]
        if end > self._key_room.shape[-2]:
            room = max(ROOM, used // ROOM_SHARE)
            self._key_room = _with_room(self.keys, end - used + room)
            self._value_room = _with_room(self.values, end - used + room)
        self._key_room[..., used:end, :] = key_states
        self._value_room[..., used:end, :] = value_states
        self.keys = self._key_room[..., :end, :]
        self.values = self._value_room[..., :end, :]
        return self.keys, self.values

    def keep(self, rows: Tensor, unused: int) -> None:
        """Only these rows, without the first ``unused`` columns."""
        self._take(self.keys[rows, :, unused:], self.values[rows, :, unused:])

    def join(self, other: _GrowingLayer, columns: int) -> None:
        """The other's rows behind one's own, both filled up on the left."""
        self._take(
            torch.cat([_filled(self.keys, columns), _filled(other.keys, columns)]),
            torch.cat([_filled(self.values, columns), _filled(other.values, columns)]),
        )

    def _take(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self._key_room, self._value_room = keys, values


def _with_room(states: Tensor, room: int) -> Tensor:
    rows, heads, columns, features = states.shape
    roomy = states.new_empty((rows, heads, columns + room, features))
    roomy[..., :columns, :] = states
    return roomy


def _filled(states: Tensor, columns: int) -> Tensor:
    """Zeros on the left: nothing attends to them, but they must be numbers."""
    return torch.nn.functional.pad(states, (0, 0, columns - states.shape[-2], 0))

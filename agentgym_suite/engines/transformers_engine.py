"""``TransformersEngine``: the token engine over a causal language model in this process."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agentgym_suite.engines.batching import run_batch
from agentgym_suite.engines.cached_rows import CausalForward
from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.decoding import MAX_ROWS, PREFILL_TOKENS, DecodingBatch
from agentgym_suite.engines.loading import (
    find_files,
    load_policy,
    settings_of,
    take_weights,
    weights_digest,
)
from agentgym_suite.engines.tokens import Generated, Sampling, Weights
from agentgym_suite.errors import EngineError, UsageError
from agentgym_suite.indexes.thread_counts import check_threads


class TransformersEngine:
    """Decodes with transformers: rows of different lengths together, each gone when it is done.

    The logits of a row depend on what runs beside it by rounding alone (about 1e-6 in float32),
    its random numbers not at all. ``suppress_tokens`` of the model's generation configuration
    are banned beside what a ``Sampling`` bans. Threads may share one and take turns.

    Args:
        module: a causal language model of transformers; used as it is, and put back into its mode
            after each step, so that a trainer may lend the very model it trains.
        tokenizer: of transformers, for ``tokenizer``.
        policy_version: what the weights are called; a digest of them when not given.
        max_rows: rows that run at once.
        prefill_tokens: tokens of prompts read at once; one prompt always fits.
        threads: of the processor while a step is computed; None leaves torch as it is. torch has
            one number for the calling thread and for threads that have not computed yet: what
            first computes in another thread during a step keeps this number, too.

    Raises:
        UsageError: an argument is out of its range.
        EngineError: rows of this model cannot be decoded together.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        tokenizer: Any = None,
        *,
        policy_version: str | None = None,
        max_rows: int = MAX_ROWS,
        prefill_tokens: int = PREFILL_TOKENS,
        threads: int | None = None,
    ) -> None:
        for name, value in (("max_rows", max_rows), ("prefill_tokens", prefill_tokens)):
            if value < 1:
                raise UsageError(f"{name} is {value}; give at least 1")
        check_threads(threads)
        self._forward: CausalForward | None = CausalForward(module)
        self._version = policy_version
        self._max_rows = max_rows
        self._prefill_tokens = prefill_tokens
        self._threads = threads
        self._lock = threading.RLock()
        self._batches: weakref.WeakSet[_LockedBatch] = weakref.WeakSet()
        settings = settings_of(module.generation_config)
        self._suppressed = settings.suppressed_ids
        self._tokenizer = (
            None if tokenizer is None else TransformersChatTokenizer(tokenizer, settings.stop_ids)
        )

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        policy_version: str | None = None,
        max_rows: int = MAX_ROWS,
        prefill_tokens: int = PREFILL_TOKENS,
        threads: int | None = None,
    ) -> TransformersEngine:
        """The engine of a model's folder, a GGUF file, or a name on the Hugging Face hub.

        Args:
            model: where it lies.
            device: as torch names it; ``auto`` is CUDA where there is one.
            dtype: of the weights; ``auto`` is float32 on a processor, else as they are stored.
            policy_version: what the weights are called; the digest of their files if not given.
            max_rows: as for the class.
            prefill_tokens: as for the class.
            threads: as for the class.

        Raises:
            UsageError: there is no such model, or an argument is out of its range.
            MissingExtra: a GGUF file cannot be read without an extra.
            EngineError: it cannot be loaded.
        """
        policy = load_policy(model, device=device, dtype=dtype)
        return cls(
            policy.module,
            policy.tokenizer,
            policy_version=policy_version or find_files(model).digest,
            max_rows=max_rows,
            prefill_tokens=prefill_tokens,
            threads=threads,
        )

    @property
    def policy_version(self) -> str:
        """Which weights sample now: the name they were given, or ``sha256:<hex>`` of them."""
        with self._lock:
            if self._version is None:
                self._version = weights_digest(self._open().module)
            return self._version

    @property
    def tokenizer(self) -> TransformersChatTokenizer:
        """The model's tokenizer.

        Raises:
            UsageError: it came without one.
        """
        if self._tokenizer is None:
            raise UsageError("the model has no tokenizer; give one, or generate from ids")
        return self._tokenizer

    @property
    def context_window(self) -> int | None:
        """Tokens of prompt and reply together; None when the model does not say."""
        return self._open().window

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generated]:
        """One reply a prompt, in the order of the prompts.

        Args:
            prompts: ids of each prompt, at least one.
            sampling: how all of them are drawn.
            seeds: one a prompt, from 0 to below 2**64.

        Raises:
            ContextTooLong: a prompt and ``max_new_tokens`` exceed the model's window.
            UsageError: an empty prompt, an id that the model does not have, or a wrong seed.
            EngineError: the model failed, or the engine is closed.
        """
        return run_batch(self.begin, prompts, sampling, seeds)

    def begin(self) -> _LockedBatch:
        """An empty batch over the weights of now, for callers that add rows as they come.

        Raises:
            EngineError: the engine is closed.
        """
        with self._lock:
            forward = self._open()
            batch = _LockedBatch(self, forward)
            self._batches.add(batch)
            return batch

    def load_weights(self, weights: Weights, version: str) -> None:
        """Sample with other weights of the same architecture from now on.

        Args:
            weights: parameters by name, or a folder or GGUF file to read them from.
            version: what ``policy_version`` says from now on.

        Raises:
            UsageError: they are not this model's, or replies are under way.
            EngineError: they cannot be read, or the engine is closed.
        """
        with self._lock:
            module = self._open().module
            running = sum(map(len, self._batches))
            if running:
                raise UsageError(
                    f"{running} replies are under way, which other weights would mix; wait for them"
                )
            if isinstance(weights, (str, Path)):
                dtype = str(module.dtype).removeprefix("torch.")
                state = load_policy(weights, device="cpu", dtype=dtype).module.state_dict()
            else:
                state = weights
            take_weights(module, state)
            self._version = version

    def close(self) -> None:
        """Give the model back; nothing can be generated afterwards."""
        with self._lock:
            self._forward = None

    def _open(self) -> CausalForward:
        if self._forward is None:
            raise EngineError("the engine is closed; make another")
        return self._forward

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """One step at a time, without dropout, with the threads that were asked for."""
        with self._lock:
            module = self._open().module
            training: list[torch.nn.Module] = []
            if module.training:  # looked at only then: it takes as long as small models compute
                training = [part for part in module.modules() if part.training]
                module.eval()
            threads = torch.get_num_threads()
            if self._threads is not None:
                torch.set_num_threads(self._threads)
            try:
                yield
            finally:
                for part in training:
                    part.training = True
                if self._threads is not None:
                    torch.set_num_threads(threads)


class _LockedBatch(DecodingBatch):
    """A batch whose steps take turns with all else that its engine does."""

    def __init__(self, engine: TransformersEngine, forward: CausalForward) -> None:
        super().__init__(
            forward,
            engine.policy_version,
            suppressed_ids=engine._suppressed,
            max_rows=engine._max_rows,
            prefill_tokens=engine._prefill_tokens,
        )
        self._engine = engine

    def step(self) -> list[tuple[Hashable, Generated]]:
        with self._engine._computing():
            return super().step()

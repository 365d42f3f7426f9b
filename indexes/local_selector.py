"""The selector that asks a language model on this machine: the probability of ``True``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentgym_suite.data import json_digest
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.local_model import DecisionModel
from agentgym_suite.indexes.paper_store import Paper
from agentgym_suite.indexes.selector_prompts import fill_prompt, selector_prompt
from agentgym_suite.indexes.thread_counts import ProcessLock, ProcessThreads
from agentgym_suite.model_files import find_model
from agentgym_suite.spaces import without_surrogates

BATCH_TOKENS = 8_192
MAX_TOKENS = 4_096

_VERSION = 1
_COLUMN_STEP = 64


class LocalSelector:
    """A causal language model of transformers, asked whether a paper satisfies a query.

    The prompt goes in raw, without a chat template; the score is the softmax over the whole
    vocabulary of the next token at ``True``. PaSa keeps papers above 0.5. Weights are read when
    the first paper comes. Threads may share one and take turns; it pickles as its arguments.

    Prompts are padded to a multiple of 64 tokens and share a batch only with those of the same
    padded length, so that a score hardly depends on what is scored beside it
    (``benchmarks/local_selector.py`` measures how little).

    Args:
        model: a folder that transformers has saved, a file ``….gguf``, or ``owner/name`` on the
            Hugging Face hub, such as ``bytedance-research/pasa-7b-selector``.
        prompt: a name of ``selector_prompts.PROMPTS``.
        device: where it computes, as torch names it.
        dtype: of the weights; ``auto`` is float32 on a processor, else what they are stored as.
        batch_tokens: padded tokens computed at once, at most; one prompt always fits.
        max_tokens: of one prompt; a longer one loses the end of its abstract.
        threads: of the processor, None for what the libraries choose.

    Raises:
        UsageError: an argument is wrong.
        RetrievalError: the model is not here and cannot be fetched.
    """

    name = "local"

    def __init__(
        self,
        model: str | Path,
        *,
        prompt: str = "pasa",
        device: str = "cpu",
        dtype: str = "auto",
        batch_tokens: int = BATCH_TOKENS,
        max_tokens: int = MAX_TOKENS,
        threads: int | None = None,
    ) -> None:
        for what, value in (("batch_tokens", batch_tokens), ("max_tokens", max_tokens)):
            if value < 1:
                raise UsageError(f"{what} is {value}; give at least 1")
        self.prompt = prompt
        self._template = selector_prompt(prompt)
        self._settings = (model, prompt, device, dtype, batch_tokens, max_tokens, threads)
        self._model_name = str(model)
        self._device = device
        self._dtype = dtype
        self._batch_tokens = batch_tokens
        self._max_tokens = max_tokens
        self._threads = ProcessThreads(threads)
        self._files = find_model(model)
        self._model: DecisionModel | None = None
        self._digest = ""
        self._lock = ProcessLock()
        self._shortened = 0

    def __reduce__(self) -> tuple[Callable[..., LocalSelector], tuple[Any, ...]]:
        return _reopened, self._settings

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the model's files, the prompt, and what else decides a score.

        Raises:
            RetrievalError: the model has no weights.
        """
        if not self._digest:
            parts = [self._files.digest, self._template, self._device, self._dtype]
            self._digest = json_digest([self.name, _VERSION, *parts, self._max_tokens])
        return self._digest

    def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
        """The probability of ``True`` for each paper, from 0 to 1.

        Raises:
            MissingExtra: torch or transformers is not installed.
            RetrievalError: the model cannot be loaded, or cannot score these.
        """
        if not papers:
            return []
        scores = [0.0] * len(papers)
        with self._lock:
            self._threads.apply()  # before the weights: in a forked child they would wait for ever
            model = self._loaded()
            most = min(self._max_tokens, model.longest or self._max_tokens)
            rows = [self._tokens(model, query, paper, most) for paper in papers]
            for places, columns in self._batches([len(row) for row in rows]):
                chances = model.decide([rows[place] for place in places], min(columns, most))
                for place, chance in zip(places, chances, strict=True):
                    scores[place] = self._checked(chance)
        return scores

    def info(self) -> dict[str, Json]:
        """Name, digest, model, prompt, device, dtype, and how many abstracts were shortened."""
        return {
            "name": self.name,
            "digest": self.digest,
            "model": self._model_name,
            "prompt": self.prompt,
            "device": self._device,
            "dtype": self._dtype,
            "shortened": self._shortened,
        }

    def close(self) -> None:
        """Give the weights back; the next score reads them again."""
        with self._lock:
            self._model = None

    def _loaded(self) -> DecisionModel:
        if self._model is None:
            self._model = DecisionModel(self._files, device=self._device, dtype=self._dtype)
        return self._model

    def _tokens(self, model: DecisionModel, query: str, paper: Paper, most: int) -> list[int]:
        """The prompt of a paper, with as much of its abstract as fits."""
        tokens = self._prompt_tokens(model, query, paper.title, paper.abstract)
        if len(tokens) <= most:
            return tokens
        around = len(self._prompt_tokens(model, query, paper.title, ""))
        if around > most:
            raise RetrievalError(
                f"the prompt for the paper {paper.paper_id} has {around} tokens without its "
                f"abstract, and the selector takes {most}; raise max_tokens, or take a model that "
                "reads more"
            )
        abstract = paper.abstract
        while len(tokens) > most:
            share = (most - around) / (len(tokens) - around)
            abstract = abstract[: min(int(len(abstract) * share), len(abstract) - 1)]
            tokens = self._prompt_tokens(model, query, paper.title, abstract)
        self._shortened += 1
        return tokens

    def _prompt_tokens(
        self, model: DecisionModel, query: str, title: str, abstract: str
    ) -> list[int]:
        prompt = fill_prompt(self._template, query, title, abstract)
        return model.tokenize([without_surrogates(prompt)])[0]

    def _batches(self, lengths: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """Places of prompts that are computed together, and the columns that these are padded to.

        The longest come first: a batch that does not fit into the memory fails at once.
        """
        groups: dict[int, list[int]] = {}
        for place, length in enumerate(lengths):
            groups.setdefault(-(-length // _COLUMN_STEP) * _COLUMN_STEP, []).append(place)
        for columns in sorted(groups, reverse=True):
            most = max(1, self._batch_tokens // columns)
            places = groups[columns]
            for first in range(0, len(places), most):
                yield places[first : first + most], columns

    def _checked(self, chance: float) -> float:
        if not math.isfinite(chance):
            raise RetrievalError(
                f"the model {self._model_name} gives {chance} for {self._dtype} on {self._device}; "
                "choose another dtype"
            )
        return min(1.0, max(0.0, chance))


def _reopened(
    model: str | Path,
    prompt: str,
    device: str,
    dtype: str,
    batch_tokens: int,
    max_tokens: int,
    threads: int | None,
) -> LocalSelector:
    return LocalSelector(
        model,
        prompt=prompt,
        device=device,
        dtype=dtype,
        batch_tokens=batch_tokens,
        max_tokens=max_tokens,
        threads=threads,
    )

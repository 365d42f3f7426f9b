"""Selectors whose model runs behind a server: vLLM's classifiers, and completions of any kind.

One prompt goes into each request, many requests at the same time: such servers batch by
themselves. What a server says wrongly is an error, never a score: a 0 would look like a paper that
is not relevant.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx

from agentgym_suite.data import json_digest
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.paper_store import Paper
from agentgym_suite.indexes.retrying_client import TIMEOUT_S, RetryingClient, check_url
from agentgym_suite.indexes.selector_prompts import fill_prompt, selector_prompt
from agentgym_suite.indexes.thread_counts import ProcessLock
from agentgym_suite.spaces import without_surrogates

CONCURRENCY = 16
MOST_LOGPROBS = 20
"""What vLLM lists of a token's alternatives unless its operator allows more."""

_DECISION = "True"
_DECISION_TOKENS = 2
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class _Judged:
    """One answer: the score, and for a missing decision what its probability is at most."""

    score: float
    missing_mass: float | None = None


class HttpSelector(ABC):
    """What both selectors share: prompts out, scores back, each once for each paper.

    Threads may share one; it pickles as its settings, without its counters.

    Args:
        url: ``http(s)://host:port``, with or without the route.
        model: the model's name, for a server that has several; None to send none.
        prompt: a name of ``selector_prompts.PROMPTS``.
        token: bearer token, for a server that asks for one.
        timeout_s: longest wait for one answer.
        concurrency: requests under way at the same time, at most.
        transport: how requests travel; None for the network.
        sleep: waits before a request is repeated.

    Raises:
        UsageError: an argument is wrong.
    """

    name: ClassVar[str]
    _routes: ClassVar[tuple[str, ...]]
    """The parts of the route; an address may end in the first few of them."""

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        prompt: str = "pasa",
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        concurrency: int = CONCURRENCY,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if concurrency < 1:
            raise UsageError(f"concurrency is {concurrency}; send at least 1 request at once")
        self.url = _with_route(url, self._routes)
        self.model = model
        self.prompt = prompt
        self._template = selector_prompt(prompt)
        self._concurrency = concurrency
        self._settings: Mapping[str, Any] = {
            "model": model,
            "prompt": prompt,
            "token": token,
            "timeout_s": timeout_s,
            "concurrency": concurrency,
        }
        self._client = RetryingClient(
            "the selector's server",
            token=token,
            timeout_s=timeout_s,
            transport=transport,
            sleep=sleep,
        )
        self._lock = ProcessLock()
        self._clamped = 0
        self._missing = 0
        self._missing_mass = 0.0

    def __reduce__(self) -> tuple[Callable[..., HttpSelector], tuple[Any, ...]]:
        return _reopened, (type(self), self.url, self._settings)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of address, model and prompt; what runs there is not known here."""
        return json_digest([self.name, self.url, self.model, self._template])

    def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
        """The score of each paper, from 0 to 1.

        Raises:
            RetrievalError: the server gave no usable answer for one of them.
        """
        if not papers:
            return []
        prompts = [
            without_surrogates(fill_prompt(self._template, query, paper.title, paper.abstract))
            for paper in papers
        ]
        with ThreadPoolExecutor(min(self._concurrency, len(prompts))) as pool:
            judged = list(pool.map(self._judge, prompts))
        return self._counted(judged)

    def info(self) -> dict[str, Json]:
        """Name, digest, address, model, prompt, and how often an answer had to be mended.

        ``clamped`` counts scores outside [0, 1]; ``missing`` counts answers that did not list the
        decision and became 0, ``missing_mass`` is the most that one of these could have been.
        """
        return {
            "name": self.name,
            "digest": self.digest,
            "url": self.url,
            "model": self.model,
            "prompt": self.prompt,
            "clamped": self._clamped,
            "missing": self._missing,
            "missing_mass": self._missing_mass,
        }

    def close(self) -> None:
        """Close the connections; the next batch opens others."""
        self._client.close()

    @abstractmethod
    def _body(self, prompt: str) -> dict[str, Json]:
        """What is sent for a prompt, without the model."""

    @abstractmethod
    def _read(self, answer: Any) -> _Judged:
        """What an answer says; ValueError, KeyError, IndexError or TypeError if it says nothing."""

    def _judge(self, prompt: str) -> _Judged:
        body = self._body(prompt)
        if self.model is not None:
            body["model"] = self.model
        answer = self._client.post_json(self.url, body)
        try:
            return self._read(answer)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise RetrievalError(
                f"{self.url} gave an answer that cannot be used ({error!r}); point the selector "
                f"{self.name} to a server of that kind"
            ) from error

    def _counted(self, judged: Sequence[_Judged]) -> list[float]:
        scores = [min(1.0, max(0.0, one.score)) for one in judged]
        outside = [
            one.score
            for one, score in zip(judged, scores, strict=True)
            if abs(one.score - score) > _ROUNDING
        ]
        masses = [one.missing_mass for one in judged if one.missing_mass is not None]
        with self._lock:
            first = bool(outside) and not self._clamped
            self._clamped += len(outside)
            self._missing += len(masses)
            self._missing_mass = max([self._missing_mass, *masses])
        if first:
            warnings.warn(
                f"{self.url} gave the score {outside[0]:.6g}; scores outside [0, 1] are clamped, "
                "and counted as 'clamped'",
                stacklevel=3,
            )
        return scores


class VllmClassify(HttpSelector):
    """A sequence classifier on vLLM's pooling server: 1 less its last class's value."""

    name = "vllm_classify"
    _routes = ("/classify",)

    def _body(self, prompt: str) -> dict[str, Json]:
        return {"input": prompt, "activation": False}

    def _read(self, answer: Any) -> _Judged:
        (item,) = answer["data"]
        return _Judged(1.0 - _number(item["probs"][-1]))


class OpenAILogprobs(HttpSelector):
    """A completion of which the server lists the likeliest tokens: the probability of ``True``.

    Read where the first token with text stands, because some tokenizers put a blank of its own
    before the decision. ``True`` with blanks around counts as ``True``. A decision that is not
    among the listed tokens scores 0 and is counted.
    """

    name = "openai_logprobs"
    _routes = ("/v1", "/completions")

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        prompt: str = "pasa",
        top_logprobs: int = MOST_LOGPROBS,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        concurrency: int = CONCURRENCY,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """See ``HttpSelector``; ``top_logprobs`` is how many likeliest tokens are asked for."""
        super().__init__(
            url,
            model=model,
            prompt=prompt,
            token=token,
            timeout_s=timeout_s,
            concurrency=concurrency,
            transport=transport,
            sleep=sleep,
        )
        if top_logprobs < 1:
            raise UsageError(f"top_logprobs is {top_logprobs}; ask for at least 1 token")
        self._top_logprobs = top_logprobs
        self._settings = {**self._settings, "top_logprobs": top_logprobs}

    def _body(self, prompt: str) -> dict[str, Json]:
        return {
            "prompt": prompt,
            "max_tokens": _DECISION_TOKENS,
            "temperature": 0,
            "logprobs": self._top_logprobs,
        }

    def _read(self, answer: Any) -> _Judged:
        (choice,) = answer["choices"]
        for token, listed in _positions(choice["logprobs"]):
            if token.strip():
                found = [chance for text, chance in listed if text.strip() == _DECISION]
                if found:
                    return _Judged(math.fsum(found))
                rest = 1.0 - math.fsum(chance for _, chance in listed)
                return _Judged(0.0, min(1.0, max(0.0, rest)))
        return _Judged(0.0, 1.0)


def _positions(logprobs: Any) -> list[tuple[str, list[tuple[str, float]]]]:
    """Each sampled token with the (text, probability) of those listed in its place.

    Completions say it in ``tokens`` and ``top_logprobs``; some servers answer as chats do, with
    ``content``.
    """
    if not isinstance(logprobs, dict):
        raise ValueError("no log-probabilities")
    if "content" in logprobs:
        positions = [
            (
                _text(place["token"]),
                [(_text(one["token"]), _chance(one["logprob"])) for one in place["top_logprobs"]],
            )
            for place in logprobs["content"]
        ]
    else:
        positions = [
            (_text(token), [(text, _chance(value)) for text, value in listed.items()])
            for token, listed in zip(logprobs["tokens"], logprobs["top_logprobs"], strict=True)
        ]
    if not positions or not all(listed for _, listed in positions):
        raise ValueError("a token without its alternatives")
    return positions


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a token is {value!r}")
    return value


def _chance(logprob: Any) -> float:
    # Some servers send -Infinity for a token that cannot come.
    if logprob == -math.inf:
        return 0.0
    return math.exp(min(_number(logprob), 1.0))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"a value is {value!r}")
    return float(value)


def _with_route(url: str, routes: Sequence[str]) -> str:
    parts = check_url("the selector's address", url)
    address = str(parts).rstrip("/")
    for given in range(len(routes), 0, -1):
        if parts.path.rstrip("/").endswith("".join(routes[:given])):
            return address + "".join(routes[given:])
    return address + "".join(routes)


def _reopened(kind: type[HttpSelector], url: str, settings: Mapping[str, Any]) -> HttpSelector:
    return kind(url, **settings)

"""Selectors: how relevant a paper is to a query, from 0 to 1, by another judge than the agent.

No agent calls one: it judges a search and is no tool of it. Judging by a language model is most of
what a search costs, so that a batch goes out at once and no pair is judged twice.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.http_selectors import OpenAILogprobs, VllmClassify
from agentgym_suite.indexes.lexical_selector import LexicalSelector, TermCounts
from agentgym_suite.indexes.local_selector import LocalSelector
from agentgym_suite.indexes.oracle_selector import OracleSelector
from agentgym_suite.indexes.paper_store import Paper
from agentgym_suite.indexes.selector_scores import check_scores
from agentgym_suite.indexes.thread_counts import ProcessLock

CACHE_SIZE = 100_000
"""Scores kept: about 20 MB."""


@runtime_checkable
class Selector(Protocol):
    """What judges papers. A selector that fails raises RetrievalError: 0 would be a judgement."""

    @property
    def name(self) -> str:
        """How it is called wherever a score appears."""
        ...

    @property
    def digest(self) -> str:
        """All that decides a score."""
        ...

    def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
        """A score from 0 to 1 for each paper, in order; one batch."""
        ...

    def info(self) -> dict[str, Json]:
        """Name, digest, settings, and counters of what had to be mended."""
        ...

    def close(self) -> None:
        """Give back connections and weights; may be called twice."""
        ...


class CachedSelector:
    """A selector that judges each pair once; threads may share it.

    It pickles as the selector and the size, without the scores.

    Args:
        selector: what judges.
        size: how many scores are kept, the ones used last; 0 keeps none.

    Raises:
        UsageError: ``size`` is negative.
    """

    def __init__(self, selector: Selector, size: int = CACHE_SIZE) -> None:
        if size < 0:
            raise UsageError(f"the cache of a selector has the size {size}; give 0 or more")
        self.selector = selector
        self._size = size
        self._known: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._lock = ProcessLock()
        self._judged = 0
        self._reused = 0

    def __reduce__(self) -> tuple[type[CachedSelector], tuple[Selector, int]]:
        return type(self), (self.selector, self._size)

    @property
    def name(self) -> str:
        """The selector's."""
        return self.selector.name

    @property
    def digest(self) -> str:
        """The selector's: scores that are kept are scores that it gave."""
        return self.selector.digest

    def score(self, query: str, papers: Sequence[Paper]) -> list[float]:
        """See ``Selector``; pairs that are not known are judged in one batch.

        Raises:
            RetrievalError: the selector failed, or gave no score from 0 to 1 for each paper.
        """
        digest = self.digest
        keys = [(digest, query, paper.paper_id) for paper in papers]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        fresh: dict[tuple[str, str, str], Paper] = {}
        for key, paper in zip(keys, papers, strict=True):
            if key not in found:
                fresh.setdefault(key, paper)
        if fresh:
            found.update(zip(fresh, self._judge(query, list(fresh.values())), strict=True))
        with self._lock:
            self._judged += len(fresh)
            self._reused += len(keys) - len(fresh)
            for key in keys:
                self._known[key] = found[key]
                self._known.move_to_end(key)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return [found[key] for key in keys]

    def info(self) -> dict[str, Json]:
        """The selector's, and how many pairs were judged and how many were known."""
        return {**self.selector.info(), "judged": self._judged, "reused": self._reused}

    def close(self) -> None:
        """Close the selector; what is known stays known."""
        self.selector.close()

    def _judge(self, query: str, papers: list[Paper]) -> list[float]:
        return check_scores(self.name, self.selector.score(query, papers), papers)


_MADE_BY: Mapping[str, Callable[..., Selector]] = MappingProxyType(
    {
        "lexical": LexicalSelector,
        "local": LocalSelector,
        "vllm_classify": VllmClassify,
        "openai_logprobs": OpenAILogprobs,
        "oracle": OracleSelector,
    }
)
SELECTORS = tuple(_MADE_BY)
"""The names of all selectors."""

_PLACES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "local": ("model", "local:MODEL"),
        "vllm_classify": ("url", "vllm_classify:URL"),
        "openai_logprobs": ("url", "openai_logprobs:URL"),
    }
)
"""What stands behind the colon: the argument that it is, and how both are written."""


def check_selector_name(name: str, given: Collection[str] = ()) -> tuple[str, str]:
    """The kind of selector that a name means, and the place behind its colon.

    Args:
        name: see ``open_selector``.
        given: arguments that are given beside it.

    Raises:
        UsageError: no selector has this name, or it needs a place and has none.
    """
    kind, colon, place = name.partition(":")
    if kind not in _MADE_BY or (colon and kind not in _PLACES):
        others = [each for each in SELECTORS if each not in _PLACES]
        forms = ", ".join(form for _, form in _PLACES.values())
        raise UsageError(f"selector is {shown(name)}; choose one of {', '.join(others)}, {forms}")
    if kind in _PLACES and not place:
        argument, form = _PLACES[kind]
        if colon or argument not in given:
            raise UsageError(f"selector is {shown(name)}, without its {argument}; write {form}")
    return kind, place


def open_selector(
    name: str,
    *,
    store: TermCounts | None = None,
    cache_size: int = CACHE_SIZE,
    **options: Any,
) -> Selector:
    """The selector of a name, with a cache unless it only looks an id up.

    Args:
        name: one of ``SELECTORS``; ``NAME:PLACE`` names the model of ``local`` or the address of
            a server, as in ``local:FOLDER`` or ``vllm_classify:http://host:port``.
        store: what is searched; ``lexical`` weighs words by its counts, no other looks at it.
        cache_size: how many scores are kept.
        options: arguments of the selector's class.

    Raises:
        UsageError: no selector has this name, or the options are not its own.
        MissingExtra: what it needs is not installed.
        RetrievalError: its model is not here and cannot be fetched.
    """
    kind, place = check_selector_name(name, options)
    make = _MADE_BY[kind]
    given: list[Any] = [place] if place else []
    if kind == "lexical":
        if store is None:
            raise UsageError(
                "the selector lexical weighs words by the counts of a store, and a paper API has "
                "none; open the store itself, or choose local, vllm_classify or openai_logprobs"
            )
        given = [store]
    try:
        inspect.signature(make).bind(*given, **options)
    except TypeError as error:
        raise UsageError(f"the selector {kind} cannot be made with this: {error}") from error
    selector = make(*given, **options)
    return selector if kind == "oracle" else CachedSelector(selector, cache_size)

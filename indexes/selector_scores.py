"""What a selector must be and must give, whoever wrote it: checked before a score counts."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, SupportsFloat

from agentgym_suite.arguments import shown
from agentgym_suite.errors import RetrievalError, UsageError

if TYPE_CHECKING:
    from agentgym_suite.indexes.paper_store import Paper


def check_is_selector(selector: object) -> None:
    """Refuse what is no selector: a class instead of an object, or one without its parts.

    Its digest is not asked for yet: that of a model is the digest of its weights.

    Raises:
        UsageError: saying what is missing.
    """
    if isinstance(selector, type):
        raise UsageError(f"selector is the class {selector.__name__}; give an object of it")
    if not callable(getattr(selector, "score", None)):
        raise UsageError(
            f"selector is {shown(selector)}; give the name of a selector, or a Selector"
        )
    kind = type(selector).__name__
    name = getattr(selector, "name", None)
    if not isinstance(name, str) or not name:
        raise UsageError(f"the selector {kind} has {shown(name)} as its name; give it a text")
    if inspect.getattr_static(selector, "digest", None) is None:
        raise UsageError(
            f"the selector {name} has no digest; give it a text that differs when its scores do"
        )


def check_digest(name: str, digest: object) -> str:
    """The digest of a selector.

    Raises:
        UsageError: it is no text.
    """
    if not isinstance(digest, str):
        raise UsageError(
            f"the selector {name} has {shown(digest)} as its digest; give it a text that differs "
            "when its scores do"
        )
    return digest


def check_scores(name: str, scores: object, papers: Sequence[Paper]) -> list[float]:
    """The scores that a selector gave, as Python's numbers.

    Args:
        name: the selector's.
        scores: what it gave, numpy's arrays and numbers too.
        papers: what it was given.

    Raises:
        RetrievalError: they are not one number from 0 to 1 for each paper.
    """
    if not isinstance(scores, Iterable) or isinstance(scores, str | bytes):
        raise RetrievalError(
            f"the selector {name} gave {shown(scores)} instead of a score for each paper; mend it, "
            "or choose another"
        )
    listed = list(scores)
    if len(listed) != len(papers):
        raise RetrievalError(
            f"the selector {name} gave {len(listed)} scores for {len(papers)} papers; mend it, or "
            "choose another"
        )
    return [_number(name, score, paper) for score, paper in zip(listed, papers, strict=True)]


def _number(name: str, score: object, paper: Paper) -> float:
    try:
        number = float(score) if isinstance(score, SupportsFloat) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not 0 <= number <= 1:
        raise RetrievalError(
            f"the selector {name} gave the paper {paper.paper_id} the score {shown(score)}, which "
            "is no number from 0 to 1; mend it, or choose another"
        )
    return number

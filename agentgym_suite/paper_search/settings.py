"""The rules of an environment's episodes: a reward and the numbers around it, checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

from agentgym_suite.arguments import check_count, check_number, shown
from agentgym_suite.errors import UsageError
from agentgym_suite.files import Json
from agentgym_suite.indexes.paper_dates import read_date
from agentgym_suite.paper_search.queries import PaperQuery
from agentgym_suite.paper_search.reward import PaperReward

CUTOFF_OF_QUERY = "query"

_MOST_CALLS = 100
_MOST_PAPERS = 1_000


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """The rules of an environment's episodes.

    Attributes:
        reward_name: name of the preset, ``custom`` for a reward of one's own.
        reward: its numbers.
        max_calls: searches and expansions of one step.
        search_top_k: papers of one search.
        citations_limit: citing papers of one expansion.
        references_limit: referenced papers of one expansion.
        date_cutoff: ``query`` for each query's own, a date for all, None for none.
        deliver_threshold: least selector score of the papers that are scored.
        success_f1: F1 from which an episode is a success.

    Raises:
        UsageError: a number is out of its bounds, or the cut-off is no date.
    """

    reward_name: str
    reward: PaperReward
    max_calls: int = 5
    search_top_k: int = 10
    citations_limit: int = 30
    references_limit: int = 99
    date_cutoff: str | int | None = CUTOFF_OF_QUERY
    deliver_threshold: float = 0.5
    success_f1: float = 0.5

    def __post_init__(self) -> None:
        checked: dict[str, object] = {
            "max_calls": check_count("max_calls", self.max_calls, 1, _MOST_CALLS),
            "date_cutoff": _checked_cutoff(self.date_cutoff),
        }
        for name, least in (("search_top_k", 1), ("citations_limit", 0), ("references_limit", 0)):
            checked[name] = check_count(name, getattr(self, name), least, _MOST_PAPERS)
        for name in ("deliver_threshold", "success_f1"):
            checked[name] = check_number(name, getattr(self, name), 0, 1)
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # numpy's numbers as Python's

    def cutoff_of(self, query: PaperQuery) -> str:
        """The cut-off of a query's episode as it is written, "" for none."""
        if self.date_cutoff == CUTOFF_OF_QUERY:
            return query.cutoff
        return str(self.date_cutoff or "")

    def told(self) -> dict[str, Json]:
        """Every number, for provenance."""
        told: dict[str, Any] = asdict(self)
        del told["reward_name"]
        return told | {"reward": {"preset": self.reward_name, **self.reward.numbers()}}


def _checked_cutoff(value: object) -> str | None:
    """``query``, None, or a date in its one spelling."""
    if value is None or value == CUTOFF_OF_QUERY:
        return None if value is None else CUTOFF_OF_QUERY
    try:
        date = read_date(value) if isinstance(value, str | Integral) else ""  # type: ignore[arg-type]
    except ValueError:
        date = ""
    if not date:
        raise UsageError(
            f"date_cutoff is {shown(value)}; give 'query', None, or a date as YYYYMMDD"
        )
    return date

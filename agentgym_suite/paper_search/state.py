"""What has happened in one episode of PaperSearch: calls, papers found, feedback, the end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agentgym_suite.call_results import CallResult, query_key
from agentgym_suite.paper_search.actions import SEARCH
from agentgym_suite.paper_search.annotated import Annotated
from agentgym_suite.paper_search.pool import Pool
from agentgym_suite.paper_search.queries import PaperQuery
from agentgym_suite.paper_search.reward import Payment


@dataclass(slots=True)
class Tally:
    """How many calls of each kind the episode has had."""

    searches: int = 0
    expansions: int = 0
    repeated: int = 0
    malformed: int = 0
    refused: int = 0
    invalid_expands: int = 0


@dataclass(slots=True)
class PaperState:
    """The state of one episode.

    Attributes:
        query: what is looked for.
        annotated: its annotated papers, which are not for the policy.
        before: papers of this day and later are invisible (``paper_dates.cutoff_day``).
        pool: the papers found.
        history: the searches and expansions that were carried out, with their argument; of an
            expansion the paper's id.
        finished: whether ``finish[]`` was called.
        results: what the last action's calls did.
        payments: what each of them was paid, in parts.
        tally: counts.
    """

    query: PaperQuery
    annotated: Annotated
    before: int | None
    pool: Pool = field(default_factory=Pool)
    history: list[tuple[str, str]] = field(default_factory=list)
    finished: bool = False
    results: tuple[CallResult, ...] = ()
    payments: tuple[Payment, ...] = ()
    tally: Tally = field(default_factory=Tally)

    def copy(self) -> PaperState:
        """A state of the same contents that changes on its own."""
        return replace(
            self, pool=self.pool.copy(), history=list(self.history), tally=replace(self.tally)
        )

    def was_searched(self, query: str, *, exact: bool = False) -> bool:
        """Whether the query was used before; ``exact``: in the same characters."""
        return any(
            argument == query if exact else query_key(argument) == query_key(query)
            for call, argument in self.history
            if call == SEARCH
        )

    def metrics(self, threshold: float) -> dict[str, float]:
        """Scores and counts of the episode, always under the same names.

        Args:
            threshold: least score of the papers that are delivered.
        """
        expanded = sum(entry.expanded for entry in self.pool)
        tally = self.tally
        return {
            **self.annotated.figures(self.pool.ranked(), threshold),
            "search_calls": float(tally.searches),
            "expand_calls": float(tally.expansions),
            "repeated_calls": float(tally.repeated),
            "malformed_calls": float(tally.malformed),
            "refused_calls": float(tally.refused),
            "invalid_expands": float(tally.invalid_expands),
            "pool_size": float(len(self.pool)),
            "new_papers": float(len(self.pool) - expanded),
            "expanded": float(expanded),
        }

    def canonical(self) -> dict[str, object]:
        """Everything that the next step depends on, with scores as the policy sees them."""
        entries = sorted(self.pool, key=lambda entry: entry.id)
        return {
            "history": [list(call) for call in self.history],
            "pool": [[entry.id, f"{entry.score:.2f}", entry.expanded] for entry in entries],
            "finished": self.finished,
        }

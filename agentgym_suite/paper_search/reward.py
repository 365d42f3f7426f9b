"""Rewards of PaperSearch: every number in one dataclass, the presets by name, and who is paid what.

``paper`` follows the text of CAPO, ``steppo`` the published code of that line (AgentR1/StepPO),
``paperscout`` its predecessor (pty12345/PaperScout).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from agentgym_suite.arguments import shown
from agentgym_suite.call_results import EXECUTED, Status, format_paid, total_reward
from agentgym_suite.errors import UsageError
from agentgym_suite.files import Json
from agentgym_suite.paper_search.actions import EXPAND, FINISH, SEARCH
from agentgym_suite.paper_search.pool import PoolOrder

TopKScope = Literal["call", "step"]
SelectorFailure = Literal["error", "zero"]
BackendFailure = Literal["error", "empty"]

_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "top_k_scope": get_args(TopKScope),
        "selector_failure": get_args(SelectorFailure),
        "backend_failure": get_args(BackendFailure),
    }
)
_NOT_NEGATIVE = ("format_cap", "top_k_reward")


@dataclass(frozen=True, slots=True)
class PaperReward:
    """What is paid for what, and what the rules around it are.

    Attributes:
        format_reward: for each search and expansion that was carried out, whatever it found.
        format_cap: most format reward of one episode; None for no bound.
        top_k_reward: how many of the best new papers are paid, each with its score.
        top_k_scope: whether the best are taken for each ``call`` or once for the ``step``.
        search_cost: of a search that added papers.
        expand_cost: of an expansion that added papers.
        accepted_from: papers of at least this score are paid 1 and others 0; None pays the score.
        score_floor: papers below it do not enter the pool.
        repeat_penalty: for a query that was used, and for an expansion of an expanded paper.
        invalid_expand_penalty: for an expansion of what is not in the pool.
        malformed_penalty: for each malformed line, of at most ``max_calls`` lines a step.
        exact_repeats: only the same characters are a repeated query.
        no_call_ends: an action without any call ends the episode.
        selector_failure: ``error``, or ``zero``: papers that could not be scored score 0.
        backend_failure: ``error``, or ``empty``: a search or expansion that failed found nothing.

    Raises:
        UsageError: a value is not of its kind.
    """

    format_reward: float = 0.1
    format_cap: float | None = 0.5
    top_k_reward: int = 3
    top_k_scope: TopKScope = "call"
    search_cost: float = 0.0
    expand_cost: float = 0.0
    accepted_from: float | None = None
    score_floor: float = 0.01
    repeat_penalty: float = -0.5
    invalid_expand_penalty: float = -0.5
    malformed_penalty: float = -0.5
    exact_repeats: bool = False
    no_call_ends: bool = False
    selector_failure: SelectorFailure = "error"
    backend_failure: BackendFailure = "error"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _CHOICES:
                fine = value in _CHOICES[field.name]
            elif field.type == "bool":
                fine = isinstance(value, bool)
            elif value is None:
                fine = str(field.type).endswith("None")
            else:
                fine = not isinstance(value, bool) and isinstance(value, int | float)
                fine = fine and math.isfinite(value)
                if field.type == "int":
                    fine = fine and isinstance(value, int)
                if field.name in _NOT_NEGATIVE:
                    fine = fine and value >= 0
            if not fine:
                raise UsageError(f"{field.name} is {shown(value)}; give {_wanted(field)}")

    def numbers(self) -> dict[str, Json]:
        """Every field by its name, for provenance."""
        return asdict(self)

    def worth(self, score: float) -> float:
        """What a paper of that score is paid."""
        if self.accepted_from is None:
            return score
        return 1.0 if score >= self.accepted_from else 0.0


def _wanted(field: Field[Any]) -> str:
    """What a field may be, in words."""
    if field.name in _CHOICES:
        return " or ".join(map(repr, _CHOICES[field.name]))
    kind = str(field.type)
    words = {"bool": "True or False", "int": "a whole number"}.get(kind, "a number")
    words += " of at least 0" if field.name in _NOT_NEGATIVE else ""
    return f"{words}, or None" if kind.endswith("None") else words


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is paid for: a call's name ("" if malformed), its status, the scores it added."""

    name: str
    status: Status
    kept: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Payment:
    """The parts of what a call is paid.

    Attributes:
        papers: for the best of the papers that it added.
        cost: of having added papers, negative or 0.
        format: for a call that was carried out.
        penalty: for one that was not, negative or 0.
    """

    papers: float = 0.0
    cost: float = 0.0
    format: float = 0.0
    penalty: float = 0.0

    @property
    def total(self) -> float:
        """All parts together."""
        return total_reward((self.papers, self.cost, self.format, self.penalty))


def pay(
    outcomes: Sequence[Outcome], reward: PaperReward, *, paid_before: int, most_penalties: int
) -> list[Payment]:
    """What the calls of one step are paid, each for itself.

    Args:
        outcomes: what they did, in their order.
        reward: the numbers.
        paid_before: how many calls of the episode had a right to the format reward.
        most_penalties: how many calls of a step are punished; the first ones are.
    """
    best = _best_of_step(outcomes, reward) if reward.top_k_scope == "step" else None
    payments = []
    carried_out, punished = paid_before, 0
    for number, outcome in enumerate(outcomes):
        if outcome.status in EXECUTED:
            if outcome.name == FINISH:
                payments.append(Payment())
                continue
            paid = best[number] if best is not None else _best(outcome.kept, reward)
            cost = _cost(outcome, reward)
            form = format_paid(carried_out, reward.format_reward, reward.format_cap)
            carried_out += 1
            payments.append(Payment(total_reward(paid), cost, form))
            continue
        penalty = _penalty(outcome.status, reward)
        if penalty is None or punished >= most_penalties:
            payments.append(Payment())
            continue
        punished += 1
        payments.append(Payment(penalty=penalty))
    return payments


def _best(scores: Iterable[float], reward: PaperReward) -> list[float]:
    return sorted(map(reward.worth, scores), reverse=True)[: reward.top_k_reward]


def _best_of_step(outcomes: Sequence[Outcome], reward: PaperReward) -> list[list[float]]:
    """The best papers of the whole step, each at the call that added it; the earlier on a tie."""
    worths = [
        (-reward.worth(score), number)
        for number, outcome in enumerate(outcomes)
        for score in outcome.kept
    ]
    best: list[list[float]] = [[] for _ in outcomes]
    for worth, number in sorted(worths)[: reward.top_k_reward]:
        best[number].append(-worth)
    return best


def _cost(outcome: Outcome, reward: PaperReward) -> float:
    if not outcome.kept:
        return 0.0
    cost = {SEARCH: reward.search_cost, EXPAND: reward.expand_cost}[outcome.name]
    return -cost if cost else 0.0


def _penalty(status: Status, reward: PaperReward) -> float | None:
    """The penalty of a status; None if it has none, such as a refusal over the limit."""
    return {
        "repeated": reward.repeat_penalty,
        "already_expanded": reward.repeat_penalty,
        "unknown_id": reward.invalid_expand_penalty,
        "malformed": reward.malformed_penalty,
    }.get(status)


@dataclass(frozen=True, slots=True)
class PaperPreset:
    """A reward with the other settings that its source was published with.

    Attributes:
        reward: the numbers.
        pool_order: how papers of equal score are shown.
    """

    reward: PaperReward
    pool_order: PoolOrder = "id"


PAPER_PRESETS: Mapping[str, PaperPreset] = MappingProxyType(
    {
        "paper": PaperPreset(PaperReward()),
        "steppo": PaperPreset(
            PaperReward(
                format_reward=0.0,
                format_cap=None,
                malformed_penalty=0.0,
                exact_repeats=True,
                no_call_ends=True,
                selector_failure="zero",
                backend_failure="empty",
            ),
            pool_order="steppo",
        ),
        "paperscout": PaperPreset(
            PaperReward(
                format_reward=0.0,
                format_cap=None,
                search_cost=0.1,
                expand_cost=0.05,
                accepted_from=0.4,
                malformed_penalty=0.0,
                selector_failure="zero",
                backend_failure="empty",
            )
        ),
    }
)


def find_preset(reward: str | PaperReward) -> tuple[str, PaperPreset]:
    """The preset of a name, or one around a reward of your own (named ``custom``).

    Raises:
        UsageError: it is neither; the sentence names the presets there are.
    """
    if isinstance(reward, PaperReward):
        return "custom", PaperPreset(reward)
    if not isinstance(reward, str) or reward not in PAPER_PRESETS:
        known = ", ".join(PAPER_PRESETS)
        raise UsageError(f"reward is {shown(reward)}; choose one of {known}, or give a PaperReward")
    return reward, PAPER_PRESETS[reward]

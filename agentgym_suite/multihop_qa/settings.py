"""The rules of an environment's episodes, chosen by a reward's preset and what overrides it."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_suite.arguments import check_count, check_flag
from agentgym_suite.files import Json
from agentgym_suite.multihop_qa.reward import QAReward, find_preset
from agentgym_suite.multihop_qa.scorers import Scorer, find_scorer

_MOST_PASSAGES = 1_000
_MOST_CALLS = 100


@dataclass(frozen=True, slots=True)
class QASettings:
    """The rules of an environment's episodes.

    Attributes:
        reward_name: name of the preset, ``custom`` for a reward of one's own.
        reward: its numbers.
        scorer: how answers are scored.
        top_k: passages of one search.
        max_calls: searches of one step.
        first_search: whether the question is searched at reset.
    """

    reward_name: str
    reward: QAReward
    scorer: Scorer
    top_k: int
    max_calls: int
    first_search: bool

    def told(self) -> dict[str, Json]:
        """Every number, for provenance."""
        return {
            "reward": {"preset": self.reward_name, **self.reward.numbers()},
            "scorer": self.scorer.name,
            "top_k": self.top_k,
            "max_calls": self.max_calls,
            "first_search": self.first_search,
        }


def choose_settings(
    reward: str | QAReward,
    scorer: str,
    *,
    top_k: int | None = None,
    max_calls: int | None = None,
    first_search: bool | None = None,
) -> QASettings:
    """The settings of a reward; None takes what its preset says.

    Raises:
        UsageError: a name is unknown, or a number out of its bounds.
    """
    name, preset = find_preset(reward)
    top_k = preset.top_k if top_k is None else top_k
    max_calls = preset.max_calls if max_calls is None else max_calls
    first_search = preset.first_search if first_search is None else first_search
    return QASettings(
        reward_name=name,
        reward=preset.reward,
        scorer=find_scorer(scorer),
        top_k=check_count("top_k", top_k, 1, _MOST_PASSAGES),
        max_calls=check_count("max_calls", max_calls, 1, _MOST_CALLS),
        first_search=check_flag("first_search", first_search),
    )

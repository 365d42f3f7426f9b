"""Rewards of MultiHopQA: every number in one dataclass, and the presets by name.

``paper`` follows the text of CAPO, ``steppo`` the published code of that line (AgentR1/StepPO),
``search_r1`` Search-R1 (Jin et al., 2025).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Literal, get_args

from agentgym_suite.call_results import format_paid
from agentgym_suite.errors import UsageError
from agentgym_suite.files import Json
from agentgym_suite.multihop_qa.questions import Question

Golds = Literal["all", "answer"]
PassagePolicy = Literal["keep_newest", "keep_first"]


@dataclass(frozen=True, slots=True)
class QAReward:
    """What is paid for what, and what the rules around it are.

    Attributes:
        answer_reward: times exact match, at the answer.
        wrong_answer_reward: for an answer that does not match.
        golds: what the reward compares with: ``all`` accepted answers, or the first ``answer``.
        format_reward: for each search that was carried out, whatever it found.
        format_cap: most format reward of one episode; None for no bound.
        malformed_reward: for each malformed line, of at most ``max_calls`` lines a step.
        repeats_are_searched: an equal query is searched again instead of refused.
        free_text_answers: an action without any call is taken as the answer and ends the episode.
        final_answer_only: searches of the last step are refused.

    Raises:
        UsageError: a value is not finite, a negative cap, or not of its kind.
    """

    answer_reward: float = 1.0
    wrong_answer_reward: float = 0.0
    golds: Golds = "all"
    format_reward: float = 0.1
    format_cap: float | None = 0.5
    malformed_reward: float = 0.0
    repeats_are_searched: bool = False
    free_text_answers: bool = False
    final_answer_only: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "golds":
                fine = value in get_args(Golds)
            elif field.type == "bool":
                fine = isinstance(value, bool)
            elif value is None:
                fine = field.name == "format_cap"
            else:
                fine = (
                    isinstance(value, int | float)
                    and not isinstance(value, bool)
                    and math.isfinite(value)
                    and (field.name != "format_cap" or value >= 0)
                )
            if not fine:
                raise UsageError(f"{field.name} is {value!r}; give a {field.type} as documented")

    def format_paid(self, searches: int) -> float:
        """The format reward of the next search, after so many that were paid or could have been."""
        return format_paid(searches, self.format_reward, self.format_cap)

    def answer_paid(self, em: float) -> float:
        """What an answer of that exact match is paid."""
        return self.answer_reward * em if em else self.wrong_answer_reward

    def golds_of(self, question: Question) -> tuple[str, ...]:
        """The answers that the reward compares with."""
        return question.golds if self.golds == "all" else question.golds[:1]

    def numbers(self) -> dict[str, Json]:
        """Every field by its name, for provenance."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class QAPreset:
    """A reward with the other settings that its source was published with.

    Attributes:
        reward: the numbers.
        top_k: passages of one search.
        max_calls: searches of one step.
        first_search: whether the question is searched at reset.
        passage_policy: which passages give way when the observation gets too long.
    """

    reward: QAReward
    top_k: int = 5
    max_calls: int = 4
    first_search: bool = False
    passage_policy: PassagePolicy = "keep_newest"


QA_PRESETS: Mapping[str, QAPreset] = MappingProxyType(
    {
        "paper": QAPreset(QAReward()),
        # free_text_answers is a hole of the published code: text without a call is paid as answer
        "steppo": QAPreset(
            QAReward(
                golds="answer",
                format_reward=0.0,
                format_cap=None,
                repeats_are_searched=True,
                free_text_answers=True,
            ),
            first_search=True,
            passage_policy="keep_first",
        ),
        "search_r1": QAPreset(
            QAReward(format_reward=0.0, format_cap=None, final_answer_only=True),
            top_k=3,
            max_calls=1,
        ),
    }
)


def find_preset(reward: str | QAReward) -> tuple[str, QAPreset]:
    """The preset of a name, or one around a reward of your own (named ``custom``).

    Raises:
        UsageError: it is neither; the sentence names the presets there are.
    """
    if isinstance(reward, QAReward):
        return "custom", QAPreset(reward)
    if not isinstance(reward, str) or reward not in QA_PRESETS:
        known = ", ".join(QA_PRESETS)
        raise UsageError(f"reward is {reward!r}; choose one of {known}, or give a QAReward")
    return reward, QA_PRESETS[reward]

"""The prompt that asks a model what went wrong, as in Reflexion (Shinn et al., 2023).

The method: an agent that failed writes in words what to do better, plays the task again with those
words in its prompt, and so on for a bounded number of rounds. It needs to be told of its failure.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_suite.episodes import EarlierRound, Step, Turn
from agentgym_suite.prompts import Message

_LONGEST_OBSERVATION = 1000  # characters; what an agent did says more than all that it saw


def reflection_messages(
    goal: str, turn: Turn, earlier: Sequence[EarlierRound]
) -> tuple[Message, ...]:
    """The messages that ask for a reflection on a failed round.

    Args:
        goal: the task in words; "" where the observations say it.
        turn: the end of the round, with all its steps.
        earlier: the rounds before it.
    """
    written = "\n".join(f"- {round_.reflection.text.strip()}" for round_ in earlier)
    parts = (
        f"Task:\n{goal}" if goal else "",
        f"What you noted after earlier trials:\n{written}" if written else "",
        "Your trial:\n" + "\n".join(map(_told, turn.history)),
        f"It ended with:\n{_cut(turn.observation)}",
        "The task is not solved. In a few sentences, say which of your actions was the mistake "
        "and why, and what you will do instead from the beginning of the next trial. Write "
        "nothing but that note to yourself.",
    )
    return (
        Message("system", "You look back on a trial in an interactive environment that failed."),
        Message("user", "\n\n".join(part for part in parts if part)),
    )


def _told(step: Step) -> str:
    return f"Observation: {_cut(step.observation)}\nAction: {step.action}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_OBSERVATION else f"{text[:_LONGEST_OBSERVATION]} …"

"""Search-R1's rewards on whole transcripts, to compare training runs with: never our own reward.

A transcript is what a model wrote, with what came back from its searches, in tags:
``<think>``, ``<search>``, ``<information>``, ``<answer>``. All of them compare answers by exact
match after normalisation, exactly as the originals do, empty answers included.

Sources: ``qa_em`` and ``qa_em_format`` of Search-R1 v0.1 to v0.3, ``search_r1_like_qa_em`` of veRL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from agentgym_suite.multihop_qa.scorers import exact_match, substring_match

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_INFORMATION = re.compile(r"<information>(.*?)</information>", re.DOTALL)
_ASSISTANT = re.compile(r"<\|im_start\|>assistant\s*")
_TAG = re.compile(r"(</?(?:think|search|information|answer)>)")
_TAG_NAMES = ("think", "search", "information", "answer")
# More of either tag than this and veRL divides the score.
_MOST_TAGS = 10
_CUT = 4

# Which tag may follow in which state; inside a tag any text may stand, elsewhere only blanks.
_MOVES: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("start", "<think>"): "in think",
        ("in think", "</think>"): "after think",
        ("after think", "<search>"): "in search",
        ("in search", "</search>"): "after search",
        ("after search", "<information>"): "in information",
        ("in information", "</information>"): "start",
        ("after think", "<answer>"): "in answer",
        ("in answer", "</answer>"): "end",
    }
)


def last_answer(text: str, *, at_least: int = 1) -> str | None:
    """What the last ``<answer>`` holds, stripped; None when there are fewer than ``at_least``."""
    found = _ANSWER.findall(text)
    return str(found[-1]).strip() if found and len(found) >= at_least else None


def search_r1(response: str, golds: Sequence[str], *, wrong: float = 0.0) -> float:
    """Our default: 1.0 when the last answer of the response is right.

    Args:
        response: what the model wrote, without the prompt.
        golds: the accepted answers.
        wrong: for an answer that is not right (``format_score``).
    """
    return _judged(last_answer(response), golds, wrong)


def search_r1_prompted(transcript: str, golds: Sequence[str], *, wrong: float = 0.0) -> float:
    """``qa_em`` of v0.1 and v0.2: the prompt holds an example answer, so two answers are needed.

    Given a response alone it scores a single right answer 0 (Search-R1 issue 79).

    Args:
        transcript: prompt and response together.
        golds: the accepted answers.
        wrong: for an answer that is not right (``format_score``).
    """
    return _judged(last_answer(transcript, at_least=2), golds, wrong)


def verl(response: str, golds: Sequence[str], *, wrong: float = 0.0) -> float:
    """veRL's: as ours, but a right answer among more than ten tags of a kind scores a quarter.

    Args:
        response: what the model wrote, without the prompt.
        golds: the accepted answers.
        wrong: for an answer that is not right (``format_score``).
    """
    told = last_answer(response)
    many = max(response.count("<answer>"), response.count("</answer>")) > _MOST_TAGS
    if told is not None and _is_right(told, golds):
        return 1.0 / _CUT if many else 1.0
    return 0.0 if told is None else wrong


def search_r1_format(
    transcript: str,
    golds: Sequence[str],
    *,
    structure: float = 0.2,
    retrieval: float = 0.1,
    final: float = 0.1,
) -> float:
    """``qa_em_format`` of v0.3: part of the score for a well-formed transcript.

    The answer is looked for after the assistant's mark where there is one: the original takes
    the whole text and asks for two answers, because one stands in its prompt.

    Args:
        transcript: prompt and response together, with the marks of the chat template.
        golds: the accepted answers.
        structure: for a well-formed transcript whose answer is wrong or absent, and what a
            right answer loses in one that is not.
        retrieval: more, when a gold stands in what a search of a well-formed one found.
        final: for a wrong answer in one that is not well formed.
    """
    reply = assistant_part(transcript)
    told = last_answer(transcript if reply is None else reply)
    valid = reply is not None and is_well_formed(reply)
    if told is not None and _is_right(told, golds):
        return 1.0 if valid else 1.0 - structure
    if valid:
        found = _INFORMATION.findall(reply or "")
        bonus = any(substring_match(each, golds) for each in found)
        return structure + retrieval if bonus else structure
    return 0.0 if told is None else final


def assistant_part(transcript: str) -> str | None:
    """What follows the first mark of the assistant, None without one."""
    mark = _ASSISTANT.search(transcript)
    return None if mark is None else transcript[mark.end() :]


def is_well_formed(reply: str) -> bool:
    """Whether tags are balanced and in order: think, (search, information, think)*, answer."""
    if any(reply.count(f"<{name}>") != reply.count(f"</{name}>") for name in _TAG_NAMES):
        return False
    state = "start"
    for part in _TAG.split(reply):
        if _TAG.fullmatch(part):
            if (state, part) not in _MOVES:
                return False
            state = _MOVES[state, part]
        elif part.strip() and not state.startswith("in "):
            return False
    return state == "end"


def _judged(told: str | None, golds: Sequence[str], wrong: float) -> float:
    if told is None:
        return 0.0
    return 1.0 if _is_right(told, golds) else wrong


def _is_right(told: str, golds: Sequence[str]) -> bool:
    return any(exact_match(told, gold) for gold in golds)

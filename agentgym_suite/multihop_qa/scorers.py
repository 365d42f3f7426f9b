"""Whether an answer is right: the four scorers of the public benchmarks, kept apart.

They share one normalisation and agree on exact match with one gold; on F1 they do not. Sources:
the evaluation scripts of HotpotQA, 2WikiMultihopQA (v1.1), MuSiQue and Search-R1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agentgym_suite.errors import UsageError

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WHOLE_ANSWERS = frozenset({"yes", "no", "noanswer"})


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """How good an answer is, each from 0.0 to 1.0.

    Attributes:
        em: exact match after normalisation, 0.0 or 1.0.
        f1: over the words.
        precision: the part of the answer's words that are the gold's.
        recall: the part of the gold's words that are the answer's.
    """

    em: float
    f1: float
    precision: float
    recall: float


NOTHING = AnswerScore(0.0, 0.0, 0.0, 0.0)
EVERYTHING = AnswerScore(1.0, 1.0, 1.0, 1.0)

Formula = Callable[[str, Sequence[str]], AnswerScore]


@dataclass(frozen=True, slots=True)
class Scorer:
    """One scorer.

    Attributes:
        name: by which it is chosen.
        official: (answer, golds) -> score exactly as the original's script gives it.
    """

    name: str
    official: Formula

    def score(self, prediction: str, golds: Sequence[str]) -> AnswerScore:
        """The score of an answer that is played, which an empty answer never gets.

        As the original, except where normalisation leaves nothing: an answer such as ``The``
        scores 0, and where no gold keeps a word either, stripped text without regard to case
        decides, so that ``!`` is not right because the gold is ``The``.

        Args:
            prediction: the answer.
            golds: the accepted answers; none scores 0.
        """
        if not any(normalise(gold) for gold in golds):
            told = prediction.strip().casefold()
            right = told and any(told == gold.strip().casefold() for gold in golds)
            return EVERYTHING if right else NOTHING
        return self.official(prediction, golds) if normalise(prediction) else NOTHING


def normalise(text: str) -> str:
    """Lower case, no ASCII punctuation, no articles, single blanks; the same for all four.

    Curly quotes and long dashes stay, composed and decomposed letters differ, numbers are not
    read: what the originals do.
    """
    bare = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(prediction: str, gold: str) -> float:
    """1.0 when both are the same after normalisation, else 0.0."""
    return float(normalise(prediction) == normalise(gold))


def substring_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 when a gold occurs in the answer, both normalised (the metric ``subem``).

    An empty answer or an empty gold never matches; in the original an empty gold always does.
    """
    told = normalise(prediction)
    wanted = [normalise(gold) for gold in golds]
    return float(any(gold and gold in told for gold in wanted))


def token_overlap(prediction: Sequence[str], gold: Sequence[str]) -> tuple[float, float, float]:
    """(F1, precision, recall) over words, each counted as often as it occurs; 0 without overlap."""
    same = sum((Counter(prediction) & Counter(gold)).values())
    if not same:
        return 0.0, 0.0, 0.0
    precision, recall = same / len(prediction), same / len(gold)
    return 2 * precision * recall / (precision + recall), precision, recall


def hotpot_pair(prediction: str, gold: str) -> AnswerScore:
    """HotpotQA's score against one gold; a wrong ``yes``, ``no`` or ``noanswer`` gets no F1."""
    told, wanted = normalise(prediction), normalise(gold)
    em = float(told == wanted)
    if not em and (told in _WHOLE_ANSWERS or wanted in _WHOLE_ANSWERS):
        return NOTHING
    return AnswerScore(em, *token_overlap(told.split(), wanted.split()))


def musique_pair(prediction: str, gold: str) -> AnswerScore:
    """MuSiQue's score against one gold, SQuAD's: two answers without words are alike."""
    told, wanted = normalise(prediction).split(), normalise(gold).split()
    em = float(told == wanted)
    if not told or not wanted:
        return AnswerScore(em, em, em, em)
    return AnswerScore(em, *token_overlap(told, wanted))


def _best_gold(pair: Callable[[str, str], AnswerScore]) -> Formula:
    """The score against the gold that fits best, its four numbers together."""

    def formula(prediction: str, golds: Sequence[str]) -> AnswerScore:
        scores = [pair(prediction, gold) for gold in golds]
        return max(scores, key=lambda score: (score.em, score.f1), default=NOTHING)

    return formula


def _each_best(prediction: str, golds: Sequence[str]) -> AnswerScore:
    """2Wiki's: the best of each number over the golds, so that F1 need not fit the others."""
    scores = [hotpot_pair(prediction, gold) for gold in golds] or [NOTHING]
    return AnswerScore(
        max(score.em for score in scores),
        max(score.f1 for score in scores),
        max(score.precision for score in scores),
        max(score.recall for score in scores),
    )


# Search-R1 has no F1; HotpotQA's stands in its place, so that every scorer has four numbers.
SCORERS: Mapping[str, Scorer] = MappingProxyType(
    {
        scorer.name: scorer
        for scorer in (
            Scorer("hotpot", _best_gold(hotpot_pair)),
            Scorer("2wiki", _each_best),
            Scorer("musique", _best_gold(musique_pair)),
            Scorer("search_r1", _best_gold(hotpot_pair)),
        )
    }
)


def find_scorer(name: str) -> Scorer:
    """The scorer of a name.

    Raises:
        UsageError: there is none; the sentence lists those that there are.
    """
    if not isinstance(name, str) or name not in SCORERS:
        raise UsageError(f"scorer is {name!r}; choose one of {', '.join(SCORERS)}")
    return SCORERS[name]

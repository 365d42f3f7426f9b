"""Titles and abstracts: everything that a paper is about is said in its own wording."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agentgym_suite.dice import Dice
from agentgym_suite.paper_search.generator.identity import GENERATOR_VERSION
from agentgym_suite.paper_search.generator.naming import system_name
from agentgym_suite.paper_search.generator.papers import Draft
from agentgym_suite.paper_search.generator.vocabulary import PROPERTIES, Concept, Lexicon, fill

FEWEST_WORDS, MOST_WORDS = 80, 180

_SHORTEST_AIM, _LONGEST_AIM = 88, 160
_CONTRASTS, _ALIASES, _VERSIONS, _SURVEYS = 0.3, 0.06, 0.03, 0.05
_SAME_TITLE = 0.01
_TASK_FIRST = 0.35
_CAPITALS = 0.5
# Kept small in the titles of those who write the others large.
_SMALL_WORD = re.compile(
    "an?|and|are|as|at|by|do|for|from|in|into|is|more|of|off|on|or|over|than|that|the|to|under|"
    "via|what|when|who|with|without"
)

# The title of a paper without an abstract says everything that it is about.
_TITLES_ALONE: Mapping[str, str] = {
    "plain": "{field}: {task} with {method}",
    "data": "{field}: {method} for {task} on {data}",
    "language": "{field}: {method} for {task} in {language}",
    "setting": "{field}: {method} for {task} under {setting}",
    "finding": "{finding}: {method} for {task} in {field}",
}


class Writer:
    """Writes the papers of one literature, in their order.

    Args:
        lexicon: its tables.
        seed: which literature.
    """

    def __init__(self, lexicon: Lexicon, seed: int) -> None:
        self._lexicon = lexicon
        self._seed = seed
        self._concepts = [each for each in lexicon.concepts if each.kind in ("task", *PROPERTIES)]
        self._titles: set[str] = set()
        self._plain: dict[tuple[str, str], str] = {}
        self._ids: list[str] = []

    def write(self, paper: Draft) -> tuple[str, str]:
        """Title and abstract of the next paper; the abstract may be ""."""
        dice = Dice(GENERATOR_VERSION, self._seed, "prose", paper.number)
        slots = {**paper.wordings, "name": system_name(self._lexicon, dice)}
        title = self._title(paper, slots, dice)
        abstract = self._abstract(paper, slots, dice) if paper.has_abstract else ""
        self._ids.append(paper.arxiv_id)
        return title, abstract

    def _title(self, paper: Draft, slots: Mapping[str, str], dice: Dice) -> str:
        topic = paper.wordings["task"], paper.wordings["method"]
        there = [kind for kind in PROPERTIES if kind in paper.wordings]
        kind = dice.pick(["plain", *there])
        if not paper.has_abstract:
            form = _TITLES_ALONE[there[0] if there else "plain"]
        elif topic in self._plain and dice.chance(_SAME_TITLE):
            return self._plain[topic]
        else:
            form = dice.pick(self._lexicon.titles[kind])
        title = _capital(fill(form, slots, dice))
        if dice.chance(_CAPITALS):
            title = _headline(title)
        if title in self._titles:
            title = f"{slots['name']}: {title}"
        self._titles.add(title)
        if kind == "plain" and paper.has_abstract:
            self._plain.setdefault(topic, title)
        return title

    def _abstract(self, paper: Draft, slots: Mapping[str, str], dice: Dice) -> str:
        aim = dice.between(_SHORTEST_AIM, _LONGEST_AIM)
        say = _Sentences(self._lexicon, slots, dice)
        opening = [say.one("field"), say.one("task")]
        if dice.chance(_TASK_FIRST):
            opening.reverse()
        middle = [say.one("survey" if dice.chance(_SURVEYS) else "method")]
        parts = [say.one(kind) for kind in ("data", "language", "setting") if kind in slots]
        middle += dice.shuffled(parts)
        ending = [say.one("finding")] if "finding" in slots else []
        words = _count([*opening, *middle, *ending])
        for place, sentence in self._extras(paper, say, dice):
            if words + _count([sentence]) <= aim:
                (opening if place == "opening" else ending).append(sentence)
                words += _count([sentence])
        fillers = say.fillers()
        while words < aim and fillers:
            sentence = fillers.pop()
            if words + _count([sentence]) <= MOST_WORDS:
                middle.insert(1 + dice.below(len(middle)), sentence)
                words += _count([sentence])
        return " ".join(_capital(sentence) for sentence in (*opening, *middle, *ending))

    def _extras(self, paper: Draft, say: _Sentences, dice: Dice) -> list[tuple[str, str]]:
        """Sentences that mention what the paper is not about, or how others call it."""
        extras = []
        if dice.chance(_CONTRASTS):
            other = self._other(paper, dice)
            extras.append(("opening", say.one("contrast", other=dice.pick(other.forms))))
        if dice.chance(_ALIASES):
            kind = dice.pick(["task", "method"])
            own = paper.wordings[kind]
            foreign = [form for form in paper.concepts[kind].forms if form != own]
            extras.append(("opening", say.one("alias", one=own, two=dice.pick(foreign))))
        if self._ids and dice.chance(_VERSIONS):
            earlier, version = dice.pick(self._ids), str(dice.between(1, 4))
            extras.append(("ending", say.one("version", earlier=earlier, version=version)))
        return extras

    def _other(self, paper: Draft, dice: Dice) -> Concept:
        while True:
            other = dice.pick(self._concepts)
            if other.kind != "finding" and other not in paper.concepts.values():
                return other


class _Sentences:
    """The sentences of one abstract."""

    def __init__(self, lexicon: Lexicon, slots: Mapping[str, str], dice: Dice) -> None:
        self._lexicon = lexicon
        self._slots = slots
        self._dice = dice

    def one(self, move: str, **slots: str) -> str:
        """A sentence that makes a move."""
        return self._say(self._dice.pick(self._lexicon.sentences[move]), slots)

    def fillers(self) -> list[str]:
        """Sentences that say nothing of what a paper is about, in an order of chance."""
        forms: Sequence[str] = self._lexicon.sentences["filler"]
        return [self._say(form, {}) for form in self._dice.shuffled(forms)]

    def _say(self, form: str, slots: Mapping[str, str]) -> str:
        dice = self._dice
        chance = {name: dice.pick(words) for name, words in self._lexicon.slots.items()}
        return fill(form, {**chance, **self._slots, **slots}, dice)


def _count(sentences: Sequence[str]) -> int:
    return sum(len(sentence.split()) for sentence in sentences)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _headline(title: str) -> str:
    words = title.split(" ")
    return " ".join(
        word if place and _SMALL_WORD.fullmatch(word) else _capital(word)
        for place, word in enumerate(words)
    )

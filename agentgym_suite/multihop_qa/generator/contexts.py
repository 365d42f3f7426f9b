"""What stands beside the gold passages in a question's own context: likely-looking distractors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from agentgym_suite.dice import Dice
from agentgym_suite.multihop_qa.generator.prose import Page, PageWriter, Passage
from agentgym_suite.multihop_qa.generator.questions import Question
from agentgym_suite.multihop_qa.generator.world import Fact, World

_KEPT_PAGES = 30_000
_COMMON = 40  # a word of more titles than that makes nothing alike
_SIMILAR, _RELATED = 3, 4  # at most so many of each; entities of the same types fill the rest


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A passage of a context; ``step`` is the hop it proves, -1 for a distractor."""

    passage: Passage
    step: int


class Contexts:
    """Makes the contexts of questions.

    Args:
        world: the world.
        writer: writes its pages; a number of them are kept, since most are used again.
    """

    def __init__(self, world: World, writer: PageWriter) -> None:
        self._world = world
        self._writer = writer
        self._pages: OrderedDict[int, Page] = OrderedDict()
        self._by_word: dict[str, list[int]] = {}
        for entity in world.entities:
            for word in _words(entity.title):
                self._by_word.setdefault(word, []).append(entity.number)

    def page(self, number: int) -> Page:
        """The page of an entity."""
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = self._writer.page(number)
            if len(self._pages) > _KEPT_PAGES:
                self._pages.popitem(last=False)
        return page

    def place(self, fact: Fact) -> tuple[Passage, int]:
        """The passage that tells a fact, and the number of the sentence."""
        page = self.page(fact.teller)
        passage, sentence = page.places[fact.number]
        return page.passages[passage], sentence

    def paragraphs(self, question: Question, count: int, dice: Dice) -> list[Paragraph]:
        """The gold passages of a question and distractors, in an order of chance.

        A longer context is not the beginning of a shorter one, but has the same gold passages;
        no two have the same title.
        """
        golds = [Paragraph(self.place(fact)[0], step) for step, fact in enumerate(question.facts)]
        chosen = self._distractors(question, count - len(golds), dice)
        others = [Paragraph(dice.pick(self.page(number).passages), -1) for number in chosen]
        return dice.shuffled([*golds, *others])

    def _distractors(self, question: Question, count: int, dice: Dice) -> list[int]:
        tellers = [fact.teller for fact in question.facts]
        chosen: dict[int, None] = {}
        taken = question.entities
        groups = (
            (self._similar(question.entities), _SIMILAR * count // 7),
            (self._related(question.facts), _RELATED * count // 7),
        )
        for numbers, most in groups:
            fresh = sorted(set(numbers) - taken - chosen.keys())
            chosen.update(dict.fromkeys(dice.sample(fresh, most)))
        while len(chosen) < count:
            kind = self._world.entities[dice.pick(tellers)].kind
            number = dice.pick(self._world.kinds[kind])
            if number not in taken:
                chosen[number] = None
        return list(chosen)

    def _similar(self, entities: Iterable[int]) -> Iterable[int]:
        """Entities with a word of the name in common."""
        for number in sorted(entities):
            for word in _words(self._world.entities[number].title):
                alike = self._by_word[word]
                if len(alike) <= _COMMON:
                    yield from alike

    def _related(self, facts: Iterable[Fact]) -> Iterable[int]:
        """Entities whose pages name one of the question's entities."""
        for fact in facts:
            yield from self._world.tellers[fact.teller][:_COMMON]
            if fact.told >= 0:
                yield from self._world.tellers[fact.told][:_COMMON]


def _words(title: str) -> list[str]:
    return title.casefold().split()

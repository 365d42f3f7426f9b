"""Drawing questions from the facts of a world.

Every draw may fail: it is given up when its answer would not be the only one, when the wording
would give the answer or an entity on the way to it away, or when it uses what is out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym_suite.dice import Dice
from agentgym_suite.multihop_qa.generator.questions import (
    Answer,
    Question,
    answer_of,
    entity_answer,
)
from agentgym_suite.multihop_qa.generator.tables import Tables
from agentgym_suite.multihop_qa.generator.wording import Asker, capital, gives_away
from agentgym_suite.multihop_qa.generator.world import Fact, World

#: Says whether an entity may be in the question.
Allowed = Callable[[int], bool]

_VALUE_AT_THE_END = 0.3
_TEST_CHANCE, _SAME_CHANCE = 0.17, 0.15  # of the comparisons: the two kinds of yes and no
_WHICH_CHANCE = 0.68  # of the bridge comparisons: an entity is asked for


class Drawer:
    """Draws single questions; each draw is a function of the dice alone.

    Args:
        world: the world.
        tables: its tables.
    """

    def __init__(self, world: World, tables: Tables) -> None:
        self._world = world
        self._tables = tables
        self._asker = Asker(world, tables)
        self._starts = [
            e.number for e in world.entities if any(f.told >= 0 for f in world.pages[e.number])
        ]
        self._rules = [
            (rule, world.kinds[world.relations[rule.steps[0]].domain]) for rule in tables.rules
        ]
        told: dict[str, list[Fact]] = {}
        for fact in world.facts:
            if fact.forward:
                told.setdefault(fact.relation, []).append(fact)
        self._told = told
        self._comparisons = [c for c in tables.comparisons if len(told.get(c.relation, ())) > 1]
        self._same = [name for name in tables.same if len(told.get(name, ())) > 1]
        self._alike: dict[tuple[str, int], list[Fact]] = {}
        for name in self._same:
            for fact in told[name]:
                self._alike.setdefault((name, fact.object), []).append(fact)

    def draw(self, kind: str, hops: int, allowed: Allowed, dice: Dice) -> Question | None:
        """One question of a kind, or None when the draw failed."""
        if kind == "bridge":
            return self._bridge(hops, allowed, dice)
        if kind == "inference":
            return self._inference(allowed, dice)
        if kind == "comparison":
            turn = dice.roll()
            if turn < _SAME_CHANCE:
                return self._same_object(allowed, dice)
            return self._by_value(allowed, dice, test=turn < _SAME_CHANCE + _TEST_CHANCE)
        return self._bridge_comparison(allowed, dice)

    def _bridge(self, hops: int, allowed: Allowed, dice: Dice) -> Question | None:
        start = dice.pick(self._starts)
        facts = self._walk(start, hops - 1, allowed, dice)
        if facts is None:
            return None
        last = self._step(facts[-1].told, {start, *(f.told for f in facts)}, dice, last=True)
        if last is None or not all(map(allowed, (start, last.told))):
            return None
        facts.append(last)
        name = self._asker.name(self._world.entities[start], dice)
        text = self._asker.ask(name, facts, dice)
        return self._chain("bridge", text, name, facts, dice)

    def _inference(self, allowed: Allowed, dice: Dice) -> Question | None:
        rule, starts = dice.pick(self._rules)
        start = dice.pick(starts)
        facts: list[Fact] = []
        end = start
        for relation in rule.steps:
            told = [f for f in self._world.pages[end] if f.relation == relation and f.forward]
            if not told:
                return None
            facts += told
            end = told[0].told
        if not all(map(allowed, (start, facts[0].told, end))):
            return None
        name = self._asker.name(self._world.entities[start], dice)
        text = capital(dice.pick(rule.asks).replace("[X]", name))
        return self._chain("inference", text, name, facts, dice)

    def _walk(self, start: int, steps: int, allowed: Allowed, dice: Dice) -> list[Fact] | None:
        """A path of facts from entity to entity, each told on the page of the one before."""
        facts: list[Fact] = []
        seen = {start}
        for _ in range(steps):
            fact = self._step(facts[-1].told if facts else start, seen, dice, last=False)
            if fact is None or not allowed(fact.told):
                return None
            seen.add(fact.told)
            facts.append(fact)
        return facts

    def _step(self, page: int, seen: set[int], dice: Dice, *, last: bool) -> Fact | None:
        told = [f for f in self._world.pages[page] if f.told not in seen]
        values = [f for f in told if f.told < 0] if last else []
        links = [f for f in told if f.told >= 0]
        if values and (not links or dice.chance(_VALUE_AT_THE_END)):
            return dice.pick(values)
        return dice.pick(links) if links else None

    def _chain(
        self, kind: str, text: str, start: str, facts: Sequence[Fact], dice: Dice
    ) -> Question | None:
        answer = answer_of(facts[-1], self._world)
        if not self._leads_to(facts) or self._tells(text, answer, facts[:-1]):
            return None
        steps = tuple(
            self._asker.ask(f"#{place}" if place else start, [fact], dice)
            for place, fact in enumerate(facts)
        )
        return Question(kind, text, answer, tuple(facts), steps, _shape(kind, facts))

    def _leads_to(self, facts: Sequence[Fact]) -> bool:
        """Whether a path has one end only, by all facts of the world, and so has each part."""
        for count in range(1, len(facts) + 1):
            part = facts[:count]
            path = [(fact.relation, fact.forward) for fact in part]
            end = part[-1].value.answer if part[-1].value is not None else part[-1].told
            if self._world.answers(facts[0].teller, path) != {end}:
                return False
        return True

    def _tells(self, text: str, answer: Answer, bridges: Sequence[Fact]) -> bool:
        names = [answer.text, *answer.aliases]
        for fact in bridges:
            entity = self._world.entities[fact.told]
            names += [entity.title, *entity.aliases]
        return gives_away(text, names)

    def _by_value(self, allowed: Allowed, dice: Dice, *, test: bool) -> Question | None:
        comparison = dice.pick(self._comparisons)
        one, other = (dice.pick(self._told[comparison.relation]) for _ in range(2))
        if not all(map(allowed, (one.teller, other.teller))) or _order(one) == _order(other):
            return None
        if test:
            answer = _yes_or_no(_order(one) > _order(other))
            wordings = comparison.test
        else:
            end = dice.pick(("high", "low"))
            answer = answer_of(_winner(end, one, other), self._world)
            wordings = comparison.value[end]
        return self._compare("comparison", wordings, answer, [[one], [other]], dice)

    def _same_object(self, allowed: Allowed, dice: Dice) -> Question | None:
        relation = dice.pick(self._same)
        one, other = self._pair(relation, dice)
        ends = (one.subject, other.subject, one.object, other.object)
        if one.subject == other.subject or not all(map(allowed, ends)):
            return None
        answer = _yes_or_no(one.object == other.object)
        return self._compare(
            "comparison", self._tables.same[relation], answer, [[one], [other]], dice
        )

    def _pair(self, relation: str, dice: Dice) -> tuple[Fact, Fact]:
        """Two facts of a relation, as often with the same object as not."""
        one, other = (dice.pick(self._told[relation]) for _ in range(2))
        if dice.chance(0.5):
            other = dice.pick(self._alike[relation, one.object])
        return one, other

    def _bridge_comparison(self, allowed: Allowed, dice: Dice) -> Question | None:
        """Two paths of one step, and a comparison of what they lead to."""
        comparison = dice.pick(self._comparisons)
        by_value = dice.chance(_WHICH_CHANCE)
        if by_value:
            relation = comparison.relation
            ends = tuple(dice.pick(self._told[relation]) for _ in range(2))
        else:
            relation = dice.pick(self._same)
            ends = self._pair(relation, dice)
        paths: list[list[Fact]] = []
        for end in ends:
            first = self._path_to(end.teller, dice)
            if first is None or not all(map(allowed, (first.teller, end.teller))):
                return None
            if end.told >= 0 and not allowed(end.told):
                return None
            paths.append([first, end])
        (_, one), (_, other) = paths
        if len({fact.teller for path in paths for fact in path}) < 4:
            return None
        if not by_value:
            answer = _yes_or_no(one.object == other.object)
            wordings = self._tables.same[relation]
        elif _order(one) == _order(other):
            return None
        else:
            end_asked = dice.pick(("high", "low"))
            winner = _winner(end_asked, one, other)
            answer = entity_answer(self._world.entities[winner.teller])
            wordings = comparison.which[end_asked]
        return self._compare("bridge-comparison", wordings, answer, paths, dice)

    def _path_to(self, end: int, dice: Dice) -> Fact | None:
        """A fact that some other page tells of an entity."""
        tellers = self._world.tellers[end]
        if not tellers:
            return None
        page = self._world.pages[dice.pick(tellers)]
        return dice.pick([fact for fact in page if fact.told == end])

    def _compare(
        self,
        kind: str,
        wordings: Sequence[str],
        answer: Answer,
        paths: Sequence[Sequence[Fact]],
        dice: Dice,
    ) -> Question | None:
        text = dice.pick(wordings)
        for blank, path in zip(("[A]", "[B]"), paths, strict=True):
            entity = self._world.entities[path[0].teller]
            start = self._asker.name(entity, dice) if len(path) > 1 else entity.text
            text = text.replace(blank, self._asker.phrase(start, path[:-1], dice))
        bridges = [fact for path in paths for fact in path[:-1]]
        if not all(map(self._leads_to, paths)) or self._tells(text, answer, bridges):
            return None
        # hop order: first steps of both paths, then their ends
        facts = tuple(fact for step in zip(*paths, strict=True) for fact in step)
        return Question(kind, capital(text), answer, facts, (), _shape(kind, facts))


def _order(fact: Fact) -> int:
    return fact.value.order if fact.value is not None else 0


def _winner(end: str, one: Fact, other: Fact) -> Fact:
    higher = one if _order(one) > _order(other) else other
    lower = other if higher is one else one
    return higher if end == "high" else lower


def _yes_or_no(yes: bool) -> Answer:
    return Answer("yes" if yes else "no", (), "")


def _shape(kind: str, facts: Sequence[Fact]) -> tuple[str, ...]:
    return (kind, *(fact.relation if fact.forward else f"~{fact.relation}" for fact in facts))

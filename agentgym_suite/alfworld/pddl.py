"""The PDDL reader: a domain or problem text becomes types, actions, facts and a goal.

Lower-cases everything, keeps a comma as part of its token, and takes a type that nothing
declares as one without members, as the planner behind the original does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentgym_suite.alfworld.conditions import (
    EQUAL,
    TRUE,
    And,
    Condition,
    Effect,
    Exists,
    Literal,
    Or,
)
from agentgym_suite.alfworld.forms import Form, Forms, Run, are_words, shown
from agentgym_suite.alfworld.goals import Goal, Goals
from agentgym_suite.alfworld.sources import Source

ROOT_TYPE = "object"
_MOST_TYPES = 500
_LONGEST_NAME = 1_000  # characters of an object's id; the official ones have at most 80


Typed = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Action:
    """An action of the domain.

    Attributes:
        name: in lower case.
        parameters: variables with their types; the arguments of a ground action in this order.
        condition: when it may be executed.
        effects: in the order of the text, costs left out.
    """

    name: str
    parameters: Typed
    condition: Condition
    effects: tuple[Effect, ...]


class Domain(NamedTuple):
    """A PDDL domain.

    Attributes:
        name: in lower case.
        parents: type -> its parent; the root ``object`` is not in it.
        predicates: name -> number of arguments.
        constants: objects that every problem has, with their types.
        actions: in the order of the text.
    """

    name: str
    parents: dict[str, str]
    predicates: dict[str, int]
    constants: Typed
    actions: tuple[Action, ...]


class Problem(NamedTuple):
    """A PDDL problem.

    Attributes:
        domain: the name of the domain it belongs to.
        objects: id -> type, without the domain's constants.
        runs: the positive atoms of ``:init`` in their order.
        goal: what to reach.
    """

    domain: str
    objects: dict[str, str]
    runs: list[Run]
    goal: Goal

    @property
    def facts(self) -> list[list[str]]:
        """The positive atoms of ``:init``, as written: name, then arguments."""
        return [
            [run.name, *words]
            for run in self.runs
            for words in (zip(*run.columns, strict=True) if run.columns else [()])
        ]


def read_domain(text: str, source: Source) -> Domain:
    """Read a domain.

    Raises:
        DataDamaged: if the text is no PDDL domain.
        UnsupportedConstruct: naming the construct.
    """
    reader = _Reader(text, source, {})
    name, forms, *_ = reader.definition("domain")
    sections: dict[str, list[Form]] = {}
    actions: list[list[Form]] = []
    for form in forms:
        head = reader.head(form)
        if head == ":action":
            actions.append(form)  # type: ignore[arg-type]
        elif head in (":requirements", ":types", ":constants", ":predicates", ":functions"):
            if head in sections or actions:
                raise source.damaged(f"the section {head} repeated or after an action")
            sections[head] = form[1:]  # type: ignore[assignment]
        else:
            raise source.unsupported(f"the section {head}", reader.where(head))
    parents = dict(reader.typed(sections.get(":types", [])))
    parents.pop(ROOT_TYPE, None)
    for type_ in list(parents.values()):
        if type_ != ROOT_TYPE:
            parents.setdefault(type_, ROOT_TYPE)
    if len(parents) > _MOST_TYPES:
        raise source.too_large(f"{len(parents):,} types")
    for type_ in parents:
        _check_circle(type_, parents, source)
    predicates: dict[str, int] = {EQUAL: 2}
    for form in sections.get(":predicates", []):
        predicates[reader.head(form)] = len(reader.typed(form[1:]))
    reader.predicates = predicates
    constants = reader.typed(sections.get(":constants", []))
    _check_lengths(_columns(constants)[0], source)
    return Domain(
        name, parents, predicates, constants, tuple(reader.action(form) for form in actions)
    )


def read_problem(text: str, domain: Domain, source: Source, goals: Goals | None = None) -> Problem:
    """Read a problem of a domain.

    Args:
        text: as in the file.
        domain: as read.
        source: named by errors.
        goals: what was met in other problems of the domain.

    Raises:
        DataDamaged: if the text is no PDDL problem, or not one of this domain.
        UnsupportedConstruct: naming the construct.
    """
    reader = _Reader(text, source, domain.predicates)
    _, forms, words, runs = reader.definition("problem")
    sections: dict[str, list[Form]] = {}
    for form in forms:
        head = reader.head(form)
        if head not in (":domain", ":objects", ":init", ":goal", ":metric", ":requirements"):
            raise source.unsupported(f"the section {head}", reader.where(head))
        if head in sections:
            raise source.damaged(f"the section {head} repeated", reader.where(head))
        sections[head] = form[1:]  # type: ignore[assignment]
    if sections.get(":domain") != [domain.name]:
        written = " ".join(str(x) for x in sections.get(":domain", [])) or "none"
        raise source.damaged(f"domain {written!r} where the game's domain is {domain.name!r}")
    for needed in (":init", ":goal"):
        if needed not in sections:
            raise source.damaged(f"no section {needed}")
    names, types = _even_columns(words) or _columns(
        reader.typed(words or sections.get(":objects", []))
    )
    _check_lengths(names, source)
    objects = dict(zip(names, types, strict=True))
    twice = Counter(names) if len(objects) < len(names) else {}
    for name in names if twice else dict(domain.constants):
        if name in objects and twice.get(name, 2) > 1:
            raise source.damaged(f"the object {name} twice", reader.where(name))
    unknown = {*types, *_columns(domain.constants)[1]} - domain.parents.keys() - {ROOT_TYPE}
    if unknown:
        raise source.damaged(f"objects of the undeclared type {min(unknown)}")
    goal = sections[":goal"]
    if len(goal) != 1:
        raise source.damaged(f"a goal of {len(goal)} conditions instead of one")
    read_goal = (goals or Goals()).read(goal[0], reader.goal, source)
    return Problem(domain.name, objects, runs or reader.runs(sections[":init"]), read_goal)


def _even_columns(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]] | None:
    """Names and types of a list in which every name has its own type; None if it is not so."""
    names, dashes, types = words[::3], words[1::3], words[2::3]
    even = bool(words) and len(names) == len(types) == dashes.count("-")
    if not even or "-" in names or "-" in types:
        return None
    return names, types


def _columns(pairs: Typed) -> tuple[Sequence[str], Sequence[str]]:
    return [name for name, _ in pairs], [type_ for _, type_ in pairs]


def _check_lengths(names: Sequence[str], source: Source) -> None:
    longest = max(map(len, names), default=0)
    if longest > _LONGEST_NAME:
        raise source.too_large(f"an object's name of {longest:,} characters")


def _check_circle(type_: str, parents: dict[str, str], source: Source) -> None:
    seen = {type_}
    while (type_ := parents.get(type_, ROOT_TYPE)) != ROOT_TYPE:
        if type_ in seen:
            raise source.damaged(f"the type {type_} is its own ancestor")
        seen.add(type_)


class _Reader(Forms):
    """Reads the forms of one text; knows the domain's predicates."""

    def __init__(self, text: str, source: Source, predicates: dict[str, int]) -> None:
        super().__init__(text, source)
        self.predicates = predicates

    def typed(self, tokens: Iterable[Form]) -> Typed:
        """A typed list: names up to ``-`` take the type after it."""
        pairs: list[tuple[str, str]] = []
        waiting: list[str] = []
        words = iter(tokens)
        for word in words:
            if not isinstance(word, str):
                raise self.source.damaged(f"{shown(word)} in a list of names")
            if word != "-":
                waiting.append(word)
                continue
            type_ = next(words, "")
            if not isinstance(type_, str):
                raise self.source.unsupported(f"the type {shown(type_)}", self.where("either"))
            if not type_:
                raise self.source.damaged("a typed list that ends with -")
            pairs += [(name, type_) for name in waiting]
            waiting = []
        return (*pairs, *((name, ROOT_TYPE) for name in waiting))

    def runs(self, forms: list[Form]) -> list[Run]:
        """The positive atoms of ``:init``."""
        found: list[Run] = []
        for form in forms:
            name = self.head(form)
            if name not in ("=", "not"):
                if not are_words(form[1:]):
                    raise self.source.damaged(f"{shown(form)} among the facts")
                found.append(Run(name, tuple([[str(word)] for word in form[1:]])))
        return found

    def action(self, form: list[Form]) -> Action:
        """An ``:action`` form."""
        if len(form) < 2 or not isinstance(form[1], str) or len(form) % 2:
            raise self.source.damaged(f"{shown(form)} where an action is expected")
        name = form[1]
        parts: dict[str, Form] = {}
        for key, value in zip(form[2::2], form[3::2], strict=True):
            if key not in (":parameters", ":precondition", ":effect"):
                raise self.source.unsupported(f"{shown(key)} of action {name}")
            parts[str(key)] = value
        parameters = self.typed(parts.get(":parameters", []))
        condition = self.condition(parts.get(":precondition", []))
        effects = tuple(self._effects(parts.get(":effect", []), TRUE))
        known = {variable for variable, _ in parameters}
        _Scope(self, f"action {name}").check(condition, known)
        for effect in effects:
            _Scope(self, f"action {name}").check(effect.condition, known)
            _Scope(self, f"action {name}").check(effect.literal, known)
        return Action(name, parameters, condition, effects)

    def goal(self, form: Form) -> Condition:
        """A condition in which nothing declares a variable but ``exists``."""
        condition = self.condition(form)
        _Scope(self, "the goal").check(condition, set())
        return condition

    def condition(self, form: Form, positive: bool = True) -> Condition:
        """A condition with its negations pushed to the atoms."""
        if form == []:
            return TRUE if positive else Or(())
        head = self.head(form)
        rest = form[1:]
        if head in ("and", "or"):
            parts = tuple(self.condition(part, positive) for part in rest)
            return And(parts) if (head == "and") == positive else Or(parts)
        if head == "not":
            if len(rest) != 1:
                raise self.source.damaged(f"{shown(form)}: not takes one condition")
            return self.condition(rest[0], not positive)
        if head == "exists":
            if not positive:
                raise self.source.unsupported("not (exists …)", self.where("exists"))
            if len(rest) != 2 or not isinstance(rest[0], list):
                raise self.source.damaged(f"{shown(form)}: exists takes variables and a condition")
            return Exists(self.typed(rest[0]), self.condition(rest[1]))
        if head in ("forall", "imply"):
            raise self.source.unsupported(f"({head} …)", self.where(head))
        return self._literal(form, positive)

    def _literal(self, form: Form, positive: bool = True) -> Literal:
        name = self.head(form)
        terms = form[1:]
        if name not in self.predicates:
            raise self.source.damaged(f"the undeclared predicate {name}", self.where(name))
        if len(terms) != self.predicates[name] or not all(isinstance(t, str) for t in terms):
            raise self.source.damaged(
                f"{shown(form)}: {name} takes {self.predicates[name]} arguments", self.where(name)
            )
        return Literal(name, tuple(str(t) for t in terms), positive)

    def _effects(self, form: Form, condition: Condition) -> Iterable[Effect]:
        if form == []:
            return
        head = self.head(form)
        rest = form[1:]
        if head == "and":
            for part in rest:
                yield from self._effects(part, condition)
        elif head == "increase":
            return  # costs change neither play nor text
        elif head == "when":
            if len(rest) != 2:
                raise self.source.damaged(f"{shown(form)}: when takes a condition and an effect")
            inner = self.condition(rest[0])
            both = inner if condition == TRUE else And((condition, inner))
            yield from self._effects(rest[1], both)
        elif head == "not":
            if len(rest) != 1:
                raise self.source.damaged(f"{shown(form)}: not takes one atom")
            yield Effect(self._literal(rest[0], positive=False), condition)
        elif head in ("forall", "decrease", "assign", "scale-up", "scale-down", "exists", "or"):
            raise self.source.unsupported(f"the effect ({head} …)", self.where(head))
        else:
            yield Effect(self._literal(form), condition)


class _Scope(NamedTuple):
    """Checks that a condition uses no variable that nothing declares."""

    reader: _Reader
    place: str

    def check(self, condition: Condition, known: set[str]) -> None:
        if isinstance(condition, Literal):
            for term in condition.terms:
                if term.startswith("?") and term not in known:
                    raise self.reader.source.damaged(
                        f"the undeclared variable {term} in {self.place}", self.reader.where(term)
                    )
        elif isinstance(condition, Exists):
            self.check(condition.part, known | {name for name, _ in condition.variables})
        else:
            for part in condition.parts:
                self.check(part, known)

"""What a ground action changes: its effects once those are gone that can never do anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from agentgym_suite.alfworld.facts import Atom


class GroundEffect(NamedTuple):
    """One effect of a ground action.

    Attributes:
        atom: what changes.
        positive: whether it becomes true.
        condition: the lifted condition, over the action's parameters; ``TRUE`` if there is none.
    """

    atom: Atom
    positive: bool
    condition: Condition


Grounding = Callable[[Literal], Atom]


def surviving(
    effects: Iterable[Effect],
    required: Mapping[Atom, bool],
    ground: Grounding,
    never_changes: Callable[[Atom], bool | None],
    can_be_true: Callable[[Atom], bool],
) -> list[GroundEffect]:
    """The effects that a ground action has.

    Dropped are: a delete whose atom is added under the same condition; what the precondition
    already guarantees; what happens under a condition that contradicts the precondition or can
    never hold; deletes of atoms that can never become true.

    Args:
        effects: of the action.
        required: atoms that the precondition fixes.
        ground: lifted literal -> atom.
        never_changes: the truth of an atom that no action changes; None for any other.
        can_be_true: whether some sequence of actions could make an atom true.
    """
    grounded = [GroundEffect(ground(e.literal), e.literal.positive, e.condition) for e in effects]
    added = {(e.atom, e.condition) for e in grounded if e.positive}
    kept: dict[GroundEffect, None] = {}
    for effect in grounded:
        if not effect.positive and (effect.atom, effect.condition) in added:
            continue
        if required.get(effect.atom) is effect.positive:
            continue
        if effect.condition != TRUE:
            truth = decided(effect.condition, required, ground, never_changes)
            if truth is False:
                continue
            if truth is True:
                effect = GroundEffect(effect.atom, effect.positive, TRUE)
        if not effect.positive and effect.atom not in required and not can_be_true(effect.atom):
            continue
        kept[effect] = None
    return list(kept)


def decided(
    condition: Condition,
    required: Mapping[Atom, bool],
    ground: Grounding,
    never_changes: Callable[[Atom], bool | None],
) -> bool | None:
    """The truth of a condition wherever the precondition holds; None if that depends."""
    if isinstance(condition, Literal):
        atom = ground(condition)
        if condition.predicate == EQUAL:
            return (atom[1] == atom[2]) is condition.positive
        truth = required.get(atom)
        if truth is None:
            truth = never_changes(atom)
        return None if truth is None else truth is condition.positive
    if isinstance(condition, Exists):
        return None
    parts = [decided(part, required, ground, never_changes) for part in condition.parts]
    if isinstance(condition, And):
        return False if False in parts else None if None in parts else True
    if isinstance(condition, Or):
        return True if True in parts else None if None in parts else False
    return None

"""The raw instructions of a product, checked, from which its goals are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

from agentgym_suite.webshop.products import Product, encodable, is_texts

# One record with a few hundred values in each of several groups would make more goals than
# all others together; the largest official product has 558 combinations.
MOST_COMBINATIONS = 1_000_000

NO_OBJECT = "attributes entry is not an object"


class Complain(Protocol):
    """What is called when an instruction makes no goal."""

    def __call__(self, reason: str, *, by_design: bool = False) -> None:
        """Take note of one case.

        Args:
            reason: why, in a few words that a report can count.
            by_design: True where the original skips it too; False where it would die.
        """


@dataclass(frozen=True, slots=True)
class SyntheticSource:
    """A product's generated instruction: one goal for each combination of its options."""

    instruction: str
    attributes: tuple[str, ...]
    combinations: int


@dataclass(frozen=True, slots=True)
class HumanSource:
    """One instruction a person wrote: one goal.

    Attributes:
        instruction: the words, without dots at both ends.
        attributes: the attributes asked for.
        options: the option values asked for.
        entry: position of the instruction among those of its product.
    """

    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    entry: int


def synthetic_source(entry: Any, product: Product, complain: Complain) -> SyntheticSource | None:
    """The source in a product's entry of ``items_ins_v2.json``; None if it has none."""
    if not isinstance(entry, Mapping):
        if entry is not None:
            complain(NO_OBJECT)
        return None
    instruction = entry.get("instruction")
    if instruction is None:
        return None
    attributes = entry.get("instruction_attributes")
    combinations = prod(len(values) for _, values in product.options)
    if not isinstance(instruction, str) or not instruction:
        complain("synthetic instruction is not text")
    elif not is_texts(attributes) or not attributes:
        complain("synthetic instruction without attributes")
    elif combinations > MOST_COMBINATIONS:
        complain("synthetic instruction with too many option combinations")
    else:
        clean = encodable([instruction, *attributes])
        return SyntheticSource(clean[0], tuple(clean[1:]), combinations)
    return None


def human_sources(entries: Any, complain: Complain) -> Iterator[HumanSource]:
    """The sources in a product's list of ``items_human_ins.json``, in order.

    Entries without instruction attributes are skipped, as in the original.
    """
    if entries is None:
        return
    if not isinstance(entries, list):
        complain("human instructions are not a list")
        return
    for number, raw in enumerate(entries):
        entry = raw if isinstance(raw, Mapping) else {}
        instruction, attributes = entry.get("instruction"), entry.get("instruction_attributes")
        options = entry.get("instruction_options") or []
        if not isinstance(instruction, str) or not instruction:
            complain("human instruction is not text")
        elif not is_texts(attributes) or not attributes:
            complain("human instruction without attributes", by_design=True)
        elif not is_texts(options):
            complain("human instruction options are not a list of texts")
        else:
            words, wanted, chosen = encodable([instruction, attributes, options])
            yield HumanSource(words.strip("."), tuple(wanted), tuple(chosen), number)

"""Dates and numbers: one canonical answer form, several forms in which texts write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_suite.dice import Dice

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_SEASONS = ("spring", "summer", "autumn", "winter")
_DAYS_IN_ANY_MONTH = 28
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Value:
    """A date or a number.

    Attributes:
        answer: the canonical form.
        aliases: other forms that are accepted as an answer.
        written: the forms in which a text may write it.
        order: what two of a kind are compared by.
    """

    answer: str
    aliases: tuple[str, ...]
    written: tuple[str, ...]
    order: int


def year(number: int, dice: Dice) -> Value:
    """A year, which texts may write with the month or the season."""
    plain = str(number)
    closer = f"{dice.pick(_MONTHS)} {plain}", f"the {dice.pick(_SEASONS)} of {plain}"
    return Value(plain, (), (plain, plain, *closer), number)


def date(number: int, dice: Dice) -> Value:
    """A day of a year."""
    month, day = dice.below(12), dice.between(1, _DAYS_IN_ANY_MONTH)
    name = _MONTHS[month]
    forms = (f"{day} {name} {number}", f"{name} {day}, {number}")
    formal = f"the {day}{_ordinal(day)} of {name} {number}"
    iso = f"{number}-{month + 1:02d}-{day:02d}"
    return Value(forms[0], (forms[1], formal, iso), (*forms, formal), int(iso.replace("-", "")))


def population(dice: Dice) -> Value:
    """A number of people; round ones may be written with a word."""
    scale = dice.weighted((5, 4, 1))
    if scale == 0:
        count = dice.between(4_000, 79_999)
    elif scale == 1:
        count = dice.between(80, 940) * 1_000
    else:
        count = dice.between(101, 480) * 10_000
    plain = f"{count:,}"
    word = plain
    if count >= _MILLION:
        word = f"{count // _MILLION}.{count % _MILLION // 10_000:02d} million"
    elif count % 1_000 == 0:
        word = f"{count // 1_000} thousand"
    aliases = dict.fromkeys((str(count), word))
    aliases.pop(plain, None)
    return Value(plain, tuple(aliases), (plain, plain, word), count)


def measure(low: int, high: int, units: Sequence[str], dice: Dice) -> Value:
    """A length or height in one unit, which has a long and a short name."""
    count = dice.between(low, high)
    plain = f"{count:,}"
    full, short = (f"{plain} {unit}" for unit in units)
    return Value(plain, (full, short), (full, full, short), count)


def make_value(kind: str, number: int, dice: Dice) -> Value:
    """A value of one of ``tables.VALUE_KINDS``; ``number`` is the year of years and dates."""
    if kind == "year":
        return year(number, dice)
    if kind == "date":
        return date(number, dice)
    if kind == "population":
        return population(dice)
    if kind == "length":
        return measure(38, 1_650, ("kilometres", "km"), dice)
    if kind == "height":
        return measure(780, 5_900, ("metres", "m"), dice)
    return measure(7, 96, ("centimetres", "cm"), dice)


def _ordinal(day: int) -> str:
    if 11 <= day <= 13:
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")

"""The values of option groups: colours, sizes, packs, flavours, as sellers write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentgym_suite.dice import Dice

#: Values of a group, as (probability, number) points, for products with one group and with more.
ONE_GROUP = ((0.0, 2.0), (0.3, 2.9), (0.5, 3.7), (0.75, 5.5), (0.9, 9.0), (0.97, 15.0), (1.0, 30.0))
MORE_GROUPS = (
    (0.0, 2.0),
    (0.2, 2.9),
    (0.5, 5.2),
    (0.75, 8.4),
    (0.9, 13.0),
    (0.97, 24.0),
    (1.0, 46.0),
)
# sizes come in order, so a product offers a run of neighbours
_RUNS = frozenset({"clothing", "clothing_wide", "memory"})


def option_values(
    kind: str, lists: Mapping[str, Sequence[str]], groups: int, dice: Dice
) -> list[str]:
    """Different values of one kind.

    Args:
        kind: a key of lexicon/options.toml or one of the measured kinds below.
        lists: lexicon/options.toml.
        groups: number of option groups of the product: with more, they are larger.
        dice: the product's draws.
    """
    count = int(dice.quantile(ONE_GROUP if groups == 1 else MORE_GROUPS))
    if kind in _MEASURES:
        return list(dict.fromkeys(_MEASURES[kind](dice, count)))
    if kind == "clothing" and count > 9:
        kind = "clothing_wide"
    values = lists[kind]
    if kind in _RUNS:
        count = min(max(count, 3), len(values))
        start = dice.below(len(values) - count + 1)
        return list(values[start : start + count])
    return dice.sample(values, min(count, len(values)))


def _volume(dice: Dice, count: int) -> list[str]:
    pack = dice.chance(0.5)
    values = []
    for _ in range(count):
        ounces = dice.pick(
            (
                "1",
                "1.7",
                "2",
                "3.4",
                "4",
                "5",
                "6.7",
                "8",
                "8.5",
                "10.1",
                "12",
                "13.5",
                "16.9",
                "33.8",
            )
        )
        unit = "Fl Oz" if pack else dice.pick(("Ounce", "Fl Oz"))
        tail = f" (Pack of {dice.pick((1, 2, 3, 4, 6))})" if pack else ""
        values.append(f"{ounces} {unit}{tail}")
    return values


def _weight(dice: Dice, count: int) -> list[str]:
    values = []
    for _ in range(count):
        amount = dice.pick(
            ("0.8", "1.5", "2", "3.5", "5", "6", "7.5", "8", "10", "12", "14.5", "16", "24", "32")
        )
        unit = "Pound" if amount in ("2", "5", "10") and dice.chance(0.5) else "Ounce"
        values.append(f"{amount} {unit} (Pack of {dice.pick((1, 1, 2, 3, 4, 6, 8, 12))})")
    return values


def _count(dice: Dice, count: int) -> list[str]:
    unit = dice.pick(("Count", "Count", "Pack", "Piece"))
    amounts = dice.sample((1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 18, 20, 24, 30, 36, 48, 60, 100), count)
    if dice.chance(0.4):
        return [
            f"{amount} {unit} (Pack of {dice.pick((1, 1, 2, 3))})" for amount in sorted(amounts)
        ]
    return [f"{amount} {unit}" for amount in sorted(amounts)]


def _piece(dice: Dice, count: int) -> list[str]:
    form = dice.pick(("{} Piece", "Set of {}", "{}pcs", "{} Inch", "{} L", 'W/ {}" Lid'))
    return [form.format(amount) for amount in sorted(dice.sample(range(1, 25), count))]


def _length(dice: Dice, count: int) -> list[str]:
    form = dice.pick(("{} Feet", "{}ft", "{} Feet (2 Pack)", "{}m", "{}ft/Angled"))
    return [
        form.format(amount)
        for amount in sorted(dice.sample((1, 2, 3, 5, 6, 8, 10, 12, 15, 20, 25, 30, 50), count))
    ]


def _dims(dice: Dice, count: int) -> list[str]:
    form = dice.pick(
        (
            "{} x {} in",
            "{}x{}cm",
            '{}" x {}"',
            '{}"W x {}"H',
            "{} × {} cm",
            "{}x{}ft",
            "{}W x {}H Inch",
        )
    )
    return [form.format(4 + dice.below(60), 4 + dice.below(80)) for _ in range(count)]


def _screen(dice: Dice, count: int) -> list[str]:
    form = dice.pick(("{} Inch", '{}"', "{}-Inch", '{}" 16:9'))
    return [
        form.format(size)
        for size in sorted(
            dice.sample((7, 8, 10, 11, 13, 14, 15.6, 24, 27, 32, 43, 55, 65, 84, 100, 120), count)
        )
    ]


def _bedding(dice: Dice, count: int) -> list[str]:
    if dice.chance(0.4):
        beds = (
            "Twin",
            "Twin XL",
            "Full",
            "Queen",
            "King",
            "California King",
            "Crib",
            "Throw 50x60 in",
            "Full/Queen",
        )
        count = min(count, len(beds))
        start = dice.below(len(beds) - count + 1)
        return list(beds[start : start + count])
    form = dice.pick(
        ("{} x {} Inch", '{}"W x {}"L', "{}x{}cm", "{} ft x {} ft", "{} x {} (Set of 2)")
    )
    return [form.format(10 + 2 * dice.below(30), 16 + 2 * dice.below(40)) for _ in range(count)]


def _shoe(dice: Dice, count: int) -> list[str]:
    form = dice.pick(("{}", "{}", "{} Wide", "{} Women/{} Men", "{}-{}", "{} M US"))
    start = 4 + dice.below(5)
    step = 2 if dice.chance(0.5) else 1
    sizes = [start + half / step for half in range(max(count, 4))]
    return [
        form.format(f"{size:g}", f"{size - 1.5 if 'Men' in form else size + 1:g}") for size in sizes
    ]


_MEASURES: dict[str, Callable[[Dice, int], list[str]]] = {
    "volume": _volume,
    "weight": _weight,
    "count": _count,
    "piece": _piece,
    "length": _length,
    "dims": _dims,
    "screen": _screen,
    "bedding": _bedding,
    "shoe": _shoe,
}

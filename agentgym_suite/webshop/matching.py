"""How alike two short texts are: the token set ratio behind the reward, and colour names.

The ratio is the one of thefuzz 0.19 on Python's own difflib, which the original used. Other
libraries of the same name score differently and flip decisions at the threshold.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

MATCH_ABOVE = 85

_COLOUR_WORDS = """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
    burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee
    cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold
    granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon
    leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
    mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal
    rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal
    tiger turquoise violet walnut wheat white wine yellow
    """
COLOURS = tuple(_COLOUR_WORDS.split())

_NOT_WORD = re.compile(r"\W")
_LATIN_1_UPPER_HALF = dict.fromkeys(range(0x80, 0x100))


def normalise_colour(value: str) -> str:
    """The first colour of the list that occurs anywhere in ``value``, else ``value`` itself."""
    return next((colour for colour in COLOURS if colour in value), value)


def normalise_option(option: str | tuple[str, str]) -> str:
    """One side of the option comparison as text.

    A synthetic goal's option is a (group, value) pair. The original asked whether a colour is *in*
    the pair, that is, equal to one of its two elements, and compared the pair's Python notation.
    """
    if isinstance(option, str):
        return normalise_colour(option)
    return next((colour for colour in COLOURS if colour in option), str(option))


def token_set_ratio(bought: str, wanted: str) -> int:
    """Likeness of two texts as sets of words, 0 to 100.

    Args:
        bought: text of the product; difflib is not symmetric, so the order matters.
        wanted: text of the goal.
    """
    ours, theirs = _words(bought), _words(wanted)
    if not ours or not theirs:
        return 0
    common = " ".join(sorted(ours & theirs))
    left = f"{common} {' '.join(sorted(ours - theirs))}".strip()
    right = f"{common} {' '.join(sorted(theirs - ours))}".strip()
    return max(_ratio(common, left), _ratio(common, right), _ratio(left, right))


def _words(text: str) -> set[str]:
    return set(_NOT_WORD.sub(" ", text.translate(_LATIN_1_UPPER_HALF)).lower().split())


def _ratio(first: str, second: str) -> int:
    if first == second:
        return 100
    if not first or not second:
        return 0
    return round(100 * SequenceMatcher(None, first, second).ratio())


class Matcher:
    """``token_set_ratio(...) > 85``, remembered for the latest pairs; safe to share by threads.

    Args:
        remembered: how many (bought, wanted) pairs are kept.
    """

    def __init__(self, remembered: int = 65_536) -> None:
        self.alike = lru_cache(maxsize=remembered)(_alike)


def _alike(bought: str, wanted: str) -> bool:
    return token_set_ratio(bought, wanted) > MATCH_ABOVE

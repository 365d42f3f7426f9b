"""Words that exist nowhere: brands, collections, places, people, model numbers and product ids.

Names are numbers written in syllables, so there are as many as a catalogue of any size needs.
``NameSource.tail`` draws them with a Pareto law, which gives texts the ever growing vocabulary of
real ones.
"""

from __future__ import annotations

from math import sqrt

from agentgym_suite.dice import Dice

_ONSETS: tuple[str, ...] = (
    "b",
    "br",
    "d",
    "dr",
    "fl",
    "gl",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "pr",
    "qu",
)
_ONSETS += ("r", "s", "st", "t", "tr", "v", "w")
_SYLLABLES = tuple(
    onset + vowel for onset in _ONSETS for vowel in "aeiou" if onset + vowel != "quu"
)
_CODAS = ("", "n", "r", "l", "m", "nd", "th", "rk", "lt", "x", "rd", "s")
_LINE_CODAS: tuple[str, ...] = (
    "mere",
    "wick",
    "ton",
    "dale",
    "ford",
    "lyn",
    "quist",
    "crest",
    "well",
    "gate",
)
_LINE_CODAS += ("mont", "holm")
_SHORT = len(_SYLLABLES) * len(_SYLLABLES) * len(_CODAS)
_LONG = _SHORT * len(_SYLLABLES)
_SHORT_STRIDE = 104_723
_LONG_STRIDE = 12_345_701
_ASIN_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ASIN_SPACE = 36**8
_ASIN_STRIDE = 1_743_392_200_307
_CODE_LETTERS = "BDFHKLMRTX"
_TAIL_SCALE = 8000.0
_READY = 4096


class NameSource:
    """Invented words of one catalogue; immutable after construction.

    Args:
        seed: the catalogue's seed; it moves every name and id, so two seeds share few words.
    """

    def __init__(self, seed: int) -> None:
        dice = Dice("names", seed)
        self._shift = dice.below(_SHORT)
        self._asin_shift = dice.below(_ASIN_SPACE)
        self._ready = tuple(self._spell(number).capitalize() for number in range(_READY))

    def _spell(self, number: int, codas: tuple[str, ...] = _CODAS) -> str:
        if number < _SHORT:
            code = (number * _SHORT_STRIDE + self._shift) % _SHORT
        else:
            code = (number * _LONG_STRIDE + self._shift) % _LONG
        code, coda = divmod(code, len(_CODAS))
        code, second = divmod(code, len(_SYLLABLES))
        if number < _SHORT:
            return _SYLLABLES[code] + _SYLLABLES[second] + codas[coda]
        third, first = divmod(code, len(_SYLLABLES))
        return _SYLLABLES[first] + _SYLLABLES[third] + _SYLLABLES[second] + codas[coda]

    def name(self, number: int) -> str:
        """The capitalised word of a number, different for some 16 million of them."""
        return self._ready[number] if number < _READY else self._spell(number).capitalize()

    def line(self, number: int) -> str:
        """The collection name of a family of products, which no other family has."""
        return self._spell(number, _LINE_CODAS).capitalize()

    def tail(self, dice: Dice, scale: float = _TAIL_SCALE) -> str:
        """A word whose rank follows a Pareto law of exponent 2/3: few are common, most are rare."""
        chance = 1.0 - dice.roll()
        # sqrt is rounded correctly everywhere; a power of 3/2 would differ between C libraries
        return self.name(min(int(scale * (1.0 / (chance * sqrt(chance)) - 1.0)), _LONG - 1))

    def asin(self, number: int) -> str:
        """The 10 character id of product ``number``: unique, and in no order."""
        code = (number * _ASIN_STRIDE + self._asin_shift) % _ASIN_SPACE
        digits = []
        for _ in range(8):
            code, digit = divmod(code, 36)
            digits.append(_ASIN_DIGITS[digit])
        return "B0" + "".join(reversed(digits))


def model_code(dice: Dice) -> str:
    """A model number such as ``KX482``; 90,000 exist, so they repeat in a large catalogue."""
    return f"{dice.pick(_CODE_LETTERS)}{dice.pick(_CODE_LETTERS)}{100 + dice.below(900)}"

"""Lucene's StandardTokenizer: Unicode word breaks (UAX #29) with emoji sequences (UTS #51).

A text is first spelled as one letter a character, its class (``word_breaks.class_table``); the
rules are then a regular expression over these letters. Text of ASCII alone, by far the most,
has a quicker expression of its own. Every part is possessive: the tokeniser never goes back,
so a megabyte of anything takes linear time.
"""

from __future__ import annotations

import re

from agentgym_suite.indexes.word_breaks import class_table

MAX_TOKEN_UNITS = 255
"""Longer tokens are cut into pieces of this many UTF-16 code units."""

_CLASSES = class_table()


def _ascii_pattern() -> re.Pattern[str]:
    letter, digit = "[A-Za-z]", "[0-9]"
    joints = rf"(?<={letter})[.:'](?={letter})|(?<={digit})[.,;'](?={digit})"
    return re.compile(rf"\w++(?:(?:{joints})\w++)*+", re.ASCII)


def _class_pattern() -> re.Pattern[str]:
    extend = "[xszvVktT]*+"
    # The letter after a joint is taken with it: a Hebrew one has no quote of its own there.
    joint = f"[:.']{extend}[LMH]{extend}"
    point = f"[,.']{extend}N{extend}"
    words = (
        f"(?:[LM]++{extend}(?:{joint})*+"
        f"|N++{extend}(?:{point})*+"
        f"|H{extend}(?:'{extend}|\"{extend}H{extend}|(?:{joint})++)?+)++"
    )
    part = f"(?:{words}|(?:K{extend})++)"
    connectors = f"(?:_{extend})++"
    # Connectors that lead to nothing match too: they are told apart by `is_connectors`.
    word = f"(?:{connectors}{part}?+|{part})(?:{connectors}{part}?+)*+"

    # Presentation selectors end an emoji, so that V can be told from what extends it.
    emoji_extend = "[xszktT]*+"
    modifier = f"m{emoji_extend}"
    pictograph = f"(?:B{emoji_extend}{modifier}|[PBM]{emoji_extend}V?+)"
    joined = f"(?:(?<=z)(?:{pictograph}|{modifier})|z++{pictograph}|z{modifier})"
    emoji = (
        f"(?:(?:(?<!z)z++)?+{pictograph}|{modifier})(?:t++T|{joined}*+)"
        f"|#(?:{emoji_extend}Vk|[xsztT]*+k){emoji_extend}"
        f"|(?:R{extend}){{2}}"
    )
    return re.compile(f"{word}|{emoji}|(?:[Ss]{extend})++|I{extend}")


_ASCII_TOKENS = _ascii_pattern()
_TOKENS = _class_pattern()
_CONNECTORS = re.compile("(?:_[xszvVktT]*+)++")


def tokenize(text: str) -> list[str]:
    """The tokens of a text, and its runs of connectors (``__``), which Lucene drops."""
    if text.isascii():
        tokens: list[str] = _ASCII_TOKENS.findall(text)
    else:
        tokens = []
        # A blank never joins, and most pieces between blanks are ASCII: the quick pattern's.
        for piece in text.split(" "):
            tokens += _ASCII_TOKENS.findall(piece) if piece.isascii() else _general(piece)
    # A character is one or two UTF-16 units.
    if tokens and len(max(tokens, key=len)) > MAX_TOKEN_UNITS // 2:
        tokens = [piece for token in tokens for piece in _cut(token)]
    return tokens


def is_connectors(token: str) -> bool:
    """Whether a token of ``tokenize`` is nothing but connectors."""
    return _CONNECTORS.fullmatch(token.translate(_CLASSES)) is not None


def _general(text: str) -> list[str]:
    return [
        text[found.start() : found.end()] for found in _TOKENS.finditer(text.translate(_CLASSES))
    ]


def _cut(token: str) -> list[str]:
    """The pieces that a tokeniser sees which never looks at more than 255 UTF-16 units."""
    classes = token.translate(_CLASSES)
    pieces = []
    start = 0
    while start < len(token):
        window = _window_end(token, start)
        found = _TOKENS.match(classes, start, window)
        if found is None:
            start += 1
        elif window < len(token) and _CONNECTORS.fullmatch(found[0]):
            # Connectors alone are skipped one by one until the window shows what they lead to.
            run = _CONNECTORS.match(classes, start)
            run_end = run.end() if run is not None else start
            start = max(start + 1, run_end - MAX_TOKEN_UNITS + 1)
        else:
            pieces.append(token[start : found.end()])
            start = found.end()
    return pieces


def _window_end(token: str, start: int) -> int:
    """Where 255 UTF-16 units from ``start`` end; a character is never cut in two."""
    end = start
    units = 0
    for character in token[start : start + MAX_TOKEN_UNITS]:
        units += 1 if character <= "\uffff" else 2
        if units > MAX_TOKEN_UNITS:
            break
        end += 1
    return end

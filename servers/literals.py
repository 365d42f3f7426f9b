r"""A reader for the lists and dictionaries of strings that stand in the shop's addresses.

It takes JSON and the notation that Python prints, ``["1/4", 'zip']`` and ``{'color': "blue"}``,
strings and nothing else; nothing is ever evaluated.
"""

from __future__ import annotations

import re

MOST_STRINGS = 2_000

_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = {quote: re.compile(rf"[^{quote}\\]*") for quote in "'\""}
_SIMPLE_ESCAPES = {
    **{quote: quote for quote in "'\"\\/"},
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "0": "\0",
    "a": "\a",
    "v": "\v",
}
_CODE_LENGTHS = {"x": 2, "u": 4, "U": 8}


class LiteralError(ValueError):
    """The text is no list or dictionary of strings; the message says where it goes wrong."""


def parse_list(text: str) -> list[str]:
    """``['a', "b"]`` as a list.

    Raises:
        LiteralError: the text is anything else.
    """
    reader = _Reader(text)
    values: list[str] = []
    reader.expect("[")
    while not reader.accept("]"):
        if values:
            reader.expect(",")
            if reader.accept("]"):  # Python allows a comma before the end
                break
        values.append(reader.string())
    reader.end()
    return values


def parse_dict(text: str) -> dict[str, str]:
    """``{'a': "b"}`` as a dictionary; of equal keys the last one counts.

    Raises:
        LiteralError: the text is anything else.
    """
    reader = _Reader(text)
    values: dict[str, str] = {}
    reader.expect("{")
    while not reader.accept("}"):
        if values:
            reader.expect(",")
            if reader.accept("}"):
                break
        key = reader.string()
        reader.expect(":")
        values[key] = reader.string()
    reader.end()
    return values


class _Reader:
    """A place in a text, moved on by what is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._strings = 0

    def accept(self, mark: str) -> bool:
        """Whether ``mark`` comes next; it is read then."""
        self._skip_space()
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise self._error(f"{mark} is missing")

    def end(self) -> None:
        self._skip_space()
        if self._at < len(self._text):
            raise self._error("something follows the end")

    def string(self) -> str:
        self._strings += 1
        if self._strings > MOST_STRINGS:
            raise self._error(f"there are more than {MOST_STRINGS} strings")
        self._skip_space()
        quote = self._text[self._at : self._at + 1]
        if quote not in ("'", '"'):
            raise self._error("a quoted string is missing")
        self._at += 1
        pieces: list[str] = []
        while True:
            if plain := _PLAIN[quote].match(self._text, self._at):
                pieces.append(plain[0])
                self._at = plain.end()
            mark = self._text[self._at : self._at + 1]
            self._at += 1
            if mark == quote:
                return _joined(pieces)
            if not mark:
                raise self._error("a string has no end")
            pieces.append(self._escape())

    def _escape(self) -> str:
        kind = self._text[self._at : self._at + 1]
        self._at += 1
        if kind in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[kind]
        length = _CODE_LENGTHS.get(kind)
        digits = self._text[self._at : self._at + (length or 0)]
        if length is None or not re.fullmatch(rf"[0-9a-fA-F]{{{length}}}", digits):
            raise self._error("a backslash is followed by something unknown")
        self._at += length
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise self._error("a character's code is too large")
        return chr(code)

    def _skip_space(self) -> None:
        if space := _SPACE.match(self._text, self._at):
            self._at = space.end()

    def _error(self, reason: str) -> LiteralError:
        return LiteralError(f"{reason} at character {self._at}")


def _joined(pieces: list[str]) -> str:
    """The string, its surrogate pairs joined as JSON means them."""
    text = "".join(pieces)
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise LiteralError("a string has half of a surrogate pair") from None

"""What a paper is called: arXiv ids in all their spellings, and titles as keys."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

# Two digits of the year and a month; four digits follow until 1412, five since 1501.
_FOUR_DIGITS = r"(?:0[7-9]|1[0-4])(?:0[1-9]|1[0-2])\.\d{4}"
_FIVE_DIGITS = r"(?:1[5-9]|[2-9]\d)(?:0[1-9]|1[0-2])\.\d{5}"
_NEW_FORM = re.compile(f"({_FOUR_DIGITS}|{_FIVE_DIGITS})(?:v\\d+)?", re.ASCII)
# The version stands at the end only: the archive solv-int has a v of its own.
_OLD_FORM = re.compile(
    r"([a-z]+(?:-[a-z]+)*)(?:\.[a-z]{2})?/((?:9[1-9]|0[0-7])(?:0[1-9]|1[0-2])\d{3})(?:v\d+)?",
    re.ASCII | re.IGNORECASE,
)
_FIRST_NEW_MONTH = "0704"
_SUBJECT = re.compile(r"\s+\[[a-z][a-z-]*(?:\.[a-z-]+)?\]$", re.IGNORECASE)
_AROUND = " \t\r\n()[]{}<>\"'`“”‘’«»,;"
_PREFIX = re.compile(
    r"(?:arxiv:|doi:|(?:https?://)?(?:dx\.)?doi\.org/|10\.48550/arxiv\.|"
    r"(?:https?://)?(?:(?:www\.|export\.|browse\.)?arxiv\.org|ar5iv\.org|ar5iv\.labs\.arxiv\.org)"
    r"/(?:abs|pdf|html|format|e-print|src|ps|html5)/)\s*",
    re.IGNORECASE,
)
_TAIL = re.compile(r"(?:/|\.pdf|\.)$", re.IGNORECASE)
_CLOSING: Mapping[str, str] = MappingProxyType(dict(zip("([{<\"'`“‘«", ")]}>\"'`”’»", strict=True)))
_DOI_PREFIX = re.compile(r"(?:doi:|(?:https?://)?(?:dx\.|www\.)?doi\.org/)\s*", re.IGNORECASE)
_LONGEST_WRAPPED = 512


def normalize_arxiv_id(text: object) -> str | None:
    """The bare arXiv id that a text spells, None when it spells none.

    Args:
        text: an id, with or without version, prefix, subject, address or quotes around it. A
            number is refused: as such ``2005.10`` has lost its zeros.

    Returns:
        ``1706.03762``, ``0912.3995`` or, from before April 2007, ``math/0309136``.
    """
    if not isinstance(text, str):
        return None
    rest = unicodedata.normalize("NFKC", text).strip()
    rest = _SUBJECT.sub("", rest).strip(_AROUND)
    while found := _PREFIX.match(rest):
        rest = rest[found.end() :]
    rest = re.split(r"[?#]", rest, maxsplit=1)[0].strip(_AROUND)
    while found := _TAIL.search(rest):
        rest = rest[: found.start()]
    if found := _NEW_FORM.fullmatch(rest):
        return found[1] if found[1] >= _FIRST_NEW_MONTH else None
    if found := _OLD_FORM.fullmatch(rest):
        return f"{found[1].lower()}/{found[2]}"
    return None


def plain_id(text: str) -> str:
    """An id without what is written around one: pairs of brackets or quotes, ``doi:``, a stop."""
    rest = text.strip()
    while 1 < len(rest) <= _LONGEST_WRAPPED:
        if _CLOSING.get(rest[0]) == rest[-1]:
            rest = rest[1:-1].strip()
        elif found := _DOI_PREFIX.match(rest):
            rest = rest[found.end() :]
        elif rest[-1] in ".,;":
            rest = rest[:-1].rstrip()
        else:
            break
    return rest


def id_keys(text: str) -> list[str]:
    """What to look an id up as, best first: bare arXiv id, as it stands, and without its dress.

    Each comes casefolded too; a DOI also as ``doi:`` and as an address.
    """
    stripped, plain = text.strip(), plain_id(text)
    keys = [normalize_arxiv_id(text) or normalize_arxiv_id(plain)]
    keys += [stripped, stripped.casefold(), plain, plain.casefold()]
    if plain.startswith("10."):
        keys += [f"{form}{plain}".casefold() for form in ("doi:", "https://doi.org/")]
    return list(dict.fromkeys(filter(None, keys)))


def title_key(title: str) -> str:
    """Letters and digits of a title after NFKC and casefold: how equal titles are told."""
    folded = unicodedata.normalize("NFKC", title).casefold()
    return "".join(character for character in folded if character.isalnum())


def keep_letters(title: str) -> str:
    """The letters of a title in lower case: how PaSa (``utils.py``) compares titles.

    Digits are lost, so that GPT-3 and GPT-4 are one; for comparisons with its figures only.
    """
    return "".join(character for character in title if character.isalpha()).lower()

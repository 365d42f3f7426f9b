"""Title nouns for the reward, found once while a store is built.

The original tags titles with spaCy at every purchase; here the tokens tagged NOUN or PROPN
are stored with the product, from a file, from spaCy, or by rules when neither is given. The
label says which, because scores of different sources do not compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agentgym_suite.errors import MissingExtra, UsageError
from agentgym_suite.json_stream import read_json_lines
from agentgym_suite.webshop.products import is_texts

Nouns = tuple[str, ...]

_NOUN_TAGS = ("NOUN", "PROPN")


class NounExtractor(Protocol):
    """Finds the nouns of titles."""

    @property
    def label(self) -> str:
        """Name and version of the source, as it stands in manifest and provenance."""

    def extract(self, titles: Sequence[str]) -> list[Nouns]:
        """The lower-cased nouns of each title, in order, repeats kept."""


def read_noun_file(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (asin, nouns) from JSON lines ``{"asin": …, "nouns": […]}``, plain, .xz or .gz.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a line is not of that shape, or the file is cut off.
    """
    example = '{"asin": "B01", "nouns": ["shoe"]}'
    return read_json_lines(path, _noun_entry, "the nouns of a title", example)


def _noun_entry(entry: object) -> tuple[str, list[str]]:
    if isinstance(entry, Mapping):
        asin, nouns = entry.get("asin"), entry.get("nouns")
        if isinstance(asin, str) and is_texts(nouns):
            return asin, nouns
    raise ValueError("no asin as text with nouns as a list of texts")


class SpacyNouns:
    """Nouns by a spaCy model, as the original finds them (extra ``webshop-build``)."""

    def __init__(self, model: str) -> None:
        try:
            import spacy
        except ImportError as error:
            raise MissingExtra("webshop-build", "finding title nouns with spaCy") from error
        try:
            # Not without the parser: the ruler behind the tagger reads it, in rare titles.
            self._model: Any = spacy.load(model, exclude=["ner", "lemmatizer"])
        except OSError as error:
            raise UsageError(
                f"spaCy model {model!r} is not installed; run python -m spacy download {model}"
            ) from error
        about = self._model.meta
        self.label = f"spacy:{about['lang']}_{about['name']}-{about['version']}"

    def extract(self, titles: Sequence[str]) -> list[Nouns]:
        """The nouns of each title by the model's part-of-speech tags."""
        return [
            tuple(token.text.lower() for token in title if token.pos_ in _NOUN_TAGS)
            for title in self._model.pipe(titles)
        ]


class RuleNouns:
    """Nouns without a model: the words of a title that are neither function words nor numbers.

    Titles of a shop are strings of names: taggers take even the adjectives in them for parts
    of a proper noun, so that the closed word classes are nearly all that is to be removed.
    """

    label = "rules:1"

    def extract(self, titles: Sequence[str]) -> list[Nouns]:
        """The nouns of each title by the rules."""
        return [tuple(word for word in _words(title) if word not in _NOT_NOUNS) for title in titles]


def _words(title: str) -> list[str]:
    return _WORD.findall(_POSSESSIVE.sub(" ", title.lower()))


# A possessive s is a token of its own to a tagger, an inner dot is not.
_POSSESSIVE = re.compile(r"['’]s\b")
_WORD = re.compile(r"[^\W\d_][^\W_]*(?:['’.][^\W_]+)*")
_NOT_NOUNS = frozenset(
    _WORD.findall("""
    a about above after against all also am an and any are as at be because been before
    below between both but by can could did do does down during each either etc every for
    from full get had has have he her hers him his how if in included includes into is it
    its itself just like made make makes may me might mine ml mm more most must my no nor
    not of off on once one only onto or other our ours out over own pc pcs per plus same
    shall she should so some still such than that the their theirs them then there these
    they this those through to too two three four five six under until up upon use used
    very via was we well were what when where which while who whom whose why wide will with
    within without would x you your yours
    """)
)

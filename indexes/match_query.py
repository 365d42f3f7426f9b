"""From a user's text to a MATCH string of FTS5, in which no character of the text is an operator.

Raw text must never reach MATCH: quotes and commas are syntax errors, ``GPT-4`` asks for a column
4, ``title: x`` filters silently, a NUL cuts the string. Here a text becomes its words, each in
double quotes, joined by OR; a question in natural language would find nothing with AND.

What is lost: ``C++`` and ``C#`` are both the word ``c``, and a hyphenated word is its parts. A run
of Chinese or Japanese is one word to the unicode61 tokenizer, so that a part of it is not found;
the trigram tokenizer finds it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from agentgym_suite.errors import UsageError

LONGEST_QUERY = 8_192
"""Characters of a query that are looked at."""

MOST_WORDS = 64
"""Words of a query that are searched for: the first ones."""

_WORDS = re.compile(r"[^\W_]+")
_SURROGATES = re.compile("[\ud800-\udfff]")


def query_words(text: str) -> list[str]:
    """The words to search for: letters and digits after NFKC, each once, at most 64.

    Two words are the same when their casefolds are; the first one stays as it is written.

    Raises:
        UsageError: ``text`` is not text.
    """
    if not isinstance(text, str):
        raise UsageError(f"the query is {text!r:.80}; give text")
    cleaned = _SURROGATES.sub("", text[:LONGEST_QUERY])
    words: dict[str, str] = {}
    for found in _WORDS.finditer(unicodedata.normalize("NFKC", cleaned)):
        words.setdefault(found[0].casefold(), found[0])
        if len(words) == MOST_WORDS:
            break
    return list(words.values())


def match_any(words: Iterable[str]) -> str:
    """The MATCH string that finds rows with any of the words, which ``query_words`` gave.

    Empty when there is no word: FTS5 refuses an empty string, so that no SQL may be run.
    """
    return " OR ".join(f'"{word}"' for word in words)

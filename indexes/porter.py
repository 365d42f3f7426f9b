"""The Porter stemmer, as Lucene's PorterStemFilter runs it.

M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980, with the two changes of
its author's later programs: ``bli`` -> ``ble`` (for ``abli`` -> ``able``) and ``logi`` -> ``log``.
Every character that is not one of a, e, i, o, u, y counts as a consonant.
"""

from __future__ import annotations

# Step 2 and 3 suffixes in the order in which they are tried, by the letter that selects them.
_STEP_2 = {
    "a": (("ational", "ate"), ("tional", "tion")),
    "c": (("enci", "ence"), ("anci", "ance")),
    "e": (("izer", "ize"),),
    "l": (("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    "o": (("ization", "ize"), ("ation", "ate"), ("ator", "ate")),
    "s": (("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    "t": (("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    "g": (("logi", "log"),),
}
_STEP_3 = {
    "e": (("icate", "ic"), ("ative", ""), ("alize", "al")),
    "i": (("iciti", "ic"),),
    "l": (("ical", "ic"), ("ful", "")),
    "s": (("ness", ""),),
}
_STEP_4 = {
    "a": ("al",),
    "c": ("ance", "ence"),
    "e": ("er",),
    "i": ("ic",),
    "l": ("able", "ible"),
    "n": ("ant", "ement", "ment", "ent"),
    "o": ("sion", "tion", "ou"),
    "s": ("ism",),
    "t": ("ate", "iti"),
    "u": ("ous",),
    "v": ("ive",),
    "z": ("ize",),
}


def stem(word: str) -> str:
    """The stem of a lower-case word; words of one or two characters stay as they are."""
    if len(word) <= 2:
        return word
    word = _step_1c(_step_1b(_step_1a(word)))
    if len(word) > 1:
        word = _replace(word, _STEP_2.get(word[-2], ()))
    word = _replace(word, _STEP_3.get(word[-1], ()))
    if len(word) > 1:
        word = _step_4(word)
    return _step_5(word)


def _shape(word: str) -> str:
    """The word as ``c`` (consonant) and ``v`` (vowel); y is a vowel after a consonant."""
    kinds = []
    previous = "v"
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and previous == "c")
        previous = "v" if vowel else "c"
        kinds.append(previous)
    return "".join(kinds)


def _measure(stem_: str) -> int:
    """Porter's m: how many times a vowel is followed by a consonant."""
    return _shape(stem_).count("vc")


def _ends_in_double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_short(word: str) -> bool:
    """Porter's *o: consonant, vowel, consonant other than w, x and y at the end."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _step_1a(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _step_1b(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if word.endswith("ed"):
        base = word[:-2]
    elif word.endswith("ing"):
        base = word[:-3]
    else:
        return word
    if "v" not in _shape(base):
        return word
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if _ends_in_double_consonant(base):
        return base if base[-1] in "lsz" else base[:-1]
    if _measure(base) == 1 and _ends_short(base):
        return base + "e"
    return base


def _step_1c(word: str) -> str:
    if word.endswith("y") and "v" in _shape(word[:-1]):
        return word[:-1] + "i"
    return word


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Steps 2 and 3: the first suffix found is replaced where the rest has m > 0."""
    for suffix, replacement in rules:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return base + replacement if _measure(base) > 0 else word
    return word


def _step_4(word: str) -> str:
    """Drop the first suffix found where the rest has m > 1; ``ion`` keeps its s or t."""
    for suffix in _STEP_4.get(word[-2], ()):
        if word.endswith(suffix):
            kept = word[:-3] if suffix in ("sion", "tion") else word[: -len(suffix)]
            return kept if _measure(kept) > 1 else word
    return word


def _step_5(word: str) -> str:
    measure = _measure(word)
    if word.endswith("e") and (measure > 1 or (measure == 1 and not _ends_short(word[:-1]))):
        word = word[:-1]
    if word.endswith("ll") and measure > 1:
        word = word[:-1]
    return word

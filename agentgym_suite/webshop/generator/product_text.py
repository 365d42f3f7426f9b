"""Words of a generated product: title with its nouns, description, bullet points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_suite.dice import Dice
from agentgym_suite.webshop.generator.invented_names import NameSource, model_code
from agentgym_suite.webshop.generator.product_types import Lexicon, ProductType

# lengths of the official thousand as (probability, value) points
_TITLE_WORDS = (
    (0.0, 5.0),
    (0.1, 8.0),
    (0.25, 12.0),
    (0.5, 17.5),
    (0.75, 24.0),
    (0.9, 29.0),
    (0.99, 36.0),
    (1.0, 41.0),
)
_DESCRIPTION = (
    (0.0, 25.0),
    (0.28, 285.0),
    (0.64, 850.0),
    (0.86, 1430.0),
    (0.985, 1900.0),
    (0.9965, 2300.0),
    (1.0, 14000.0),
)
_BULLET_COUNTS = (30, 20, 50, 90, 600, 65, 100, 25)  # of 1, 2, … 8 bullet points
_BULLET_LENGTH = (
    (0.0, 12.0),
    (0.25, 42.0),
    (0.5, 112.0),
    (0.75, 200.0),
    (0.93, 290.0),
    (0.996, 460.0),
    (1.0, 2300.0),
)
_NOUN = re.compile(r"[^\W\d_]\w+")


@dataclass(frozen=True, slots=True)
class Subject:
    """What the text of one product is about."""

    kind: ProductType
    brand: str
    line: str
    subtype: str
    material: str
    look: str
    attributes: tuple[str, ...]


class Writer:
    """Writes the text of products; holds only tables, so one writer serves a whole catalogue."""

    def __init__(self, lexicon: Lexicon, names: NameSource) -> None:
        self._names = names
        self._not_nouns = lexicon.not_nouns
        talk = lexicon.sentences
        self._care = talk["care"]
        self._feature_bullets = talk["bullet"]
        self._tiny_bullets = talk["tiny_bullet"]
        self._plain_bullets = {kind: talk["plain_bullet"] + talk[kind] for kind in _CATEGORIES}
        self._sentences = {kind: talk["any"] + talk[kind] + talk[kind] for kind in _CATEGORIES}

    def title(self, subject: Subject, dice: Dice) -> str:
        """A seller's title; line and look together are unlike those of every other product."""
        kind = subject.kind
        profile = kind.profile
        words = int(dice.quantile(_TITLE_WORDS))
        thing = f"{subject.look} {named(subject.subtype, kind.head) if words > 6 else kind.head}"
        opening = dice.weighted((5, 2, 1))
        if opening == 0:
            title = f"{subject.brand} {subject.line} {thing}"
        elif opening == 1:
            title = f"{subject.brand} {thing} - {subject.line} Collection"
        else:
            title = f"{subject.line} {thing} by {subject.brand}"
        extras = [*subject.attributes[:6]]
        extras += [f"for {use}" for use in dice.sample(profile.uses, 3)]
        extras += [f"{look} {subject.material} design" for look in dice.sample(profile.looks, 2)]
        extras += [model_code(dice), f"{2 + dice.below(11)} pack"]
        extras.append(f"{self._names.tail(dice)} edition")
        left = words - title.count(" ") - 1
        for extra in dice.sample(extras, len(extras)):
            size = extra.count(" ") + 1
            if size > left + 1:
                continue
            joint = " " if extra.startswith("for ") or dice.chance(0.2) else ", "
            title += joint + extra
            left -= size
            if left <= 0:
                break
        return _title_case(title)

    def nouns(self, title: str) -> list[str]:
        """The lower-cased nouns of a title made by ``title``, in order with repeats."""
        words = _NOUN.findall(title.lower().replace("'s", ""))
        return [word for word in words if word not in self._not_nouns]

    def description(self, subject: Subject, dice: Dice) -> str:
        """Sentences up to a drawn length; "" for 30 % of the products."""
        if dice.chance(0.3):
            return ""
        length = dice.quantile(_DESCRIPTION)
        sentences = self._sentences[subject.kind.category]
        talk = _Talk(subject, dice, self._names)
        if length < 60:
            return talk.say(dice.pick(self._care))
        return talk.fill("", sentences, length - 40)

    def bullets(self, subject: Subject, dice: Dice) -> list[str] | str:
        """Bullet points; some products have one empty point, some a bare string."""
        if dice.chance(0.07):
            return [""]
        count = dice.weighted(_BULLET_COUNTS) + 1
        talk = _Talk(subject, dice, self._names)
        plain = self._plain_bullets[subject.kind.category]
        told = dice.sample(subject.attributes, count)
        scale = dice.quantile(_BULLET_LENGTH)
        texts = []
        for place in range(count):
            text = ""
            if place < len(told) and dice.chance(0.8):
                feature = told[place].capitalize()
                form = dice.pick(self._feature_bullets) if scale > 45 else "{Feature}"
                text = talk.say(form, feature)
            text = talk.fill(text, plain, scale * (0.55 + 0.9 * dice.roll()) - 25)
            texts.append(text or talk.say(dice.pick(self._tiny_bullets)))
        return texts[0] if dice.chance(0.016) else texts


_CATEGORIES = ("beauty", "electronics", "garden", "fashion", "grocery")


class _Talk(dict[str, str]):
    """The sentences of one product; its items fill their blanks, other blanks are drawn anew."""

    def __init__(self, subject: Subject, dice: Dice, names: NameSource) -> None:
        super().__init__(
            brand=subject.brand,
            line=subject.line,
            head=named(subject.subtype, subject.kind.head).lower(),
            material=subject.material,
        )
        self._subject = subject
        self._dice = dice
        self._names = names
        self._left: list[str] = []

    def say(self, sentence: str, feature: str = "") -> str:
        """The sentence with its blanks filled, starting with a capital."""
        if feature:
            self["Feature"] = feature
        text = sentence.format_map(self)
        return text[0].upper() + text[1:]

    def fill(self, text: str, sentences: Sequence[str], length: float) -> str:
        """The text continued to ``length`` characters; sentences return after all were used."""
        while len(text) < length:
            if not self._left:
                self._left = self._dice.sample(sentences, len(sentences))
            sentence = self.say(self._left.pop())
            text = f"{text} {sentence}" if text else sentence
        return text

    def __missing__(self, slot: str) -> str:
        dice = self._dice
        if slot == "name":
            return self._names.tail(dice)
        if slot == "k":
            return str(2 + dice.below(11))
        if slot == "n":
            return str(2 + dice.below(58) if dice.chance(0.8) else 60 + dice.below(440))
        if slot == "d":
            return f"{dice.below(480) / 10 * dice.roll() + 0.3:.1f}"
        if slot == "year":
            return str(1890 + dice.below(130))
        if slot == "code":
            return model_code(dice)
        profile = self._subject.kind.profile
        if slot == "feature":
            return dice.pick(self._subject.attributes or profile.looks)
        if slot == "use":
            return dice.pick(profile.uses)
        look = dice.pick(profile.looks)
        if slot == "a_look":
            return f"an {look}" if look[0] in "aeio" else f"a {look}"
        return look.capitalize() if slot == "Look" else look


def named(subtype: str, head: str) -> str:
    """The product's name with its subtype: arc Floor Lamp, Men's chino Pants."""
    owner, blank, rest = head.partition("'s ")
    return f"{owner}'s {subtype} {rest}" if blank else f"{subtype} {head}"


def _title_case(text: str) -> str:
    words = text.split(" ")
    return " ".join(word if word in _SMALL else word[:1].upper() + word[1:] for word in words)


_SMALL = ("for", "by", "and", "in", "of", "the", "with")

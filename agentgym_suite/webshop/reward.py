"""The reward of a purchase, with all its parts.

Source: princeton-nlp/WebShop, ``web_agent_site/engine/goal.py``; the sums and quotients are taken
in the original's order, so that totals are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_suite.webshop.goals import Goal
from agentgym_suite.webshop.matching import Matcher, normalise_option
from agentgym_suite.webshop.products import Product

TITLE_SCORE_WITHOUT_NOUNS = 0.2
_SAME_TYPE_ABOVE = 0.2
_FOREIGN_TYPE_BELOW = 0.1
_CATEGORY_SEPARATOR = "\u203a"
_CATEGORIES_IN_COMMON = 2


@dataclass(frozen=True, slots=True)
class TypeParts:
    """How far the bought product is the kind of thing that was wanted.

    Attributes:
        r_type: factor on the whole reward: 1, 0.5, 0.1 or 0.
        query_match: whether both products were collected under the same query.
        category_match: whether their category paths share two parts or more.
        title_score: share of the wanted title's nouns that the bought title has.
    """

    r_type: float
    query_match: bool
    category_match: bool
    title_score: float


@dataclass(frozen=True, slots=True)
class RewardParts:
    """The reward of one purchase and what it is made of.

    ``total = (attributes met + options met + r_price) / (A + O + 1) * r_type`` for a goal with A
    attributes and O options. Every ``r_`` is in [0, 1]; the ``w_`` are their weights in the sum.

    Attributes:
        total: the reward, 0.0 to 1.0.
        r_type: factor of the product type; see ``TypeParts``, also for the next three.
        query_match: see ``TypeParts``.
        category_match: see ``TypeParts``.
        title_score: see ``TypeParts``.
        r_att: share of the wanted attributes that the product has.
        w_att: weight of the attributes.
        r_option: share of the wanted options met by the fuzzy rule; 0.0 if none are wanted.
        w_option: weight of the options; 0.0 if none are wanted.
        r_option_exact: share of the wanted options chosen exactly; takes no part in the total.
        r_price: whether the price is within the bound.
        w_price: weight of the price.
    """

    total: float
    r_type: float
    query_match: bool
    category_match: bool
    title_score: float
    r_att: float
    w_att: float
    r_option: float
    w_option: float
    r_option_exact: float
    r_price: bool
    w_price: float

    @property
    def success(self) -> bool:
        """Whether everything wanted was bought."""
        return self.total == 1.0

    def details(self) -> dict[str, float | bool]:
        """The original's report: option parts only where the goal has options."""
        report: dict[str, float | bool] = {
            "r_type": self.r_type,
            "r_att": self.r_att,
            "w_att": self.w_att,
            "query_match": self.query_match,
            "category_match": self.category_match,
            "title_score": self.title_score,
        }
        if self.w_option:
            report["r_option"] = self.r_option
            report["w_option"] = self.w_option
        report["r_price"] = self.r_price
        report["w_price"] = self.w_price
        return report

    def metrics(self) -> dict[str, float]:
        """Every part as a float, always under the same keys."""
        return {
            "r_type": self.r_type,
            "query_match": float(self.query_match),
            "category_match": float(self.category_match),
            "title_score": self.title_score,
            "r_att": self.r_att,
            "w_att": self.w_att,
            "r_option": self.r_option,
            "w_option": self.w_option,
            "r_option_exact": self.r_option_exact,
            "r_price": float(self.r_price),
            "w_price": self.w_price,
        }


NOTHING_BOUGHT = RewardParts(0.0, 0.0, False, False, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, 0.0)


class Judge:
    """Scores purchases and remembers comparisons; one may serve many environments and threads.

    Args:
        remembered: how many text pairs are kept.
    """

    def __init__(self, remembered: int = 65_536) -> None:
        self._alike = Matcher(remembered).alike

    def score(
        self, goal: Goal, product: Product, price: float, options: Mapping[str, str]
    ) -> RewardParts:
        """The reward for buying a product.

        Args:
            goal: what was wanted; it has at least one attribute.
            product: what was bought.
            price: its price in dollars.
            options: the chosen value of each option group.
        """
        kind = score_type(goal, product)
        attributes = len(goal.attributes)
        wanted = len(goal.options)
        everything = attributes + wanted + 1
        attributes_met = self._count_attributes(goal.attributes, product)
        options_met = self._count_options(goal, options)
        affordable = price <= goal.price_upper
        total = (attributes_met + options_met + affordable) / everything
        total *= kind.r_type
        return RewardParts(
            total=total,
            r_type=kind.r_type,
            query_match=kind.query_match,
            category_match=kind.category_match,
            title_score=kind.title_score,
            r_att=attributes_met / attributes,
            w_att=attributes / everything,
            r_option=options_met / wanted if wanted else 0.0,
            w_option=wanted / everything if wanted else 0.0,
            r_option_exact=_count_exact(goal, options) / wanted if wanted else 0.0,
            r_price=affordable,
            w_price=1 / everything,
        )

    def _count_attributes(self, wanted: tuple[str, ...], product: Product) -> int:
        texts = (
            product.name.lower(),
            " ".join(product.bullets).lower(),
            product.description.lower(),
        )
        alike = self._alike
        return sum(
            any(alike(attribute, want) for attribute in product.attributes)
            or any(want in text for text in texts)
            for want in wanted
        )

    def _count_options(self, goal: Goal, options: Mapping[str, str]) -> int:
        chosen = [normalise_option(value) for value in options.values()]
        alike = self._alike
        return sum(
            any(alike(value, want) for value in chosen)
            for want in map(normalise_option, goal.options)
        )


def score(goal: Goal, product: Product, price: float, options: Mapping[str, str]) -> RewardParts:
    """The reward for buying a product, computed afresh; see ``Judge.score``."""
    return Judge(remembered=256).score(goal, product, price, options)


def score_type(goal: Goal, product: Product) -> TypeParts:
    """How far a product is the kind of thing the goal wants."""
    query_match = product.query == goal.query
    in_common = _categories(product.product_category) & _categories(goal.product_category)
    category_match = len(in_common) >= _CATEGORIES_IN_COMMON
    title_score = TITLE_SCORE_WITHOUT_NOUNS
    if goal.nouns:  # a set over a list with repeats: kept, it is the original's quotient
        title_score = len(set(product.nouns) & set(goal.nouns)) / len(goal.nouns)
    r_type = 1.0 if query_match or category_match or title_score > _SAME_TYPE_ABOVE else 0.5
    if title_score < _FOREIGN_TYPE_BELOW:
        r_type = 0.1
    if title_score == 0.0:
        r_type = 0.0
    return TypeParts(r_type, query_match, category_match, title_score)


def _categories(path: str) -> set[str]:
    return {part.strip() for part in path.split(_CATEGORY_SEPARATOR)}


def _count_exact(goal: Goal, options: Mapping[str, str]) -> int:
    chosen = set(options.values())
    return sum(
        want.strip().lower() in chosen if isinstance(want, str) else options.get(want[0]) == want[1]
        for want in goal.options
    )

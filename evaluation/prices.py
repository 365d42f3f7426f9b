"""What model calls cost: a dated table of prices, and the price of an episode by its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.arguments import check_number
from agentgym_suite.episodes import Episode
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.records import Cost
from agentgym_suite.evaluation.toml_fields import read_toml, refuse_unknown, text_of, typed
from agentgym_suite.usage import Usage

SHIPPED_PRICES = Path(__file__).with_name("prices.toml")
_PER = 1_000_000  # tokens
_DEAREST = 1e6  # US dollars for a million tokens; more is a slip


@dataclass(frozen=True, slots=True)
class Price:
    """Prices of a model, in US dollars per million tokens.

    Attributes:
        input: prompt tokens.
        output: completion tokens.
        cached_input: prompt tokens that the server had kept.
    """

    input: float
    output: float
    cached_input: float

    def usd(self, usage: Usage) -> float:
        """The price of one call."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        dollars = (
            fresh * self.input + cached * self.cached_input + usage.completion_tokens * self.output
        )
        return dollars / _PER


@dataclass(frozen=True, slots=True)
class PriceTable:
    """A table of prices.

    Attributes:
        name: its file and date, as records name it.
        models: model -> its prices.
    """

    name: str
    models: Mapping[str, Price]

    @classmethod
    def read(cls, path: Path = SHIPPED_PRICES) -> PriceTable:
        """The table of a TOML file.

        Raises:
            UsageError: it is no such table.
            DataError: it cannot be read.
        """
        source = f"price table {path}"
        raw = read_toml(text_of(path), source)
        refuse_unknown(raw, ("as_of", "models"), source)
        as_of = typed(raw, "as_of", str, source)
        models = typed(raw, "models", dict, source)
        prices = {name: _price(table, f"{source}, {name}") for name, table in models.items()}
        return cls(f"{path.name} of {as_of}", prices)

    def pricing(self, model: str) -> Pricing:
        """How episodes of a model are priced."""
        return Pricing(self.name, self.models.get(model))


@dataclass(frozen=True, slots=True)
class Pricing:
    """How the episodes of a run are priced.

    Attributes:
        table: name of the table.
        price: the model's price; None where the table does not have it.
    """

    table: str
    price: Price | None

    def cost(self, episode: Episode) -> Cost:
        """The price of an episode's answered calls; unknown if one of them told no tokens."""
        usages = list(_usages(episode))
        told = all(usage.prompt_tokens and usage.completion_tokens for usage in usages)
        lost = None if episode.failure is None else episode.failure.usage
        if lost is not None:  # a reply without a word may well have no tokens
            usages.append(lost)
            told = told and lost.prompt_tokens > 0
        if self.price is None or not told:
            return Cost(None, self.table)
        return Cost(sum(map(self.price.usd, usages)), self.table)


def _usages(episode: Episode) -> Iterator[Usage]:
    for played in episode.earlier:
        yield from (step.reply.usage for step in played.steps)
        yield played.reflection.usage
    yield from (step.reply.usage for step in episode.steps)


def _price(table: object, source: str) -> Price:
    if not isinstance(table, dict):
        raise UsageError(f"{source} is no table; give input and output")
    refuse_unknown(table, ("input", "output", "cached_input"), source)
    fresh = typed(table, "input", float, source)
    prices = (
        fresh,
        typed(table, "output", float, source),
        typed(table, "cached_input", float, source, fresh),
    )
    return Price(*(check_number(source, price, 0.0, _DEAREST) for price in prices))

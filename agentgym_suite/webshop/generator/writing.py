"""Writing the generated catalogue into the official files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from agentgym_suite.webshop.generator.oddities import odd_products
from agentgym_suite.webshop.generator.product_maker import MadeProduct, ProductMaker
from agentgym_suite.webshop.generator.product_types import load_lexicon

DEFAULT_SEED = 31
_PROGRESS_STRIDE = 1000


def products(n: int, seed: int = DEFAULT_SEED) -> Iterator[MadeProduct]:
    """Yield the first ``n`` products of a seed; a shorter run is the beginning of a longer one."""
    maker = ProductMaker(load_lexicon(), seed)
    for number in range(n):
        yield maker.product(number)


def generate(
    folder: Path,
    *,
    products: int = 1000,
    seed: int = DEFAULT_SEED,
    oddities: bool = False,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> None:
    """Write items_shuffle.json, items_ins_v2.json, items_human_ins.json and title_nouns.jsonl.

    The bytes are a function of (``GENERATOR_VERSION``, products, seed, oddities). Memory stays
    constant: products are made and written one at a time. The lines of title_nouns.jsonl are
    ``{"asin": …, "nouns": […]}``.

    Args:
        folder: where the files go; created if missing. They are written in place: publishing
            them whole is the caller's business.
        products: how many ordinary products.
        seed: any integer.
        oddities: whether to append the damaged and awkward records of ``odd_products``.
        progress: called with (phase, products written, products).
    """
    folder.mkdir(parents=True, exist_ok=True)
    maker = ProductMaker(load_lexicon(), seed)
    made: Iterable[MadeProduct] = (maker.product(number) for number in range(products))
    with ExitStack() as stack:
        items, attributes, human, nouns = (
            stack.enter_context((folder / name).open("w", encoding="utf-8", newline="\n"))
            for name in _FILES
        )
        catalogue = _Container(items, "[]")
        instructions = _Container(attributes, "{}")
        requests = _Container(human, "{}")
        for number, product in enumerate(made, start=1):
            asin = product.item["asin"]
            catalogue.add(product.item)
            instructions.add(product.attributes, asin)
            if product.human:
                requests.add(product.human, asin)
            nouns.write(_noun_line(asin, product.nouns))
            if progress is not None and (number % _PROGRESS_STRIDE == 0 or number == products):
                progress("generate catalogue", number, products)
        if oddities:
            for odd in odd_products(maker, products):
                asin = odd.item["asin"]
                catalogue.add(odd.item)
                if odd.attributes is not None:
                    instructions.add(odd.attributes, asin)
                if odd.human:
                    requests.add(odd.human, asin)
                if odd.nouns is not None:
                    nouns.write(_noun_line(asin, odd.nouns))
        for container in (catalogue, instructions, requests):
            container.close()


_FILES = ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json", "title_nouns.jsonl")
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _noun_line(asin: str, nouns: list[str]) -> str:
    return _json({"asin": asin, "nouns": nouns}) + "\n"


class _Container:
    """A JSON list or object written element by element, one a line."""

    def __init__(self, file: TextIO, brackets: str) -> None:
        self._file = file
        self._end = brackets[1]
        self._joint = brackets[0] + "\n"

    def add(self, value: Any, key: str | None = None) -> None:
        head = self._joint if key is None else f"{self._joint}{_json(key)}:"
        self._file.write(head + _json(value))
        self._joint = ",\n"

    def close(self) -> None:
        # an empty container still needs its opening bracket
        opening = self._joint if self._joint != ",\n" else "\n"
        self._file.write(f"{opening}{self._end}\n")

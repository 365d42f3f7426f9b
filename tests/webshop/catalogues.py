"""Small catalogues in memory, with the oddities that real ones hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym_suite.webshop.goals import Goal, GoalKind
from agentgym_suite.webshop.products import Product
from agentgym_suite.webshop.shelf import Shelf


def product(asin: str, name: str, **changes: Any) -> Product:
    """A plain product; ``changes`` are fields."""
    fields: dict[str, Any] = {
        "description": f"About {name}.",
        "bullets": ("soft", "machine washable"),
        "category": "fashion",
        "query": "shirts",
        "product_category": "Clothing \u203a Men \u203a Shirts",
        "prices": (19.99,),
        "price_tag": "$19.99",
        "price": 19.99,
        "options": (),
        "option_images": (),
        "attributes": ("machine wash",),
        "images": (f"https://images.example/{asin}.jpg",),
        "nouns": tuple(name.lower().split()),
        "average_rating": "",
        "page": "",
        "model": "",
    }
    return Product(asin=asin, name=name, **(fields | changes))


def goal(index: int, target: Product, **changes: Any) -> Goal:
    """A human goal for a product, without options; ``changes`` are fields."""
    fields: dict[str, Any] = {
        "kind": "human",
        "instruction": f"i want {target.name.lower()}, and price lower than 40.00 dollars",
        "attributes": ("machine wash",),
        "price_upper": 40.0,
        "options": (),
        "weight": 1.0,
    }
    return Goal(
        index=index,
        asin=target.asin,
        category=target.category,
        query=target.query,
        name=target.name,
        product_category=target.product_category,
        nouns=target.nouns,
        **(fields | changes),
    )


class MemoryGoals(Sequence[Goal]):
    """Goals in a list, all of them in one split of each name."""

    digest = "sha256:memory"

    def __init__(self, goals: Sequence[Goal]) -> None:
        self._goals = list(goals)
        self.kind: GoalKind = goals[0].kind
        everything = range(len(goals))
        self.splits: Mapping[str, range] = dict.fromkeys(("test", "eval", "train"), everything)

    def __len__(self) -> int:
        return len(self._goals)

    def __getitem__(self, index: int) -> Goal:  # type: ignore[override]
        return self._goals[index]

    def draw(self, u: float, indices: Sequence[int]) -> int:
        return indices[int(u * len(indices))]


class MemoryCatalogue:
    """A catalogue without files; finds every product that shares a word with the keywords.

    ``answers`` may be set to a function that finds something else; None goes on as usual.
    """

    digest = "sha256:memory"

    def __init__(self, products: Sequence[Product], goals: Sequence[Goal]) -> None:
        self._products = {product.asin: product for product in products}
        self.product: Callable[[str], Product | None] = self._products.get
        self.shelf = Shelf(self._products.get)
        self.size = len(products)
        self.goals = MemoryGoals(goals)
        self.searches: list[tuple[str, ...]] = []
        self.answers: Callable[[tuple[str, ...]], tuple[str, ...] | None] = lambda words: None

    def search(self, keywords: Sequence[str]) -> tuple[str, ...]:
        self.searches.append(tuple(keywords))
        answer = self.answers(tuple(keywords))
        if answer is not None:
            return answer
        words = set(keywords)
        found = (
            asin
            for asin, product in self._products.items()
            if words & set(product.name.lower().split())
        )
        return tuple(found)[:50]

    def provenance(self) -> dict[str, Any]:
        return {"catalogue": self.digest, "products": self.size}


SHIRT = product(
    "B000000001",
    "Red Shirt",
    bullets=("soft", "", "machine washable"),
    options=(("color", ("blue", "red", 'bl"ack', "caf\u00e9")), ("size", ("small", "large"))),
    option_images=(("blue", "https://images.example/blue.jpg"),),
    prices=(10.0, 20.0),
    price_tag="$10.0 to $20.0",
)
# every oddity of option values in one product
PUZZLE = product(
    "B000000002",
    "Puzzle Shirt",
    options=(
        ("color", ("red", "green", "red", "description")),
        ("trim", ("red", "buy now", "search", "a [b] c")),
        ("size", ("size", "8 | 10")),
    ),
)
ESCAPED = product(
    "B000000003",
    "A <b>\"bold\" & 'quoted'</b> Shirt",
    description="<script>alert(1)</script>",
    bullets=("<i>", " \n ", "  ", "&amp;"),
    options=(('<u>"grp"', ("<s>", "a & b", "it's")),),
    attributes=("<em>",),
)
NAMELESS = product("B000000004", "", description="", bullets=("",), query="", nouns=())
PLAIN = tuple(product(f"B0000001{i:02}", f"Plain Shirt {i}") for i in range(23))
PRODUCTS = (SHIRT, PUZZLE, ESCAPED, NAMELESS, *PLAIN)
GOALS = (
    goal(0, SHIRT, options=("red", "small")),
    goal(1, PUZZLE),
    goal(2, ESCAPED, attributes=("<em>",)),
    goal(3, SHIRT, attributes=("machine wash", "soft"), options=()),
)


def odd_catalogue() -> MemoryCatalogue:
    """The products and goals of this file."""
    return MemoryCatalogue(PRODUCTS, GOALS)

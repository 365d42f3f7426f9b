"""The catalogue: what the environments of a process share.

A catalogue never changes and is the same for everyone who opens it with the same
arguments, so that a process needs one. `open_catalogue` therefore keeps weak references to
the catalogues in use: the one exception to "nothing global", harmless because what is
shared is immutable and identified by its content, and gone with its last user.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.data import Json, Progress
from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.webshop.goals import Goal, GoalKind, GoalSet
from agentgym_suite.webshop.product_search import (
    MOST_HITS,
    SearchBackend,
    cached_search,
    open_search,
)
from agentgym_suite.webshop.shelf import FindProduct, Shelf
from agentgym_suite.webshop.special_queries import SpecialQueries
from agentgym_suite.webshop.store import Store
from agentgym_suite.webshop.store_folder import StoreChoice, locate_store

GoalFilter = Callable[[int, Goal], bool]

DEFAULT_CACHE_SIZE = 2_048
# With fewer, the test split would have less than ten goals.
USABLE_HUMAN_GOALS = 100


@dataclass(frozen=True, slots=True)
class CatalogueChoice:
    """The arguments of `open_catalogue`, as one value."""

    store: StoreChoice
    goals: GoalKind | None = None
    search: SearchBackend = "bm25"
    filter_goals: GoalFilter | None = None
    limit_goals: int | None = None
    special_queries: bool = False
    cache_size: int = DEFAULT_CACHE_SIZE


class Catalogue:
    """Products, goals and search of one catalogue; read-only, safe in several threads.

    Made by `open_catalogue`. Pickles as its arguments.

    Attributes:
        digest: What the products and instructions are, `sha256:` + hex.
        size: How many products.
        goals: The goals that are played.
        product: The product of an upper-case ASIN, None if there is none.
    """

    def __init__(
        self, choice: CatalogueChoice, store: Store, progress: Progress | None = None
    ) -> None:
        self._choice = choice
        self.digest = str(store.manifest.notes["catalogue"])
        self.size = len(store)
        self.goals = GoalSet(
            store,
            _goal_kind(choice.goals, store),
            filter_goals=choice.filter_goals,
            limit_goals=choice.limit_goals,
        )
        self._special = SpecialQueries(store, self.digest) if choice.special_queries else None
        # The store's reader and no method, so that what keeps it does not keep the catalogue.
        self.product: FindProduct = store.product
        self.shelf = Shelf(store.product)
        self._index = open_search(choice.search, store, progress)
        self._search = cached_search(self._index, choice.cache_size)
        # Once, because a digest is computed whenever it is asked for.
        self._provenance: Mapping[str, Json] = {
            "catalogue": self.digest,
            "products": self.size,
            "goals": self.goals.kind,
            "goal_count": len(self.goals),
            "goals_digest": self.goals.digest,
            "price_source": store.price_source,
            "noun_source": store.manifest.notes["noun_source"],
            "search": choice.search,
            "index": self._index.digest,
            "special_queries": choice.special_queries,
        }

    def search(self, keywords: Sequence[str]) -> tuple[str, ...]:
        """The ASINs found for keywords, at most fifty, best first.

        Args:
            keywords: Lower-cased words; what Lucene's analyzer makes of them counts.
        """
        if self._special is not None:
            answer = self._special.answer(keywords)
            if answer is not None:
                return answer
        return self._search(" ".join(keywords))

    def hits(self, keywords: Sequence[str], k: int = MOST_HITS) -> Hits:
        """The best `k` products for keywords with their scores; for showing, not for playing."""
        return self._index.search(" ".join(keywords), k)

    def provenance(self) -> dict[str, Json]:
        """What results over this catalogue depend on."""
        return dict(self._provenance)

    def __reduce__(self) -> tuple[Callable[[CatalogueChoice], Catalogue], tuple[CatalogueChoice]]:
        return _open, (self._choice,)


def open_catalogue(
    data: str | Path | None = None,
    *,
    goals: GoalKind | None = None,
    search: SearchBackend = "bm25",
    num_products: int | None = None,
    legacy_price_seed: int | None = None,
    nouns: str | Path | None = None,
    filter_goals: GoalFilter | None = None,
    limit_goals: int | None = None,
    special_queries: bool = False,
    cache_size: int = DEFAULT_CACHE_SIZE,
    progress: Progress | None = None,
) -> Catalogue:
    """Open a catalogue; the same one for the same arguments within a process.

    Args:
        data: None for the embedded catalogue (generated at first use), a folder of official
            files, or a built store.
        goals: Which goals; human ones by default where there are a hundred or more.
        search: `"bm25"`, or `"lucene"` for pyserini over the same texts.
        num_products: Only the first so many products of the file.
        legacy_price_seed: Repeat the original's price draws from this seed.
        nouns: A file of title nouns for a folder that has none.
        filter_goals: Called with (index, goal); narrows the splits to goals it is true for.
        limit_goals: Narrows the splits to so many goals.
        special_queries: Give `<r>`, `<c>`, `<q>` and `<a>` as first keyword their meaning in
            the original.
        cache_size: How many search results are kept; 0 for none.
        progress: Called while something is built.

    Raises:
        DataMissing: There are no such data, or they are too large to be built on the way.
        DataDamaged: A file is damaged.
        DataVersion: The store was built by another version of the suite.
        UsageError: An argument is wrong, or does not fit the built store.
        MissingExtra: `search="lucene"` and pyserini is not installed.
    """
    for name, value, allowed in (
        ("goals", goals, (None, "human", "synthetic")),
        ("search", search, ("bm25", "lucene")),
    ):
        if value not in allowed:
            raise UsageError(f"{name} is {value!r}; choose one of {', '.join(map(repr, allowed))}")
    if limit_goals is not None and limit_goals < 1:
        raise UsageError(f"limit_goals is {limit_goals}; give 1 or more, or None")
    choice = CatalogueChoice(
        StoreChoice(
            None if data is None else Path(data).expanduser().absolute(),
            num_products,
            legacy_price_seed,
            None if nouns is None else Path(nouns).expanduser().absolute(),
        ),
        goals,
        search,
        filter_goals,
        limit_goals,
        special_queries,
        cache_size,
    )
    return _open(choice, progress)


_shared: weakref.WeakValueDictionary[tuple[object, ...], Catalogue] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def _open(choice: CatalogueChoice, progress: Progress | None = None) -> Catalogue:
    folder, manifest = locate_store(choice.store, progress)
    key = (choice, folder, manifest.digest)
    with _sharing:
        catalogue = _shared.get(key)
        if catalogue is None:
            catalogue = _shared[key] = Catalogue(choice, Store(folder, manifest), progress)
    return catalogue


def _goal_kind(wanted: GoalKind | None, store: Store) -> GoalKind:
    human, synthetic = (store.manifest.counts[f"{kind}_goals"] for kind in ("human", "synthetic"))
    if wanted is None:
        return "human" if human >= USABLE_HUMAN_GOALS or not synthetic else "synthetic"
    if not (human if wanted == "human" else synthetic):
        raise UsageError(
            f"the catalogue {store.folder} has no {wanted} goals ({human} human, {synthetic} "
            "synthetic): choose the other kind"
        )
    return wanted

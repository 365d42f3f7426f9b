"""The catalogue: what the environments of a process share.

A catalogue never changes and is the same for everyone who opens it with the same
arguments, so that a process needs one. ``open_catalogue`` therefore keeps weak references to
the catalogues in use: the one exception to "nothing global", harmless because what is
shared is immutable and identified by its content, and gone with its last user.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.arguments import check_count, shown
from agentgym_suite.data import Json, Manifest, Progress
from agentgym_suite.errors import UsageError
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.webshop.goals import Goal, GoalKind, GoalSet
from agentgym_suite.webshop.product_search import (
    MOST_HITS,
    SearchBackend,
    cached_search,
    open_search,
)
from agentgym_suite.webshop.products import FindProduct
from agentgym_suite.webshop.shelf import Shelf
from agentgym_suite.webshop.special_queries import SpecialQueries
from agentgym_suite.webshop.store import Store
from agentgym_suite.webshop.store_folder import StoreChoice, choose_store, locate_store

GoalFilter = Callable[[int, Goal], bool]

DEFAULT_CACHE_SIZE = 2_048
# With fewer, the test split would have less than ten goals.
USABLE_HUMAN_GOALS = 100


@dataclass(frozen=True, slots=True)
class CatalogueChoice:
    """The arguments of ``open_catalogue``, as one value.

    Raises:
        UsageError: a value is none of those there are.
    """

    store: StoreChoice
    goals: GoalKind | None = None
    search: SearchBackend = "bm25"
    filter_goals: GoalFilter | None = None
    limit_goals: int | None = None
    special_queries: bool = False
    cache_size: int = DEFAULT_CACHE_SIZE

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("goals", self.goals, (None, "human", "synthetic")),
            ("search", self.search, ("bm25", "lucene")),
        ):
            if not isinstance(value, str | None) or value not in allowed:
                known = ", ".join(map(repr, allowed))
                raise UsageError(f"{name} is {shown(value)}; choose one of {known}")
        if self.filter_goals is not None and not callable(self.filter_goals):
            raise UsageError(
                f"filter_goals is {shown(self.filter_goals)}; give a function, or None"
            )
        if self.limit_goals is not None:
            check_count("limit_goals", self.limit_goals, 1)
        check_count("cache_size", self.cache_size, 0)


class Catalogue:
    """Products, goals and search of one catalogue; read-only, safe in several threads.

    Made by ``open_catalogue``. Pickles as its arguments.

    Attributes:
        digest: what the products and instructions are, ``sha256:`` + hex.
        size: how many products.
        goals: the goals that are played.
        product: the product of an upper-case ASIN, None if there is none.
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
        """The best ``k`` products for keywords with their scores; for showing, not for playing."""
        return self._index.search(" ".join(keywords), k)

    def provenance(self) -> dict[str, Json]:
        """What results over this catalogue depend on."""
        return dict(self._provenance)

    def __reduce__(self) -> tuple[Callable[[CatalogueChoice], Catalogue], tuple[CatalogueChoice]]:
        return open_chosen, (self._choice,)


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
        data: None for the embedded catalogue (generated at first use), the name of a data set
            of the data home, a folder of official files, or a built store.
        goals: which goals; human ones by default where there are a hundred or more, or no others.
        search: ``"bm25"``, or ``"lucene"`` for pyserini over the same texts.
        num_products: only the first so many products of the file.
        legacy_price_seed: repeat the original's price draws from this seed.
        nouns: a file of title nouns for a folder that has none.
        filter_goals: called with (index, goal); narrows the splits to goals it is true for.
        limit_goals: narrows the splits to so many goals.
        special_queries: give ``<r>``, ``<c>``, ``<q>`` and ``<a>`` as first keyword their
            meaning in the original.
        cache_size: how many search results are kept; 0 for none.
        progress: called while something is built.

    Raises:
        DataMissing: there are no such data, or they are too large to be built on the way.
        DataDamaged: a file is damaged.
        DataVersion: the store was built by another version of the suite.
        UsageError: an argument is wrong, or does not fit the built store.
        MissingExtra: ``search="lucene"`` and pyserini is not installed.
    """
    choice = CatalogueChoice(
        choose_store(data, num_products, legacy_price_seed, nouns),
        goals,
        search,
        filter_goals,
        limit_goals,
        special_queries,
        cache_size,
    )
    return open_chosen(choice, progress)


_shared: weakref.WeakValueDictionary[tuple[object, ...], Catalogue] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def open_chosen(choice: CatalogueChoice, progress: Progress | None = None) -> Catalogue:
    """Open what was chosen before; see ``open_catalogue``."""
    folder, manifest = locate_store(choice.store, progress)
    key = (choice, folder, manifest.digest)
    with _sharing:
        catalogue = _shared.get(key)
        if catalogue is None:
            catalogue = _shared[key] = Catalogue(choice, Store(folder, manifest), progress)
    return catalogue


def default_goals(manifest: Manifest) -> GoalKind:
    """The kind of goals that a store is played with unless another is asked for."""
    human, synthetic = (manifest.counts[f"{kind}_goals"] for kind in ("human", "synthetic"))
    return "human" if human >= USABLE_HUMAN_GOALS or not synthetic else "synthetic"


def _goal_kind(wanted: GoalKind | None, store: Store) -> GoalKind:
    if wanted is None:
        return default_goals(store.manifest)
    human, synthetic = (store.manifest.counts[f"{kind}_goals"] for kind in ("human", "synthetic"))
    if not (human if wanted == "human" else synthetic):
        raise UsageError(
            f"the catalogue {store.folder} has no {wanted} goals ({human} human, {synthetic} "
            "synthetic); choose the other kind"
        )
    return wanted

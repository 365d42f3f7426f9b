"""A built store, read-only: products by ASIN, and the sources of goals.

One folder with one manifest at its top: ``shop.sqlite`` (products), ``goals/`` (memory-mapped
arrays) and ``index/`` (the search index). Opening it reads a manifest and maps arrays;
nothing is loaded, so that a million products cost no more than a thousand.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from agentgym_suite.data import MANIFEST_NAME, Manifest, read_manifest
from agentgym_suite.errors import DataDamaged
from agentgym_suite.files import explain_damage, load_array
from agentgym_suite.webshop.goal_arrays import GOALS_FOLDER
from agentgym_suite.webshop.product_rows import decode_row
from agentgym_suite.webshop.products import FindProduct, Product
from agentgym_suite.webshop.store_products import DATABASE_NAME

STORE_KIND = "webshop-store"
STORE_VERSION = 1
INDEX_FOLDER = "index"

_CACHED_PRODUCTS = 4_096
_COUNTS = {"products", "human_goals", "synthetic_goals"}
_NOTES = {"catalogue", "goals", "noun_source"}
_MEND = "`agentgym-suite data import webshop --items … --attributes … --human … --out DIR`"


def read_store_manifest(folder: Path) -> Manifest:
    """The manifest of a built store; cheap.

    Raises:
        DataMissing: no store is there.
        DataVersion: the store has another format version.
        DataDamaged: the manifest is not that of a store, or a file is absent or has another size.
    """
    manifest = read_manifest(folder, kind=STORE_KIND, version=STORE_VERSION, mend=_MEND)
    counts, notes = _COUNTS - manifest.counts.keys(), _NOTES - manifest.notes.keys()
    if counts or notes:
        raise DataDamaged(
            f"{folder / MANIFEST_NAME} lacks {', '.join(sorted(counts | notes))}; remove {folder} "
            "and import it again"
        )
    return manifest


class Store:
    """The products and goal sources of a built store; safe to use from several threads.

    Args:
        folder: the finished folder.
        manifest: its manifest, if it was read already.

    Attributes:
        folder: where it is.
        manifest: what it is.
        product: the product of an ASIN, None if there is none; the latest are kept.

    Raises:
        DataMissing: no store is there.
        DataVersion: the store has another format version.
        DataDamaged: a file is absent, has another size than its manifest says, or cannot be read;
            changed bytes show when they are used.
    """

    def __init__(self, folder: Path, manifest: Manifest | None = None) -> None:
        self.folder = folder
        self.manifest = manifest or read_store_manifest(folder)
        with explain_damage(folder):
            self._rows = rows = _Rows(folder / DATABASE_NAME)
        positions, prices = self._array("range_positions"), self._array("range_prices")

        def read_product(asin: str) -> Product | None:
            with explain_damage(folder):
                found = rows.one("SELECT position, row FROM products WHERE asin = ?", asin)
                return None if found is None else _product(found[0], found[1], positions, prices)

        # The cache holds no reference to the store, so that the store goes with its last user.
        self.product: FindProduct = lru_cache(maxsize=_CACHED_PRODUCTS)(read_product)
        self._positions, self._prices = positions, prices

    def __len__(self) -> int:
        return self.manifest.counts["products"]

    def products(self) -> Iterator[Product]:
        """Every product in file order, past the cache."""
        with explain_damage(self.folder):
            for first in range(0, len(self), 1_000):
                for position, row in self._rows.all(
                    "SELECT position, row FROM products WHERE position >= ? AND position < ?",
                    first,
                    first + 1_000,
                ):
                    yield _product(position, row, self._positions, self._prices)

    def synthetic_source(self, slot: int) -> tuple[str, str, tuple[str, ...]]:
        """ASIN, instruction and attributes of a synthetic source."""
        with explain_damage(self.folder):
            asin, instruction, attributes = self._rows.must(
                "SELECT asin, instruction, attributes FROM synthetic WHERE slot = ?", slot
            )
            return asin, instruction, tuple(json.loads(attributes))

    def human_source(self, slot: int) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
        """ASIN, instruction, attributes and option values of a human source."""
        with explain_damage(self.folder):
            asin, instruction, attributes, options = self._rows.must(
                "SELECT asin, instruction, attributes, options FROM human WHERE slot = ?", slot
            )
            return asin, instruction, tuple(json.loads(attributes)), tuple(json.loads(options))

    @property
    def price_source(self) -> str:
        """Where hidden prices and bounds come from, as it stands in provenance."""
        goals: Any = self.manifest.notes["goals"]
        with explain_damage(self.folder):
            return str(goals["price_source"])

    def goal_notes(self, kind: str) -> tuple[str, bool]:
        """The digest of a kind's goals, and whether they are the official human set."""
        goals: Any = self.manifest.notes["goals"]
        with explain_damage(self.folder):
            return str(goals[kind]["digest"]), bool(goals[kind]["full"])

    def goal_array(self, kind: str, name: str) -> npt.NDArray[Any]:
        """A memory-mapped array of ``goal_arrays``, such as ``("human", "order")``."""
        return self._array(f"{kind}_{name}")

    def _array(self, name: str) -> npt.NDArray[Any]:
        path = self.folder / GOALS_FOLDER / f"{name}.npy"
        with explain_damage(self.folder):
            return load_array(path)


def _product(
    position: int, row: bytes, positions: npt.NDArray[Any], prices: npt.NDArray[Any]
) -> Product:
    place = int(np.searchsorted(positions, position))
    ranged = place < len(positions) and int(positions[place]) == position
    return decode_row(row, float(prices[place]) if ranged else None)


class _Rows:
    """One read-only connection behind a lock, opened anew in a forked child."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
        self._process = -1
        self._open()

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """The first row of a query."""
        if os.getpid() != self._process:
            self._open()
        with self._lock:
            row: tuple[Any, ...] | None = self._database.execute(query, values).fetchone()
        return row

    def must(self, query: str, value: int) -> tuple[Any, ...]:
        """The row that a number from the store's own arrays leads to."""
        row = self.one(query, value)
        if row is None:
            raise DataDamaged(
                f"{self._path} has no row for slot {value}, which its goals name; remove "
                f"{self._path.parent} and import it again"
            )
        return row

    def all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Every row of a query."""
        if os.getpid() != self._process:
            self._open()
        with self._lock:
            return self._database.execute(query, values).fetchall()

    def _open(self) -> None:
        # A connection must not be carried over a fork, nor a lock that another thread held.
        self._lock = threading.Lock()
        self._database = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        self._process = os.getpid()
        # Not at exit: closing under the query of an abandoned thread would crash the process.
        weakref.finalize(self, self._database.close).atexit = False

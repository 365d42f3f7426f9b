"""Which module imports, generates and verifies which data set: environments add rows here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType


@dataclass(frozen=True, slots=True)
class Importer:
    """Who turns the official files of a data set into what an environment plays.

    Attributes:
        module: offers ``add_import_arguments(parser)``, an ``--out`` among them,
            ``run_import(args, progress, on_wait)``, which returns the one published folder,
            and ``describe(path)``, lines on what was made; imported only when it is needed.
        generates: whether it also offers ``add_generate_arguments(parser)`` and
            ``run_generate(args, progress, on_wait) -> Path``.
        compares: whether it also offers ``add_compare_arguments(parser)`` and
            ``run_compare(args, progress) -> int``, which plays against another engine.
    """

    module: str
    generates: bool = False
    compares: bool = False

    def load(self) -> ModuleType:
        """Import the module."""
        return importlib.import_module(self.module)


# The one place where a data set meets its importer: later environments add rows.
IMPORTERS: Mapping[str, Importer] = MappingProxyType(
    {
        "webshop-small": Importer("agentgym_suite.webshop.importing"),
        "webshop": Importer("agentgym_suite.webshop.importing", generates=True),
        "alfworld": Importer("agentgym_suite.alfworld.importing", generates=True, compares=True),
        "hotpotqa": Importer("agentgym_suite.multihop_qa.importing", generates=True),
        "2wiki": Importer("agentgym_suite.multihop_qa.importing"),
        "musique": Importer("agentgym_suite.multihop_qa.importing"),
        "searchqa": Importer("agentgym_suite.multihop_qa.importing"),
        "wiki-18": Importer("agentgym_suite.multihop_qa.importing"),
        "pasa": Importer("agentgym_suite.paper_search.importing", generates=True),
        "litsearch": Importer("agentgym_suite.paper_search.importing"),
    }
)


# The kind in a manifest -> who offers ``verify(path, progress)`` for it.
CHECKERS: Mapping[str, str] = MappingProxyType(
    {
        "webshop-store": "agentgym_suite.webshop.importing",
        "webshop-files": "agentgym_suite.webshop.importing",
        "alfworld-games": "agentgym_suite.alfworld.importing",
        "alfworld-generated": "agentgym_suite.alfworld.importing",
        "qa-questions": "agentgym_suite.multihop_qa.importing",
        "qa-corpus": "agentgym_suite.multihop_qa.importing",
        "qa-generated": "agentgym_suite.multihop_qa.importing",
        "paper-queries": "agentgym_suite.paper_search.importing",
        "papers-generated": "agentgym_suite.paper_search.importing",
        "bm25-index": "agentgym_suite.indexes.cli",
        "lucene-index": "agentgym_suite.indexes.cli",
        "fts5-index": "agentgym_suite.indexes.cli",
        "dense-index": "agentgym_suite.indexes.cli",
        "hybrid-index": "agentgym_suite.indexes.cli",
        "qdrant-index": "agentgym_suite.indexes.cli",
        "paper-store": "agentgym_suite.indexes.cli",
    }
)

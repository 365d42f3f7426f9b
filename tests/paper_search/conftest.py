from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentgym_suite.paper_search.generator.literature import Literature, make_literature
from agentgym_suite.paper_search.query_set import QuerySet
from tests.paper_search.handmade import handmade_queries
from tests.paper_search.small_library import Library


@pytest.fixture(scope="session")
def literature() -> Literature:
    """The embedded literature."""
    return make_literature()


@pytest.fixture(scope="session")
def library(literature: Literature) -> Iterator[Library]:
    library = Library(literature)
    yield library
    library.close()


@pytest.fixture(scope="session")
def queries(tmp_path_factory: pytest.TempPathFactory) -> QuerySet:
    """Three queries over the literature made by hand."""
    return handmade_queries(tmp_path_factory.mktemp("handmade") / "queries")

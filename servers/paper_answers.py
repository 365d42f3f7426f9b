"""What the paper server answers, in the shapes of Lewen's API: searches made, papers written out.

Each function does all the work of one request and gives the body; it runs in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from agentgym_suite.files import Json
from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.indexes.paper_store import Paper, PaperStore
from agentgym_suite.indexes.paper_titles import search_titles
from agentgym_suite.servers.paper_queries import DEEPEST, Neighbours, Search
from agentgym_suite.servers.problems import Problem, encode_json

_ARXIV_PDF = "https://arxiv.org/pdf/"

_VALUES: Mapping[str, Callable[[Paper, PaperStore], Json]] = MappingProxyType(
    {
        "paperId": lambda paper, _: paper.paper_id,
        "title": lambda paper, _: paper.title,
        "abstract": lambda paper, _: paper.abstract or None,
        "year": lambda paper, _: paper.year,
        "authors": lambda paper, _: [{"name": name} for name in paper.authors],
        "venue": lambda paper, _: paper.venue,
        "externalIds": lambda paper, _: {"ArXiv": paper.arxiv_id} if paper.arxiv_id else {},
        "citationCount": lambda paper, _: paper.citation_count,
        "publicationDate": lambda paper, _: _with_hyphens(paper.published) or None,
        "referenceCount": lambda paper, store: store.references_count(paper.rowid),
        "openAccessPdf": lambda paper, _: _pdf(paper.arxiv_id),
    }
)
"""The value of each field; the others of ``paper_queries.FIELDS`` are null."""


def search_answer(index: PaperIndex, wanted: Search) -> bytes:
    """A page of the papers that a search finds.

    Raises:
        RetrievalError: the index cannot be used.
        DataDamaged: the store is not as it was built.
    """
    store = index.store
    if not wanted.query.strip():
        return _found(store, wanted, [], 0, more=False)
    page = index.page(
        wanted.query,
        limit=max(wanted.end, wanted.depth),
        retrieval=wanted.retrieval,
        since=wanted.days.since,
        before=wanted.days.before,
        keep=(lambda paper_id: wanted.admits(store.paper(paper_id))) if wanted.filters else None,
    )
    shown = page.hits.ids[wanted.offset : wanted.end]
    more = page.more or len(page.hits) > wanted.end
    return _found(store, wanted, [store.paper(one) for one in shown], page.total, more=more)


def title_answer(index: PaperIndex, wanted: Search) -> bytes:
    """A page of the papers with the most similar titles.

    Raises:
        RetrievalError: the store cannot be used.
        DataDamaged: it is not as it was built.
    """
    papers = search_titles(
        index.store,
        wanted.query,
        max(wanted.end, wanted.depth),
        since=wanted.days.since,
        before=wanted.days.before,
        keep=wanted.admits if wanted.filters else None,
    )
    shown = papers[wanted.offset : wanted.end]
    more = len(papers) > wanted.end
    return _found(index.store, wanted, shown, len(papers), more=more)


def paper_answer(index: PaperIndex, paper_id: str, fields: Sequence[str]) -> bytes:
    """One paper.

    Raises:
        Problem: ``not-found``.
        DataDamaged: the store is not as it was built.
    """
    paper = index.store.papers([_row(index.store, paper_id)])[0]
    return encode_json(paper_value(paper, fields, index.store))


def citations_answer(index: PaperIndex, wanted: Neighbours) -> bytes:
    """A page of the papers that cite a paper, newest first.

    Raises:
        Problem: ``not-found``.
        DataDamaged: the store is not as it was built.
    """
    store = index.store
    row = _row(store, wanted.paper_id)
    rows = store.citing(row, wanted.limit, wanted.before, offset=wanted.offset)
    total = store.citing_count(row, wanted.before)
    return _neighbours(store, wanted, "citingPaper", rows, total)


def references_answer(index: PaperIndex, wanted: Neighbours) -> bytes:
    """A page of the papers that a paper cites, newest first.

    Raises:
        Problem: ``not-found``.
        DataDamaged: the store is not as it was built.
    """
    store = index.store
    row = _row(store, wanted.paper_id)
    rows = store.references(row, wanted.limit, wanted.before, offset=wanted.offset)
    total = store.references_count(row, wanted.before)
    return _neighbours(store, wanted, "citedPaper", rows, total)


def paper_value(paper: Paper, fields: Sequence[str], store: PaperStore) -> dict[str, Json]:
    """A paper as JSON, with these fields."""
    return {name: _VALUES[name](paper, store) if name in _VALUES else None for name in fields}


def _row(store: PaperStore, paper_id: str) -> int:
    row = store.find(paper_id)
    if row is None:
        raise Problem(
            "not-found",
            f"Paper not found: {paper_id[:200]}; give the id of a paper of this store, an arXiv "
            "id or its address",
        )
    return row


def _found(
    store: PaperStore, wanted: Search, papers: Sequence[Paper], total: int, *, more: bool
) -> bytes:
    value: dict[str, Json] = {
        "total": total,
        "offset": wanted.offset,
        "next": wanted.end if more and wanted.end < DEEPEST else None,
        "data": [paper_value(paper, wanted.fields, store) for paper in papers],
    }
    if wanted.ignored:
        value["ignored"] = list(wanted.ignored)
    return encode_json(value)


def _neighbours(
    store: PaperStore, wanted: Neighbours, name: str, rows: Sequence[int], total: int
) -> bytes:
    end = wanted.offset + len(rows)
    return encode_json(
        {
            "total": total,
            "offset": wanted.offset,
            "next": end if rows and end < total else None,
            "data": [
                {name: paper_value(paper, wanted.fields, store)} for paper in store.papers(rows)
            ],
        }
    )


def _with_hyphens(published: str) -> str:
    if len(published) != len("YYYYMMDD"):
        return published
    return f"{published[:4]}-{published[4:6]}-{published[6:]}"


def _pdf(arxiv_id: str | None) -> Json:
    return {"url": f"{_ARXIV_PDF}{arxiv_id}", "status": "GREEN"} if arxiv_id else None

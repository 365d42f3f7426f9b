"""The papers and citations that belong to a set of queries, brought into one shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.data import Progress
from agentgym_suite.indexes.paper_rows import bare_id, check_id, read_citations, to_paper
from agentgym_suite.official_rows import BadRows, Row, iter_rows, json_line
from agentgym_suite.source_texts import SourceText

_IDS = ("paper_id", "arxiv_id", "corpusid")
_KEPT = (
    "arxiv_id",
    "title",
    "abstract",
    "year",
    "published",
    "venue",
    "authors",
    "citation_count",
    "aliases",
)
_ROWS_A_REPORT = 5_000


@dataclass(frozen=True, slots=True)
class PaperCounts:
    """What was written.

    Attributes:
        papers: how many.
        repeated: rows left out as repeated.
        shared: papers with the arXiv id of another that came before.
        citations: those that stood in the rows.
    """

    papers: int
    repeated: int
    shared: int
    citations: int


def is_paper_row(row: Row) -> bool:
    """Whether a row is a paper: a title, and an id under one of the names that are in use."""
    return "title" in row and any(key in row for key in _IDS) and "query" not in row


def paper_row(row: Row) -> dict[str, Any]:
    """The row of a paper with ``paper_id``, ``arxiv_id``, ``title`` and what else is known.

    Of PaSa's, ScholarGym's and LitSearch's rows; full texts and unknown fields are left out.

    Raises:
        ValueError: there is no id, or a field is not what it should be.
    """
    given = next((row[key] for key in _IDS if row.get(key) not in (None, "")), None)
    # LitSearch numbers its papers; every other id is text.
    name = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
    kept = {key: row[key] for key in _KEPT if row.get(key) not in (None, "", [])}
    paper = to_paper({**kept, "paper_id": name})
    if not isinstance(row.get("title"), str):
        raise ValueError(f"'title' is {row.get('title')!r:.80}, not text")
    return {
        "paper_id": paper.paper_id,
        "arxiv_id": paper.arxiv_id,
        "title": paper.title,
        "abstract": paper.abstract or None,
        "year": paper.year,
        "published": paper.published or None,
        "venue": paper.venue or None,
        "authors": list(paper.authors),
        **({} if paper.citation_count is None else {"citation_count": paper.citation_count}),
        **({"aliases": list(paper.aliases)} if paper.aliases else {}),
    }


def write_papers(
    path: Path,
    edges: Path,
    sources: Iterable[SourceText | Path],
    bad: BadRows,
    progress: Progress | None = None,
) -> PaperCounts:
    """Write the papers of files, each id once, and the citations that LitSearch has in its rows.

    Args:
        path: where the papers go.
        edges: where such citations go; the file is made only if there are any.
        sources: files of papers, in an order in which the first row of an id counts.
        bad: takes rows that are no paper.
        progress: called with the papers written.

    Raises:
        DataDamaged: a file is damaged, or a row is bad and not to be skipped.
    """
    seen: set[str] = set()
    on_arxiv: set[str] = set()
    repeated = shared = 0
    cited: list[tuple[str, str]] = []
    with path.open("wb") as file:
        for source in sources:
            for number, row in iter_rows(source, bad):
                try:
                    paper = paper_row(row)
                    edges_of_row = [
                        (paper["paper_id"], check_id(str(each), "one of the citations"))
                        for each in row.get("citations") or ()
                    ]
                except ValueError as error:
                    bad.add(source, number, error)
                    continue
                if paper["paper_id"] in seen:
                    repeated += 1
                    continue
                seen.add(paper["paper_id"])
                file.write(json_line(paper))
                cited += edges_of_row
                if paper["arxiv_id"]:
                    shared += paper["arxiv_id"] in on_arxiv
                    on_arxiv.add(paper["arxiv_id"])
                if progress is not None and len(seen) % _ROWS_A_REPORT == 0:
                    progress("read papers", len(seen), None)
    if cited:
        _write_edges(edges, cited)
    return PaperCounts(len(seen), repeated, shared, len(cited))


def write_citations(path: Path, source: SourceText | Path) -> int:
    """Write the lines ``citing<TAB>cited`` of a file with bare ids; return how many.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a line is no such pair, or the file is cut off.
    """
    pairs = read_citations(source)
    return _write_edges(path, ((bare_id(citing), bare_id(cited)) for citing, cited in pairs))


def _write_edges(path: Path, edges: Iterable[tuple[str, str]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("citing\tcited\n")
        for citing, cited in edges:
            file.write(f"{citing}\t{cited}\n")
            count += 1
    return count

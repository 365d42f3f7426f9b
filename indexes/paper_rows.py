"""Reading the two files of a literature: papers as JSON lines, and who cites whom as TSV."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.errors import DataDamaged
from agentgym_suite.indexes.paper_dates import paper_day, read_date
from agentgym_suite.indexes.paper_ids import normalize_arxiv_id
from agentgym_suite.json_stream import UNPACK_ERRORS, open_bytes, read_json_lines
from agentgym_suite.source_texts import SourceText
from agentgym_suite.spaces import without_surrogates

_EXAMPLE = (
    '{"paper_id": "1706.03762", "title": "…", "abstract": "…", "year": 2017, "venue": "…"}; '
    "arxiv_id, authors, published, citation_count and aliases may be there too"
)
_HEADER = ("citing", "cited")
LONGEST_ID = 256
"""Characters of an id: as many as an agent may write."""

_MOST = 2**63 - 1  # what SQLite holds
# Ids stand in lines of text: tables, observations, actions. Halves of a pair are no character.
_NOT_IN_IDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One row of a corpus of papers.

    Attributes:
        paper_id: its id; the bare arXiv id, however the file spells it, when it is one.
        title: may be empty.
        abstract: empty when there is none, or blanks only.
        arxiv_id: the bare arXiv id, None when none is known.
        authors: their names, in order.
        year: of publication, None when it is not known.
        published: ``YYYYMMDD``, ``YYYY-MM``, ``YYYY``, or empty.
        venue: where it appeared, may be empty.
        citation_count: as the file says, None when it does not.
        aliases: other ids that name it, such as ``CorpusId:7``.
    """

    paper_id: str
    title: str
    abstract: str = ""
    arxiv_id: str | None = None
    authors: tuple[str, ...] = ()
    year: int | None = None
    published: str = ""
    venue: str = ""
    citation_count: int | None = None
    aliases: tuple[str, ...] = ()

    @property
    def day(self) -> int:
        """The last day that it may be of; see ``paper_dates.paper_day``."""
        return paper_day(self.published, self.arxiv_id, self.year)


def bare_id(text: str) -> str:
    """The one spelling in which an id is stored: the bare arXiv id, else without outer blanks."""
    return normalize_arxiv_id(text) or text.strip()


def check_id(text: str, name: str) -> str:
    """An id as it is stored (see ``bare_id``); empty for an empty one.

    Raises:
        ValueError: it is too long, or has a line end, another control character or half a pair.
    """
    bare = bare_id(text)
    if len(bare) > LONGEST_ID:
        raise ValueError(f"{name} has {len(bare):,} characters, at most {LONGEST_ID} can be")
    if _NOT_IN_IDS.search(bare):
        raise ValueError(f"{name} is {bare!r:.80}, with a line end or another control character")
    return bare


def to_paper(value: Any) -> PaperRow:
    """The paper of a decoded row; keys as the attributes of ``PaperRow``, null as absent.

    Raises:
        ValueError: what is wrong with the row.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"a {type(value).__name__} instead of an object")
    arxiv_id = _text(value, "arxiv_id").strip() or None
    if arxiv_id is not None:
        bare = normalize_arxiv_id(arxiv_id)
        if bare is None:
            raise ValueError(f"arxiv_id is {arxiv_id!r:.80}, which is no arXiv id")
        arxiv_id = bare
    paper_id = check_id(_raw(value, "paper_id"), "paper_id") or arxiv_id
    if paper_id is None:
        raise ValueError("neither paper_id nor arxiv_id says what it is called")
    abstract = _text(value, "abstract")
    return PaperRow(
        paper_id=paper_id,
        title=_text(value, "title"),
        abstract=abstract if abstract.strip() else "",
        arxiv_id=arxiv_id or normalize_arxiv_id(paper_id),
        authors=tuple(_author(one) for one in _list(value, "authors")),
        year=_year(value),
        published=_published(value),
        venue=_text(value, "venue"),
        citation_count=_integer(value, "citation_count"),
        aliases=tuple(filter(None, map(_alias, _list(value, "aliases")))),
    )


def read_papers(path: Path | str) -> Iterator[PaperRow]:
    """Every paper of a file of JSON lines, in order.

    Args:
        path: plain, ``.gz`` or ``.xz``.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a row is no paper, or the file is cut off; names the line.
    """
    return read_json_lines(path, to_paper, "a paper", _EXAMPLE)


def read_citations(path: Path | str | SourceText) -> Iterator[tuple[str, str]]:
    """Every (citing, cited) pair of ids of a file of lines with a tab between the two.

    The ids are as the file spells them, without outer blanks. A first line ``citing<TAB>cited``
    is the header; empty lines do not count.

    Args:
        path: plain, ``.gz`` or ``.xz``; or an official text, however it is packed.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a line is no such pair, or the file is cut off; names the line.
    """
    number = 0
    try:
        with path.open() if isinstance(path, SourceText) else open_bytes(path) as stream:
            for line in stream:
                number += 1
                text = line.decode("utf-8").strip(_BYTE_ORDER_MARK + "\r\n")
                if not text.strip():
                    continue
                cells = tuple(cell.strip() for cell in text.split("\t"))
                if number == 1 and cells == _HEADER:
                    continue
                if len(cells) != 2 or not all(cells):
                    raise ValueError(f"{len(cells)} cells: {text[:80]!r}")
                yield cells[0], cells[1]
    except (ValueError, *UNPACK_ERRORS) as error:
        raise DataDamaged(
            f"{path} line {max(number, 1)} is no citation ({error}); every line is the id of a "
            "paper, a tab and the id of a paper that it cites"
        ) from error


def _text(value: Mapping[str, Any], key: str) -> str:
    return without_surrogates(_raw(value, key))


def _raw(value: Mapping[str, Any], key: str) -> str:
    text = value.get(key)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ValueError(f"{key} is {text!r:.80}, not text")
    return text


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    items = value.get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        raise ValueError(f"{key} is {items!r:.80}, not a list")
    return items


def _author(value: Any) -> str:
    name = value.get("name") if isinstance(value, Mapping) else value
    if not isinstance(name, str):
        raise ValueError(f'authors has {value!r:.80}, neither a name nor {{"name": …}}')
    return without_surrogates(name)


def _alias(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"aliases has {value!r:.80}, not text")
    return check_id(value, "one of the aliases")


def _integer(value: Mapping[str, Any], key: str) -> int | None:
    number = value.get(key)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{key} is {json.dumps(number, default=repr)[:80]}, not a count")
    if number > _MOST:
        raise ValueError(f"{key} is {number!r:.80}, more than {_MOST:,}")
    return number


def _year(value: Mapping[str, Any]) -> int | None:
    year = _integer(value, "year")
    if year is not None and not 1 <= year <= 9998:
        raise ValueError(f"year is {year}, not one of our era")
    return year


def _published(value: Mapping[str, Any]) -> str:
    published = value.get("published")
    if published is None:
        return ""
    if not isinstance(published, str | int):
        raise ValueError(f"published is {published!r:.80}, not a date")
    try:
        return read_date(published)
    except ValueError as error:
        raise ValueError(f"published: {error}") from error

"""The tables of a store of papers, ``papers.sqlite``, as its builder and its readers know them.

    papers    one row a paper; row ids are 1, 2, 3 … in the order of the ids
    aliases   other ids of papers: arXiv ids, those the corpus gave, casefolded ones
    titles    a hash of each title's key, for looking a title up
    cites     src cites dst, whose day is beside it
    cited_by  dst is cited by src, whose day is beside it
    texts     FTS5 over title and abstract, which lie in ``papers`` alone
    df        in how many papers each term is
    meta      what the build counted

The key of an edge holds the day of the paper at its other end, so that "newest first, then by
id, only before the cut-off, at most 30" is one range of one table.
"""

from __future__ import annotations

from hashlib import blake2b

from agentgym_suite.indexes.fts5_table import FTS5Table
from agentgym_suite.indexes.paper_ids import normalize_arxiv_id, title_key
from agentgym_suite.indexes.paper_rows import bare_id

KIND = "paper-store"
VERSION = 1
DATABASE = "papers.sqlite"
DAYS = "days.npy"
"""int32: the day of each paper (see ``paper_dates.paper_day``), by row id less one."""

TEXTS = FTS5Table("texts", ("title", "abstract"), (2.0, 1.0), content="papers")

SCHEMA = """
CREATE TABLE papers(
    rowid INTEGER PRIMARY KEY, paper_id TEXT NOT NULL UNIQUE, day INTEGER NOT NULL,
    year INTEGER, citation_count INTEGER NOT NULL, arxiv_id TEXT, published TEXT NOT NULL,
    venue TEXT NOT NULL, authors TEXT NOT NULL, title TEXT NOT NULL, abstract TEXT NOT NULL);
CREATE TABLE aliases(alias TEXT PRIMARY KEY, rowid INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE titles(
    key INTEGER NOT NULL, rowid INTEGER NOT NULL, PRIMARY KEY(key, rowid)) WITHOUT ROWID;
CREATE TABLE cites(
    src INTEGER NOT NULL, day INTEGER NOT NULL, dst INTEGER NOT NULL,
    PRIMARY KEY(src, day DESC, dst)) WITHOUT ROWID;
CREATE TABLE cited_by(
    dst INTEGER NOT NULL, day INTEGER NOT NULL, src INTEGER NOT NULL,
    PRIMARY KEY(dst, day DESC, src)) WITHOUT ROWID;
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""


def folded_id(text: str) -> str:
    """An id in lower case; empty for an arXiv id, which has one spelling only."""
    return "" if normalize_arxiv_id(text) else bare_id(text).casefold()


def title_hash(title: str) -> int:
    """Signed 64 bits of the title's key; titles that are equal have equal ones."""
    digest = blake2b(title_key(title).encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)

"""The embedded encyclopedia as its files hold it, and the search that its hardness is judged by."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym_suite.multihop_qa.generated_files import embedded_folder

SPLITS = ("train", "dev", "test")
Row = dict[str, Any]


class Files:
    """The rows of every file of a generated folder, read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, dataset: str, split: str) -> list[Row]:
        if dataset in ("hotpotqa", "2wiki"):
            path = self.folder / dataset / f"{split}.json"
            loaded: list[Row] = json.loads(path.read_text(encoding="utf-8"))
            return loaded
        return self.lines(f"{dataset}/{split}.jsonl")

    def lines(self, name: str) -> list[Row]:
        text = (self.folder / name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


def embedded_files() -> Files:
    return Files(embedded_folder())


def gold_passages(row: Row) -> list[tuple[str, str]]:
    """Title and text of what proves each hop of a HotpotQA or 2Wiki row."""
    context = {title: "".join(sentences) for title, sentences in row["context"]}
    return [(title, context[title]) for title, _ in row["supporting_facts"]]


class Search:
    """SQLite's own full-text search: porter stems, OR of the words, titles count twice."""

    def __init__(self, passages: list[Row]) -> None:
        self._sql = sqlite3.connect(":memory:")
        self._sql.execute(
            "CREATE VIRTUAL TABLE passages USING fts5(title, text,"
            " tokenize='porter unicode61 remove_diacritics 2')"
        )
        rows = ((passage["title"], passage["text"]) for passage in passages)
        self._sql.executemany("INSERT INTO passages VALUES (?, ?)", rows)
        self._found: dict[tuple[str, int], list[tuple[str, str]]] = {}

    def close(self) -> None:
        self._sql.close()

    def top(self, query: str, k: int = 5) -> list[tuple[str, str]]:
        """Title and text of the best passages."""
        if (query, k) not in self._found:
            self._found[query, k] = self._search(query, k)
        return self._found[query, k]

    def _search(self, query: str, k: int) -> list[tuple[str, str]]:
        words: Mapping[str, str] = {
            word.casefold(): word
            for word in re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", query))
        }
        found = self._sql.execute(
            "SELECT title, text FROM passages WHERE passages MATCH ?"
            " ORDER BY bm25(passages, 2.0, 1.0), rowid LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words.values()), k),
        )
        return found.fetchall()

"""The Java side of ``lucene``: a process of its own that answers JSON lines.

Started as ``python -m agentgym_suite.indexes.lucene_worker``, with JAVA_HOME in its own
environment; the first line of its input is the path of Anserini's archive. It talks to
Anserini's classes directly: pyserini's top package would import torch, and demands a Java
module that pip-installed runtimes do not have.

A request is one line, ``{"do": NAME, ...}``; its answer is one line, ``{"value": ...}`` or
``{"error": SENTENCE}``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

_STANDARD_OUTPUT = 1
_STANDARD_ERROR = 2
_NO_LIMIT = 2**31 - 1


def main() -> None:
    """Answer requests from standard input until it ends."""
    jar = json.loads(sys.stdin.readline())
    answers = _private_output()
    # The class path must be known before `jnius` is imported, which starts Java.
    importlib.import_module("jnius_config").set_classpath(jar)
    jnius = importlib.import_module("jnius")
    lucene = _Lucene(jnius.autoclass)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer: dict[str, Any] = {"value": lucene.answer(request)}
        except jnius.JavaException as error:
            answer = {"error": str(error).partition("\n")[0]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _private_output() -> TextIO:
    """Keep standard output for the answers alone: what Java prints goes to standard error."""
    answers = os.fdopen(os.dup(_STANDARD_OUTPUT), "w", encoding="utf-8")
    os.dup2(_STANDARD_ERROR, _STANDARD_OUTPUT)
    return answers


class _Lucene:
    """One index being written, one being searched, and the analyzer of both."""

    def __init__(self, autoclass: Callable[[str], Any]) -> None:
        self._autoclass = autoclass
        self._analyze = autoclass("io.anserini.analysis.AnalyzerUtils").analyze
        english = autoclass("io.anserini.analysis.DefaultEnglishAnalyzer")
        self._analyzer = english.newDefaultInstance()
        # A query of any length is data here, as it is for our own index.
        autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(_NO_LIMIT)
        self._writer: Any = None
        self._searcher: Any = None

    def answer(self, request: dict[str, Any]) -> Any:
        """What the request named by its ``do`` gives."""
        actions: dict[str, Callable[..., Any]] = {
            "create": self.create,
            "add": self.add,
            "finish": self.finish,
            "open": self.open,
            "search": self.search,
            "analyze": self.analyze,
        }
        return actions[request.pop("do")](**request)

    def create(self, folder: str) -> None:
        """Begin an index; one thread, so that equal documents give equal indexes."""
        self._writer = self._autoclass("io.anserini.index.SimpleIndexer")(folder, False, 1)

    def add(self, documents: list[list[str]]) -> None:
        """Add [id, text] documents to the index that was begun."""
        for identifier, text in documents:
            raw = json.dumps({"id": identifier, "contents": text}, ensure_ascii=False)
            self._writer.addRawDocument(raw)

    def finish(self) -> None:
        """Commit and close the index that was begun."""
        self._writer.close()

    def open(self, folder: str) -> int:
        """Search in this index from now on; its number of documents."""
        self._searcher = self._autoclass("io.anserini.search.SimpleSearcher")(folder)
        return int(self._searcher.get_total_num_docs())

    def search(self, query: str, k: int) -> list[list[Any]]:
        """The [ids, scores] of the k best documents, BM25 with k1 0.9 and b 0.4."""
        hits = self._searcher.search(query, k)
        return [[hit.docid for hit in hits], [float(hit.score) for hit in hits]]

    def analyze(self, text: str) -> list[str]:
        """The terms of a text."""
        return list(self._analyze(self._analyzer, text).toArray())


if __name__ == "__main__":
    main()

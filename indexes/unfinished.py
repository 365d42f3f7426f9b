"""What can be said of an index that is not there yet: how far its build got, and what goes on.

A build that knows how far it is notes it in its working folder; the note is gone when the
folder is finished.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym_suite.files import partial_folder, write_json_atomic
from agentgym_suite.indexes.encoder_presets import OFFLINE, PRESETS

_STAGE = "stage.json"
_INPUTS = "inputs.json"  # written by ``data.publish`` into every working folder


def note_stage(working: Path, phase: str | None, done: int = 0, total: int | None = None) -> None:
    """Note how far a build is; None for the phase takes the note away, before it is published.

    Args:
        working: the folder that ``data.publish`` gave.
        phase: what is being done.
        done: how many rows are finished.
        total: how many there are.
    """
    if phase is None:
        (working / _STAGE).unlink(missing_ok=True)
    else:
        write_json_atomic(working / _STAGE, {"phase": phase, "done": done, "total": total})


def explain_unfinished(folder: Path | str) -> str | None:
    """One sentence on the unfinished build of an index; None when there is none.

    Args:
        folder: where the finished index would be.
    """
    folder = Path(folder)
    working = partial_folder(folder)
    if not working.is_dir():
        return None
    plan = _load(working / _INPUTS)
    inputs = plan.get("inputs")
    inputs = inputs if isinstance(inputs, dict) else {}
    words, whole = _command(folder, str(plan.get("kind", "")), inputs)
    command = shlex.join(["agentgym-suite", "index", "build", *words, "--out", str(folder)])
    others = "" if whole else ", with the other options it was begun with,"
    return (
        f"the index {folder} is not finished ({_progress(working)}); `{command}`{others} goes on "
        "where it stopped"
    )


def _command(folder: Path, kind: str, inputs: Mapping[str, Any]) -> tuple[list[str], bool]:
    """KIND and options that give these inputs, and whether they are all that decide the build."""
    sides = [side for name in ("sparse", "dense") if isinstance(side := inputs.get(name), dict)]
    if kind == "hybrid-index" and len(sides) == 2:
        sparse, dense = (
            os.path.normpath(folder.absolute() / str(side.get("path"))) for side in sides
        )
        depth = str(inputs.get("depth"))
        return ["hybrid", "--sparse", sparse, "--dense", dense, "--depth", depth], True
    name = "papers" if kind == "paper-store" else kind.removesuffix("-index") or "KIND"
    corpus = inputs.get("corpus")
    path = corpus.get("path", "FILE") if isinstance(corpus, dict) else "FILE"
    words = [name, "--corpus", str(path)]
    if kind in ("bm25-index", "lucene-index"):
        return words, isinstance(corpus, dict)
    if kind == "fts5-index":
        options = ("title_weight", "text_weight", "tokenizer")
        known = [option for option in options if option in inputs]
        for option in known:
            words += ["--" + option.replace("_", "-"), str(inputs[option])]
        return words, len(known) == len(options)
    if kind == "dense-index":
        encoder, params = inputs.get("encoder"), inputs.get("params")
        preset = encoder.get("name") if isinstance(encoder, dict) else None
        if preset in PRESETS:
            words += ["--encoder", str(preset)]
        if "index_type" in inputs:
            words += ["--index-type", str(inputs["index_type"])]
        if isinstance(params, dict) and params.get("fast"):
            words.append("--fast")
        # A preset's weights may come from a folder, which is not written down before the end.
        return words, preset == OFFLINE and "index_type" in inputs
    return words, False


def _progress(working: Path) -> str:
    stage = _load(working / _STAGE)
    if isinstance(stage.get("done"), int) and isinstance(stage.get("total"), int):
        return f"{stage['phase']}: {stage['done']:,} of {stage['total']:,} rows"
    written = sum(path.stat().st_size for path in working.rglob("*") if path.is_file())
    return f"{written / 1e6:,.1f} MB written"


def _load(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

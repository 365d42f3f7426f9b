"""The files of a language model on this machine: where they lie, and the digest of its weights."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.data import data_home, json_digest
from agentgym_suite.errors import DataError, MissingExtra, RetrievalError, UsageError, reason_of
from agentgym_suite.files import (
    Json,
    explain_unreadable,
    make_folder,
    sha256_file,
    write_json_atomic,
)

_OTHER_FRAMEWORKS = ["*.onnx", "*.h5", "*.ot", "*.msgpack", "*.gguf", "onnx/*", "openvino/*"]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model lies.

    Attributes:
        folder: with its configuration, weights and tokenizer, as transformers saves it.
        gguf: the name of the one file in ``folder`` that holds all of them; empty otherwise.
    """

    folder: Path
    gguf: str = ""

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of weights, configuration and tokenizer.

        Raises:
            RetrievalError: the folder has no weights.
            DataError: a file cannot be read.
        """
        with explain_unreadable(self.folder):
            if self.gguf:
                return json_digest([sha256_file(self.folder / self.gguf)])
            beside = [self.folder / name for name in ("config.json", "tokenizer.json")]
            digests = [sha256_file(path) if path.is_file() else "" for path in beside]
            return json_digest([weights_sha256(self.folder), *digests])


def find_model(model: str | Path) -> ModelFiles:
    """The files of a model.

    Args:
        model: a folder that transformers has saved, a file ``….gguf``, or ``owner/name`` on the
            Hugging Face hub.

    Raises:
        UsageError: it is none of these.
        MissingExtra: the extra ``retrieval`` is not installed.
        RetrievalError: the model is not here and cannot be fetched.
    """
    text = os.fspath(model)
    path = Path(os.path.expanduser(text)).absolute()
    if text and path.is_dir():
        return ModelFiles(path)
    if path.suffix.lower() == ".gguf" and path.is_file():
        return ModelFiles(path.parent, path.name)
    owner, slash, name = text.partition("/")
    if not (owner and slash and name) or "/" in name or owner in (".", "..", "~"):
        raise UsageError(
            f"the model is {text!r}, neither a folder nor a .gguf file; give one of these, or "
            "OWNER/NAME on the Hugging Face hub"
        )
    folder = hub_snapshot(
        text,
        purpose=f"the model {text}",
        missing=f"the model {text} is",
        advice="bring its folder over and name the folder",
        ignored=_OTHER_FRAMEWORKS,
    )
    return ModelFiles(folder)


def weights_sha256(folder: Path) -> str:
    """The SHA-256 of a model's weights, in hex; computed once and noted in the data home.

    Raises:
        RetrievalError: the folder has no weights.
    """
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise RetrievalError(
            f"{folder} has no weights (*.safetensors or pytorch_model*.bin); bring them over"
        )
    state: list[Json] = []
    for path in files:
        status = path.stat()
        state.append([str(path.resolve()), status.st_size, status.st_mtime_ns])
    key = hashlib.sha256(str(files[0].resolve()).encode()).hexdigest()[:20]
    note = data_home() / "encoders" / f"{key}.json"
    known = json_at(note)
    if isinstance(known, Mapping) and known.get("files") == state:
        return str(known["sha256"])
    digests = [sha256_file(path) for path in files]
    digest = digests[0]
    if len(digests) > 1:
        digest = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    with suppress(OSError, DataError):  # a data home that is only read: computed again next time
        make_folder(note.parent)
        write_json_atomic(note, {"files": state, "sha256": digest})
    return digest


def json_at(path: Path) -> Any:
    """What a JSON file holds; None when it is not there or is no JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


@contextmanager
def without_bars(logging: Any) -> Iterator[None]:
    """Keep the bars that transformers draws while it loads weights off the terminal.

    Args:
        logging: the module ``transformers.utils.logging``.
    """
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def hub_snapshot(
    name: str, *, purpose: str, missing: str, advice: str, ignored: Sequence[str]
) -> Path:
    """The folder of a model of the Hugging Face hub: the copy that is here, else fetched.

    Args:
        name: ``owner/name``.
        purpose: what needs it, for the sentence where the extra is not installed.
        missing: who is not here, with its verb.
        advice: what to do without a network.
        ignored: patterns of files that are not fetched.

    Raises:
        MissingExtra: the extra ``retrieval`` is not installed.
        RetrievalError: the model is not here and cannot be fetched.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtra("retrieval", purpose) from error
    for local in (True, False):
        try:
            found = snapshot_download(name, ignore_patterns=list(ignored), local_files_only=local)
        except (OSError, ValueError) as error:  # what the library raises with and without a network
            reason = reason_of(error)
        else:
            return Path(found)
    raise RetrievalError(f"{missing} not here and cannot be fetched ({reason}); {advice}")

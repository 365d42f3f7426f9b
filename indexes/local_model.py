"""A causal language model on this machine that decides by one token: how likely is ``True`` next?

Prompts are padded on the left, so that the token in question stands after the last column of every
row; positions are counted from the first real token, so that padding changes nothing.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym_suite.data import json_digest
from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError
from agentgym_suite.files import explain_unreadable, sha256_file
from agentgym_suite.indexes.encoder_files import weights_sha256

DECISION = "True"
"""The token of a yes, without a blank before it: with one it is another token."""

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
    return ModelFiles(_fetched(text))


class DecisionModel:
    """The weights and the tokenizer of a model, loaded; one thread at a time.

    Args:
        files: where they lie.
        device: where it computes, as torch names it.
        dtype: of the weights, as torch names it; ``auto`` is float32 on a processor, which is slow
            and inexact with less, and what the weights are stored as on anything else.

    Attributes:
        longest: tokens that the model takes, None when it does not say.

    Raises:
        UsageError: there is no such dtype.
        MissingExtra: torch or transformers, or what a GGUF file needs, is not installed.
        RetrievalError: it is no model that transformers can load, or has no token for ``True``.
    """

    def __init__(self, files: ModelFiles, *, device: str = "cpu", dtype: str = "auto") -> None:
        self._torch, transformers = _libraries(files)
        torch_dtype = self._dtype(dtype, device)
        options = {"gguf_file": files.gguf} if files.gguf else {}
        place = str(files.folder)
        try:
            with without_bars(transformers.utils.logging):
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
                model = transformers.AutoModelForCausalLM.from_pretrained(
                    place, dtype=torch_dtype, **options
                )
                self._model = model.to(device).eval()
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RetrievalError(
                f"{files.folder / files.gguf} cannot be loaded as a causal language model "
                f"({reason}); bring its folder over whole, with weights and tokenizer"
            ) from error
        self._device = device
        self._accepted = frozenset(inspect.signature(model.forward).parameters)
        self._decision = _decision_token(self._tokenizer, files)
        longest = getattr(model.config, "max_position_embeddings", None)
        self.longest = longest if isinstance(longest, int) else None

    def tokenize(self, prompts: Sequence[str]) -> list[list[int]]:
        """The tokens of each prompt, as it is."""
        found = self._tokenizer(list(prompts), padding=False, truncation=False)["input_ids"]
        return [list(ids) for ids in found]

    def decide(self, rows: Sequence[Sequence[int]], columns: int) -> list[float]:
        """How likely the decision token comes next, over the whole vocabulary.

        Args:
            rows: the tokens of each prompt.
            columns: what they are padded to.

        Raises:
            RetrievalError: the model cannot compute it, as when memory runs out.
        """
        torch = self._torch
        # Any token may fill up, because none there is attended to.
        ids = [[0] * (columns - len(row)) + list(row) for row in rows]
        seen = [[0] * (columns - len(row)) + [1] * len(row) for row in rows]
        try:
            with torch.inference_mode():
                mask = torch.tensor(seen, device=self._device)
                inputs = {
                    "input_ids": torch.tensor(ids, device=self._device),
                    "attention_mask": mask,
                    "position_ids": (mask.cumsum(1) - 1).clamp(min=0),
                    "use_cache": False,
                    "logits_to_keep": 1,
                }
                known = {name: inputs[name] for name in inputs if name in self._accepted}
                logits = self._model(**known).logits[:, -1]
                chances = torch.softmax(logits.float(), dim=-1)[:, self._decision]
                return [float(chance) for chance in chances.cpu()]
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:200]
            raise RetrievalError(
                f"the selector's model failed on {len(rows)} prompts of {columns} tokens "
                f"({reason}); lower batch_tokens if memory ran out"
            ) from error

    def _dtype(self, name: str, device: str) -> Any:
        if name == "auto":
            return self._torch.float32 if device == "cpu" else "auto"
        found = getattr(self._torch, name, None)
        if not isinstance(found, self._torch.dtype) or not found.is_floating_point:
            raise UsageError(f"dtype is {name!r}; give auto, float32, bfloat16 or float16")
        return found


def _decision_token(tokenizer: Any, files: ModelFiles) -> int:
    ids = tokenizer(DECISION, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or tokenizer.convert_ids_to_tokens(ids) != [DECISION]:
        raise RetrievalError(
            f"the tokenizer of {files.folder / files.gguf} makes {len(ids)} tokens of {DECISION!r} "
            "or puts a blank before it, and a selector decides by exactly that one; take a model "
            "that has it, such as one of Qwen, or the selector openai_logprobs"
        )
    return int(ids[0])


def _libraries(files: ModelFiles) -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra("retrieval", "the selector local") from error
    if files.gguf and not (find_spec("gguf") and find_spec("accelerate")):
        raise MissingExtra("retrieval", "a model in a GGUF file")
    return torch, transformers


def _fetched(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtra("retrieval", f"the model {name}") from error
    for local in (True, False):
        try:
            found = snapshot_download(
                name, ignore_patterns=_OTHER_FRAMEWORKS, local_files_only=local
            )
        except (OSError, ValueError) as error:  # what the library raises with and without a network
            reason = " ".join(str(error).split())[:200]
        else:
            return Path(found)
    raise RetrievalError(
        f"the model {name} is not here and cannot be fetched ({reason}); bring its folder over and "
        "name the folder"
    )


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

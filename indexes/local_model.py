"""A causal language model on this machine that decides by one token: how likely is ``True`` next?

Prompts are padded on the left, so that the token in question stands after the last column of every
row; positions are counted from the first real token, so that padding changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError, reason_of
from agentgym_suite.model_files import ModelFiles, without_bars

DECISION = "True"
"""The token of a yes, without a blank before it: with one it is another token."""


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
            reason = reason_of(error)
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
            reason = reason_of(error)
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

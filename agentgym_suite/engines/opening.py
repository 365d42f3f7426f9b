"""``open_engine``: an engine by its name; what it is made of is imported when it is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from agentgym_suite.engines.batching import SteppedEngine
from agentgym_suite.engines.tokens import ChatTokenizer
from agentgym_suite.errors import MissingExtra, UsageError

ENGINES = ("transformers", "vllm")
"""The engines there are."""


class PolicyEngine(SteppedEngine, Protocol):
    """An engine over a whole policy: with its tokenizer, for agents."""

    @property
    def tokenizer(self) -> ChatTokenizer:
        """The policy's own."""
        ...

    @property
    def context_window(self) -> int | None:
        """Tokens of prompt and reply together; None when the model does not say."""
        ...


def open_engine(
    name: str,
    model: str | Path,
    *,
    policy_version: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> PolicyEngine:
    """The engine of a model.

    Args:
        name: one of ``ENGINES``.
        model: a folder that transformers has saved, ``owner/name`` on the Hugging Face hub or,
            for ``transformers``, a file ``….gguf``.
        policy_version: what the weights are called; the digest of their files when not given.
        dtype: of the weights; ``auto`` is float32 on a processor.
        device: for ``transformers``, as torch names it; ``auto`` is CUDA where there is one.
        threads: for ``transformers``, of the processor; None leaves torch as it is.
        options: for ``vllm``, further arguments of its ``EngineArgs``.

    Raises:
        UsageError: there is no such engine, model or setting.
        MissingExtra: what the engine is made of is not installed.
        EngineError: the model cannot be loaded.
    """
    if name not in ENGINES:
        raise UsageError(f"engine {name!r} does not exist; use {', '.join(ENGINES)}")
    if name == "vllm":
        if device != "auto" or threads is not None:
            raise UsageError("device and threads are for transformers; vLLM chooses its own")
        from agentgym_suite.engines.vllm_engine import VllmEngine

        return VllmEngine(model, policy_version=policy_version, dtype=dtype, options=options)
    if options:
        raise UsageError(f"options are for vllm ({', '.join(options)}); leave them out")
    try:
        from agentgym_suite.engines.transformers_engine import TransformersEngine
    except ImportError as error:
        raise MissingExtra("train", "the engine transformers") from error
    return TransformersEngine.load(
        model, policy_version=policy_version, dtype=dtype, device=device, threads=threads
    )

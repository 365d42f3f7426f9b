"""``VllmEngine``: the token engine over vLLM in this process.

Log-probabilities are vLLM's ``processed_logprobs``: of the distribution that was sampled, bans,
temperature and ``top_p`` applied. Its default mode would be of the raw one.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_suite.engines.batching import run_batch
from agentgym_suite.engines.tokens import FinishReason, Generated, Sampling, Weights
from agentgym_suite.engines.vllm_requests import VllmRequests, vllm_reason
from agentgym_suite.errors import EngineError, MissingExtra, UsageError


class VllmEngine:
    """Decodes with vLLM: paged keys and values, prefixes cached, one GPU or several.

    ``suppress_tokens`` of the model's generation configuration are banned beside what a
    ``Sampling`` bans. A seed gives other samples than ``TransformersEngine`` does with it. What
    creates one must be under ``if __name__ == "__main__"``: vLLM may start processes.

    Args:
        model: a folder that transformers has saved, or ``owner/name`` on the Hugging Face hub.
        policy_version: what the weights are called; the digest of their files when not given.
        dtype: as vLLM names it; ``auto`` is float32 on a processor, else as the model says.
        options: further arguments of vLLM's ``EngineArgs``, such as ``max_model_len``,
            ``kv_cache_memory_bytes`` or ``tensor_parallel_size``.

    Raises:
        MissingExtra: vLLM is not installed.
        UsageError: there is no such model, or vLLM refuses an option.
        EngineError: it cannot be loaded.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        policy_version: str | None = None,
        dtype: str = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            from vllm.engine.arg_utils import EngineArgs
            from vllm.platforms import current_platform
            from vllm.v1.engine.llm_engine import LLMEngine

            from agentgym_suite.engines import loading
        except ImportError as error:
            raise MissingExtra("vllm", "the engine vllm") from error
        files = loading.find_files(model)
        if files.gguf:
            raise UsageError(
                f"{files.folder / files.gguf} is a GGUF file, which this engine does not read; "
                "save it as a folder with agentgym_suite.engines.loading.save_policy"
            )
        settings = loading.read_settings(files)
        self._tokenizer = loading.chat_tokenizer(files, settings.stop_ids)
        self._folder = files.folder
        self._version = policy_version or files.digest
        chosen = {"disable_log_stats": True, **(options or {})}
        if current_platform.is_cpu():
            dtype = "float32" if dtype == "auto" else dtype
            # a prompt read in parts takes back its draw, which a generator of a processor cannot
            chosen.setdefault("enable_chunked_prefill", False)
        try:
            arguments = EngineArgs(
                model=str(files.folder),
                dtype=dtype,
                skip_tokenizer_init=True,
                logprobs_mode="processed_logprobs",
                **chosen,
            )
        except TypeError as error:
            raise UsageError(
                f"vLLM refuses an option ({error}); use names of its EngineArgs"
            ) from error
        try:
            self._engine: Any = LLMEngine.from_engine_args(arguments)
        except Exception as error:  # vLLM raises what its parts raise
            raise EngineError(
                f"vLLM cannot start {files.folder} ({vllm_reason(error)}); see its log above"
            ) from error
        self._window = int(self._engine.model_config.max_model_len)
        self._requests = VllmRequests(
            vocabulary=int(self._engine.model_config.get_vocab_size()),
            window=self._window,
            suppressed_ids=settings.suppressed_ids,
        )
        self._lock = threading.RLock()
        self._names = itertools.count()
        self._owners: dict[str, tuple[_VllmBatch, Hashable]] = {}

    @property
    def policy_version(self) -> str:
        """Which weights sample now: the name they were given, or ``sha256:<hex>`` of the files."""
        return self._version

    @property
    def tokenizer(self) -> Any:
        """The model's ``ChatTokenizer``.

        Raises:
            UsageError: it came without one.
        """
        if self._tokenizer is None:
            raise UsageError("the model has no tokenizer; give one, or generate from ids")
        return self._tokenizer

    @property
    def context_window(self) -> int:
        """Tokens of prompt and reply together."""
        return self._window

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generated]:
        """One reply a prompt, in the order of the prompts.

        Args:
            prompts: ids of each prompt, at least one.
            sampling: how all of them are drawn.
            seeds: one a prompt, from 0 to below 2**64.

        Raises:
            ContextTooLong: a prompt and ``max_new_tokens`` exceed the model's window.
            UsageError: an empty prompt, an id that the model does not have, a wrong seed, or a
                temperature that vLLM would raise.
            EngineError: vLLM failed, or the engine is closed.
        """
        return run_batch(self.begin, prompts, sampling, seeds)

    def begin(self) -> _VllmBatch:
        """An empty batch, for callers that add prompts as they come.

        Raises:
            EngineError: the engine is closed.
        """
        self._open()
        return _VllmBatch(self)

    def load_weights(self, weights: Weights, version: str) -> None:
        """Sample with other weights of the same architecture; cached prefixes are forgotten.

        Args:
            weights: parameters by name, or a folder to read them from.
            version: what ``policy_version`` says from now on.

        Raises:
            UsageError: they are not this model's, or replies are under way.
            EngineError: they cannot be read or loaded, or the engine is closed.
        """
        from agentgym_suite.engines.loading import read_weights

        with self._lock:
            engine = self._open()
            if self._owners:
                raise UsageError(
                    f"{len(self._owners)} replies are under way, which other weights would mix; "
                    "wait for them"
                )
            # vLLM's own reading of a folder leaves a tied output layer at its old weights
            state = read_weights(self._folder, weights)
            try:
                engine.collective_rpc(
                    "reload_weights", kwargs={"weights_iterator": iter(list(state.items()))}
                )
                forgotten = engine.reset_prefix_cache()
            except Exception as error:
                raise EngineError(
                    f"vLLM cannot load the weights ({vllm_reason(error)}); start it anew with them"
                ) from error
            if not forgotten:
                raise EngineError("vLLM keeps prefixes of the old weights; start it anew")
            self._version = version

    def close(self) -> None:
        """Stop vLLM; nothing can be generated afterwards."""
        with self._lock:
            engine, self._engine = self._engine, None
            if engine is not None:
                engine.engine_core.shutdown()

    def _open(self) -> Any:
        if self._engine is None:
            raise EngineError("the engine is closed; make another")
        return self._engine

    def _add(
        self,
        batch: _VllmBatch,
        key: Hashable,
        prompt: Sequence[int],
        sampling: Sampling,
        seed: int,
    ) -> str:
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        with self._lock:
            engine = self._open()
            name = str(next(self._names))
            asked = self._requests.parameters(prompt, sampling, seed)
            try:
                parameters = SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **asked)
                engine.add_request(name, tokens_input(list(prompt)), parameters)
            except Exception as error:  # its own class in some versions, ValueError in others
                raise UsageError(f"vLLM refuses a prompt ({vllm_reason(error)})") from error
            self._owners[name] = (batch, key)
            return name

    def _step(self) -> None:
        """One more id for everything under way; what is done goes to the batch it belongs to."""
        with self._lock:
            engine = self._open()
            try:
                outputs = engine.step() if self._owners else []
            except Exception as error:
                raise EngineError(
                    f"vLLM failed ({vllm_reason(error)}); see its log above"
                ) from error
            for output in outputs:
                if output.finished and output.request_id in self._owners:
                    batch, key = self._owners.pop(output.request_id)
                    batch.done.append((key, self._generated(output.outputs[0])))

    def _discard(self, names: Sequence[str]) -> None:
        with self._lock:
            here = [name for name in names if self._owners.pop(name, None)]
            if here and self._engine is not None:
                self._engine.abort_request(here)

    def _generated(self, output: Any) -> Generated:
        ids = tuple(map(int, output.token_ids))
        logprobs = tuple(
            float(found[token].logprob) for found, token in zip(output.logprobs, ids, strict=True)
        )
        reason: FinishReason = "stop" if output.finish_reason == "stop" else "length"
        return Generated(ids, logprobs, reason, self._version)


class _VllmBatch:
    """Some of the prompts that vLLM works on: those of one caller."""

    def __init__(self, engine: VllmEngine) -> None:
        self._engine = engine
        self._names: dict[Hashable, str] = {}
        self.done: list[tuple[Hashable, Generated]] = []

    def __len__(self) -> int:
        return len(self._names)

    def add(self, key: Hashable, prompt: Sequence[int], sampling: Sampling, seed: int) -> None:
        """Take in one prompt under a key of the caller's; raises as ``generate`` does."""
        self._names[key] = self._engine._add(self, key, prompt, sampling, seed)

    def step(self) -> list[tuple[Hashable, Generated]]:
        """One more id for every running prompt; the replies that are done now, by their keys."""
        if not self.done:
            self._engine._step()
        done, self.done = self.done, []
        for key, _ in done:
            del self._names[key]
        return done

    def discard(self, key: Hashable) -> None:
        """Let the prompt of that key go, if it is here."""
        if key in self._names:
            self._engine._discard([self._names.pop(key)])
            self.done = [found for found in self.done if found[0] != key]

    def abandon(self) -> None:
        """Let all prompts go."""
        self._engine._discard(list(self._names.values()))
        self._names.clear()
        self.done.clear()

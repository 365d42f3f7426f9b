"""``VllmServerEngine``: the token engine over a vLLM server, whose weights training may replace.

Token ids go out and come back through ``/inference/v1/generate``, so that nothing is tokenised
there; each reply tells which weights sampled it. Weights go through a folder that the server reads
too: it loads them in place, forgets cached prefixes, and takes the version's name.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

import httpx

from agentgym_suite.engines.batching import run_batch
from agentgym_suite.engines.tokens import FinishReason, Generated, Sampling, Weights
from agentgym_suite.engines.vllm_requests import VllmRequests, vllm_reason
from agentgym_suite.errors import EngineError, MissingExtra, UsageError, reason_of
from agentgym_suite.retries import RetryPolicy

GENERATE, RELOAD, FORGET = "/inference/v1/generate", "/collective_rpc", "/reset_prefix_cache"
NAME, NAMED = "/update_weight_version", "/weight_info"
ABORT = "/inference/v1/abort_requests"
FLAGS = "--enable-scale-out --logprobs-mode processed_logprobs"
"""What a server is started with, beside ``VLLM_SERVER_DEV_MODE=1``."""

_THERE = "generate-tokens-"
"""What the server puts in front of a reply's name."""
_FAREWELL_S = 5.0
_AGAIN = RetryPolicy(tries=4)


class ServerStumbled(EngineError):
    """The server broke off, or says that it failed; the same request may do better."""


class VllmServerEngine:
    """Decodes on a vLLM server that is this training's alone.

    The server is started with ``VLLM_SERVER_DEV_MODE=1`` and ``FLAGS``, on a processor with
    ``--no-enable-chunked-prefill``, too; its model is of the architecture of the weights that it
    is given later.

    Args:
        url: of the server, such as ``http://127.0.0.1:8000``.
        model: a folder with configuration and tokenizer of that architecture.
        policy_version: what the server's weights are called from now on.
        exchange: folder that this process writes and the server reads at the same path.
        concurrency: replies that are asked for at a time.
        timeout_s: longest time for one reply, or for one push of weights.
        pushes: whether weights go to the server from here; else another process of the training
            brings them there, and ``load_weights`` takes their name alone.
        transport: how requests travel; None for the network.

    Raises:
        UsageError: the server was started without what is needed, or there is no such model.
        MissingExtra: torch or transformers is not installed.
        EngineError: there is no server, or it fails.
    """

    def __init__(
        self,
        url: str,
        model: str | Path,
        *,
        policy_version: str,
        exchange: Path,
        concurrency: int = 256,
        timeout_s: float = 600.0,
        pushes: bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        try:
            from agentgym_suite.engines import loading
        except ImportError as error:
            raise MissingExtra("train", "the engine of a vLLM server") from error
        files = loading.find_files(model)
        settings = loading.read_settings(files)
        self._tokenizer = loading.chat_tokenizer(files, settings.stop_ids)
        self._folder = files.folder
        self._vocabulary = loading.vocabulary_size(files)
        self._exchange = exchange
        self._pushes = pushes
        self._url = url.rstrip("/")
        limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        try:
            self._client: httpx.Client | None = httpx.Client(
                base_url=self._url, timeout=timeout_s, limits=limits, transport=transport
            )
        except httpx.InvalidURL as error:
            raise UsageError(
                f"{url!r} is no address of a server ({reason_of(error)}); give such as "
                "http://host:8000"
            ) from error
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="vLLM replies")
        self._lock = threading.RLock()
        self._running: set[str] = set()
        try:
            self._check_started()
            self._window = int(self._get("/v1/models")["data"][0]["max_model_len"])
            if pushes:
                self._post(NAME, {"new_version": policy_version})
        except BaseException:
            self.close()
            raise
        self._version = policy_version
        self._requests = VllmRequests(
            vocabulary=self._vocabulary,
            window=self._window,
            suppressed_ids=settings.suppressed_ids,
        )

    @property
    def policy_version(self) -> str:
        """Which weights sample now: the name they were given."""
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
            ContextTooLong: a prompt and ``max_new_tokens`` exceed the server's window.
            UsageError: an empty prompt, an id that the model does not have, a wrong seed, or a
                temperature that vLLM would raise.
            EngineError: the server failed, or the engine is closed.
        """
        return run_batch(self.begin, prompts, sampling, seeds)

    def begin(self) -> _ServerBatch:
        """An empty batch, for callers that add prompts as they come.

        Raises:
            EngineError: the engine is closed.
        """
        self._open()
        return _ServerBatch(self)

    def load_weights(self, weights: Weights, version: str) -> None:
        """Sample with other weights of the same architecture; cached prefixes are forgotten.

        Without ``pushes`` the name alone is taken: another process brings them there.

        Args:
            weights: parameters by name, or a folder to read them from.
            version: what the server calls them from now on.

        Raises:
            UsageError: they are not this model's, or replies are under way.
            EngineError: they cannot be read or loaded, or the engine is closed.
        """
        with self._lock:
            self._open()
            if self._running:
                raise UsageError(
                    f"{len(self._running)} replies are under way, which other weights would mix; "
                    "wait for them"
                )
            if self._pushes:
                self._push(weights, version)
            self._version = version

    def _push(self, weights: Weights, version: str) -> None:
        """Bring weights to the server through the folder that both see."""
        from agentgym_suite.engines.loading import read_weights, write_weights

        # vLLM's own reading leaves a tied output layer at its old weights: all are named
        state = read_weights(self._folder, weights)
        self._exchange.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="weights-", dir=self._exchange.absolute()))
        folder.chmod(0o755)
        try:
            write_weights(state, folder)
            load = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            self._post(RELOAD, load)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if self._post(FORGET, None).get("success") is not True:
            raise EngineError("vLLM keeps prefixes of the old weights; start it anew")
        self._post(NAME, {"new_version": version})

    def close(self) -> None:
        """Ask no more; the server stays as it is."""
        with self._lock:
            client, self._client = self._client, None
        self._pool.shutdown(wait=False, cancel_futures=True)
        if client is not None:
            client.close()

    def _open(self) -> httpx.Client:
        if self._client is None:
            raise EngineError("the engine is closed; make another")
        return self._client

    def _check_started(self) -> None:
        """See that the server has what is asked of it later."""
        paths = self._get("/openapi.json").get("paths", {})
        wanted = (GENERATE, RELOAD, FORGET, NAME, NAMED)
        missing = [path for path in wanted if path not in paths]
        if missing:
            raise UsageError(
                f"the server at {self._url} has no {', '.join(missing)}; start vLLM 0.32 or newer "
                f"with VLLM_SERVER_DEV_MODE=1 and {FLAGS}"
            )

    def _get(self, path: str) -> dict[str, Any]:
        return self._answer("GET", path, None)

    def _post(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        return self._answer("POST", path, body)

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        found: Any
        try:
            answer = self._open().request(method, path, json=body)
        except (httpx.HTTPError, RuntimeError) as error:
            raise self._silent(path, error) from error
        try:
            found = answer.json() if answer.content else {}
        except ValueError as error:
            if not answer.is_error:
                raise self._silent(path, error) from error
            found = answer.reason_phrase
        if answer.is_error:
            refused = answer.status_code in (400, 422)
            stumbled = ServerStumbled if answer.is_server_error else EngineError
            raise (UsageError if refused else stumbled)(
                f"the vLLM server at {self._url} answers {path} with {answer.status_code} "
                f"({_told(found)}); see its log"
            )
        return found if isinstance(found, dict) else {}

    def _silent(self, path: str, error: Exception) -> EngineError:
        """What is raised where the server says nothing that can be read."""
        broken = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
        return (ServerStumbled if broken else EngineError)(
            f"the vLLM server at {self._url} does not answer {path} ({vllm_reason(error)}); see "
            "its log"
        )

    def _add(
        self, prompt: Sequence[int], sampling: Sampling, seed: int
    ) -> tuple[str, Future[Generated]]:
        with self._lock:
            self._open()
            name = f"agentgym-{uuid.uuid4().hex}"
            body = {
                "request_id": name,
                "token_ids": list(prompt),
                "sampling_params": self._requests.parameters(prompt, sampling, seed),
            }
            self._running.add(name)
            return name, self._pool.submit(self._ask, name, body, self._version)

    def _ask(self, name: str, body: Mapping[str, Any], version: str) -> Generated:
        """The reply, asked for again where the server stumbled: a seed draws the same once more."""
        sent = 1
        try:
            while True:
                try:
                    return self._generated(self._post(GENERATE, body), version)
                except ServerStumbled:
                    if sent == _AGAIN.tries or self._client is None:
                        raise
                    time.sleep(_AGAIN.pause_s(sent, None, Random(name)))
                    sent += 1
        finally:
            self._running.discard(name)

    def _generated(self, answer: Mapping[str, Any], version: str) -> Generated:
        """What the server says that it sampled, if it can be so."""
        try:
            choice = answer["choices"][0]
            ids = tuple(map(int, choice["token_ids"]))
            logprobs = tuple(float(token["logprob"]) for token in choice["logprobs"]["content"])
            versions = {str(span["version"]) for span in choice["weight_versions"] or ()}
            reason: FinishReason = "stop" if choice["finish_reason"] == "stop" else "length"
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise EngineError(
                f"the vLLM server at {self._url} answers {GENERATE} without ids and "
                f"log-probabilities ({type(error).__name__}: {reason_of(error)}); see its log"
            ) from error
        if versions != {version}:
            raise EngineError(
                f"the server samples with {', '.join(sorted(versions)) or 'weights of no name'} "
                f"after it was given {version}; let one training use it"
            )
        known = all(0 <= number < self._vocabulary for number in ids)
        if not ids or len(ids) != len(logprobs) or not known or not all(map(isfinite, logprobs)):
            raise EngineError(
                f"the vLLM server at {self._url} gave {len(ids)} ids with {len(logprobs)} "
                "log-probabilities, not all of which can be; see its log"
            )
        return Generated(ids, logprobs, reason, version)

    def _abort(self, names: Sequence[str]) -> None:
        """Let replies go that the server is working on."""
        with suppress(EngineError, UsageError):
            self._post(ABORT, {"request_ids": [f"{_THERE}{name}" for name in names]})


class _ServerBatch:
    """Some of the prompts that the server works on: those of one caller."""

    def __init__(self, engine: VllmServerEngine) -> None:
        self._engine = engine
        self._asked: dict[Hashable, tuple[str, Future[Generated]]] = {}

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, key: Hashable, prompt: Sequence[int], sampling: Sampling, seed: int) -> None:
        """Take in one prompt under a key of the caller's; raises as ``generate`` does."""
        self._asked[key] = self._engine._add(prompt, sampling, seed)

    def step(self) -> list[tuple[Hashable, Generated]]:
        """Wait until a reply is done; all that are done now, by their keys."""
        futures = [future for _, future in self._asked.values()]
        done = wait(futures, return_when=FIRST_COMPLETED).done
        keys = [key for key, (_, future) in self._asked.items() if future in done]
        return [(key, self._asked.pop(key)[1].result()) for key in keys]

    def discard(self, key: Hashable) -> None:
        """Let the prompt of that key go, if it is here."""
        if key in self._asked:
            self._let_go([self._asked.pop(key)])

    def abandon(self) -> None:
        """Let all prompts go."""
        asked, self._asked = list(self._asked.values()), {}
        self._let_go(asked)

    def _let_go(self, asked: Sequence[tuple[str, Future[Generated]]]) -> None:
        under_way = {name: future for name, future in asked if not future.cancel()}
        self._engine._running.difference_update({name for name, _ in asked} - under_way.keys())
        names = [name for name, future in under_way.items() if not future.done()]
        if names:
            self._engine._abort(names)
            wait(under_way.values(), timeout=_FAREWELL_S)


def _told(answer: Any) -> str:
    """What an answer says of its error, wherever it says so."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    message = error.get("message", error) if isinstance(error, dict) else error
    return reason_of(message)

"""``BatchingEngine``: calls of many concurrent episodes, decoded as one running batch.

An episode asks for one reply at a time. Here all that is asked runs together: a reply returns the
moment it is done, and what is asked meanwhile joins at the next token.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from agentgym_suite.engines.tokens import (
    Generated,
    Sampling,
    TokenEngine,
    Weights,
    check_seeds,
)
from agentgym_suite.errors import EngineError


class RunningBatch(Protocol):
    """Replies under way: prompts are added at any time, and come back when they are done."""

    def __len__(self) -> int:
        """Prompts that are not done, waiting ones included."""
        ...

    def add(self, key: Hashable, prompt: Sequence[int], sampling: Sampling, seed: int) -> None:
        """Take in one prompt under a key of the caller's; raises as ``generate`` does."""
        ...

    def step(self) -> list[tuple[Hashable, Generated]]:
        """One more id for every running prompt; the replies that are done now, by their keys."""
        ...

    def discard(self, key: Hashable) -> None:
        """Let the prompt of that key go, if it is here."""
        ...

    def abandon(self) -> None:
        """Let all prompts go."""
        ...


def run_batch(
    begin: Callable[[], RunningBatch],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    seeds: Sequence[int],
) -> list[Generated]:
    """One reply a prompt, in the order of the prompts: a batch run to its end.

    Args:
        begin: makes the empty batch, once the seeds are seen to be right.
        prompts: ids of each prompt.
        sampling: how all of them are drawn.
        seeds: one a prompt.

    Raises:
        UsageError: a seed is missing, too many, or out of range; and what the batch raises.
    """
    check_seeds(prompts, seeds)
    batch = begin()
    done: dict[Hashable, Generated] = {}
    try:
        for place, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True)):
            batch.add(place, prompt, sampling, seed)
        while len(batch):
            done.update(batch.step())
    finally:
        batch.abandon()
    return [done[place] for place in range(len(prompts))]


class SteppedEngine(TokenEngine, Protocol):
    """A token engine that can also be led token by token."""

    def begin(self) -> RunningBatch:
        """An empty batch over the weights of now."""
        ...


@dataclass(slots=True, eq=False)
class _Call:
    prompt: tuple[int, ...]
    sampling: Sampling
    seed: int
    reply: Future[Generated] = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class _Load:
    weights: Weights
    version: str
    loaded: Future[None] = field(default_factory=Future)


class BatchingEngine:
    """A front for callers that each want one reply; itself a token engine.

    One thread computes. When a step fails, each of its replies is tried by itself, which gives the
    very same sample: only those that fail alone, too, raise at their callers.

    Args:
        engine: decodes; belongs to this object from now on, and is closed with it.
    """

    def __init__(self, engine: SteppedEngine) -> None:
        self._engine = engine
        self._batch: RunningBatch | None = None
        self._changed = threading.Condition()
        self._asked: list[_Call] = []
        self._loads: list[_Load] = []
        self._running: set[_Call] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="token batching", daemon=True)
        self._thread.start()

    @property
    def policy_version(self) -> str:
        """Which weights sample now."""
        return self._engine.policy_version

    async def generate_one(self, prompt: Sequence[int], sampling: Sampling, seed: int) -> Generated:
        """One reply; a caller that is cancelled meanwhile frees its place in the batch.

        Args:
            prompt: its ids, at least one.
            sampling: how it is drawn.
            seed: from 0 to below 2**64.

        Raises:
            ContextTooLong: prompt and reply exceed the model's window.
            UsageError: an empty prompt, an id that the model does not have, or a wrong seed.
            EngineError: the model failed, or the engine is closed.
        """
        return await asyncio.wrap_future(self._ask(prompt, sampling, seed))

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generated]:
        """One reply a prompt, beside whatever else is under way; waits for all of them.

        Args:
            prompts: ids of each prompt.
            sampling: how all of them are drawn.
            seeds: one a prompt.

        Raises:
            ContextTooLong: a prompt and its reply exceed the model's window.
            UsageError: an empty prompt, an id that the model does not have, or a wrong seed.
            EngineError: the model failed, or the engine is closed.
        """
        check_seeds(prompts, seeds)
        replies = [
            self._ask(prompt, sampling, seed) for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        try:
            return [reply.result() for reply in replies]
        finally:  # where one is refused, nobody waits for the others
            for reply in replies:
                reply.cancel()

    def load_weights(self, weights: Weights, version: str) -> None:
        """Sample with other weights, once the replies under way are done; waits until then.

        Args:
            weights: parameters by name, or where a checkpoint lies.
            version: what ``policy_version`` says from now on.

        Raises:
            UsageError: they are not this model's parameters.
            EngineError: they cannot be read, or the engine is closed.
        """
        load = _Load(weights, version)
        with self._changed:
            self._check_open()
            self._loads.append(load)
            self._changed.notify()
        load.loaded.result()

    def close(self) -> None:
        """End for good: replies under way raise at their callers, and the engine is closed."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _ask(self, prompt: Sequence[int], sampling: Sampling, seed: int) -> Future[Generated]:
        check_seeds([prompt], [seed])
        call = _Call(tuple(prompt), sampling, seed)
        with self._changed:
            self._check_open()
            self._asked.append(call)
            self._changed.notify()
        return call.reply

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("the engine is closed; make another")

    # ------------------------------------------------------------------ in the thread

    def _work(self) -> None:
        try:
            while self._wait():
                self._let_go()
                self._start_asked()
                if self._running:
                    self._step()
        finally:
            self._end()

    def _wait(self) -> bool:
        """Until there is something to do; False when there is nothing to be done any more."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._asked or self._loads or self._running
            )
            return not self._closed

    def _let_go(self) -> None:
        """Free the places of callers that were cancelled."""
        for call in [call for call in self._running if call.reply.cancelled()]:
            self._running.discard(call)
            if self._batch is not None:
                self._batch.discard(call)

    def _start_asked(self) -> None:
        with self._changed:
            loads, asked = self._loads, self._asked
            if loads and self._running:
                return  # no reply is of two weights: the batch runs empty first
            self._loads, self._asked = [], []
        for load in loads:
            try:
                self._batch = None
                self._engine.load_weights(load.weights, load.version)
                load.loaded.set_result(None)
            except BaseException as error:
                load.loaded.set_exception(error)
        for call in asked:
            self._start(call)

    def _start(self, call: _Call) -> None:
        try:
            if self._batch is None:
                self._batch = self._engine.begin()
            self._batch.add(call, call.prompt, call.sampling, call.seed)
        except BaseException as error:
            _settle(call, error)
        else:
            self._running.add(call)

    def _step(self) -> None:
        assert self._batch is not None
        try:
            done = self._batch.step()
        except Exception:
            self._run_each_alone()
            return
        for call, generated in done:
            assert isinstance(call, _Call)
            self._running.discard(call)
            _settle(call, generated)

    def _run_each_alone(self) -> None:
        """A failed batch cannot go on: find out whose fault it was."""
        if self._batch is not None:
            self._batch.abandon()
        self._batch = None
        running, self._running = self._running, set()
        for call in running:
            if self._closed:
                _settle(call, EngineError("the engine was closed before the reply was done"))
                continue
            try:
                alone = self._engine.generate([call.prompt], call.sampling, [call.seed])
                _settle(call, alone[0])
            except BaseException as error:
                _settle(call, error)

    def _end(self) -> None:
        closed = EngineError("the engine was closed before the reply was done")
        with self._changed:
            self._closed = True
            for call in (*self._running, *self._asked):
                _settle(call, closed)
            for load in self._loads:
                load.loaded.set_exception(closed)
        if self._batch is not None:
            self._batch.abandon()
        self._engine.close()


def _settle(call: _Call, outcome: Generated | BaseException) -> None:
    """Tell the caller, unless it has been cancelled."""
    if not call.reply.set_running_or_notify_cancel():
        return
    if isinstance(outcome, BaseException):
        call.reply.set_exception(outcome)
    else:
        call.reply.set_result(outcome)

"""An engine of a few lines, led token by token: a reply is its prompt's last id, counted up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from agentgym_suite.engines.tokens import Generated, Sampling
from agentgym_suite.errors import UsageError

REFUSED = 1013
BROKEN = 1017


class ScriptedBatch:
    """Rows of the engine; a prompt with ``BROKEN`` fails every step that it is part of."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self.rows: dict[Hashable, tuple[tuple[int, ...], Sampling, list[int]]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, key: Hashable, prompt: Sequence[int], sampling: Sampling, seed: int) -> None:
        if REFUSED in prompt:
            raise UsageError(f"the prompt holds {REFUSED}")
        self.rows[key] = (tuple(prompt), sampling, [])

    def step(self) -> list[tuple[Hashable, Generated]]:
        self._engine.before_step(self)
        self._engine.sizes.append(len(self.rows))
        if any(BROKEN in prompt for prompt, _, _ in self.rows.values()):
            raise RuntimeError("no memory left")
        done = []
        for key, (prompt, sampling, ids) in list(self.rows.items()):
            ids.append(prompt[-1] + 1 + len(ids))
            if len(ids) == sampling.max_new_tokens:
                version = self._engine.policy_version
                done.append((key, Generated(tuple(ids), (0.0,) * len(ids), "length", version)))
                del self.rows[key]
        return done

    def discard(self, key: Hashable) -> None:
        self.rows.pop(key, None)

    def abandon(self) -> None:
        self.rows.clear()


class ScriptedEngine:
    """Notes the size of every step; ``before_step`` may hold it up."""

    def __init__(self) -> None:
        self.policy_version = "0"
        self.sizes: list[int] = []
        self.closed = threading.Event()
        self.before_step: Callable[[ScriptedBatch], Any] = lambda batch: None

    def begin(self) -> ScriptedBatch:
        return ScriptedBatch(self)

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generated]:
        batch = self.begin()
        done: dict[Hashable, Generated] = {}
        for place, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True)):
            batch.add(place, prompt, sampling, seed)
        while len(batch):
            done.update(batch.step())
        return [done[place] for place in range(len(prompts))]

    def load_weights(self, weights: Any, version: str) -> None:
        if not weights:
            raise UsageError("no weights")
        self.policy_version = version

    def close(self) -> None:
        self.closed.set()

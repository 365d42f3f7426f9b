"""``DecodingBatch``: replies that a model decodes together, each for as long as it needs.

A row that has stopped leaves at once, and one that waits takes its place; rows may have different
``Sampling``. Each row has a generator of its own, so that none depends on what runs beside it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from agentgym_suite.engines.cached_rows import CachedRows, CausalForward
from agentgym_suite.engines.distribution import draw, log_distribution, log_probability
from agentgym_suite.engines.tokens import FinishReason, Generated, Sampling, check_prompt
from agentgym_suite.errors import EngineError, UsageError, reason_of

MAX_ROWS = 64
PREFILL_TOKENS = 8_192


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """What rows of one ``Sampling`` have in common; compared by identity, which is quick."""

    sampling: Sampling
    stops: frozenset[int]
    banned: Tensor


@dataclass(slots=True)
class _Row:
    key: Hashable
    prompt: tuple[int, ...]
    kind: _Kind
    numbers: np.random.Generator
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def stopped(self) -> bool:
        return self.ids[-1] in self.kind.stops

    @property
    def done(self) -> bool:
        return self.stopped or len(self.ids) == self.kind.sampling.max_new_tokens


class DecodingBatch:
    """Rows over one model; for one thread at a time.

    Args:
        forward: the model.
        policy_version: what its weights are called.
        suppressed_ids: never sampled, beside each row's ``banned_ids``.
        max_rows: rows that run at once; the others wait.
        prefill_tokens: filled-up tokens of prompts read at once; one prompt always fits.
    """

    def __init__(
        self,
        forward: CausalForward,
        policy_version: str,
        *,
        suppressed_ids: tuple[int, ...] = (),
        max_rows: int = MAX_ROWS,
        prefill_tokens: int = PREFILL_TOKENS,
    ) -> None:
        self._forward = forward
        self._version = policy_version
        self._suppressed = suppressed_ids
        self._max_rows = max_rows
        self._prefill_tokens = prefill_tokens
        self._waiting: deque[_Row] = deque()
        self._rows: list[_Row] = []
        self._cached: CachedRows | None = None
        self._kinds: dict[Sampling, _Kind] = {}

    def __len__(self) -> int:
        return len(self._rows) + len(self._waiting)

    def add(self, key: Hashable, prompt: Sequence[int], sampling: Sampling, seed: int) -> None:
        """Take in one prompt; it starts to run when there is room.

        Raises:
            ContextTooLong: prompt and reply exceed the model's window.
            UsageError: the prompt is empty, an id is not the model's, or all are banned.
        """
        forward = self._forward
        check_prompt(prompt, sampling, vocabulary=forward.vocabulary, window=forward.window)
        kind = self._kinds.get(sampling) or self._new_kind(sampling)
        numbers = np.random.Generator(np.random.PCG64(seed))
        self._waiting.append(_Row(key, tuple(prompt), kind, numbers))

    def step(self) -> list[tuple[Hashable, Generated]]:
        """One more id for every running row, after waiting ones have joined.

        Returns:
            The rows that are done now, in the order they were added.

        Raises:
            EngineError: the model failed; this batch cannot go on.
        """
        try:
            with torch.inference_mode():
                return self._step()
        except RuntimeError as error:
            reason = reason_of(error)
            raise EngineError(
                f"the model failed on {len(self._rows)} rows ({reason}); lower max_rows or "
                "prefill_tokens if memory ran out"
            ) from error

    def discard(self, key: Hashable) -> None:
        """Let the row of that key go, if it is here."""
        self._waiting = deque(row for row in self._waiting if row.key != key)
        self._keep([place for place, row in enumerate(self._rows) if row.key != key])

    def abandon(self) -> None:
        """Let all rows go."""
        self._waiting.clear()
        self._keep([])

    def _step(self) -> list[tuple[Hashable, Generated]]:
        logits = []
        if self._cached is not None:
            logits.append(self._cached.advance([row.ids[-1] for row in self._rows]))
        joining = [self._waiting.popleft() for _ in range(self._room())]
        if joining:
            logits.append(self._read(joining))
            self._rows += joining
        if not self._rows:
            return []
        self._sample(logits[0] if len(logits) == 1 else torch.cat(logits))
        return self._leave()

    def _room(self) -> int:
        return min(len(self._waiting), self._max_rows - len(self._rows))

    def _read(self, joining: Sequence[_Row]) -> Tensor:
        """Read the prompts of new rows, equal ones once; their logits, in their order."""
        places: dict[tuple[int, ...], int] = {}
        for prompt in sorted(dict.fromkeys(row.prompt for row in joining), key=len):
            places[prompt] = len(places)
        fresh: CachedRows | None = None
        logits = []
        for prompts in self._portions(list(places)):
            rows, after = CachedRows.prefill(self._forward, prompts)
            logits.append(after)
            if fresh is None:
                fresh = rows
            else:
                fresh.join(rows)
        assert fresh is not None
        order = [places[row.prompt] for row in joining]
        if order != list(range(len(fresh))):
            fresh.keep(order)
        if self._cached is None:
            self._cached = fresh
        else:
            self._cached.join(fresh)
        return torch.cat(logits)[order]

    def _portions(self, prompts: list[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
        """The prompts, shortest first, in portions that are read at once."""
        portions: list[list[tuple[int, ...]]] = [[]]
        for prompt in prompts:
            if portions[-1] and len(prompt) * (len(portions[-1]) + 1) > self._prefill_tokens:
                portions.append([])
            portions[-1].append(prompt)
        return portions

    def _sample(self, logits: Tensor) -> None:
        """One id for every row; rows of one ``Sampling`` are computed together."""
        alike: dict[_Kind, list[int]] = {}
        for place, row in enumerate(self._rows):
            alike.setdefault(row.kind, []).append(place)
        for kind, places in alike.items():
            own = logits if len(places) == len(self._rows) else logits[places]
            found = log_distribution(own, kind.sampling, kind.banned)
            rows = [self._rows[place] for place in places]
            if kind.sampling.temperature == 0:
                ids = found.argmax(-1)
            else:
                numbers = [row.numbers.random() for row in rows]
                ids = draw(found, torch.tensor(numbers, dtype=torch.float64))
            chances = log_probability(found, ids).tolist()
            for row, token, chance in zip(rows, ids.tolist(), chances, strict=True):
                if not np.isfinite(chance):
                    raise EngineError(
                        f"the model gives a log-probability of {chance}; choose another dtype, "
                        "or look for damaged weights"
                    )
                row.ids.append(token)
                row.logprobs.append(chance)

    def _new_kind(self, sampling: Sampling) -> _Kind:
        banned = sorted({*sampling.banned_ids, *self._suppressed})
        if len(banned) >= self._forward.vocabulary:
            raise UsageError("every id is banned; leave at least one to sample")
        ids = torch.tensor(banned, dtype=torch.long, device=self._forward.device)
        kind = _Kind(sampling, frozenset(sampling.stop_ids), ids)
        self._kinds[sampling] = kind
        return kind

    def _leave(self) -> list[tuple[Hashable, Generated]]:
        done = [(row.key, self._generated(row)) for row in self._rows if row.done]
        self._keep([place for place, row in enumerate(self._rows) if not row.done])
        return done

    def _keep(self, places: list[int]) -> None:
        if len(places) == len(self._rows):
            return
        self._rows = [self._rows[place] for place in places]
        if self._cached is not None and places:
            with torch.inference_mode():
                self._cached.keep(places)
        else:
            self._cached = None
            self._kinds.clear()

    def _generated(self, row: _Row) -> Generated:
        reason: FinishReason = "stop" if row.stopped else "length"
        return Generated(tuple(row.ids), tuple(row.logprobs), reason, self._version)

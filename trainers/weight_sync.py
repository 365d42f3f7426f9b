"""``WeightSync``: the trainer's weights in the engine that samples, and proof that they arrived.

An engine says which weights it has, and may be wrong: a push that is lost trains on the samples of
a policy that stands still. So the trainer keeps what its own network says of the next token behind
a few fixed prompts, and the engine's word for what it samples there must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentgym_suite.engines.distribution import log_distribution
from agentgym_suite.engines.opening import PolicyEngine
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.errors import EngineError
from agentgym_suite.trainers.lora import merged_weights

TOLERANCES = {
    torch.float64: 1e-5,  # engines normalise in float32
    torch.float32: 1e-5,
    torch.bfloat16: 2e-2,
    torch.float16: 2e-2,
}
"""How far log-probabilities of two engines may lie apart, by the dtype of the weights."""

_PROMPTS = 4
_PROMPT_IDS = 12
_DRAWS = 2


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The policy after some iterations, as it samples.

    Attributes:
        version: what rows that it sampled carry.
        weights: parameters by name.
        expected: the trainer's log-probabilities of the next id behind each fixed prompt, float32
            ``[prompts, vocabulary]``; None where the engine computes with the very same tensors.
    """

    version: str
    weights: Mapping[str, Tensor]
    expected: Tensor | None = None


class WeightSync:
    """Brings snapshots into an engine.

    Args:
        engine: samples.
        sampling: how, in training.
        banned_ids: ids that are never sampled: those of ``sampling`` and the network's own.
        shared: whether the engine computes with the trainer's very tensors.
        merged: whether the engine knows no adapters.
        tolerance: how far log-probabilities may lie apart, in nats; 0 takes that of the dtype.
        pushes: whether the weights go to the engine from here; else another process of the
            training brings them to the same server, and the snapshots made here keep shapes alone.
        meet: waits for the other processes of the training: nobody pushes while one still samples,
            and nobody samples before all have pushed.
    """

    def __init__(
        self,
        engine: PolicyEngine,
        sampling: Sampling,
        banned_ids: tuple[int, ...],
        *,
        shared: bool = False,
        merged: bool = False,
        tolerance: float = 0.0,
        pushes: bool = True,
        meet: Callable[[], object] = lambda: None,
    ) -> None:
        self._engine = engine
        self._sampling = sampling
        self._banned = banned_ids
        self._shared = shared
        self._merged = merged
        self._tolerance = tolerance
        self._place = "cpu" if pushes else "meta"
        self._meet = meet

    def snapshot(self, model: Any, version: str) -> Snapshot:
        """The network as it is now, which training goes on to change.

        Args:
            model: a causal transformers model with whole weights.
            version: a name that no others had.
        """
        if self._shared:
            return Snapshot(version, model.state_dict())
        weights = merged_weights(model) if self._merged else model.state_dict().items()
        kept = {name: tensor.detach().to(self._place, copy=True) for name, tensor in weights}
        return Snapshot(version, kept, self._expected(model))

    def _expected(self, model: Any) -> Tensor:
        prompts = torch.tensor(self._prompts(model.config.vocab_size), device=model.device)
        with torch.no_grad():
            logits = model(input_ids=prompts).logits[:, -1]
        return log_distribution(logits, self._sampling, self._banned).cpu()

    def load(self, snapshot: Snapshot) -> None:
        """Sample with a snapshot from now on.

        Raises:
            EngineError: the engine samples with other weights than it was given.
        """
        self._meet()
        self._engine.load_weights(snapshot.weights, snapshot.version)
        self._meet()
        if snapshot.expected is not None:
            self._check(snapshot, snapshot.expected)

    def _check(self, snapshot: Snapshot, expected: Tensor) -> None:
        prompts = self._prompts(expected.shape[1]) * _DRAWS
        one = Sampling(self._sampling.temperature, 1.0, 1, (), self._sampling.banned_ids)
        rows = list(range(_PROMPTS)) * _DRAWS
        drawn = self._engine.generate(prompts, one, range(len(prompts)))
        other = {reply.policy_version for reply in drawn} - {snapshot.version}
        if other:
            raise EngineError(
                f"the engine samples with {min(other)} after it was given {snapshot.version}; "
                "start it anew"
            )
        apart = max(
            abs(reply.logprobs[0] - float(expected[row, reply.ids[0]]))
            for row, reply in zip(rows, drawn, strict=True)
        )
        most = self._tolerance or TOLERANCES[next(iter(snapshot.weights.values())).dtype]
        if not apart <= most:
            raise EngineError(
                f"the engine's log-probabilities lie {apart:.3g} from the trainer's after "
                f"{snapshot.version} was loaded, and {most:g} is allowed; it samples with other "
                "weights or another distribution, or sync_tolerance is too small for its kernels"
            )

    def _prompts(self, vocabulary: int) -> list[list[int]]:
        """Ids spread over the vocabulary, the same for every snapshot."""
        banned = frozenset(self._banned)
        known = [number for number in range(vocabulary) if number not in banned]
        count = _PROMPTS * _PROMPT_IDS
        spread = [known[number * len(known) // count] for number in range(count)]
        return [spread[start::_PROMPTS] for start in range(_PROMPTS)]

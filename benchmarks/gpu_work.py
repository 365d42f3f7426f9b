"""What ``gpu.py`` works on: models and rows by name, and the device with its clock and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agentgym_suite.machine import memory_mib, peak_memory_mib

Rows = Sequence[Sequence[int]]
VALUE_ROWS = 2
"""Rows of the network that are read as values and never sampled, the last ones."""


@dataclass(frozen=True)
class Work:
    """A model and the rows that are played and learned from.

    Attributes:
        model: arguments of Qwen3's configuration.
        trajectories, steps, reply: of an iteration; every reply is as long.
        prompts: tokens of the shortest and of the longest prompt.
        minibatch_rows, micro_tokens: of the update.
        compared: rows of the comparison of passes.
    """

    model: Mapping[str, Any]
    trajectories: int
    steps: int
    reply: int
    prompts: tuple[int, int]
    minibatch_rows: int
    micro_tokens: int
    compared: int


def _qwen3(
    hidden: int, layers: int, heads: int, mlp: int, words: int, width: int
) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "head_dim": width,
        "intermediate_size": mlp,
        "vocab_size": words,
        "tie_word_embeddings": True,
    }


WORKS = {
    "tiny": Work(_qwen3(128, 2, 4, 384, 4_096, 32), 6, 2, 16, (24, 96), 6, 512, 6),
    "small": Work(_qwen3(256, 4, 4, 768, 151_936, 64), 8, 2, 32, (64, 256), 8, 1_024, 4),
    "1.7b": Work(_qwen3(2048, 28, 16, 6144, 151_936, 128), 16, 4, 128, (256, 1_536), 32, 16_384, 8),
}


class Machine:
    """The device, its clock and its memory."""

    def __init__(self) -> None:
        import iterations  # noqa: F401  (counted as there before)
        import torch
        from transformers import Qwen3ForCausalLM  # noqa: F401

        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda" if self.cuda else "cpu")
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self._torch = torch
        if not self.cuda:
            torch.set_num_threads(1)
        self._base = memory_mib() or 0.0

    @contextmanager
    def timed(self, seconds: dict[str, float], name: str) -> Iterator[None]:
        """Add what the block takes; on a processor, its own seconds."""
        began = self.seconds()
        yield
        seconds[name] = seconds.get(name, 0.0) + self.seconds() - began

    @property
    def peak_bytes(self) -> float:
        """The most that tensors took; on a processor, resident memory above the start."""
        if self.cuda:
            return float(self._torch.cuda.max_memory_allocated())
        return ((peak_memory_mib() or 0.0) - self._base) * 2**20

    def peak_operations(self) -> tuple[float, str]:
        """Operations a second: of the card's data sheet, else of a large product of matrices."""
        from agentgym_suite.trainers.devices import device_of_card

        card = self._torch.cuda.get_device_name() if self.cuda else ""
        known = device_of_card(card) if card else None
        if known is not None:
            return known.operations, known.source
        return self.matmul(), "a product of matrices, measured"

    def matmul(self) -> float:
        """Operations a second of a product of square matrices."""
        side = 8_192 if self.cuda else 768
        left = self._torch.randn(side, side, device=self.device, dtype=self.dtype)
        best = float("inf")
        for _ in range(6):
            seconds: dict[str, float] = {}
            with self.timed(seconds, "product"):
                left @ left
            best = min(best, seconds["product"])
        return 2.0 * side**3 / best

    def model(self, work: Work) -> Any:
        """Random weights, the same in every part."""
        from transformers import Qwen3Config, Qwen3ForCausalLM

        config = Qwen3Config(
            **work.model,
            max_position_embeddings=8_192,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )
        self._torch.manual_seed(0)
        with self.device:
            model = Qwen3ForCausalLM(config)
        model.generation_config.eos_token_id = None
        model.generation_config.suppress_tokens = list(value_rows(work))
        return model.to(self.dtype).eval()

    def seconds(self) -> float:
        """A clock: of the wall when the device is done; on a processor, its own seconds."""
        if self.cuda:
            self._torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()


def value_rows(work: Work) -> tuple[int, ...]:
    """Their ids."""
    rows = work.model["vocab_size"]
    return tuple(range(rows - VALUE_ROWS, rows))


def sizes(work: Work) -> Any:
    """The model's sizes, as the dry run knows them."""
    from agentgym_suite.trainers.architectures import architecture_of

    return architecture_of("random", {"model_type": "qwen3", **work.model})


def prompts_of(work: Work, count: int) -> list[list[int]]:
    """Random prompts whose lengths are spread evenly, in a random order."""
    import numpy as np

    chance = np.random.Generator(np.random.PCG64(0))
    lengths = np.linspace(*work.prompts, count).astype(int)
    chance.shuffle(lengths)
    words = work.model["vocab_size"] - VALUE_ROWS
    return [chance.integers(0, words, length).tolist() for length in lengths]


def play(machine: Machine, model: Any, work: Work, count: int, seconds: dict[str, float]) -> Any:
    """Replies of the engine to so many prompts, of equal length."""
    from agentgym_suite.engines.tokens import Sampling
    from agentgym_suite.engines.transformers_engine import TransformersEngine

    engine = TransformersEngine(model, policy_version="0", max_rows=count)
    sampling = Sampling(max_new_tokens=work.reply, banned_ids=value_rows(work))
    prompts = prompts_of(work, count)
    with machine.timed(seconds, "rollout"):
        replies = engine.generate(prompts, sampling, list(range(count)))
    return prompts, replies


def rows_of(work: Work, prompts: Rows, replies: Sequence[Any]) -> list[Any]:
    """Steps of trajectories, every second one of which ends well."""
    from agentgym_suite.trainers.rows import StepRow

    found = []
    for number, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
        trajectory, step = divmod(number, work.steps)
        last = step == work.steps - 1
        found.append(
            StepRow(
                prompt_ids=tuple(prompt),
                response_ids=tuple(reply.ids),
                response_mask=(1,) * len(reply.ids),
                rollout_logprobs=tuple(reply.logprobs),
                reward=float(last and trajectory % 2),
                group_id=f"task {trajectory}",
                trajectory_id=f"task {trajectory}/0",
                step_index=step,
                n_steps=work.steps,
                terminated=last,
                policy_version="0",
            )
        )
    return found


def plan_of(machine: Machine, work: Work, algorithm: Any) -> Any:
    """The iteration as the dry run sees it."""
    from agentgym_suite.trainers.plans import Plan

    return Plan(
        policy=sizes(work),
        needs=algorithm.needs,
        trajectories=work.trajectories,
        steps=work.steps,
        prompt=sum(work.prompts) / 2,
        reply=work.reply,
        longest_prompt=work.prompts[1],
        longest_reply=work.reply,
        minibatch_rows=work.minibatch_rows,
        micro_tokens=work.micro_tokens,
        element_size=2 if machine.cuda else 4,
        concurrency=work.trajectories * work.steps,
        host=not machine.cuda,
    )

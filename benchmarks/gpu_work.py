"""What ``gpu.py`` works on: models and rows by name, and the device with its clock and memory."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Rows = Sequence[Sequence[int]]


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
    }


WORKS = {
    "tiny": Work(_qwen3(128, 2, 4, 384, 4_096, 32), 6, 2, 16, (24, 96), 6, 512, 6),
    "small": Work(_qwen3(256, 4, 4, 768, 151_936, 64), 8, 2, 32, (64, 256), 8, 1_024, 4),
    "1.7b": Work(_qwen3(2048, 28, 16, 6144, 151_936, 128), 16, 4, 128, (256, 1_536), 32, 16_384, 8),
}


class Machine:
    """The device, its clock and its memory."""

    def __init__(self) -> None:
        import torch
        from transformers import Qwen3ForCausalLM  # noqa: F401

        import agentgym_suite.engines.transformers_engine
        import agentgym_suite.trainers.update  # noqa: F401  (counted as there before)

        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda" if self.cuda else "cpu")
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self._torch = torch
        if not self.cuda:
            torch.set_num_threads(1)
        self._base = self._resident()

    @contextmanager
    def timed(self, seconds: dict[str, float], name: str) -> Iterator[None]:
        """Add what the block takes; on a processor, its own seconds."""
        began = self._now()
        yield
        seconds[name] = seconds.get(name, 0.0) + self._now() - began

    @property
    def peak_bytes(self) -> float:
        """The most that tensors took; on a processor, resident memory above the start."""
        if self.cuda:
            return float(self._torch.cuda.max_memory_allocated())
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return float(most - self._base)

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
            tie_word_embeddings=True,
            max_position_embeddings=8_192,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )
        self._torch.manual_seed(0)
        with self.device:
            model = Qwen3ForCausalLM(config)
        model.generation_config.eos_token_id = None
        return model.to(self.dtype).eval()

    def _now(self) -> float:
        if self.cuda:
            self._torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()

    def _resident(self) -> float:
        if self.cuda:
            return 0.0
        pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))


def sizes(work: Work) -> Any:
    """The model's sizes, as the dry run knows them."""
    from agentgym_suite.trainers.architectures import Architecture

    model = work.model
    return Architecture(
        name="random",
        hidden=model["hidden_size"],
        layers=model["num_hidden_layers"],
        heads=model["num_attention_heads"],
        kv_heads=model["num_key_value_heads"],
        head_width=model["head_dim"],
        mlp=model["intermediate_size"],
        vocabulary=model["vocab_size"],
        tied=True,
        query_key_norm=True,
    )


def prompts_of(work: Work, count: int) -> list[list[int]]:
    """Random prompts whose lengths are spread evenly, in a random order."""
    import numpy as np

    chance = np.random.Generator(np.random.PCG64(0))
    lengths = np.linspace(*work.prompts, count).astype(int)
    chance.shuffle(lengths)
    words = work.model["vocab_size"] - 2
    return [chance.integers(0, words, length).tolist() for length in lengths]


def play(machine: Machine, model: Any, work: Work, count: int, seconds: dict[str, float]) -> Any:
    """Replies of the engine to so many prompts, of equal length."""
    from agentgym_suite.engines.tokens import Sampling
    from agentgym_suite.engines.transformers_engine import TransformersEngine

    words = work.model["vocab_size"]
    engine = TransformersEngine(model, policy_version="0", max_rows=count)
    sampling = Sampling(max_new_tokens=work.reply, banned_ids=(words - 2, words - 1))
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
        number=2 if machine.cuda else 4,
        in_flight=work.trajectories * work.steps,
        host=not machine.cuda,
    )

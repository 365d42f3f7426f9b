"""What is gained by computing a prompt once: siblings of one prompt, and steps of one conversation.

    python benchmarks/prompts_once.py [--repeats 3] [--report FILE]

The same rows are learned from twice, forward and backward, one thread: each row by itself, and with
what they have in common computed once (``share_prefix`` for eight replies to one prompt,
``merge_append_only`` for ten steps of which each goes on behind the last). Losses and gradients
must agree; then the ratio of processor seconds is printed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from learning_passes import Rows, response_pass
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 2_000
MICRO_TOKENS = 8_192
PROMPT, REPLIES, REPLY = 512, 8, 48
STEPS, OBSERVATION = 10, 80


class Case(NamedTuple):
    """Rows with something in common, and how it is computed once.

    Attributes:
        name: in the report.
        prompts: ids of each row.
        answers: ids behind them.
        argument: of ``boundary_states``.
        least: how many times as fast it should be.
    """

    name: str
    prompts: Rows
    answers: Rows
    argument: str
    least: float


def cases() -> list[Case]:
    """Replies to one prompt, and a conversation, the same every time."""
    chance = np.random.Generator(np.random.PCG64(0))

    def drawn(count: int) -> list[int]:
        found: list[int] = chance.integers(0, VOCABULARY, count).tolist()
        return found

    prompt = drawn(PROMPT)
    replies = [drawn(REPLY) for _ in range(REPLIES)]
    asked, answered, said = [], [], list[int]()
    for _ in range(STEPS):
        said = said + drawn(OBSERVATION)
        asked.append(said)
        answered.append(drawn(REPLY))
        said = said + answered[-1]
    return [
        Case("replies to one prompt", [prompt] * REPLIES, replies, "share_prefix", 3.0),
        Case("steps of a conversation", asked, answered, "merge_append_only", 2.0),
    ]


def make_model() -> Any:
    """A trunk of 7 million parameters under a small head."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=2_048,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config).eval()


def measure(model: Any, case: Case, how: dict[str, bool]) -> tuple[float, float, torch.Tensor]:
    """Processor seconds, loss and gradient of one pass."""
    model.zero_grad(set_to_none=True)
    began = time.process_time()
    loss = response_pass(model, case.prompts, case.answers, MICRO_TOKENS, **how)
    seconds = time.process_time() - began
    return seconds, loss, torch.cat([w.grad.flatten() for w in model.parameters()])


def main() -> int:
    """Measure both cases, both ways in turn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, report, fits = make_model(), {}, True
    for case in cases():
        alone, once = [], []
        for _ in range(args.repeats):
            alone.append(measure(model, case, {}))
            once.append(measure(model, case, {case.argument: True}))
        seconds = [min(found[0] for found in side) for side in (alone, once)]
        loss_gap = abs(alone[0][1] - once[0][1])
        gradient_gap = float((alone[0][2] - once[0][2]).norm() / alone[0][2].norm())
        speed = seconds[0] / seconds[1]
        fits &= loss_gap < 1e-4 and gradient_gap < 1e-3 and speed >= case.least
        report[case.name] = {
            "cpu_seconds": seconds[0],
            "cpu_seconds_once": seconds[1],
            "speed": speed,
            "loss_gap": loss_gap,
            "gradient_gap": gradient_gap,
        }
        print(
            f"{case.name}: {seconds[0]:.2f} s row by row, {seconds[1]:.2f} s with {case.argument}, "
            f"{speed:.2f} times as fast; losses differ by {loss_gap:.1e}, gradients by a share of "
            f"{gradient_gap:.1e}",
            flush=True,
        )
    if args.report:
        args.report.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", "utf-8")
    return 0 if fits else 1


if __name__ == "__main__":
    raise SystemExit(main())

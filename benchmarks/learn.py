"""Learning from one start: CAPO, SAPO, TASPO, PPO and GRPO on small households, one seed.

    python benchmarks/learn.py --out DIR [--algorithms capo,sapo_ar] [--minutes 30]

Every algorithm begins with the same cloned policy and has the same budget of environment steps,
or of minutes if these are over sooner. Printed is one row an algorithm; DIR keeps the runs,
``learning.json``, ``learning.md`` and the curves as an SVG. The same command in the same folder
goes on where it was stopped. What comes out is one seed: it shows that an algorithm learns, and
ranks none of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from training_runs import (
    GREEDY,
    SEEN,
    TARGET,
    UNSEEN,
    UNSEEN_GREEDY,
    Plan,
    TrainedRun,
    Variant,
    add_arguments,
    carry_out,
    exit_code,
    seeds_of,
)
from training_tables import Row, learning_curves, table_row, unfinished

from agentgym_suite.evaluation.intervals import Interval
from agentgym_suite.files import write_atomic, write_json_atomic
from agentgym_suite.machine import machine
from agentgym_suite.trainers.registry import algorithm_spec

ALGORITHMS = ("capo", "sapo_ar", "taspo", "ppo", "grpo")
COLUMNS = {
    "sampled": SEEN,
    "greedy": GREEDY,
    "unseen, sampled": UNSEEN,
    "unseen, greedy": UNSEEN_GREEDY,
}


def reached(run: TrainedRun) -> dict[str, float] | None:
    """Where a run was first at the target, sampled and greedy; None if it never was on the way."""
    names = [f"evaluation/{name}" for name in (SEEN, GREEDY)]
    for line in run.metrics:
        if all(line.get(name, 0.0) >= TARGET for name in names):
            return {
                "environment_steps": line["env_steps"],
                "wall_minutes": line["wall_s"] / 60,
                "cpu_minutes": line["cpu_s"] / 60,
            }
    return None


def table(rows: Sequence[Row]) -> list[str]:
    """The rows as Markdown, every share with its 95 % interval over tasks."""
    head = ["", *COLUMNS, "environment steps", "wall minutes", "CPU minutes", f"at {TARGET:.2f}"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        for run in row.runs:
            shares = [row.measured.get(name) for name in COLUMNS.values()]
            first = reached(run)
            lines.append(
                [
                    row.label,
                    *("-" if one is None else _shown(one.interval) for one in shares),
                    f"{run.last('env_steps'):,.0f}",
                    f"{run.last('wall_s') / 60:.1f}",
                    f"{run.last('cpu_s') / 60:.1f}",
                    f"{first['environment_steps']:,.0f} steps, {first['cpu_minutes']:.1f} CPU min"
                    if first
                    else "not on the way",
                ]
            )
    return [f"| {' | '.join(cells)} |" for cells in lines]


def write_report(out: Path, plan: Plan, runs: Sequence[TrainedRun]) -> list[str]:
    """Write results, table and curves; returns the lines of the table."""
    several = len({run.seed for run in runs}) > 1
    rows = [
        table_row(f"{run.variant.name}, seed {run.seed}" if several else run.variant.name, [run])
        for run in runs
    ]
    lines = [*table(rows), "", *unfinished(rows)]
    results: dict[str, Any] = {
        "schema_version": 2,
        "plan": asdict(plan),
        "machine": machine(),
        "rows": [
            {**row.as_dict(), "reached": reached(run)} for row, run in zip(rows, runs, strict=True)
        ],
        "curves": {
            row.label: {name: run.curve(name) for name in run.outcomes}
            for row, run in zip(rows, runs, strict=True)
        },
    }
    write_json_atomic(out / "learning.json", results)
    write_atomic(out / "learning.md", ("\n".join(lines).strip() + "\n").encode("utf-8"))
    if any(row.runs for row in rows):
        drawn = learning_curves(
            rows, "Success at temperature 1 from one start, the others' in grey"
        )
        write_atomic(out / "learning.svg", drawn.encode("utf-8"))
    return lines


def main() -> int:
    """Train what is asked for, then print and write what came out; 1 if a run is not finished."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_arguments(parser, seeds="41")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    args = parser.parse_args()

    def work() -> bool:
        names = dict.fromkeys(algorithm_spec(name).name for name in args.algorithms.split(","))
        wanted = [(Variant(name), seed) for name in names for seed in seeds_of(args)]
        return carry_out(args, wanted, partial(write_report, args.out))

    return exit_code(work)


def _shown(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return "-"
    return f"{interval.estimate:.3f} ({interval.low:.3f} to {interval.high:.3f})"


if __name__ == "__main__":
    raise SystemExit(main())

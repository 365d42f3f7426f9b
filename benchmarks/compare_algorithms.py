"""All algorithms from one start, with one budget of environment steps, over several seeds.

    python benchmarks/compare_algorithms.py --env ALFWorld-v0 --algos all --seeds 41,42,43 \
        --budget-steps 60000 --out DIR [--policy START] [--jobs N]

Every run has the start, learning rate, trajectories an iteration, tasks and evaluation of the
others, and nothing but its preset's settings. The same command goes on where it was stopped, more
algorithms or seeds can join later; a run that breaks is told, and tried again by the next call.
DIR keeps the runs, ``results.json``, ``results.md`` and ``curves.svg``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

from training_runs import (
    GREEDY,
    SEEN,
    TARGET,
    Plan,
    TrainedRun,
    Variant,
    add_arguments,
    carry_out,
    exit_code,
    seeds_of,
)
from training_tables import (
    ALPHA,
    Row,
    difference_table,
    learning_curves,
    paired_differences,
    success_table,
    table_row,
    unfinished,
)

from agentgym_suite.files import write_atomic, write_json_atomic
from agentgym_suite.machine import machine
from agentgym_suite.trainers.registry import ALGORITHMS, algorithm_spec

TARGETED = ("capo", "sapo_ar", "taspo")
TITLE = "Success at temperature 1: mean and range over seeds, the others' in grey"
EQUAL = ("learning_rate", "trajectories", "minibatch_rows", "seen tasks", "budget_steps")


def variants_of(names: str, teacher: Path | None) -> list[Variant]:
    """The algorithms that were asked for, in the order of the registry.

    Args:
        names: with commas between them, or "all", which leaves out those with such a teacher where
            there is none.
        teacher: the model that algorithms with such a teacher learn from.
    """
    asked = list(ALGORITHMS) if names == "all" else names.split(",")
    wanted = {algorithm_spec(name).name for name in asked}
    found = []
    for name, spec in ALGORITHMS.items():
        with_teacher = "teacher_model" in {f.name for f in fields(spec.config)}
        taught = with_teacher and teacher is not None
        if name in wanted and (taught or not with_teacher or names != "all"):
            found.append(Variant(name, (("teacher_model", str(teacher)),) if taught else ()))
    return found


def unequal(runs: Sequence[TrainedRun]) -> list[str]:
    """What is not the same for all runs although it should be, in sentences."""
    seen: dict[str, dict[str, list[str]]] = {name: {} for name in EQUAL}
    for run in runs:
        if run.record:
            resolved = run.record["configuration"]
            own, shared = resolved["settings"], resolved["run"]
            values = {
                "learning_rate": own["learning_rate"],
                "trajectories": own["tasks"] * own["rollouts"],
                "minibatch_rows": own["minibatch_rows"],
                "seen tasks": run.record["tasks"]["seen"],
                "budget_steps": shared["budget_steps"],
            }
            for name, value in values.items():
                seen[name].setdefault(str(value), []).append(f"{run.variant.name} {run.seed}")
    return [
        f"{name} differs: " + "; ".join(f"{value} ({', '.join(w)})" for value, w in found.items())
        for name, found in seen.items()
        if len(found) > 1
    ]


def targets(rows: Sequence[Row]) -> list[str]:
    """Whether the target is met by those that it is set for."""
    lines = []
    for row in rows:
        if row.label in TARGETED and {SEEN, GREEDY} <= set(row.measured):
            sampled, greedy = row.measured[SEEN].mean, row.measured[GREEDY].mean
            met = "met" if min(sampled, greedy) >= TARGET else "missed"
            lines.append(
                f"* {row.label}: {met} ({sampled:.3f} at temperature 1, {greedy:.3f} greedy; "
                f"{row.average('wall_s') or 0.0:,.0f} s wall, {row.average('cpu_s') or 0.0:,.0f} s "
                "CPU of training)"
            )
    return lines


def write_report(out: Path, plan: Plan, runs: Sequence[TrainedRun]) -> list[str]:
    """Write results, tables and curves; returns the lines of the tables."""
    by_variant: dict[str, list[TrainedRun]] = {}
    for run in runs:
        by_variant.setdefault(run.variant.name, []).append(run)
    rows = [table_row(group[0].variant.algorithm, group) for group in by_variant.values()]
    pairs = paired_differences(rows)
    told = [pair.sentence for pair in pairs if pair.adjusted <= ALPHA]
    differing = unequal(runs)
    lines = ["# Algorithms from one start", "", *success_table(rows), ""]
    lines += [
        "Means over the seeds ± their deviation; the interval is over tasks. Seconds and peak"
    ]
    lines += ["are of training, evaluations aside; failures are episodes that broke.", ""]
    for title, content in (
        ("Not finished", unfinished(rows)),
        ("Not equal", [f"* {line}" for line in differing]),
        (f"Target: {TARGET:.2f} on the training tasks, sampled and greedy", targets(rows)),
        ("What can be told apart at 95 %", [f"* {line}" for line in told] or ["* nothing"]),
    ):
        if content:
            lines += [f"## {title}", "", *content, ""]
    if pairs:
        lines += ["## Paired differences at temperature 1", "", *difference_table(pairs), ""]
    results: dict[str, Any] = {
        "schema_version": 1,
        "plan": asdict(plan),
        "machine": machine(),
        "not_equal": differing,
        "rows": [row.as_dict() for row in rows],
        "pairs": [pair.as_dict() for pair in pairs],
        "curves": {
            f"{run.variant.name}/{run.seed}": {name: run.curve(name) for name in run.outcomes}
            for run in runs
        },
    }
    write_json_atomic(out / "results.json", results)
    write_atomic(out / "results.md", ("\n".join(lines).strip() + "\n").encode("utf-8"))
    if any(row.runs for row in rows):
        drawn = learning_curves(rows, TITLE)
        write_atomic(out / "curves.svg", drawn.encode("utf-8"))
    return lines


def main() -> int:
    """Train, then tell; 1 if a run is not finished, 2 if it cannot be done as asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_arguments(parser, seeds="41,42,43")
    parser.add_argument("--algos", default="all", help="names of the registry, or all")
    parser.add_argument("--teacher", type=Path, help="a larger policy, for opd")
    args = parser.parse_args()

    def work() -> bool:
        wanted = [(v, s) for v in variants_of(args.algos, args.teacher) for s in seeds_of(args)]
        return carry_out(args, wanted, partial(write_report, args.out))

    return exit_code(work)


if __name__ == "__main__":
    raise SystemExit(main())

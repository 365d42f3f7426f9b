"""Ablations of CAPO and TASPO from one start: what each part of them is worth.

    python benchmarks/ablations.py --tables all --seeds 41,42,43 --budget-steps 60000 --out DIR \
        [--policy START] [--jobs N]

A table changes one thing of an algorithm and leaves the rest to the preset; a way of training that
stands in several tables is trained once. The same command goes on where it was stopped. DIR keeps
the runs, ``ablations.json``, ``ablations.md`` and a picture a table.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from training_runs import (
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
    difference_table,
    learning_curves,
    paired_differences,
    success_table,
    table_row,
    unfinished,
)

from agentgym_suite.errors import UsageError
from agentgym_suite.files import write_atomic, write_json_atomic
from agentgym_suite.machine import machine


def _variant(algorithm: str, **settings: str | float) -> Variant:
    return Variant(algorithm, tuple(settings.items()))


CAPO, TASPO = Variant("capo"), Variant("taspo")


@dataclass(frozen=True, slots=True)
class Ablation:
    """One table.

    Attributes:
        title: what is changed.
        rows: label -> way of training.
    """

    title: str
    rows: Mapping[str, Variant]


ABLATIONS: Mapping[str, Ablation] = {
    "capo-ratio": Ablation(
        "CAPO: the importance ratio, credit as it is",
        {
            "token": _variant("capo", ratio="token"),
            "product, 1/L^0": _variant("capo", ratio="product"),
            "power, 1/L^0.25": _variant("capo", ratio="power", ratio_alpha=0.25),
            "sqrt, 1/L^0.5": _variant("capo", ratio="sqrt"),
            "power, 1/L^0.75": _variant("capo", ratio="power", ratio_alpha=0.75),
            "mean, 1/L^1": _variant("capo", ratio="mean"),
            "action-aware (CAPO)": CAPO,
        },
    ),
    "capo-credit": Ablation(
        "CAPO: what one step of GAE is, and its discount",
        {
            f"{word}, gamma {gamma:.2f}": _variant("capo", credit=credit, gamma=gamma)
            for word, credit in (("token", "token_gae"), ("action", "action_gae"))
            for gamma in (1.0, 0.99, 0.95)
        },
    ),
    "capo-clip": Ablation(
        "CAPO: the width of the clip",
        {
            f"{width:g}": _variant("capo", clip_low=width, clip_high=width)
            for width in (3e-4, 1e-3, 3e-3, 1e-2, 5e-2, 1e-1)
        },
    ),
    "capo-removals": Ablation(
        "CAPO without its parts",
        {
            "CAPO": CAPO,
            "without the action's ratio": _variant("capo", ratio="token"),
            "without the action's credit": _variant("capo", credit="token_gae"),
            "without both": _variant("capo", credit="token_gae", ratio="token"),
        },
    ),
    "taspo-source": Ablation(
        "TASPO: where privileged information comes from",
        {
            "none": _variant("taspo", pi_source="none"),
            "generic skill": _variant("taspo", pi_source="generic_skill"),
            "random success": _variant("taspo", pi_source="random_success"),
            "nearest success": _variant("taspo", pi_source="nearest_success"),
            "aligned (TASPO)": TASPO,
        },
    ),
    "taspo-allocation": Ablation(
        "TASPO: what a weight belongs to",
        {"token": _variant("taspo", allocation="token"), "action (TASPO)": TASPO},
    ),
    "taspo-distillation": Ablation(
        "TASPO: credit beside distillation from the same privileged information",
        {
            "GRPO": Variant("grpo"),
            "OPSD": Variant("opsd"),
            "GRPO + OPSD": Variant("grpo_opsd"),
            "TASPO": TASPO,
        },
    ),
}


def tables_of(names: str, preset: str) -> dict[str, Ablation]:
    """The tables that were asked for, in their order here.

    Args:
        names: with commas between them, or "all".
        preset: what a row has of it by itself is no change.

    Raises:
        UsageError: there is no such table.
    """
    asked = list(ABLATIONS) if names == "all" else names.split(",")
    for name in asked:
        if name not in ABLATIONS:
            raise UsageError(f"table {name!r} does not exist; use {', '.join(ABLATIONS)} or all")
    return {
        name: replace(table, rows={key: row.beside(preset) for key, row in table.rows.items()})
        for name, table in ABLATIONS.items()
        if name in asked
    }


def write_report(
    out: Path, tables: Mapping[str, Ablation], plan: Plan, runs: Sequence[TrainedRun]
) -> list[str]:
    """Write results, tables and curves; returns the lines of the tables."""
    lines: list[str] = []
    told: dict[str, Any] = {}
    for name, table in tables.items():
        rows = [
            table_row(label, [run for run in runs if run.variant == variant])
            for label, variant in table.rows.items()
        ]
        pairs: list[Pair] = paired_differences(rows)
        lines += [f"## {table.title}", "", *success_table(rows, regime=True), ""]
        if missing := unfinished(rows):
            lines += [*missing, ""]
        if pairs:
            lines += [*difference_table(pairs), ""]
        told[name] = {
            "title": table.title,
            "rows": [row.as_dict() for row in rows],
            "pairs": [pair.as_dict() for pair in pairs],
        }
        if any(row.runs for row in rows):
            drawn = learning_curves(rows, f"{table.title}; success at temperature 1")
            write_atomic(out / f"{name}.svg", drawn.encode("utf-8"))
    results = {
        "schema_version": 1,
        "plan": asdict(plan),
        "machine": machine(),
        "tables": told,
    }
    write_json_atomic(out / "ablations.json", results)
    write_atomic(out / "ablations.md", ("\n".join(lines).strip() + "\n").encode("utf-8"))
    return lines


def main() -> int:
    """Train, then tell; 1 if a run is not finished, 2 if it cannot be done as asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_arguments(parser, seeds="41,42,43")
    parser.add_argument("--tables", default="all", help=f"{', '.join(ABLATIONS)}, or all")
    args = parser.parse_args()

    def work() -> bool:
        tables = tables_of(args.tables, args.preset)
        variants = dict.fromkeys(v for table in tables.values() for v in table.rows.values())
        wanted = [(variant, seed) for variant in variants for seed in seeds_of(args)]
        return carry_out(args, wanted, partial(write_report, args.out, tables))

    return exit_code(work)


if __name__ == "__main__":
    raise SystemExit(main())

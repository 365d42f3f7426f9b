"""The official ALFWorld suites for real: the oracle wins every game, random play beside it.

    python benchmarks/official_suites.py [--data PATH] [--out DIR] [--report FILE]

Plays ``alfworld-seen-h50``, ``-h20``, ``alfworld-unseen-h50`` and ``-h20`` as ``agentgym-suite
evaluate`` does, records, intervals and reports included. Without --data, the validation games are
unpacked from the folder that AGENTGYM_SUITE_SHARED names.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agentgym_suite import evaluation
from agentgym_suite.alfworld.game_layout import FAMILIES
from agentgym_suite.alfworld.importing import add_import_arguments, run_import

ENV_ID = "ALFWorld-v0"
SUITES = ("alfworld-seen-h50", "alfworld-seen-h20", "alfworld-unseen-h50", "alfworld-unseen-h20")
AGENTS = ("oracle", "random")


def import_validation_games(shared: Path, folder: Path) -> Path:
    """The games of valid_seen and valid_unseen, unpacked and imported as a person would."""
    layout, imported = folder / "layout", folder / "imported"
    tool = shared / "tools" / "alfworld_expand.py"
    subprocess.run(
        [sys.executable, str(tool), "--out", str(layout)], check=True, stdout=subprocess.DEVNULL
    )
    parser = argparse.ArgumentParser()
    add_import_arguments(parser)
    return run_import(parser.parse_args([str(layout), "--out", str(imported)]))


def play(suite_id: str, data: Path, out: Path) -> dict[str, Any]:
    """Both agents on one suite: successes, intervals, families, seconds."""
    suite = evaluation.load_suite(suite_id)
    opened = evaluation.open_suite(suite, {ENV_ID: str(data)}, allow_missing=False)
    row: dict[str, Any] = {
        "digest": opened.digest,
        "tasks_digest": opened.environments[0].tasks.digest,
        "tasks": suite.planned,
    }
    for agent in AGENTS:
        started = time.process_time()
        results = evaluation.run(opened, agent, out=out / suite_id / agent)
        env = results.envs[ENV_ID]
        row[agent] = {
            "status": results.status,
            "rankable": results.rankable,
            "successes": env.successes,
            "success": list(env.success[:3]),
            "mean_steps": env.metrics["steps"].estimate,
            "families": {name: [rate.k, rate.n] for name, rate in env.families.items()},
            "cpu_s": round(time.process_time() - started, 1),
        }
    return row


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The figures for people."""
    lines = [f"{'':22}{'agent':8}{'won':>9}{'95 % interval':>18}{'steps':>7}{'CPU s':>7}  families"]
    for suite_id, row in rows.items():
        for agent in AGENTS:
            own = row[agent]
            low, high = (100 * value for value in own["success"][1:])
            families = ", ".join(
                f"{family.label} {k}/{n}"
                for family in FAMILIES
                for k, n in [own["families"][family.name]]
            )
            lines.append(
                f"{suite_id:22}{agent:8}{own['successes']:>5}/{row['tasks']}"
                f"{f'{low:.1f} - {high:.1f}':>18}{own['mean_steps']:>7.1f}{own['cpu_s']:>7}"
                f"  {families}"
            )
    return "\n".join(lines)


def main() -> int:
    """Play, print a table, write the report; 1 unless the oracle won every game."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="official games (default: the shared ones)")
    parser.add_argument("--out", type=Path, help="keep the runs in this folder")
    parser.add_argument("--report", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if args.data is None and not shared:
        print("give --data PATH, or set AGENTGYM_SUITE_SHARED", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        data = args.data or import_validation_games(Path(str(shared)), Path(folder))
        out = args.out or Path(folder) / "runs"
        rows = {suite_id: play(suite_id, data, out) for suite_id in SUITES}
    print(table(rows))
    if args.report is not None:
        args.report.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    won = all(row["oracle"]["successes"] == row["tasks"] for row in rows.values())
    return 0 if won else 1


if __name__ == "__main__":
    sys.exit(main())

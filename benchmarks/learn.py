"""Learning from one start: CAPO, SAPO, TASPO, PPO and GRPO on small households, one seed.

    python benchmarks/learn.py --out DIR [--algorithms capo,sapo_ar] [--budget-steps 60000]

Every algorithm begins with the same cloned policy and has the same budget of environment steps.
Printed is one row an algorithm; DIR keeps the runs, ``learning.json`` and the curves as an SVG.
The same command in the same folder goes on where it was stopped. What comes out is one seed: it
shows that an algorithm learns, and ranks none of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics

ALGORITHMS = ("capo", "sapo_ar", "taspo", "ppo", "grpo")
CURVE = "evaluation/seen/temperature_1"
COLOURS = ("#1b6ca8", "#c8553d", "#2a9d5c", "#8e5ea2", "#b8860b", "#555555")
WIDTH, HEIGHT, MARGIN = 720, 420, 48


def train(algorithm: str, out: Path, start: Path | None, args: argparse.Namespace) -> None:
    """One run by the command that anybody would type."""
    command = [sys.executable, "-m", "agentgym_suite", "train", algorithm, "--preset", "tiny"]
    command += ["--out", str(out), "--seed", str(args.seed), "--threads", str(args.threads)]
    command += ["--budget-steps", str(args.budget_steps)]
    if start is not None:
        command += ["--policy", str(start)]
    subprocess.run(command, check=True)


def curve(run: Path) -> list[tuple[float, float]]:
    """(environment steps, success at temperature 1) of a run's evaluations."""
    points = []
    steps = 0.0
    for line in read_metrics(run / METRICS_FILE):
        steps = line.get("env_steps", steps)
        if CURVE in line:
            points.append((steps, line[CURVE]))
    return points


def summary(algorithm: str, run: Path) -> dict[str, Any]:
    """The last evaluation of a run, and what it took."""
    lines = read_metrics(run / METRICS_FILE)
    last, trained = lines[-1], lines[-2]
    return {
        "algorithm": algorithm,
        "temperature 1": last[CURVE],
        "greedy": last["evaluation/seen/temperature_0"],
        "unseen, temperature 1": last.get("evaluation/unseen/temperature_1"),
        "environment steps": trained["env_steps"],
        "optimizer steps": trained["optimizer_steps"],
        "CPU minutes": trained["cpu_s"] / 60,
    }


def svg(curves: dict[str, list[tuple[float, float]]]) -> str:
    """The curves as a picture."""
    most = max((steps for points in curves.values() for steps, _ in points), default=1.0) or 1.0
    inner_w, inner_h = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN

    def place(steps: float, share: float) -> str:
        return f"{MARGIN + inner_w * steps / most:.1f},{HEIGHT - MARGIN - inner_h * share:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = HEIGHT - MARGIN - inner_h * tick
        parts.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{MARGIN - 8}" y="{y + 4}" text-anchor="end">{tick:.2f}</text>'
        )
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(place(steps, share) for steps, share in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<text x="{WIDTH - MARGIN - 70}" y="{MARGIN + 16 * number}" fill="{colour}">'
            f"{name}</text>"
        )
    parts.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">environment steps '
        f"(0 to {most:,.0f}); success at temperature 1</text></svg>"
    )
    return "\n".join(parts) + "\n"


def main() -> int:
    """Train what is asked for, then print and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--budget-steps", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--policy", type=Path, help="a start; the first run makes one otherwise")
    args = parser.parse_args()
    names = args.algorithms.split(",")
    for name in names:
        first = None if name == names[0] else args.out / names[0] / "start"
        train(name, args.out / name, args.policy or first, args)
    rows = [summary(name, args.out / name) for name in names]
    for row in rows:
        print("  ".join(f"{key} {_shown(value)}" for key, value in row.items()))
    curves = {name: curve(args.out / name) for name in names}
    report = {"rows": rows, "curves": curves, "seed": args.seed}
    (args.out / "learning.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    (args.out / "learning.svg").write_text(svg(curves), "utf-8")
    return 0


def _shown(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) and value < 1000 else f"{value}"


if __name__ == "__main__":
    raise SystemExit(main())

"""What the papers say of their methods' inner workings, as ratios measured in one run.

    python benchmarks/training_claims.py --out DIR [--policy START] [--claims NAMES] [--report FILE]

* SAPO needs no critic: CPU seconds and memory of its iteration beside PPO's on the same rows.
* CAPO's ratio treats long and short actions alike: clip fractions by length, for its whole family.
* TASPO's weights have mean one and keep the sign of the outcome, on batches that were played.

Equality checks stand beside every figure; 1 if one of them fails.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import claim_critic
from training_runs import exit_code, make_start

from agentgym_suite.errors import UsageError
from agentgym_suite.files import write_json_atomic
from agentgym_suite.machine import machine


def critic_lines(found: Mapping[str, Any]) -> list[str]:
    """SAPO beside PPO, as Markdown."""
    ppo, sapo = found["sides"]["ppo"], found["sides"]["sapo_ar"]
    lines = ["| CPU seconds | PPO | SAPO |", "|---|---|---|"]
    for phase in ppo["cpu_s"]:
        other = sapo["cpu_s"].get(phase)
        lines.append(f"| {phase} | {ppo['cpu_s'][phase]:.2f} | {_seconds(other)} |")
    lines.append(f"| peak MiB | {ppo['peak_mib']:.0f} | {sapo['peak_mib']:.0f} |")
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in found["ratios"].items())
    return [*lines, "", f"SAPO / PPO: {ratios}; {ppo['rows']} rows of {ppo['tokens']} tokens."]


def ratio_lines(found: Mapping[str, Any]) -> list[str]:
    """CAPO's family by length, as Markdown: out of range / clip active."""
    lines: list[str] = []
    for name, batch in found["batches"].items():
        growth = batch["growth"]
        lines += [
            f"{name}: {batch['actions']} actions of {batch['tokens_an_action']:.1f} tokens; "
            f"squares of the centred sums grow as L^{growth:.2f}"
            if growth is not None
            else f"{name}: {batch['actions']} actions, all of one bucket of length"
        ]
        for clip, kinds in batch["clips"].items():
            buckets = list(next(iter(kinds.values())))
            lines += ["", f"| clip {clip} | {' | '.join(f'L {b}' for b in buckets)} |"]
            lines.append("|---" * (len(buckets) + 1) + "|")
            for kind, found_by in kinds.items():
                cells = [f"{b['out_of_range']:.2f} / {b['active']:.2f}" for b in found_by.values()]
                lines.append(f"| {kind} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def weight_lines(found: Mapping[str, Any]) -> list[str]:
    """TASPO's weights, as Markdown."""
    lines = [
        "| iteration | success | PI coverage | trajectories weighed | weights | mean - 1 | flips |"
    ]
    lines.append("|---" * 7 + "|")
    for number, one in enumerate(found["iterations"], 1):
        lines.append(
            f"| {number} | {one['success']:.3f} | {one['coverage']:.3f} | {one['weighed']} of "
            f"{one['trajectories']} | {one['least']:.3f} to {one['most']:.3f} | "
            f"{one['mean_error']:.1e} | {one['sign_flips']} |"
        )
    return lines


def main() -> int:
    """Measure what is asked for; 1 if a check fails, 2 if it cannot be measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where a start is made, if need be")
    parser.add_argument("--policy", type=Path, help="a cloned start")
    parser.add_argument("--claims", default=",".join(CLAIMS), help="with commas between them")
    parser.add_argument("--repeats", type=int, default=2, help="of the critic's measurement")
    parser.add_argument("--iterations", type=int, default=3, help="of TASPO")
    parser.add_argument("--report", type=Path, help="keeps the claims that are not measured now")
    args = parser.parse_args()

    def work() -> bool:
        asked = args.claims.split(",")
        for name in asked:
            if name not in CLAIMS:
                raise UsageError(f"claim {name!r} does not exist; use {', '.join(CLAIMS)}")
        start = args.policy or make_start(args.out, preset="tiny", env="", settings=(), threads=1)
        wrong = []
        for name in asked:
            title, lines = CLAIMS[name]
            found = measured(name, start, args)
            print("\n".join([f"## {title}", "", *lines(found), ""]), flush=True)
            wrong += [told for told, held in found["checks"].items() if not held]
            if args.report:
                before = json.loads(args.report.read_bytes()) if args.report.is_file() else {}
                write_json_atomic(args.report, {**before, "machine": machine(), name: found})
        print("checks: " + ("; ".join(f"FAILED {told}" for told in wrong) or "all hold"))
        return not wrong

    return exit_code(work)


def measured(name: str, start: Path, args: argparse.Namespace) -> dict[str, Any]:
    """One claim: its figures, and under ``checks`` what must hold for them."""
    if name == "critic":
        return claim_critic.claim(start, args.repeats)
    # imported here: the critic's claim needs no torch in this process
    import torch

    torch.set_num_threads(1)
    if name == "ratios":
        import claim_ratios

        return claim_ratios.claim(start)
    import claim_weights

    return claim_weights.claim(start, args.iterations)


CLAIMS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], list[str]]]] = {
    "critic": ("SAPO without a critic", critic_lines),
    "ratios": ("CAPO's ratios by length", ratio_lines),
    "weights": ("TASPO's weights", weight_lines),
}


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())

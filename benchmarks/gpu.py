"""What a card makes of training: rollout, update, and whole iterations of CAPO, SAPO and PPO.

    python benchmarks/gpu.py [--shape tiny|small|1.7b] [--minutes 7.5] [--report FILE]

Weights are random, of Qwen3's architecture; nothing is downloaded, and no environment is played.
Each part runs in a process of its own, within a bound of time; after each, what is known so far is
written as JSON, and as Markdown beside it. Beside every ratio stands the check that both sides did
the same work. On a processor the same parts run at a small shape, with the processor's seconds.

Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_parts import ALGORITHMS, PARTS, Found
from gpu_work import WORKS, Machine

LIMITS = {
    "rollout": 90,
    "padded": 60,
    "bucketed": 60,
    "packed": 60,
    **dict.fromkeys(ALGORITHMS, 110),
}
"""Seconds of each part at most, imports and making of the weights among them."""


def run_part(name: str, shape: str, seconds: float) -> Found:
    """A part in a process of its own; what went wrong where it gives nothing."""
    if seconds < 5:
        return {"skipped": "no time was left"}
    command = [sys.executable, __file__, "--shape", shape, "--part", name]
    began = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"skipped": f"not done within {seconds:.0f} s"}
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return {"skipped": f"ended with {done.returncode}: {said[:300]}"}
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "wall_s": time.perf_counter() - began}


def ratios(parts: Mapping[str, Found]) -> dict[str, Found]:
    """Both sides of each comparison, where both are there, with the check beside it."""
    there = {name for name, found in parts.items() if "skipped" not in found}
    found: dict[str, Found] = {}
    for side in ("bucketed", "packed"):
        if {"padded", side} <= there:
            before, ours = parts["padded"], parts[side]
            found[f"{side} against padded"] = {
                "speed": before["seconds"] / ours["seconds"],
                "memory": memory_ratio(ours, before),
                "equal": f"losses {abs(before['loss'] - ours['loss']):.1e} apart, gradient norms "
                f"by a share of {abs(ours['gradient_norm'] / before['gradient_norm'] - 1):.1e}",
            }
    for name in ("capo", "sapo_ar"):
        if {"ppo", name} <= there:
            before, ours = parts["ppo"], parts[name]
            same = before["replies_digest"] == ours["replies_digest"]
            apart = abs(before["old_logprob"] - ours["old_logprob"])
            found[f"{name} against ppo"] = {
                "speed": before["total_seconds"] / ours["total_seconds"],
                "memory": memory_ratio(ours, before),
                "equal": f"{'the same' if same else 'other'} replies, mean log-probabilities "
                f"{apart:.1e} apart",
            }
    return found


def memory_ratio(ours: Found, before: Found) -> float | None:
    """One peak as a share of another; None where a process never grew above what it had before."""
    return ours["peak_bytes"] / before["peak_bytes"] if before["peak_bytes"] else None


def markdown(report: Mapping[str, Any]) -> str:
    """The report as it is read."""
    parts, lines = report["parts"], [f"# {report['machine']}, shape {report['shape']}", ""]
    peak = parts.get("rollout", {}).get("peak_operations")
    played = parts.get("rollout", {})
    if "skipped" not in played and played:
        lines += [
            "| rollout | |",
            "|---|---|",
            f"| prompts read | {played['prompt_tokens_per_s']:,.0f} tokens/s, "
            f"{played['reading_share_of_peak']:.1%} of the peak |",
            f"| replies decoded | {played['reply_tokens_per_s']:,.0f} tokens/s in "
            f"{played['rows']} rows, {played['ms_a_decoding_step']:.1f} ms a step |",
            f"| log-probabilities | {played['logprobs_apart']:.1e} from one forward |",
            f"| peak memory | {played['peak_bytes'] / 1e9:.2f} GB |",
            f"| peak | {peak / 1e12:.2f} Tflop/s ({played['peak_source']}); "
            f"{played['matmul_operations'] / 1e12:.2f} in a product of matrices |",
            "",
        ]
    lines += ["| update | tokens/s | of the peak | peak memory |", "|---|---|---|---|"]
    for side in ("padded", "bucketed", "packed"):
        one = parts.get(side)
        if one and "skipped" not in one:
            share = f"{one['operations_per_s'] / peak:.1%}" if peak else ""
            memory = f"{one['peak_bytes'] / 1e9:.2f} GB"
            lines.append(f"| {side} | {one['tokens_per_s']:,.0f} | {share} | {memory} |")
    names = ("rollout", "passes", "policy", "critic")
    lines += [
        "",
        f"| iteration | {', s | '.join(names)}, s | together, s | peak memory | estimated |",
        "|---" * (len(names) + 4) + "|",
    ]
    for name in ALGORITHMS:
        one = parts.get(name)
        if one and "skipped" not in one:
            cells = [f"{one['seconds'].get(phase, 0.0):.2f}" for phase in names]
            cells += [f"{one['total_seconds']:.2f}", f"{one['peak_bytes'] / 1e9:.2f} GB"]
            lines.append(
                f"| {name} | {' | '.join(cells)} | {one['estimated_bytes'] / 1e9:.2f} GB |"
            )
    lines += ["", "| compared | times as fast | memory | check |", "|---|---|---|---|"]
    for name, one in report["ratios"].items():
        memory = "" if one["memory"] is None else f"{one['memory']:.2f}"
        lines.append(f"| {name} | {one['speed']:.2f} | {memory} | {one['equal']} |")
    skipped = {name: one["skipped"] for name, one in parts.items() if "skipped" in one}
    lines += ["", *(f"* {name}: {why}." for name, why in skipped.items())]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Run every part there is time for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", choices=WORKS, help="of the model (default: by the device)")
    parser.add_argument("--minutes", type=float, default=7.5, help="for all parts together")
    parser.add_argument("--report", type=Path, help="where the figures go, as JSON")
    parser.add_argument("--patience", type=float, default=1.0, help="a part's bound, times this")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        machine = Machine()
        print(json.dumps(PARTS[args.part](machine, WORKS[args.shape])))
        return 0
    import torch
    import transformers

    cuda = torch.cuda.is_available()
    card = torch.cuda.get_device_name() if cuda else "processor"
    large = cuda and torch.cuda.get_device_properties(0).total_memory >= 70e9
    shape = args.shape or ("1.7b" if large else "small")
    word = "-".join("".join(c if c.isalnum() else " " for c in card.lower()).split())
    target = args.report or Path(__file__).parent / f"gpu-{word}.json"
    ends = time.monotonic() + 60 * args.minutes
    report: dict[str, Any] = {
        "machine": card,
        "shape": shape,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "parts": {},
        "ratios": {},
    }
    for name in PARTS:
        left = min(LIMITS[name] * args.patience, ends - time.monotonic())
        report["parts"][name] = run_part(name, shape, left)
        report["ratios"] = ratios(report["parts"])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", "utf-8")
        target.with_suffix(".md").write_text(markdown(report), "utf-8")
        print(name, report["parts"][name], flush=True)
    print(markdown(report))
    return 0 if all("skipped" not in one for one in report["parts"].values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())

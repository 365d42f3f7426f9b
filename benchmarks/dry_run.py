"""The dry run's memory against a training's peak, on this machine's processor.

    python benchmarks/dry_run.py [--case NAME …] [--report FILE]

Each case is one iteration of the trainer in embedded households, in a process of its own, with a
random policy that is wide enough for its weights to matter. Measured is the peak of resident
memory above what the process had before its first network was made, and compared with what
``train --dry-run`` says of the same settings. It is measured twice: with the C library's allocator
told to give every freed block back at once, so that what is resident is what is in use, which is
what the dry run estimates; and as it is, gaps between blocks included. Exits with 1 where the
estimate and what is in use are more than 15 % apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agentgym_suite.machine import memory_mib, peak_memory_mib
from agentgym_suite.trainers.dry_run import Assumptions, plan_of
from agentgym_suite.trainers.memory import memory
from agentgym_suite.trainers.run_settings import Configuration, resolve
from agentgym_suite.trainers.tiny_policy import TinyShape

SHAPE = TinyShape(hidden=1024, layers=4, mlp=3072, heads=16, kv_heads=8, head_width=64)
APART = 0.15
IN_USE, RESIDENT = "in use", "resident"
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""What glibc reads at the start of a process: every larger block is a mapping of its own."""
COMMON = {
    "split": "train",
    "unseen_split": "",
    "most_admissible": 15,
    "horizon": 4,
    "start_worlds": 0,
    "evaluate_every": 0,
    "budget_steps": 1,
    "concurrency": 8,
    "tasks": 4,
    "rollouts": 2,
    "minibatch_rows": 16,
    "micro_tokens": 768,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "PPO: critic and gradients": ("ppo", {}),
    "CAPO: critic and reference": ("capo", {}),
    "SAPO: reference": ("sapo_ar", {"kl_coef": 0.01}),
    "GRPO: the policy alone": ("grpo", {"kl_coef": 0.0}),
    "CAPO, layers computed again": ("capo", {"recompute": True}),
    "GRPO, an adapter of rank 8": ("grpo", {"lora_rank": 8, "kl_coef": 0.01}),
}


def configuration(case: str) -> Configuration:
    """The settings of a case."""
    algorithm, own = CASES[case]
    return resolve(algorithm, "tiny", None, {**COMMON, **own})


def measure(case: str, out: Path) -> dict[str, float]:
    """One iteration in this process: bytes before the first network, bytes at the peak, lengths."""
    import torch

    from agentgym_suite.episodes import EpisodeRequest, PlaySettings
    from agentgym_suite.making import make_environment
    from agentgym_suite.prompts import StepPrompt
    from agentgym_suite.trainers.demonstrations import cover, noisy_teacher, play_all
    from agentgym_suite.trainers.task_lists import Played, select_tasks
    from agentgym_suite.trainers.tiny_policy import build_policy, build_tokenizer
    from agentgym_suite.trainers.trainer import Trainer

    torch.set_num_threads(1)
    settings = configuration(case)
    run = settings.run

    def make_env() -> Any:
        return make_environment(run.env, {}, max_episode_steps=run.horizon)

    tasks = tuple(select_tasks(make_env, run.split, run.most_admissible))[: settings.settings.tasks]
    play = PlaySettings(prompt=StepPrompt(run.prompt), max_steps=run.horizon)
    requests = [EpisodeRequest(task, seed) for task in tasks for seed in range(2)]
    tokenizer = build_tokenizer(cover(play_all(make_env, noisy_teacher(0.5), requests, play)))
    warm_up()
    before = memory_mib() or 0.0
    policy = build_policy(tokenizer, shape=SHAPE)
    Trainer(settings, policy, tokenizer, Played(make_env, tasks), out).run()
    peak = peak_memory_mib() or 0.0
    first = json.loads((out / "metrics.jsonl").read_text("utf-8").splitlines()[0])
    return {
        "before": before * 2**20,
        "peak": peak * 2**20,
        "prompt": first["rollout/prompt_tokens"],
        "reply": first["rollout/response_tokens"],
        "vocabulary": float(policy.config.vocab_size),
    }


def measured(case: str, environment: dict[str, str]) -> dict[str, float]:
    """``measure`` in a process of its own, which begins with these environment variables, too."""
    command = [sys.executable, __file__, "--measure", case]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | environment
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def warm_up() -> None:
    """Let the libraries take what they take for themselves."""
    import torch

    width = torch.ones(64, 64, requires_grad=True)
    torch.optim.AdamW([width]).step()
    (width @ width).sum().backward()


def estimated(case: str, found: dict[str, float]) -> float:
    """What the dry run says of the settings, with the model's sizes and the lengths there were."""
    assumed = Assumptions(device="cpu", longest_prompt=round(found["prompt"]))
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "model_type": "qwen3",
            "hidden_size": SHAPE.hidden,
            "num_hidden_layers": SHAPE.layers,
            "num_attention_heads": SHAPE.heads,
            "num_key_value_heads": SHAPE.kv_heads,
            "head_dim": SHAPE.head_width,
            "intermediate_size": SHAPE.mlp,
            "vocab_size": int(found["vocabulary"]),
            "tie_word_embeddings": True,
        }
        (Path(folder) / "config.json").write_text(json.dumps(config), "utf-8")
        algorithm, own = CASES[case]
        settings = resolve(algorithm, "tiny", None, {**COMMON, **own, "policy": folder})
        return memory(plan_of(settings, assumed)).peak


def main() -> int:
    """Run the cases and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--measure", choices=CASES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(args.measure, Path(folder))))
        return 0
    report, good = {}, True
    columns = ("one iteration", "estimated, MB", "in use, MB", "estimated / in use", "resident, MB")
    print(f"| {' | '.join(columns)} | estimated / resident |")
    print("|---|---|---|---|---|---|")
    for case in args.case or CASES:
        seen = {
            name: measured(case, own) for name, own in {IN_USE: GIVEN_BACK, RESIDENT: {}}.items()
        }
        peaks = {name: found["peak"] - found["before"] for name, found in seen.items()}
        said = estimated(case, seen[IN_USE])
        ratio = said / peaks[IN_USE]
        good &= abs(ratio - 1) <= APART
        report[case] = {"estimated": said, "ratio": ratio, **peaks}
        print(
            f"| {case} | {said / 1e6:,.0f} | {peaks[IN_USE] / 1e6:,.0f} | {ratio:.3f} "
            f"| {peaks[RESIDENT] / 1e6:,.0f} | {said / peaks[RESIDENT]:.3f} |",
            flush=True,
        )
    if args.report:
        args.report.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", "utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""SAPO's iteration without a critic beside PPO's with one, on the same rows.

Both sides run in a process of their own, from the same random weights on the same played rows:
old policy, reference, (critic,) advantages, updates. Rollouts are not part of it: the rows are
given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from agentgym_suite.machine import peak_memory_mib

SIDES = ("ppo", "sapo_ar")
SHAPE = {"hidden": 512, "layers": 4, "mlp": 1536, "heads": 8, "kv_heads": 4, "head_width": 64}
TASKS, HORIZON, NEW_TOKENS = 8, 5, 96
MINIBATCH_ROWS = 16
MOST_GAP = 1e-4


def big_policy(start: Path) -> tuple[Any, Any]:
    """A network of random weights for the words of a start, with that start's tokenizer."""
    from agentgym_suite.engines.loading import load_policy
    from agentgym_suite.trainers.tiny_policy import TinyShape, build_policy

    tokenizer = load_policy(start, device="cpu").tokenizer
    return build_policy(tokenizer, shape=TinyShape(**SHAPE)), tokenizer


def make_rows(start: Path, path: Path) -> None:
    """Let the random network play, and write what it sampled."""
    import torch
    from iterations import household, play

    from agentgym_suite.trainers.batch import collate
    from agentgym_suite.trainers.batch_files import save_batch

    torch.set_num_threads(1)
    policy, tokenizer = big_policy(start)
    tasks = household(HORIZON)[1][:TASKS]
    played = play(policy, tokenizer, tasks, 1, horizon=HORIZON, max_new_tokens=NEW_TOKENS)
    save_batch(collate(played.rows), path)


def measure(side: str, start: Path, rows: Path, repeats: int) -> dict[str, Any]:
    """One side in this process: best CPU seconds of each phase, memory, what is compared."""
    import torch
    from iterations import Iteration, largest_gap, rows_digest

    from agentgym_suite.trainers.batch_files import load_batch
    from agentgym_suite.trainers.hidden_states import boundary_states
    from agentgym_suite.trainers.registry import make_algorithm

    torch.set_num_threads(1)
    policy, tokenizer = big_policy(start)
    batch = load_batch(rows)
    loaded = peak_memory_mib()
    algorithm = make_algorithm(side, "tiny", minibatch_rows=MINIBATCH_ROWS)
    iteration = Iteration(algorithm, policy, len(tokenizer))
    seconds: dict[str, list[float]] = defaultdict(list)
    found: dict[str, Any] = {"rows": len(batch), "digest": rows_digest(batch)}
    found["tokens"] = sum(len(row.prompt_ids) + len(row.response_ids) for row in batch.rows)
    for _ in range(repeats):
        iteration.seconds.clear()
        scored = iteration.score(batch)
        iteration.learn(iteration.prepare(scored))
        for phase, value in iteration.seconds.items():
            seconds[phase].append(value)
        if "old_logprobs" not in found:
            found["old_logprobs"] = scored.old_logprobs.sum(1).tolist()
    found["cpu_s"] = {phase: min(values) for phase, values in seconds.items()}
    found["cpu_s"]["all"] = min(map(sum, zip(*seconds.values(), strict=True)))
    found["loaded_mib"], found["peak_mib"] = loaded, peak_memory_mib()
    found["optimizer_steps"] = iteration.learner.steps
    if side == "sapo_ar":
        # what the one pass read beside the log-probabilities, read in a pass for nothing else
        scored = iteration.score(batch)
        ids = iteration.forward.value_ids
        head = policy.get_output_embeddings().weight
        alone = []
        with torch.no_grad():
            for row in batch.rows:
                state = boundary_states(policy.base_model, [row.prompt_ids], [()])[0, 0]
                alone.append(float((head[ids[0]] - head[ids[1]]) @ state))
        read = algorithm.read_out(torch.tensor(alone, dtype=torch.float64))
        found["value_gap"] = largest_gap(read, scored.v_old)
    return found


def claim(start: Path, repeats: int) -> dict[str, Any]:
    """Both sides, their ratios, and what must be equal for them to mean anything."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npz"
        _run("--make-rows", str(rows), "--start", str(start))
        sides = {
            side: json.loads(
                _run(side, "--start", str(start), "--rows", str(rows), "--repeats", str(repeats))
            )
            for side in SIDES
        }
    ppo, sapo = sides["ppo"], sides["sapo_ar"]
    pairs = zip(ppo.pop("old_logprobs"), sapo.pop("old_logprobs"), strict=True)
    gap = max(abs(a - b) for a, b in pairs)
    checks = {
        "the same rows": ppo["digest"] == sapo["digest"],
        "the same optimizer steps": ppo["optimizer_steps"] == sapo["optimizer_steps"],
        "the same old log-probabilities": gap < MOST_GAP,
        "V as in a pass of its own": sapo["value_gap"] < MOST_GAP,
    }
    return {
        "shape": SHAPE,
        "sides": sides,
        "old_logprob_gap": gap,
        "ratios": {
            "cpu": sapo["cpu_s"]["all"] / ppo["cpu_s"]["all"],
            "peak memory": sapo["peak_mib"] / ppo["peak_mib"],
            "memory above the loaded policy": (sapo["peak_mib"] - sapo["loaded_mib"])
            / (ppo["peak_mib"] - ppo["loaded_mib"]),
        },
        "checks": checks,
    }


def _run(*arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> int:
    """One side, for ``claim``, which starts it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("side", nargs="?", choices=SIDES)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--make-rows", type=Path)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    if args.make_rows:
        make_rows(args.start, args.make_rows)
    else:
        print(json.dumps(measure(args.side, args.start, args.rows, args.repeats)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What privileged information is worth to the very policy that is told it, which OPSD's teacher is.

    python benchmarks/told_policy.py --policy DIR [--rollouts 8] [--report FILE]

A policy plays the small embedded households; the trajectories of each one's siblings make its
privileged text, as in a training; then it plays them once more with that text in front of each
prompt. Printed is the share that it wins, untold and told, where there was a text, with intervals
over tasks: a policy that wins less when it is told more makes no teacher.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from iterations import collected, household

from agentgym_suite.engines.loading import load_policy
from agentgym_suite.engines.tokens import Generated, Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import Episode, EpisodeRequest
from agentgym_suite.evaluation.intervals import success_interval
from agentgym_suite.trainers.action_span import Encode
from agentgym_suite.trainers.collector import derived_seed, plan_groups
from agentgym_suite.trainers.config import ToldSource
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.privileged import pi_ids, plain_encode
from agentgym_suite.trainers.rows import trajectory_id

HORIZON, MAX_NEW_TOKENS, SEED = 20, 12, 41


class ToldEngine:
    """Puts ids in front of prompts.

    Args:
        engine: samples.
        told: what is put in front, by the seed of the reply.
    """

    def __init__(self, engine: TransformersEngine, told: Mapping[int, tuple[int, ...]]) -> None:
        self._engine = engine
        self._told = told
        self.policy_version = engine.policy_version

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generated]:
        """As the engine does, behind what is told."""
        longer = [(*self._told[seed], *ids) for seed, ids in zip(seeds, prompts, strict=True)]
        return self._engine.generate(longer, sampling, seeds)


def play(engine: Any, tokenizer: Any, requests: Sequence[EpisodeRequest]) -> tuple[Episode, ...]:
    """The episodes of the requests, in their order."""
    sampling = Sampling(max_new_tokens=MAX_NEW_TOKENS, stop_ids=tokenizer.stop_ids)
    return collected(engine, tokenizer, sampling, requests, horizon=HORIZON).episodes


def told(
    engine: TransformersEngine,
    requests: Sequence[EpisodeRequest],
    texts: Sequence[str],
    encode: Encode,
) -> tuple[Episode, ...]:
    """The episodes of the requests, each with its text in front of every prompt."""
    ids = {text: pi_ids(text, encode) for text in set(texts)}
    by_seed = {
        derived_seed(request.agent_seed or 0, step): ids[text]
        for request, text in zip(requests, texts, strict=True)
        for step in range(HORIZON)
    }
    return play(ToldEngine(engine, by_seed), engine.tokenizer, requests)


def share(episodes: Sequence[Episode], kept: Sequence[bool]) -> dict[str, Any]:
    """What is won of the kept episodes, the mean over tasks, with its interval."""
    by_task = defaultdict(list)
    for episode, keep in zip(episodes, kept, strict=True):
        if keep:
            by_task[episode.task_id].append(float(episode.success))
    return {"episodes": sum(kept), **success_interval(list(by_task.values()))._asdict()}


def main() -> int:
    """Play untold, then told by each source."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--rollouts", type=int, default=8, help="episodes of each household")
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    loaded = load_policy(args.policy, device="cpu")
    engine = TransformersEngine(
        loaded.module, loaded.tokenizer, policy_version="measured", max_rows=256
    )
    encode, tasks = plain_encode(loaded.tokenizer), household(HORIZON)[1]
    first, second = (
        plan_groups(tasks, args.rollouts, seed=SEED, iteration=number) for number in (1, 2)
    )
    plain = play(engine, engine.tokenizer, first)
    report = {}
    print("| told | episodes | untold, there | told |\n|---|---|---|---|")
    for source in get_args(ToldSource):
        hints = Hinting(RuleAnalyzer(), source=source).hints(plain, 1)
        texts = [hints.texts[trajectory_id(episode)] for episode in plain]
        kept = [bool(text) for text in texts]
        report[source] = {
            "untold": share(plain, kept),
            "told": share(told(engine, second, texts, encode), kept),
        }
        shown = [
            f"{one['estimate']:.3f} ({one['low']:.3f} to {one['high']:.3f})"
            if one["episodes"]
            else "-"
            for one in report[source].values()
        ]
        print(f"| `{source}` | {sum(kept)} | {' | '.join(shown)} |", flush=True)
    if args.report:
        args.report.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""TASPO's weights on real batches: of mean one, bounded, and never against the outcome's sign.

A cloned policy plays groups, guidance is made from its own successes, the frozen policy scores
every action with and without it, and TASPO learns; several iterations, all trajectories counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from iterations import MICRO_TOKENS, PROMPT, Iteration, household, play

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.loading import load_policy
from agentgym_suite.prompts import prompt_template
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.passes import teacher_pass
from agentgym_suite.trainers.privileged import plain_encode
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.returns import token_means
from agentgym_suite.trainers.stats import ALONE
from agentgym_suite.trainers.teachers import own_teacher

TASKS, ROLLOUTS, HORIZON, NEW_TOKENS = 8, 8, 20, 12
EXACT = 1e-12


def claim(start: Path, iterations: int) -> dict[str, Any]:
    """The weights of so many iterations, and what must hold of each of them."""
    loaded = load_policy(start, device="cpu")
    policy, tokenizer = loaded.module, loaded.tokenizer
    taspo = make_algorithm("taspo", "tiny")
    without = make_algorithm("taspo", "tiny", weight_range=0.0)
    none = make_algorithm("taspo", "tiny", pi_source="none")
    learning = Iteration(taspo, policy, len(tokenizer))
    teacher = own_teacher(policy, learning.forward.banned_ids, stays=False)
    privileged = Privileged(
        Hinting(RuleAnalyzer()),
        TransformersChatTokenizer(tokenizer),
        plain_encode(tokenizer),
        prompt_template(PROMPT).reply_format,
        taspo.config.pi_tokens,
    )
    tasks = household(HORIZON)[1]
    found, checks = [], []
    for number in range(1, iterations + 1):
        first = TASKS * (number - 1)
        chosen = [tasks[(first + place) % len(tasks)] for place in range(TASKS)]
        played = play(
            policy,
            tokenizer,
            chosen,
            ROLLOUTS,
            horizon=HORIZON,
            max_new_tokens=NEW_TOKENS,
            iteration=number,
        )
        rows, _ = privileged.told(played, number)
        batch = teacher_pass(learning.score(collate(rows)), teacher, learning.forward, MICRO_TOKENS)
        told = weights_of(taspo, batch)
        prepared = taspo.prepare(batch, ALONE)
        plain = none.prepare(batch, ALONE).batch.targets
        range_zero = without.prepare(batch, ALONE).batch.targets
        assert plain is not None and range_zero is not None
        range_of = taspo.config.weight_range
        checks.append(
            {
                "mean one": told["mean_error"] < EXACT,
                "within 1 ± eps_w": told["least"] >= 1 - range_of and told["most"] <= 1 + range_of,
                "no sign against the outcome": told["sign_flips"] == 0,
                "the trajectory's mean advantage is the outcome's": told["outcome_error"] < EXACT,
                "some weights are not one": told["weighed"] > 0,
                "eps_w = 0 is GRPO's nested mean to the bit": torch.equal(
                    plain.advantages, range_zero.advantages
                )
                and torch.equal(plain.row_weights, range_zero.row_weights),
            }
        )
        success = sum(e.success for e in played.episodes) / len(played.episodes)
        coverage = prepared.metrics["credit/coverage"]
        found.append({"success": success, "coverage": coverage, **told})
        learning.learn(prepared.batch)
    return {
        "iterations": found,
        "checks": {name: all(one[name] for one in checks) for name in checks[0]},
    }


def weights_of(taspo: Any, batch: StepBatch) -> dict[str, float]:
    """What an iteration's weights are like, over all trajectories with an outcome advantage."""
    outcome = taspo.outcome(batch, ALONE)
    advantages = token_means(taspo.credit(batch, ALONE).advantages, batch.response_mask)
    means, outcome_errors, every, flips, weighed, counted = [], [], [], 0, 0, 0
    for chain in batch.trajectories():
        rows = torch.tensor([number for number in chain if bool(batch.is_action[number])])
        whole = float(outcome[chain[0]])
        if whole == 0.0 or not len(rows):
            continue
        counted += 1
        weights = advantages[rows] / whole
        means.append(float(weights.mean()))
        outcome_errors.append(abs(float(advantages[rows].mean()) - whole))
        every += weights.tolist()
        flips += int((advantages[rows] * whole < 0).sum())
        weighed += bool((weights - 1.0).abs().max() > EXACT)
    return {
        "trajectories": len(batch.trajectories()),
        "with_outcome": counted,
        "weighed": weighed,
        "turns": len(every),
        "least": min(every, default=1.0),
        "most": max(every, default=1.0),
        "mean_error": max((abs(mean - 1.0) for mean in means), default=0.0),
        "outcome_error": max(outcome_errors, default=0.0),
        "sign_flips": flips,
    }

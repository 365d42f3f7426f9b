"""GRPO over an OpenEnv server, by the suite's own functions and OpenEnv's own client.

The environment runs elsewhere: the server of `agentgym-suite serve env --compat openenv`. The loop
here is ours to write: rows of what was played, an algorithm by name, one optimizer step.

    agentgym-suite serve env --compat openenv --max-sessions 16 &
    python examples/openenv_grpo.py --url http://127.0.0.1:8100/compat/openenv/alfworld
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import torch
from openenv.core import GenericEnvClient
from tiny_household import HORIZON, PLAY, household_policy, household_tasks

from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.prompts import PromptInput
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.collector import derived_seed
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.passes import old_policy_pass
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.stats import ALONE
from agentgym_suite.trainers.update import Learner, Tally, update_policy


def trajectory(
    client: Any, engine: TransformersEngine, task: str, group: str, trial: int
) -> list[StepRow]:
    """Play one episode; a row a step, with the ids that were sampled.

    Args:
        client: OpenEnv's, with a session of its own.
        engine: samples.
        task: id of the task.
        group: names the trajectories that are compared.
        trial: number of this one.
    """
    assert PLAY.prompt is not None
    tokenizer = engine.tokenizer
    sampling = Sampling(max_new_tokens=12, stop_ids=tokenizer.stop_ids)
    heard = client.reset(task_id=task, seed=0)
    rows: list[StepRow] = []
    while not heard.done and len(rows) < HORIZON:
        text, info = heard.observation["text"], heard.observation["info"]
        messages = PLAY.prompt.render(PromptInput(info["goal"], text)).messages
        prompt = tokenizer.chat_ids(messages)
        seed = derived_seed(group, trial, len(rows))
        said = engine.generate([prompt], sampling, [seed])[0]
        heard = client.step({"text": tokenizer.text(said.ids)})
        rows.append(
            StepRow(
                prompt_ids=tuple(prompt),
                response_ids=said.ids,
                response_mask=(1,) * len(said.ids),
                rollout_logprobs=said.logprobs,
                # success, and a little for an action that the household understands
                reward=heard.reward + 0.1 / HORIZON * heard.observation["info"]["action_valid"],
                group_id=group,
                trajectory_id=f"{group}/{trial}",
                step_index=len(rows),
                n_steps=0,
                finish_reason=said.finish_reason,
            )
        )
    last = len(rows) - 1
    return [
        replace(row, n_steps=len(rows), terminated=heard.done and number == last)
        for number, row in enumerate(rows)
    ]


def train(
    url: str, iterations: int, *, cloning: int, tasks: int = 4, rollouts: int = 4
) -> list[dict[str, float]]:
    """Some iterations of GRPO; the numbers of each.

    Args:
        url: of the environment, as OpenEnv's client takes it.
        iterations: optimizer steps.
        cloning: optimizer steps of imitation before.
        tasks: how many households.
        rollouts: trajectories of each.
    """
    names = household_tasks(tasks)
    model, tokenizer = household_policy(names, running=False, steps=cloning)
    algorithm = make_algorithm("grpo", kl_coef=0.0)
    learner = Learner.make(model, 1e-3, warmup=0, grad_clip=1.0, decay=0.0)
    forward = Forward(banned_ids=tuple(model.generation_config.suppress_tokens or ()))
    engine = TransformersEngine(model, tokenizer, policy_version="0")
    logged = []
    for iteration in range(iterations):
        rows: list[StepRow] = []
        with GenericEnvClient(base_url=url).sync() as client:
            for task in names:
                for trial in range(rollouts):
                    rows += trajectory(client, engine, task, f"{iteration}.{task}", trial)
        batch = old_policy_pass(collate(rows), model, algorithm, forward, 4096)
        prepared = algorithm.prepare(batch, ALONE)
        tally = Tally()
        update_policy(
            learner,
            prepared.batch,
            algorithm,
            forward,
            ALONE,
            most_tokens=4096,
            tally=tally,
        )
        logged.append(
            {
                "iteration": iteration + 1,
                "reward": sum(row.reward for row in rows) / (tasks * rollouts),
                "steps": len(rows),
                "advantage": prepared.metrics["advantage/std"],
                "gradient": tally.summary()["grad/policy"],
            }
        )
    return logged


def main() -> None:
    """Train, and print one line an iteration."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", required=True, help="the environment's address")
    parser.add_argument("--iterations", type=int, default=3, help="optimizer steps (%(default)s)")
    parser.add_argument("--cloning", type=int, default=80, help="steps of imitation (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for line in train(args.url, args.iterations, cloning=args.cloning):
        print("  ".join(f"{name} {value:.3f}" for name, value in line.items()))


if __name__ == "__main__":
    main()

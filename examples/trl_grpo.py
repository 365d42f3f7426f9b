"""TRL's GRPOTrainer over an environment of the suite, with a rollout function.

TRL learns from one sequence a trajectory. So the conversation grows: what the environment says is
appended to what was sampled, never tokenised together with it, and masked. The episodes are played
by the suite's own loop, so horizon, rewards and records are those of every other run.

    python examples/trl_grpo.py
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from tiny_household import PLAY, household_policy, household_tasks, make_env
from trl import GRPOConfig, GRPOTrainer

from agentgym_suite.engines.batching import BatchingEngine
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import Episode, EpisodeRequest, Reply, TokenTrace, Turn
from agentgym_suite.rollouts import run_episodes

Sequence = dict[str, list[Any]]


class RunningChat:
    """An agent whose prompt is everything that was said so far, as the ids that it was.

    Args:
        engine: samples.
        tokenizer: writes the environment's turns.
        sampling: how.
        seed: of the trajectory.
    """

    def __init__(self, engine: Any, tokenizer: Any, sampling: Sampling, seed: int) -> None:
        self._engine, self._tokenizer = engine, tokenizer
        self._sampling, self._seed = sampling, seed
        self._said: tuple[int, ...] = ()

    async def act(self, turn: Turn) -> Reply:
        """Append the environment's turn, then answer."""
        messages = [message.as_dict() for message in turn.messages]
        turn_ids = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        # the beginning of a text belongs to the first turn alone
        prompt = self._said + tuple(turn_ids if not self._said else turn_ids[1:])
        reply = await self._engine.generate_one(
            prompt, self._sampling, self._seed * 1000 + turn.step_index
        )
        self._said = prompt + reply.ids
        trace = TokenTrace(
            prompt, reply.ids, reply.logprobs, (1,) * len(reply.ids), reply.finish_reason, ""
        )
        return Reply(self._tokenizer.decode(reply.ids, skip_special_tokens=True), tokens=trace)

    def close(self) -> None:
        """Nothing is held."""


def one_sequence(episode: Episode) -> Sequence:
    """Prompt, completion, mask and log-probabilities of a trajectory whose prompts only grow."""
    traces = [step.tokens for step in episode.steps if step.tokens is not None]
    said = traces[0].prompt_ids
    found: Sequence = {
        "prompt_ids": list(said),
        "completion_ids": [],
        "env_mask": [],
        "logprobs": [],
    }
    for trace in traces:
        if trace.prompt_ids[: len(said)] != said:
            raise ValueError("a prompt was rewritten; TRL needs one that only grows")
        between = trace.prompt_ids[len(said) :]
        found["completion_ids"] += [*between, *trace.response_ids]
        found["env_mask"] += [0] * len(between) + [1] * len(trace.response_ids)
        found["logprobs"] += [0.0] * len(between) + list(trace.logprobs)
        said = trace.prompt_ids + trace.response_ids
    return found


def rollouts(max_new_tokens: int = 12) -> Callable[[list[str], Any], Sequence]:
    """A rollout function: a prompt is the id of a task, and one trajectory of it is played.

    Args:
        max_new_tokens: most tokens of one reply.
    """

    def rollout(prompts: list[str], trainer: Any) -> Sequence:
        model = trainer.accelerator.unwrap_model(trainer.model)
        tokenizer = trainer.processing_class
        engine = TransformersEngine(model, tokenizer, policy_version=str(trainer.state.global_step))
        sampling = Sampling(max_new_tokens=max_new_tokens, stop_ids=(tokenizer.eos_token_id,))
        first = 1 + trainer.state.global_step * len(prompts)
        requests = [
            EpisodeRequest(task, seed=0, trial=number, agent_seed=first + number)
            for number, task in enumerate(prompts)
        ]

        async def play() -> dict[int, Episode]:
            front = BatchingEngine(engine)
            try:
                return {
                    episode.trial: episode
                    async for episode in run_episodes(
                        make_env,
                        lambda env, seed: RunningChat(front, tokenizer, sampling, seed),
                        requests,
                        settings=PLAY,
                        concurrency=len(requests),
                    )
                }
            finally:
                front.close()

        model.eval()
        played = asyncio.run(play())
        model.train()
        episodes = [played[number] for number in range(len(prompts))]
        sequences = [one_sequence(episode) for episode in episodes]
        found: Sequence = {name: [line[name] for line in sequences] for name in sequences[0]}
        valid = [sum(step.valid for step in episode.steps) for episode in episodes]
        # success, and a little for replies that the household understands
        found["episode_reward"] = [
            float(episode.success) + 0.1 * count / len(episode.steps)
            for episode, count in zip(episodes, valid, strict=True)
        ]
        return found

    return rollout


def episode_reward(episode_reward: list[float], **_: Any) -> list[float]:
    """TRL's reward function: what the rollout function has already found."""
    return episode_reward


def train(steps: int, *, cloning: int, tasks: int = 4) -> list[dict[str, float]]:
    """Some GRPO steps; TRL's log of each.

    Args:
        steps: optimizer steps.
        cloning: optimizer steps of imitation before.
        tasks: how many households.
    """
    names = household_tasks(tasks)
    model, tokenizer = household_policy(names, running=True, steps=cloning)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=episode_reward,
            rollout_func=rollouts(),
            processing_class=tokenizer,
            train_dataset=Dataset.from_dict({"prompt": names}),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=steps,
                per_device_train_batch_size=8,
                num_generations=4,
                max_completion_length=600,
                learning_rate=1e-3,
                beta=0.0,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                disable_tqdm=True,
            ),
        )
        trainer.train()
    return [line for line in trainer.state.log_history if "reward" in line]


def main() -> None:
    """Train, and print one line a step."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=3, help="GRPO steps (%(default)s)")
    parser.add_argument("--cloning", type=int, default=80, help="steps of imitation (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for line in train(args.steps, cloning=args.cloning):
        shown = ("step", "reward", "reward_std", "grad_norm", "completions/mean_length")
        print("  ".join(f"{name} {line[name]:.3f}" for name in shown if name in line))


if __name__ == "__main__":
    main()

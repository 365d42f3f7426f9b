"""A policy of some hundred thousand parameters that has watched a few small households.

What both examples begin with: no download, half a minute on one core. Real models come from a
folder or the hub; nothing else in the examples would change.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

import agentgym_suite  # noqa: F401  registers the environments
from agentgym_suite.episodes import Episode, EpisodeRequest, PlaySettings
from agentgym_suite.prompts import Message, StepPrompt
from agentgym_suite.trainers.cloning import CloningSettings, clone
from agentgym_suite.trainers.demonstrations import Demonstration, cover, noisy_teacher, play_all
from agentgym_suite.trainers.task_lists import select_tasks
from agentgym_suite.trainers.tiny_policy import TinyShape, build_policy, build_tokenizer

HORIZON = 10
PLAY = PlaySettings(prompt=StepPrompt("terse", history_length=0), max_steps=HORIZON)
SHAPE = TinyShape(hidden=64, layers=2, mlp=128, heads=4, kv_heads=2, head_width=16)


def make_env() -> gym.Env[str, str]:
    """One household of the embedded world."""
    return gym.make("ALFWorld-v0", split="train", max_episode_steps=HORIZON)


def household_tasks(count: int) -> list[str]:
    """The first tasks whose rooms are small."""
    return select_tasks(make_env, "train", most_admissible=15)[:count]


def conversations(episode: Episode, running: bool) -> list[Demonstration]:
    """The steps of an episode as prompts with their answers.

    Args:
        episode: won by the teacher.
        running: prompts that grow by one turn a step, instead of the latest turn alone.
    """
    shown, said = [], []
    for step in episode.steps:
        said += step.messages
        prompt = tuple(said) if running else step.messages
        shown.append(Demonstration(episode.task_id, prompt, step.reply.text))
        said.append(Message("assistant", step.reply.text))
    return shown


def household_policy(tasks: list[str], *, running: bool, steps: int) -> tuple[Any, Any]:
    """Model and tokenizer after some steps of imitation.

    Args:
        tasks: what the teacher plays.
        running: see ``conversations``.
        steps: optimizer steps.
    """
    requests = [EpisodeRequest(task, number, trial=number) for number in range(6) for task in tasks]
    episodes = play_all(make_env, noisy_teacher(0.3), requests, PLAY)
    shown = [one for e in episodes if e.success for one in conversations(e, running)]
    tokenizer = build_tokenizer([*cover(episodes), *(one.action for one in shown)])
    model = build_policy(tokenizer, shape=SHAPE)
    settings = CloningSettings(steps=steps, batch=32, warmup=10, first_look=steps + 1)
    for _ in clone(model, tokenizer, shown, settings, success=lambda: 0.0):
        pass
    return model, tokenizer

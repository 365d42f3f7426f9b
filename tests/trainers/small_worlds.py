"""The four embedded worlds for trainings of seconds: what is played, and a start that can play it.

The network has some ten thousand parameters. It is cloned from the oracle until it writes about
every other reply as it was shown: so the environment reads many of them, and trajectories differ,
without which every advantage in a group would be 0 and a gradient of 0 would be right.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym_suite.agents import PolicyAgent
from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.loading import load_policy
from agentgym_suite.episodes import Episode, EpisodeRequest, PlaySettings, Reply, Turn
from agentgym_suite.game import Game, game_of
from agentgym_suite.making import make_environment
from agentgym_suite.prompts import StepPrompt, prompt_template
from agentgym_suite.trainers.cloning import CloningSettings, clone, encoded
from agentgym_suite.trainers.demonstrations import Demonstration, cover, play_all
from agentgym_suite.trainers.exports import save_policy
from agentgym_suite.trainers.pi_sources import GENERIC_SKILL, GENERIC_SKILLS
from agentgym_suite.trainers.privileged import PI_FOOTER, PI_HEADER
from agentgym_suite.trainers.prompt_budget import fitting_prompt
from agentgym_suite.trainers.task_lists import select_tasks
from agentgym_suite.trainers.tiny_policy import TinyShape, build_policy, build_tokenizer

TASKS = 2
_SEARCHED_WORDS = 4
_SURPRISE = 0.7  # nats of a whole reply: every other one is as it was shown
SHAPE = TinyShape(hidden=48, layers=1, mlp=64, heads=2, kv_heads=1, head_width=24, window=480)


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """How one environment is played.

    Attributes:
        env_id: Gymnasium id.
        prompt: prompt template, and with it the reply format.
        reward: reward preset; the one that pays for valid calls where the environment pays for
            success alone, which so small a policy does not have.
        horizon: most steps of an episode.
        max_new_tokens: most tokens of a reply.
        prompt_tokens: most tokens of a prompt.
        calls: most calls of one reply.
    """

    env_id: str
    prompt: str
    reward: str
    horizon: int
    max_new_tokens: int
    prompt_tokens: int
    calls: int = 1

    def make_env(self) -> gym.Env[str, str]:
        """One environment."""
        return make_environment(self.env_id, {}, max_episode_steps=self.horizon)

    @property
    def settings(self) -> dict[str, Any]:
        """What a run is told of the world."""
        return {
            "env": self.env_id,
            "prompt": self.prompt,
            "reward": self.reward,
            "horizon": self.horizon,
            "max_new_tokens": self.max_new_tokens,
            "prompt_tokens": self.prompt_tokens,
            "most_tasks": TASKS,
            "most_admissible": 0,
            "start_worlds": 0,
            "unseen_split": "",
        }


WORLDS = (
    SmallWorld("ALFWorld-v0", "terse", "capo", 3, 10, 96),
    SmallWorld("WebShop-v0", "react", "capo", 3, 24, 320),
    SmallWorld("MultiHopQA-v0", "capo", "none", 2, 80, 256, calls=2),
    SmallWorld("PaperSearch-v0", "steppo", "none", 2, 80, 256, calls=2),
)


class Shown:
    """The oracle's first calls of each step, in the words of a reply format."""

    def __init__(self, env: gym.Env[str, str], world: SmallWorld) -> None:
        self._game = game_of(env)
        self._oracle = PolicyAgent(self._game.policy("oracle"))
        self._world = world

    def act(self, turn: Turn) -> Reply:
        lines = self._oracle.act(turn).text.split("\n")[: self._world.calls]
        action = "\n".join(map(_shortened, lines))
        return Reply(written(action, self._world.prompt, self._game))

    def close(self) -> None:
        """Nothing is held."""


def _shortened(line: str) -> str:
    """The line with few words in its search: the oracle's are titles and whole questions."""
    name, bracket, argument = line.partition("[")
    if name != "search":
        return line
    return f"{name}{bracket}{' '.join(argument[:-1].split()[:_SEARCHED_WORDS])}]"


def written(action: str, prompt: str, game: Game) -> str:
    """An action as a reply to the prompt."""
    kind = prompt_template(prompt).reply_format
    if kind == "react":
        return f"Thought: go on\nAction: {action}"
    if kind != "hermes":
        return action
    calls = [
        {"name": call.name, "arguments": call.arguments} for call in game.codec.to_calls(action)
    ]
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


def shown_episodes(world: SmallWorld, prompt: StepPrompt) -> list[Episode]:
    """Each task once, as the oracle would begin it."""
    tasks = select_tasks(world.make_env, "train", most=TASKS)
    settings = PlaySettings(
        prompt=prompt,
        reply_format=prompt_template(world.prompt).reply_format,
        max_steps=world.horizon,
    )
    requests = [EpisodeRequest(task, 0) for task in tasks]
    return play_all(world.make_env, lambda env, seed: Shown(env, world), requests, settings)


def make_small_start(world: SmallWorld, folder: Path) -> Path:
    """A policy's folder; always the same one."""
    episodes = shown_episodes(world, StepPrompt(world.prompt))
    replies = [step.reply.text for episode in episodes for step in episode.steps]
    guidance = [PI_HEADER, PI_FOOTER, GENERIC_SKILL, *GENERIC_SKILLS.values()]
    tokenizer = build_tokenizer([*cover(episodes), *replies, *guidance], largest=10_000)
    model = build_policy(tokenizer, shape=SHAPE, seed=1)
    prompt = fitting_prompt(
        world.prompt,
        TransformersChatTokenizer(tokenizer),
        most_tokens=world.prompt_tokens,
        window=SHAPE.window,
        beside=world.max_new_tokens,
    )
    shown = [
        Demonstration(episode.task_id, step.messages, step.reply.text)
        for episode in shown_episodes(world, prompt)
        for step in episode.steps
    ]
    tokens = sum(len(encoded(tokenizer, one)[1]) for one in shown) / len(shown)
    settings = CloningSettings(
        steps=400,
        batch=len(shown),
        learning_rate=5e-3,
        warmup=10,
        prompt_weight=0.0,  # or the loss would not be a reply's
        first_look=1000,
    )
    for step in clone(model, tokenizer, shown, settings, lambda: 0.0):
        if step.loss * tokens < _SURPRISE:
            break
    save_policy(folder, model, tokenizer, prompt=world.prompt)
    return folder


def make_other(start: Path, folder: Path) -> Path:
    """The folder of a policy of random weights with the vocabulary of a start."""
    tokenizer = load_policy(start, device="cpu").tokenizer
    save_policy(folder, build_policy(tokenizer, shape=SHAPE, seed=2), tokenizer, prompt="terse")
    return folder

"""Demonstrations of a noisy teacher: an oracle that errs on purpose, so that mending is shown.

A cloned oracle never sees a mistake and does not know how to go on after its own. The noisy
teacher plays a random admissible action now and then, and plans again from where that led.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import gymnasium as gym
import numpy as np

from agentgym_suite.agents import PolicyAgent, RandomAgent
from agentgym_suite.coroutines import complete
from agentgym_suite.episodes import (
    AgentFactory,
    Episode,
    EpisodeRequest,
    PlaySettings,
    Reply,
    Turn,
)
from agentgym_suite.errors import EnvError, UsageError
from agentgym_suite.game import game_of
from agentgym_suite.prompts import Message
from agentgym_suite.rollouts import MakeEnv, OnEpisode, run_episodes
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.rows import trajectory_id

Targets = Literal["executed", "oracle"]
_CONCURRENCY = 4


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One step to imitate.

    Attributes:
        task_id: the task it was shown in.
        messages: what the policy sees.
        action: what it should write.
        pi: privileged information that it is told besides; "" for none.
    """

    task_id: str
    messages: tuple[Message, ...]
    action: str
    pi: str = ""


class NoisyTeacher:
    """The oracle's action, or with some probability a random admissible one.

    Args:
        env: the environment of the episode.
        seed: of the teacher's own chance.
        noise: probability of a random action at each step.
        skipped: admissible actions that are never played at random.
        errors: where every random action is noted, as (task id, seed, step index).
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        seed: int,
        noise: float,
        skipped: frozenset[str],
        errors: set[tuple[str, int, int]],
    ) -> None:
        self._oracle = PolicyAgent(game_of(env).policy("oracle"))
        self._random = RandomAgent(env, seed)
        self._chance = np.random.Generator(np.random.PCG64([seed, 1]))
        self._seed, self._noise = seed, noise
        self._skipped, self._errors = skipped, errors

    def act(self, turn: Turn) -> Reply:
        """One action."""
        planned = self._oracle.act(turn)
        if self._chance.random() >= self._noise:
            return planned
        for _ in range(20):
            drawn = self._random.act(turn)
            if drawn.text not in self._skipped:
                self._errors.add((turn.task.id, self._seed, turn.step_index))
                return drawn
        return planned

    def close(self) -> None:
        """Nothing is held."""


def noisy_teacher(
    noise: float,
    skipped: frozenset[str] = frozenset(),
    errors: set[tuple[str, int, int]] | None = None,
) -> AgentFactory:
    """The factory of a teacher that errs with a probability; the arguments are the teacher's.

    Raises:
        UsageError: the noise is no probability below 1.
    """
    if not 0 <= noise < 1:
        raise UsageError(f"noise is {noise}; give a probability from 0 to below 1")
    noted = set() if errors is None else errors
    return lambda env, seed: NoisyTeacher(env, seed, noise, skipped, noted)


def play_all(
    make_env: MakeEnv,
    make_agent: AgentFactory,
    requests: Sequence[EpisodeRequest],
    settings: PlaySettings,
    *,
    on_episode: OnEpisode | None = None,
) -> list[Episode]:
    """Every episode, in the order of the requests whatever ended first.

    Raises:
        EnvError: an episode broke.
    """

    async def play() -> list[Episode]:
        episodes = run_episodes(
            make_env, make_agent, requests, settings=settings, concurrency=_CONCURRENCY
        )
        found = []
        async for episode in episodes:
            found.append(episode)
            if on_episode is not None:
                on_episode(len(found), len(requests))
        return found

    played = {(e.task_id, e.seed, e.trial): e for e in complete(play())}
    for episode in played.values():
        if episode.failure is not None:
            raise EnvError(f"task {episode.task_id} cannot be played: {episode.failure.message}")
    return [played[request.task_id, request.seed, request.trial] for request in requests]


def demonstrate(
    make_env: MakeEnv,
    task_ids: Sequence[str],
    settings: PlaySettings,
    *,
    noise: float = 0.4,
    rounds: int = 16,
    seed: int = 0,
    targets: Targets = "executed",
    skipped: frozenset[str] = frozenset(),
    hinting: Hinting | None = None,
    told: float = 0.3,
    on_episode: OnEpisode | None = None,
) -> list[Demonstration]:
    """What a noisy teacher did in the episodes that it won.

    Args:
        make_env: makes one environment.
        task_ids: full ids of the tasks to show.
        settings: prompt and horizon of the policy that will imitate.
        noise: probability of a random action at each step.
        rounds: episodes of each task.
        seed: of all chance.
        targets: "executed" imitates every valid action that was played, "oracle" only those
            that the oracle planned.
        skipped: admissible actions that are never played at random.
        hinting: makes privileged information of the episodes of a task; None tells nothing.
        told: share of the demonstrations with privileged information, as far as it was found.
        on_episode: told each episode that is over.
    """
    requests = [
        EpisodeRequest(task_id, seed * 1_000_003 + number, trial=number, group_id=task_id)
        for number in range(rounds)
        for task_id in task_ids
    ]
    errors: set[tuple[str, int, int]] = set()
    teacher = noisy_teacher(noise, skipped, errors)
    episodes = play_all(make_env, teacher, requests, settings, on_episode=on_episode)
    texts = {} if hinting is None else hinting.hints(episodes, 0).texts
    shown = []
    for episode in episodes:
        text = texts.get(trajectory_id(episode), "")
        for index, step in enumerate(episode.steps if episode.success else ()):
            erred = (episode.task_id, episode.seed, index) in errors
            if step.valid and not (erred and targets == "oracle"):
                action = step.reply.text
                shown.append(Demonstration(episode.task_id, step.messages, action, text))
    return _told(shown, told, seed)


def _told(shown: Sequence[Demonstration], share: float, seed: int) -> list[Demonstration]:
    """Privileged information for that share of all, drawn from those that have any."""
    having = sum(bool(one.pi) for one in shown)
    chance = np.random.Generator(np.random.PCG64([seed, 2]))
    kept = chance.random(len(shown)) * having < share * len(shown)
    return [one if keeps else replace(one, pi="") for one, keeps in zip(shown, kept, strict=True)]


def cover(episodes: Sequence[Episode]) -> list[str]:
    """Every text that a policy met or could have written in the episodes, for its vocabulary."""
    texts: dict[str, None] = {}
    for episode in episodes:
        for step in episode.steps:
            texts.update(dict.fromkeys(message.content for message in step.messages))
            texts.update(dict.fromkeys(step.admissible))
    return list(texts)

"""Rollouts: tasks to finished trajectories as rows, through the suite's one loop of episodes.

Every seed is derived from the run's seed and a trajectory's place in it, so a collection is the
same whatever ended first. A trajectory that breaks is played again a few times, then dropped; a
group that lacks one is dropped whole where an algorithm compares its members.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import gymnasium as gym

from agentgym_suite.coroutines import complete
from agentgym_suite.engines.tokens import ChatTokenizer, Sampling, TokenEngine
from agentgym_suite.episodes import (
    Episode,
    EpisodeRequest,
    Failure,
    PlaySettings,
    Reply,
    TokenTrace,
    Turn,
)
from agentgym_suite.errors import ContextTooLong, EnvError, UsageError
from agentgym_suite.rollouts import MakeEnv, OnEpisode, run_episodes
from agentgym_suite.trainers.rows import StepRow, episode_rows
from agentgym_suite.trainers.stats import ALONE, Reducer, added
from agentgym_suite.trainers.turns import Replies, TurnEngine
from agentgym_suite.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    """How trajectories are played.

    Attributes:
        env_id: Gymnasium id, for the rows.
        play: prompt, reply format, reward and horizon.
        sampling: how replies are drawn.
        concurrency: most episodes in flight.
        window: tokens of prompt and reply that the policy takes; None when it does not say.
        timeout_s: wall-clock bound of one episode, None for none.
        attempts: how often a trajectory is played before it is dropped.
        whole_groups: drop a group that lacks a trajectory.
    """

    env_id: str
    play: PlaySettings
    sampling: Sampling
    concurrency: int = 256
    window: int | None = None
    timeout_s: float | None = 600.0
    attempts: int = 3
    whole_groups: bool = False


@dataclass(frozen=True, slots=True)
class Collection:
    """What one collection brought.

    Attributes:
        rows: of every trajectory that is kept, in the order of the requests.
        episodes: the same as they were played.
        failures: episodes that broke, each attempt counted.
        filtered: episodes of groups that are left out of ``rows`` since their scores are equal.
        dropped: trajectories that are missing because they broke.
        groups: tasks that were drawn for it on all ranks, those of groups left out too.
        env_steps: steps taken in the environment, those of broken and dropped episodes too.
    """

    rows: tuple[StepRow, ...]
    episodes: tuple[Episode, ...]
    failures: tuple[Episode, ...] = ()
    filtered: tuple[Episode, ...] = ()
    dropped: int = 0
    groups: int = 0
    env_steps: int = 0


def collection_metrics(collection: Collection, reducer: Reducer = ALONE) -> dict[str, float]:
    """What an iteration's trajectories were like, on all ranks; success is that of all played."""
    rows, played = collection.rows, collection.episodes + collection.filtered
    local = {
        "rows": len(rows),
        "episodes": len(collection.episodes),
        "played": len(played),
        "success": sum(episode.success for episode in played),
        "reward": sum(row.reward for row in rows),
        "response_tokens": sum(row.length for row in rows),
        "prompt_tokens": sum(len(row.prompt_ids) for row in rows),
        "invalid": sum(not row.valid_action for row in rows),
        "cut": sum(row.finish_reason == "length" for row in rows),
        "environment_s": sum(step.timings.env_s for episode in played for step in episode.steps),
        "repetition": sum(repeated_share(row.response_ids) for row in rows),
        "failures": len(collection.failures),
        "dropped": collection.dropped,
        "filtered": len(collection.filtered),
    }
    total = added({name: float(value) for name, value in local.items()}, reducer)
    found = {
        "success": total["success"] / total["played"],
        "reward": total["reward"] / total["episodes"],
        "steps": total["rows"] / total["episodes"],
    }
    for name in ("response_tokens", "prompt_tokens", "invalid", "cut", "repetition"):
        found[name] = total[name] / total["rows"]
    for name in ("failures", "dropped", "filtered", "environment_s"):
        found[name] = total[name]
    found["tokens_in"], found["tokens_out"] = total["prompt_tokens"], total["response_tokens"]
    return {f"rollout/{name}": value for name, value in found.items()}


def repeated_share(ids: Sequence[int]) -> float:
    """The share of a reply's trigrams of tokens that it had before, from 0 to below 1."""
    trigrams = list(zip(ids, ids[1:], ids[2:], strict=False))
    return 1.0 - len(set(trigrams)) / len(trigrams) if trigrams else 0.0


def derived_seed(*parts: int | str) -> int:
    """A seed from 0 to below 2**63 that is a function of its parts."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


def plan_groups(
    task_ids: Sequence[str], rollouts: int, *, seed: int, iteration: int, first: int = 0
) -> list[EpisodeRequest]:
    """The episodes of an iteration: every task so many times from the same start.

    Args:
        task_ids: full ids, one a group; a task may come again and is another group then.
        rollouts: trajectories of each group.
        seed: of the run.
        iteration: its number.
        first: number of the first group in its iteration.
    """
    return [
        EpisodeRequest(
            task_id,
            derived_seed(seed, "environment", iteration, group) >> 32,
            trial=trial,
            group_id=f"{iteration}.{group}",
            agent_seed=derived_seed(seed, "agent", iteration, group, trial),
        )
        for group, task_id in enumerate(task_ids, first)
        for trial in range(rollouts)
    ]


class Collector:
    """Plays what it is asked with the weights that the engine has.

    Args:
        make_env: makes one environment.
        engine: samples.
        tokenizer: writes prompts and reads replies.
        settings: how.
        on_episode: told how many episodes of a collection are over, and of how many.
        reducer: tells whether other ranks, which collect at the same time, have any left.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        engine: TokenEngine,
        tokenizer: ChatTokenizer,
        settings: RolloutSettings,
        on_episode: OnEpisode | None = None,
        reducer: Reducer = ALONE,
    ) -> None:
        self._make_env = make_env
        self._engine = engine
        self._tokenizer = tokenizer
        self._settings = settings
        self._on_episode = on_episode
        self._reducer = reducer

    def collect(self, requests: Sequence[EpisodeRequest], *, needed: bool = True) -> Collection:
        """Play every request.

        Args:
            requests: one for each trajectory.
            needed: whether there is nothing to go on with where none of these is left.

        Raises:
            UsageError: a request has no ``agent_seed``, or two have the same.
            EnvError: no trajectory is left on any rank though one is needed, or a reward is not
                finite.
        """
        seeds = {request.agent_seed for request in requests}
        if None in seeds or len(seeds) < len(requests):
            raise UsageError("a request has no agent_seed of its own; plan them by plan_groups")
        played: dict[tuple[str, int], Episode] = {}
        failures: list[Episode] = []
        waiting = list(requests)
        for attempt in range(self._settings.attempts):
            lost = []
            for episode, request in self._play(waiting):
                if episode.failure is None:
                    played[request.group_id, request.trial] = episode
                else:
                    failures.append(episode)
                    lost.append(_again(request, episode.failure, attempt + 1))
            waiting = lost
            if not waiting:
                break
        _refuse_no_numbers(played.values())
        episodes = self._kept(requests, played)
        why = failures[-1].failure if failures else None
        told = self._reducer.gather([(len(episodes), why.message if why else "")])
        if needed and not any(left for left, _ in told):
            last = max(told)[1]  # of a rank that had something to say
            raise EnvError(f"every trajectory failed, the last with: {last or 'nothing to play'}")
        return Collection(
            rows=tuple(row for episode in episodes for row in self._rows(episode)),
            episodes=tuple(episodes),
            failures=tuple(failures),
            dropped=len(requests) - len(episodes),
            env_steps=sum(len(e.steps) for e in [*played.values(), *failures]),
        )

    def _rows(self, episode: Episode) -> tuple[StepRow, ...]:
        after = episode.next_turn
        ids = self._tokenizer.chat_ids(after.messages) if after is not None else ()
        return episode_rows(episode, env_id=self._settings.env_id, next_prompt_ids=ids)

    def _kept(
        self, requests: Sequence[EpisodeRequest], played: dict[tuple[str, int], Episode]
    ) -> list[Episode]:
        broken = {r.group_id for r in requests if (r.group_id, r.trial) not in played}
        if not self._settings.whole_groups:
            broken = set()
        return [
            played[request.group_id, request.trial]
            for request in requests
            if (request.group_id, request.trial) in played and request.group_id not in broken
        ]

    def _play(self, requests: Sequence[EpisodeRequest]) -> list[tuple[Episode, EpisodeRequest]]:
        """Every request once, in waves of the concurrency, in the order of the requests."""
        size = self._settings.concurrency
        found: list[tuple[Episode, EpisodeRequest]] = []
        for start in range(0, len(requests), size):
            wave = requests[start : start + size]
            found += complete(self._play_wave(wave, start, len(requests)))
        return found

    async def _play_wave(
        self, requests: Sequence[EpisodeRequest], before: int, of: int
    ) -> list[tuple[Episode, EpisodeRequest]]:
        settings = self._settings
        by_place = {(request.group_id, request.trial): request for request in requests}
        turns = TurnEngine(
            self._engine, settings.sampling, [request.agent_seed or 0 for request in requests]
        )

        window, reply = settings.window, settings.sampling.max_new_tokens
        longest = None if window is None else window - reply

        def make_agent(env: gym.Env[str, str], seed: int) -> PolicyPlayer:
            return PolicyPlayer(turns, self._tokenizer, seed, longest)

        found: dict[tuple[str, int], Episode] = {}
        async for episode in run_episodes(
            self._make_env,
            make_agent,
            requests,
            settings=settings.play,
            concurrency=len(requests),
            timeout_s=settings.timeout_s,
        ):
            found[episode.group_id, episode.trial] = episode
            if self._on_episode is not None:
                self._on_episode(before + len(found), of)
        return [(found[place], request) for place, request in by_place.items()]


def _refuse_no_numbers(episodes: Iterable[Episode]) -> None:
    """See that every reward is a number; played again, it would be the same."""
    for episode in episodes:
        for index, step in enumerate(episode.steps):
            if not math.isfinite(step.reward):
                raise EnvError(
                    f"task {episode.task_id} has a reward of {step.reward} at step {index}; mend "
                    "the environment, or leave the task out"
                )


def _again(request: EpisodeRequest, failure: Failure, attempt: int) -> EpisodeRequest:
    """The same trajectory where its machine was lost, another one where it broke by itself."""
    if failure.kind == "worker_lost":
        return request
    return replace(request, agent_seed=derived_seed(request.agent_seed or 0, "attempt", attempt))


class PolicyPlayer:
    """The policy in one episode: prompts to ids, ids to replies, every id kept.

    An empty reply is played as it is and refused by the environment: the policy learns from it.

    Args:
        turns: samples.
        tokenizer: writes prompts and reads replies.
        seed: the episode's.
        longest: most tokens of a prompt; None for no bound.
    """

    def __init__(
        self, turns: Replies, tokenizer: ChatTokenizer, seed: int, longest: int | None = None
    ) -> None:
        self._turns = turns
        self._tokenizer = tokenizer
        self._seed = seed
        self._longest = longest

    async def act(self, turn: Turn) -> Reply:
        """Sample one reply.

        Raises:
            ContextTooLong: the prompt leaves no room for a reply; others are asked on.
        """
        prompt = tuple(self._tokenizer.chat_ids(turn.messages))
        if self._longest is not None and len(prompt) > self._longest:
            raise ContextTooLong(
                f"a prompt of {len(prompt)} tokens exceeds the {self._longest} that the policy's "
                "window leaves; lower prompt_tokens or max_new_tokens"
            )
        asked = time.perf_counter()
        sampled = await self._turns.reply(
            self._seed, prompt, derived_seed(self._seed, turn.step_index)
        )
        return Reply(
            text=self._tokenizer.text(sampled.ids),
            usage=Usage(len(prompt), len(sampled.ids)),
            latency_s=time.perf_counter() - asked,
            tokens=TokenTrace(
                prompt_ids=prompt,
                response_ids=sampled.ids,
                logprobs=sampled.logprobs,
                mask=(1,) * len(sampled.ids),
                finish_reason=sampled.finish_reason,
                policy_version=sampled.policy_version,
            ),
        )

    def close(self) -> None:
        """The other episodes wait for this one no longer."""
        self._turns.leave(self._seed)

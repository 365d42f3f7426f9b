"""One iteration of training taken apart, so that each of its steps can be measured alone."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor

from agentgym_suite.engines.tokens import ChatTokenizer, Sampling, TokenEngine
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import EpisodeRequest, PlaySettings
from agentgym_suite.making import make_environment
from agentgym_suite.prompts import StepPrompt
from agentgym_suite.rollouts import MakeEnv
from agentgym_suite.trainers.algorithm import Algorithm
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.collector import (
    Collection,
    Collector,
    RolloutSettings,
    plan_groups,
)
from agentgym_suite.trainers.config import CriticConfig
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.minibatch import minibatches
from agentgym_suite.trainers.models import frozen_copy, make_critic
from agentgym_suite.trainers.passes import critic_pass, old_policy_pass, reference_pass
from agentgym_suite.trainers.stats import ALONE
from agentgym_suite.trainers.task_lists import select_tasks
from agentgym_suite.trainers.update import Learner, Tally, update_critic, update_policy
from agentgym_suite.trainers.value_basis import reserve_value_rows

ENV = "ALFWorld-v0"
PROMPT = "terse"
MOST_ADMISSIBLE = 15
MICRO_TOKENS = 4_096


def household(horizon: int) -> tuple[MakeEnv, list[str]]:
    """The embedded households, and the small ones that the preset ``tiny`` trains on."""

    def make() -> Any:
        return make_environment(ENV, {}, max_episode_steps=horizon)

    return make, select_tasks(make, "train", MOST_ADMISSIBLE)


def play(
    policy: Any,
    tokenizer: Any,
    tasks: Sequence[str],
    rollouts: int,
    *,
    horizon: int,
    max_new_tokens: int,
    iteration: int = 1,
) -> Collection:
    """Real trajectories of a policy at temperature 1.

    Args:
        policy: a causal transformers model.
        tokenizer: of it.
        tasks: one group each.
        rollouts: trajectories of a group.
        horizon: most steps of an episode.
        max_new_tokens: most tokens of a reply.
        iteration: another one has other draws.
    """
    engine = TransformersEngine(policy, tokenizer, policy_version="measured", max_rows=256)
    requests = plan_groups(tasks, rollouts, seed=41, iteration=iteration)
    sampling = Sampling(
        max_new_tokens=max_new_tokens,
        stop_ids=engine.tokenizer.stop_ids,
        banned_ids=tuple(policy.generation_config.suppress_tokens or ()),
    )
    return collected(engine, engine.tokenizer, sampling, requests, horizon=horizon)


def collected(
    engine: TokenEngine,
    tokenizer: ChatTokenizer,
    sampling: Sampling,
    requests: Sequence[EpisodeRequest],
    *,
    horizon: int,
) -> Collection:
    """The trajectories of an engine in the embedded households, by whole groups."""
    rollout = RolloutSettings(
        env_id=ENV,
        play=PlaySettings(prompt=StepPrompt(PROMPT), max_steps=horizon),
        sampling=sampling,
        whole_groups=True,
    )
    return Collector(household(horizon)[0], engine, tokenizer, rollout).collect(requests)


def rows_digest(batch: StepBatch) -> str:
    """A digest of what was given to the policy and of what it sampled."""
    ids = [(row.prompt_ids, row.response_ids) for row in batch.rows]
    return hashlib.sha256(repr(ids).encode()).hexdigest()


class Iteration:
    """The networks that an algorithm trains, with the seconds of every step.

    Args:
        algorithm: with its settings.
        policy: trained in place.
        words: ids of its vocabulary; rows of the network behind them are never sampled.
        warmup: optimizer steps over which the learning rates rise.
        micro_tokens: padded tokens of a micro-batch.
        clock: what seconds are taken from; by default those of the processor.

    Attributes:
        seconds: phase -> seconds so far.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        policy: Any,
        words: int,
        *,
        warmup: int = 0,
        micro_tokens: int = MICRO_TOKENS,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        config, needs = algorithm.config, algorithm.needs
        self.algorithm, self.policy = algorithm, policy
        self.seconds: dict[str, float] = defaultdict(float)
        self._micro_tokens, self._clock = micro_tokens, clock
        head, value_ids = policy.get_output_embeddings(), None
        if needs.value_tokens:
            value_ids = reserve_value_rows(head, words, equal=True, frozen=False)
        self.forward = Forward(
            banned_ids=tuple(policy.generation_config.suppress_tokens or ()),
            value_ids=value_ids,
            entropy=needs.entropy,
        )

        def learner(model: Any, rate: float) -> Learner:
            return Learner.make(model, rate, warmup=warmup, grad_clip=config.grad_clip, decay=0.01)

        self.learner = learner(policy, config.learning_rate)
        self.reference = frozen_copy(policy) if needs.reference else None
        self.critic = None
        if needs.critic != "none" and isinstance(config, CriticConfig):
            self.critic = learner(make_critic(policy), config.critic_learning_rate)

    def score(self, batch: StepBatch) -> StepBatch:
        """The frozen columns that the algorithm needs."""
        tokens = self._micro_tokens
        with self.timed("old policy"):
            batch = old_policy_pass(batch, self.policy, self.algorithm, self.forward, tokens)
        if self.reference is not None:
            with self.timed("reference"):
                batch = reference_pass(batch, self.reference, self.forward, tokens)
        if self.critic is not None:
            with self.timed("values of the critic"):
                kind = self.algorithm.needs.critic
                batch = critic_pass(batch, self.critic.model, kind, tokens)
        return batch

    def prepare(self, batch: StepBatch) -> StepBatch:
        """The batch with advantages and targets."""
        with self.timed("advantages"):
            return self.algorithm.prepare(batch, ALONE).batch

    def learn(
        self, batch: StepBatch, look: Callable[[StepBatch], None] | None = None
    ) -> dict[str, float]:
        """One epoch over a prepared batch; the metrics of its updates.

        Args:
            batch: as ``prepare`` left it.
            look: told every mini-batch before it is learned from.
        """
        config, tally = self.algorithm.config, Tally()
        parts = minibatches(
            batch,
            unit=config.minibatch_unit,
            rows=config.minibatch_rows,
            chance=np.random.Generator(np.random.PCG64(41)),
        )
        for numbers in parts:
            part = batch.select(numbers)
            if look is not None:
                look(part)
            with self.timed("update of the policy"):
                update_policy(
                    self.learner,
                    part,
                    self.algorithm,
                    self.forward,
                    ALONE,
                    most_tokens=self._micro_tokens,
                    tally=tally,
                )
            if self.critic is not None:
                with self.timed("update of the critic"):
                    update_critic(
                        self.critic,
                        part,
                        self.algorithm,
                        ALONE,
                        most_tokens=self._micro_tokens,
                        tally=tally,
                    )
        return tally.summary()

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the seconds of a block to a phase."""
        began = self._clock()
        yield
        self.seconds[phase] += self._clock() - began


def largest_gap(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference of two tensors."""
    return float((one.double() - other.double()).abs().max())

"""The policy in its environment: the groups of an iteration, and how many tasks it wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from agentgym_suite.engines.opening import PolicyEngine
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.episodes import EpisodeRequest, PlaySettings
from agentgym_suite.files import Progress
from agentgym_suite.prompts import StepPrompt, prompt_template
from agentgym_suite.rewards import reward_preset
from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.collector import (
    Collection,
    Collector,
    RolloutSettings,
    plan_groups,
)
from agentgym_suite.trainers.outcomes import Outcomes, TaskOutcomes, task_outcomes
from agentgym_suite.trainers.ranks import Ranks
from agentgym_suite.trainers.resampling import play_groups
from agentgym_suite.trainers.run_settings import Configuration
from agentgym_suite.trainers.task_lists import Played, drawn_tasks

_FINAL_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class PolicyRollouts:
    """Plays with the weights that the engine has.

    Attributes:
        configuration: of the run.
        played: environment and tasks.
        engine: samples.
        sampling: how, in training.
        prompt: writes the prompts, none longer than the policy takes.
        needs: what the algorithm wants of trajectories.
        ranks: the processes that play beside each other, each its share of the groups.
        progress: told the episodes that are over.
    """

    configuration: Configuration
    played: Played
    engine: PolicyEngine
    sampling: Sampling
    prompt: StepPrompt
    needs: Needs
    ranks: Ranks
    progress: Progress | None = None

    def iteration(self, number: int, tasks_drawn: int) -> Collection:
        """The trajectories of an iteration, their tasks the next ones in order.

        Args:
            number: of the iteration, from 1.
            tasks_drawn: tasks that were drawn before.

        Raises:
            EnvError: no trajectory could be played.
        """
        run, settings = self.configuration.run, self.configuration.settings
        collector = self._collector(
            f"iteration {number}: episodes", self.sampling, whole_groups=self.needs.group
        )

        def play(first: int, count: int) -> Collection:
            start = tasks_drawn + first
            tasks = drawn_tasks(self.played.tasks, count, seed=run.seed, start=start)
            requests = plan_groups(
                tasks, settings.rollouts, seed=run.seed, iteration=number, first=first
            )
            return collector.collect(self.ranks.share(requests), needed=first == 0)

        rounds = self.needs.resample_uniform_groups
        return play_groups(
            play, settings.tasks, rounds=rounds, config=settings, reducer=self.ranks.reducer
        )

    def evaluation(self, *, final: bool) -> Outcomes:
        """What is won of training and unseen tasks, at temperature 1 and greedily.

        Args:
            final: more rounds.
        """
        run = self.configuration.run
        rounds = _FINAL_ROUNDS if final else run.evaluate_rounds
        seen = self.played.watched or self.played.tasks
        lists = {"seen": seen, "unseen": self.played.unseen}
        found: Outcomes = {}
        for temperature, passes in ((1.0, rounds), (0.0, 1)):
            sampling = replace(self.sampling, temperature=temperature)
            for name, tasks in lists.items():
                if tasks:
                    phase = f"evaluation of {name} tasks, temperature {temperature:g}: episodes"
                    collector = self._collector(phase, sampling, whole_groups=False)
                    requests = plan_groups(tasks, passes, seed=run.seed + 1, iteration=-1)
                    found[f"{name}/temperature_{temperature:g}"] = self._outcomes(
                        collector, requests
                    )
        return found

    def _outcomes(self, collector: Collector, requests: Sequence[EpisodeRequest]) -> TaskOutcomes:
        """What is won of the requests, each rank playing its share of the tasks."""
        mine = self.ranks.share(requests)
        episodes = collector.collect(mine).episodes
        played = dict(self.ranks.reducer.gather(tuple(task_outcomes(mine, episodes).items())))
        return {request.task_id: played[request.task_id] for request in requests}

    def _collector(self, phase: str, sampling: Sampling, *, whole_groups: bool) -> Collector:
        run = self.configuration.run
        play = PlaySettings(
            prompt=self.prompt,
            reply_format=prompt_template(run.prompt).reply_format,
            reward=reward_preset(run.reward),
            max_steps=run.horizon or None,
            keep_next_turn=self.needs.bootstrap,
        )
        rollout = RolloutSettings(
            env_id=run.env,
            play=play,
            sampling=sampling,
            concurrency=run.concurrency,
            window=self.engine.context_window,
            timeout_s=run.episode_timeout_s,
            attempts=run.attempts,
            whole_groups=whole_groups,
        )
        told = None if self.progress is None else partial(self.progress, phase)
        tokenizer, reducer = self.engine.tokenizer, self.ranks.reducer
        return Collector(self.played.make_env, self.engine, tokenizer, rollout, told, reducer)

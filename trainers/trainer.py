"""The reference trainer: one iteration after the other, readable from top to bottom.

sync weights -> collect -> old-policy pass -> reference and critic passes -> advantages on the host
-> mini-batches -> update -> log -> checkpoint -> evaluate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_suite.files import Progress as Told
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.checkpoints import (
    Progress,
    checkpoints,
    load_checkpoint,
    load_held,
    save_checkpoint,
)
from agentgym_suite.trainers.collector import Collection, collection_metrics
from agentgym_suite.trainers.config import CriticConfig
from agentgym_suite.trainers.exports import generation_config, save_policy
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.lora import add_adapter, merged, save_adapter
from agentgym_suite.trainers.metrics import FINAL, MetricsLog, NoLog, timed
from agentgym_suite.trainers.minibatch import minibatches, padding_share
from agentgym_suite.trainers.models import make_critic, make_reference, recompute_layers
from agentgym_suite.trainers.outcomes import (
    Outcomes,
    forget_outcomes,
    success_rates,
    write_outcomes,
)
from agentgym_suite.trainers.passes import frozen_columns
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.ranks import ONE_PROCESS, Ranks
from agentgym_suite.trainers.rollout_engine import (
    make_rollout_engine,
    make_rollouts,
    make_schedule,
    make_sync,
)
from agentgym_suite.trainers.rollout_schedules import Schedule, staleness
from agentgym_suite.trainers.rows import pad_row
from agentgym_suite.trainers.run_checks import (
    check_ranks,
    check_teacher,
    check_together,
    lora_settings,
    refuse_unfit,
)
from agentgym_suite.trainers.run_settings import Configuration
from agentgym_suite.trainers.sapo_ar import SapoArConfig
from agentgym_suite.trainers.stats import added
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.teachers import Teacher, other_teacher, own_teacher
from agentgym_suite.trainers.update import Learner, Tally, update_critic, update_policy
from agentgym_suite.trainers.value_basis import reserve_value_rows
from agentgym_suite.trainers.weight_sync import Snapshot

RESULT = "policy"
"""The folder of a run that holds what it has learned."""

OnIteration = Callable[[int, Mapping[str, float]], None]


class Trainer:
    """One training run, in one process or as one of several.

    Args:
        configuration: every setting, resolved.
        policy: the model that is trained, in place.
        tokenizer: of transformers, with a chat template.
        played: environment and tasks.
        out: folder of the run.
        ranks: the processes that it runs in.
        privileged: makes privileged information, for algorithms with a teacher of that kind.
        teacher: another model of the policy's vocabulary, for algorithms with a teacher of that
            kind; never trained.
        on_iteration: told the metrics of each iteration.
        progress: told what is being done.
        tensorboard: write TensorBoard's files, too.

    Raises:
        UsageError: the algorithm has a teacher, and what it teaches by is not given; or there are
            more processes than tasks.
    """

    def __init__(
        self,
        configuration: Configuration,
        policy: Any,
        tokenizer: Any,
        played: Played,
        out: Path,
        *,
        ranks: Ranks = ONE_PROCESS,
        privileged: Privileged | None = None,
        teacher: Any = None,
        on_iteration: OnIteration | None = None,
        progress: Told | None = None,
        tensorboard: bool = False,
    ) -> None:
        run, settings = configuration.run, configuration.settings
        self.configuration, self.algorithm = configuration, configuration.make_algorithm()
        check_teacher(self.algorithm, privileged, teacher)
        refuse_unfit(self.algorithm, policy, tokenizer)
        check_ranks(configuration, ranks.size)
        self.policy, self.tokenizer, self.out = policy, tokenizer, out
        self.progress = Progress()
        self._saved = 0
        self._ranks, self._reducer = ranks, ranks.reducer
        self._privileged = privileged
        self._on_iteration = on_iteration or (lambda iteration, values: None)
        self._doing = progress or (lambda phase, done, total: None)
        self._log = NoLog() if ranks.rank else MetricsLog(out, tensorboard=tensorboard)
        needs = self.algorithm.needs
        value_ids = None
        if needs.value_tokens:
            head, words = policy.get_output_embeddings(), len(tokenizer)
            equal = isinstance(settings, SapoArConfig) and settings.init_value_rows
            value_ids = reserve_value_rows(head, words, equal=equal, frozen=run.lora_rank > 0)
        critic = make_critic(policy) if needs.critic != "none" else None
        if run.lora_rank:
            add_adapter(policy, lora_settings(run))
            if critic is not None:
                add_adapter(critic, lora_settings(run), heads=("score",))
        suppressed = policy.generation_config.suppress_tokens or ()
        banned = tuple(sorted({*suppressed, *(value_ids or ())}))
        self.teacher: Teacher | None = None
        if needs.teacher == "model":
            self.teacher, banned = other_teacher(teacher, policy, banned)
        elif needs.teacher == "privileged":
            self.teacher = own_teacher(policy, banned, stays=needs.divergence != "none")
        self.forward = Forward(
            temperature=run.temperature,
            banned_ids=banned,
            value_ids=value_ids,
            entropy=needs.entropy,
            divergence=needs.divergence,
            share_prefix=run.share_prefix,
            merge_append_only=run.merge_append_only,
        )
        self.sampled = ranks.whole(policy)
        self._reference = make_reference(policy, ranks) if needs.reference else None
        if self.teacher is not None and self.teacher.model is not policy:
            self.teacher = replace(self.teacher, model=ranks.placed(self.teacher.model))
        self.learners = {"policy": self._learner(policy, settings.learning_rate)}
        if critic is not None and isinstance(settings, CriticConfig):
            self.learners["critic"] = self._learner(critic, settings.critic_learning_rate)
        self.engine = make_rollout_engine(run, self.sampled, tokenizer, banned, out, ranks)
        self.rollouts = make_rollouts(
            configuration,
            played,
            self.engine,
            banned,
            needs,
            hint=privileged.tokens if privileged else 0,
            ranks=ranks,
            progress=progress,
        )
        self._sync = make_sync(run, self.rollouts, banned)
        self.schedule: Schedule

    def run(self, *, force: bool = False, on_begin: Callable[[], object] | None = None) -> Progress:
        """Train until the budget is spent, going on from the last checkpoint if there is one.

        Args:
            force: go on from a checkpoint of another configuration.
            on_begin: called when nothing stands in the way, before anything is played.

        Raises:
            UsageError: the checkpoint is of another configuration.
            TrainingError: a loss or gradient is not finite, or a checkpoint is damaged.
            EnvError: no trajectory of an iteration could be played.
        """
        held = self._resume(force)
        with closing(self.schedule):
            if on_begin is not None:
                on_begin()
            self.schedule.start(self.progress.iteration, self.progress.tasks_drawn, held)
            while self._budget_left():
                self._iteration()
            if self.progress.iteration > self._saved:
                self._checkpoint()  # the last iterations would be trained again otherwise
            outcomes = self._evaluated(final=True)
        values = {FINAL: 1.0, **success_rates(outcomes)}
        self._log.write(self.progress.iteration, values)
        self._on_iteration(self.progress.iteration, values)
        self._ranks.once(lambda: self._finished(outcomes))
        return self.progress

    def close(self) -> None:
        """Release the engine and finish the log; nothing is trained any more."""
        self.engine.close()
        self._log.close()

    def _budget_left(self) -> bool:
        run, spent = self.configuration.run, self.progress
        return (
            spent.env_steps < run.budget_steps
            and spent.iteration < (run.iterations or math.inf)
            and spent.wall_s < (60.0 * run.budget_minutes or math.inf)
        )

    def export(self, folder: Path) -> None:
        """Write the policy as it samples now, as evaluation and other engines load it."""
        rows = self.sampled.get_output_embeddings().weight.shape[0]
        self.sampled.generation_config = generation_config(
            self.tokenizer,
            rows=len(self.tokenizer),
            banned=[number for number in self.forward.banned_ids if number < rows],
            stop_ids=self.engine.tokenizer.stop_ids,
            temperature=self.configuration.run.temperature,
        )
        policy = merged(self.sampled)
        save_policy(folder, policy, self.tokenizer, prompt=self.configuration.run.prompt)

    def _finished(self, outcomes: Outcomes) -> None:
        self.export(self.out / RESULT)
        if self.configuration.run.lora_rank:
            base = self.configuration.run.policy or str(self.out / "start")
            save_adapter(self.sampled, self.out / "adapter", base=base)
        write_outcomes(self.out, outcomes)

    def _snapshot(self, version: str) -> Snapshot:
        """The weights of now, under a name that no others had."""
        self._ranks.gather(self.policy, self.sampled)
        return self._sync.snapshot(self.sampled, version)

    def _version(self, iterations: int) -> str:
        """What the weights are called that so many iterations have made."""
        return f"{self.configuration.digest}:{iterations}"

    def _iteration(self) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        run, number = self.configuration.run, self.progress.iteration + 1
        seconds: dict[str, float] = {}
        with timed(seconds, "sync"):
            self.schedule.offer(number - 1, self._snapshot(self._version(number - 1)))
            if self.teacher is not None:
                self.teacher.begin(self.policy)
        with timed(seconds, "rollout"):
            collection = self.schedule.take(number)
        with timed(seconds, "passes"):
            batch, told = self._scored(collection, number)
        prepared = self.algorithm.prepare(batch, self._reducer)
        with timed(seconds, "update"):
            learned = self._learn(prepared.batch, number)
        spent = {
            "env_steps": float(collection.env_steps),
            "episodes": float(len(collection.episodes + collection.filtered)),
            "wall_s": (time.perf_counter() - began) / self._ranks.size,  # all stop by the same
            "cpu_s": time.process_time() - cpu,
        }
        spent = added(spent, self._reducer)
        self.progress = replace(
            self.progress,
            iteration=number,
            env_steps=self.progress.env_steps + int(spent["env_steps"]),
            episodes=self.progress.episodes + int(spent["episodes"]),
            tasks_drawn=self.progress.tasks_drawn + collection.groups,
            wall_s=self.progress.wall_s + spent["wall_s"],
            cpu_s=self.progress.cpu_s + spent["cpu_s"],
        )
        played = collection_metrics(collection, self._reducer)
        values = {**played, **told, **prepared.metrics, **learned}
        values |= seconds
        values["padding"] = padding_share(
            batch, run.micro_tokens, self._reducer, merge_append_only=self.forward.merge_append_only
        )
        if run.evaluate_every and number % run.evaluate_every == 0:
            values |= success_rates(self._evaluated(final=False))
        values |= self.progress.metrics
        values["optimizer_steps"] = float(self.learners["policy"].steps)
        self._log.write(number, values)
        if number % run.checkpoint_every == 0:
            self._checkpoint()
        self._on_iteration(self.progress.iteration, values)

    def _scored(self, collection: Collection, number: int) -> tuple[StepBatch, dict[str, float]]:
        """The batch with every frozen column that the algorithm needs, and what to log of it."""
        needs, rows = self.algorithm.needs, collection.rows
        allowed = min(self.configuration.run.max_staleness, number - 1)
        told = staleness(rows, [self._version(number - 1 - age) for age in range(allowed + 1)])
        if needs.teacher == "privileged" and self._privileged is not None:
            self._begin(number, "the analyzer reads what was played")
            rows, hints = self._privileged.told(collection, number)
            told |= hints
        elif needs.teacher == "model":
            rows = tuple(replace(row, teacher_prompt_ids=row.prompt_ids) for row in rows)
        # a rank may have lost all its groups, and still reads what the others read
        batch = collate(rows or [pad_row()], reserved_ids=self.forward.value_ids or ())
        batch = frozen_columns(
            batch,
            self.algorithm,
            self.forward,
            policy=self.policy,
            reference=self._reference,
            critic=self.learners["critic"].model if needs.critic != "none" else None,
            teacher=self.teacher,
            most_tokens=self.configuration.run.micro_tokens,
            reducer=self._reducer,
            begin=partial(self._begin, number),
            seconds=told,
        )
        return batch, told

    def _learn(self, batch: StepBatch, number: int) -> dict[str, float]:
        run, settings = self.configuration.run, self.configuration.settings
        tally = Tally()
        for epoch in range(settings.epochs):
            chance = np.random.Generator(np.random.PCG64([run.seed, number, epoch]))
            parts = minibatches(
                batch,
                unit=settings.minibatch_unit,
                rows=settings.minibatch_rows,
                chance=chance,
                reducer=self._reducer,
            )
            for place, numbers in enumerate(parts, epoch * len(parts)):
                self._begin(number, "mini-batches", place, len(parts) * settings.epochs)
                part = batch.select(numbers)
                update_policy(
                    self.learners["policy"],
                    part,
                    self.algorithm,
                    self.forward,
                    self._reducer,
                    most_tokens=run.micro_tokens,
                    tally=tally,
                    teacher=self.teacher,
                )
                if "critic" in self.learners:
                    update_critic(
                        self.learners["critic"],
                        part,
                        self.algorithm,
                        self._reducer,
                        most_tokens=run.micro_tokens,
                        tally=tally,
                        merge_append_only=self.forward.merge_append_only,
                    )
        return tally.summary()

    def _evaluated(self, *, final: bool) -> Outcomes:
        """What the policy wins as it is now."""
        snapshot = self._snapshot(f"evaluated:{self.progress.iteration}")
        return self.schedule.evaluation(snapshot, final=final)

    def _learner(self, model: Any, rate: float) -> Learner:
        run, settings = self.configuration.run, self.configuration.settings
        return Learner.make(
            self._ranks.placed(recompute_layers(model) if run.recompute else model),
            rate,
            warmup=run.warmup_steps,
            grad_clip=settings.grad_clip,
            decay=run.weight_decay,
        )

    def _resume(self, force: bool) -> dict[int, Snapshot]:
        """Stand behind the last checkpoint; the older weights that its rollouts had."""
        run, found = self.configuration.run, checkpoints(self.out / "checkpoints")
        held: dict[int, Snapshot] = {}
        if found:
            digest = self.configuration.digest
            self.progress = load_checkpoint(
                found[-1], self.learners, config_digest=digest, force=force
            )
            self._saved = self.progress.iteration
            held = load_held(found[-1], self._version) if run.max_staleness else {}
        check_together(self.progress.iteration, self.out, self._reducer)
        self.schedule = make_schedule(run, self.rollouts, self._sync, self._reducer)
        self._log.keep(self.progress.iteration)
        self._ranks.once(lambda: forget_outcomes(self.out))
        return held

    def _checkpoint(self) -> None:
        save_checkpoint(
            self.out / "checkpoints",
            self.learners,
            self.progress,
            config_digest=self.configuration.digest,
            keep=self.configuration.run.keep_checkpoints,
            ranks=self._ranks,
            held=self.schedule.held(self.progress.iteration),
        )
        self._saved = self.progress.iteration

    def _begin(self, iteration: int, what: str, done: int = 0, of: int | None = None) -> None:
        self._doing(f"iteration {iteration}: {what}", done, of)

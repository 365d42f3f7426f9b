"""A trainer of veRL that learns by the suite's algorithms: ``trainer.v1.trainer_mode=agentgym``.

veRL plays, scores, balances and steps optimizers. Three things are the suite's: what an iteration's
rows become (advantages and value targets of whole trajectories), the loss, and where an algorithm
reads its values. Sections of veRL's configuration that would say the same twice are not read.
"""

from __future__ import annotations

from typing import Any

import ray
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.workers.utils.padding import response_to_nested

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Algorithm
from agentgym_suite.trainers.analyzer import Analyzer
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import PrivilegedConfig
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.run_checks import analyzer_settings
from agentgym_suite.trainers.stats import ALONE
from agentgym_suite.trainers.verl_rows import (
    READ,
    REAL,
    WEIGHT,
    carried,
    step_batch,
    target_fields,
)
from agentgym_suite.trainers.verl_settings import TRAINER, verl_configuration
from agentgym_suite.trainers.verl_teacher import Rescoring
from agentgym_suite.trainers.verl_workers import CriticLoss, PolicyLoss, StepActor, StepWorker

_COLUMNS = (*READ, "old_log_probs", "ref_log_prob", "values")
_PER_ROW = (WEIGHT, REAL)


class StepTrainer(PPOTrainerSync):  # type: ignore[misc]
    """veRL's synchronous trainer with one of the suite's algorithms.

    Args:
        config: veRL's configuration with a section ``algorithm.agentgym``.

    Raises:
        UsageError: the algorithm needs what veRL's workers do not give, or what the
            configuration switches off.
    """

    def __init__(self, config: Any) -> None:
        section = OmegaConf.to_container(config.algorithm, resolve=True)
        self.configuration = verl_configuration(section)
        self.algorithm = self.configuration.make_algorithm()
        refuse_unmet(self.algorithm, config)
        if self.configuration.run.analyzer_url:
            raise UsageError("analyzer_url is not read under veRL; give analyzer() by a subclass")
        super().__init__(config)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in self.role_worker_mapping:
            worker = StepWorker if role == Role.Critic else StepActor
            self.role_worker_mapping[role] = ray.remote(worker)

    def _setup(self) -> None:
        super()._setup()
        self.actor_rollout_wg.set_loss_fn(PolicyLoss(self.algorithm))
        if self.use_critic:
            self.critic_wg.set_loss_fn(CriticLoss(self.algorithm))

    def analyzer(self) -> Analyzer:
        """Who is asked for privileged information; a subclass may ask a language model."""
        return RuleAnalyzer()

    def _rescoring(self) -> Rescoring:
        settings, run = self.configuration.settings, self.configuration.run
        assert isinstance(settings, PrivilegedConfig)  # nothing else has a privileged teacher
        hinting = Hinting(
            self.analyzer(),
            analyzer_settings(self.configuration),
            source=settings.pi_source,
            seed=run.seed,
        )
        return Rescoring(
            hinting,
            self.tokenizer,
            self.actor_rollout_wg,
            self.config.actor_rollout_ref.rollout.temperature,
            settings.pi_tokens,
            mixed_by=None if self.algorithm.needs.teacher_of_uniform_groups else settings,
        )

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Targets of all trajectories of the iteration, in float64 on the driver."""
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=list(_COLUMNS)
        )
        played = step_batch(data, [bool(tag.get("is_padding")) for tag in batch.tags])
        if self.algorithm.needs.teacher == "privileged":
            played, told = self._rescoring().told(played, carried(data), self.global_steps)
            metrics.update({f"{TRAINER}/{name}": value for name, value in told.items()})
        prepared = self.algorithm.prepare(played, ALONE)
        metrics.update({f"{TRAINER}/{name}": value for name, value in prepared.metrics.items()})
        return tq.kv_batch_put(
            keys=batch.keys,
            partition_id=batch.partition_id,
            fields=queued(prepared.batch, data["response_mask"]),
        )


def queued(batch: StepBatch, response_mask: Any) -> TensorDict:
    """The targets of a prepared batch as veRL's queue keeps them: no padding."""
    columns = {
        name: column if name in _PER_ROW else response_to_nested(column, response_mask)
        for name, column in target_fields(batch).items()
    }
    return TensorDict(columns, batch_size=len(batch))


def refuse_unmet(algorithm: Algorithm, config: Any) -> None:
    """Say what an algorithm lacks in this run, before anything starts.

    Args:
        algorithm: with its settings.
        config: veRL's configuration.

    Raises:
        UsageError: it needs something that is switched off, or that veRL does not offer.
    """
    needs, name, settings = algorithm.needs, algorithm.name, algorithm.config
    in_user_turn = (
        isinstance(settings, PrivilegedConfig)
        and settings.pi_source != "none"
        and settings.pi_position == "user_turn"
    )
    actor = config.actor_rollout_ref.actor
    never = {
        "values read from the policy's own logits": needs.value_tokens,
        "a divergence over the whole vocabulary": needs.divergence != "none",
        "another model as its teacher": needs.teacher == "model",
        "the gradient of what clipping takes away": needs.clip_bias_pass,
        "values after a truncated trajectory's end": needs.bootstrap,
        "groups drawn anew": needs.resample_uniform_groups > 0,
        "guidance in the last user message": in_user_turn,
    }
    for what, needed in never.items():
        if needed:
            raise UsageError(
                f"{name} needs {what}, which veRL's workers do not give; switch it off by the "
                "algorithm's settings, or train by `agentgym-suite train`"
            )
    critic = bool(config.critic.enable)
    wanted = (
        ("critic.enable", needs.critic != "none", critic),
        ("actor_rollout_ref.actor.use_kl_loss", needs.reference, bool(actor.use_kl_loss)),
        (
            "actor_rollout_ref.actor.calculate_entropy",
            needs.entropy,
            bool(actor.calculate_entropy) or actor.entropy_coeff != 0,
        ),
        (
            "actor_rollout_ref.rollout.calculate_log_probs",
            True,
            bool(config.actor_rollout_ref.rollout.calculate_log_probs),
        ),
    )
    for switch, needed, given in wanted:
        if needed and not given:
            raise UsageError(f"{name} needs {switch}=True; set it, or change its settings")
    if critic and needs.critic == "none":
        raise UsageError(f"{name} has no critic; set critic.enable=False")


register_trainer(TRAINER)(StepTrainer)

"""An iteration of veRL on a processor: its workers, the suite's algorithms, the suite's weights.

Trajectories are played by the agent loop and put away by veRL's own worker; veRL's own trainer
calls its FSDP engines; all but Ray and the network between them is real. The weights that come out
are compared with those of the suite's own update on the same rows. ``make test-verl``.
"""

from __future__ import annotations

import asyncio
import pickle
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.trainers.verl_play as play  # isort: skip  # skips without veRL

import torch
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from transformers import AutoModelForTokenClassification
from verl.trainer.config import CheckpointConfig
from verl.trainer.ppo import padding_utils
from verl.trainer.ppo.v1 import agent_loop_tq, trainer_base
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine_workers import TrainingWorkerConfig

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers import verl_teacher, verl_trainer
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.exports import save_policy
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.models import make_critic
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.passes import (
    critic_pass,
    old_policy_pass,
    reference_pass,
    teacher_pass,
)
from agentgym_suite.trainers.privileged import plain_encode, teacher_rows
from agentgym_suite.trainers.stats import OneRank
from agentgym_suite.trainers.teachers import Teacher
from agentgym_suite.trainers.update import Learner, Tally, update_critic, update_policy
from agentgym_suite.trainers.verl_rows import EPISODE, step_batch
from agentgym_suite.trainers.verl_settings import verl_configuration
from agentgym_suite.trainers.verl_trainer import StepTrainer, refuse_unmet
from agentgym_suite.trainers.verl_workers import CriticLoss, PolicyLoss, StepWorker
from tests.trainers.tiny_training import TASKS, policy

pytestmark = pytest.mark.filterwarnings("ignore")  # veRL's own, and those of what it imports

RATES = {"language_model": 0.5, "value_model": 0.05}  # plain SGD: changes are gradients
FORWARD = Forward(entropy=True)
RANKS = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


@pytest.fixture(scope="module", autouse=True)
def one_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = tmp_path_factory.mktemp("ranks") / "store"
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=0, world_size=1
    )
    with pytest.MonkeyPatch.context() as environment:
        for name, value in RANKS.items():
            environment.setenv(name, value)
        yield
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    save_policy(folder, *policy(), prompt="terse")
    return folder


def worker(folder: Path, kind: str) -> StepWorker:
    """veRL's worker over its FSDP engine, in float32."""
    exact = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    made = StepWorker(
        TrainingWorkerConfig(
            model_type=kind,
            model_config=HFModelConfig(
                path=str(folder),
                use_remove_padding=False,
                enable_gradient_checkpointing=False,
                override_config={"attn_implementation": "sdpa"},
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                use_torch_compile=False,
                mixed_precision=exact,
                model_dtype="fp32",
                use_dynamic_bsz=False,
                micro_batch_size_per_gpu=2,
                infer_micro_batch_size_per_gpu=2,
            ),
            optimizer_config=FSDPOptimizerConfig(
                optimizer="SGD",
                lr=RATES[kind],
                lr_warmup_steps=0,
                total_training_steps=10,
                weight_decay=0.0,
                clip_grad=1e6,
            ),
            checkpoint_config=CheckpointConfig(),
        )
    )
    made.reset()
    return made


class Group:
    """Stands where veRL's group of Ray workers does; one worker, called in this process."""

    def __init__(self, one: StepWorker, queue: play.Queue) -> None:
        self.one, self._queue = one, queue
        self._dispatch_info = {"actor": [0]}

    def set_loss_fn(self, loss: Any) -> None:
        self.one.set_loss_fn(loss)

    def _whole(self, batch: Any) -> Any:
        data = self._queue.kv_batch_get(batch.keys, batch.partition_id)
        tu.assign_non_tensor(data, **batch.extra_info)
        return data

    def compute_log_prob(self, batch: Any) -> Any:
        found = self.one.infer_batch(self._whole(batch))
        self._queue.kv_batch_put(
            batch.keys, batch.partition_id, found.select("log_probs", strict=False)
        )
        if "entropy" in found:
            self._queue.kv_batch_put(batch.keys, batch.partition_id, found.select("entropy"))
        return batch

    compute_ref_log_prob = compute_log_prob

    def infer_batch(self, batch: Any) -> Any:
        found = self.one.infer_batch(self._whole(batch))
        self._queue.kv_batch_put(batch.keys, batch.partition_id, found.select("values"))
        return types.SimpleNamespace(futures=[])

    def update_actor(self, batch: Any) -> Any:
        return self.one.train_mini_batch(self._whole(batch))

    def train_mini_batch(self, batch: Any) -> Any:
        found = self.one.train_mini_batch(self._whole(batch))
        return types.SimpleNamespace(get=lambda: found)


def put_away(queue: play.Queue, found: Any) -> KVBatchMeta:
    """Outputs of loops in the queue, by veRL's own worker."""
    kind = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class
    keeper = object.__new__(kind)
    keeper.distillation_enabled, keeper.processor = False, None
    keeper.reward_loop_worker_handles = None
    for row, outputs in found:
        asyncio.run(kind._agent_loop_postprocess(keeper, outputs, False, **row))
    keys = [key for partition, key in queue.rows if partition == "train"]
    return KVBatchMeta(
        partition_id="train", keys=keys, tags=[queue.tags[key] for key in keys], extra_info={}
    )


def iterated(
    name: str, saved: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> dict[str, Any]:
    """One iteration: four trajectories, mini-batches of 8 rows, micro-batches of 2."""
    torch.manual_seed(0)  # the critic's head is drawn
    config = play.verl_config(name, settings)
    queue = play.Queue()
    for module in (agent_loop_tq, trainer_base, padding_utils, verl_trainer, verl_teacher):
        monkeypatch.setattr(module, "tq", queue)
    monkeypatch.setattr(trainer_base.ray, "get", lambda futures: futures)
    played, _, tokenizer = play.played(config, TASKS[:2])
    batch = put_away(queue, played)

    trainer = object.__new__(StepTrainer)
    trainer.config, trainer.tokenizer, trainer.global_steps = config, tokenizer, 1
    section = OmegaConf.to_container(config.algorithm)
    trainer.configuration = verl_configuration(section)
    trainer.algorithm = algorithm = trainer.configuration.make_algorithm()
    refuse_unmet(algorithm, config)
    actor = worker(saved, "language_model")
    trainer.actor_rollout_wg = Group(actor, queue)
    trainer.ref_policy_wg = Group(worker(saved, "language_model"), queue)
    trainer.ref_in_actor = False
    trainer.use_critic = algorithm.needs.critic != "none"
    trainer.actor_rollout_wg.set_loss_fn(PolicyLoss(algorithm))
    start = {name: value.clone() for name, value in weights(actor).items()}

    metrics: dict[str, Any] = {}
    padded = trainer._balance_batch(batch, metrics)
    trainer._compute_old_log_prob(padded, metrics)
    trainer._compute_ref_log_prob(padded, metrics)
    critic = None
    if trainer.use_critic:
        critic = worker(saved, "value_model")
        trainer.critic_wg = Group(critic, queue)
        trainer.critic_wg.set_loss_fn(CriticLoss(algorithm))
        critic_start = {name: value.clone() for name, value in weights(critic).items()}
        trainer._compute_values(padded, metrics)
    trainer._compute_advantage(padded, metrics)
    if critic is not None:
        trainer._update_critic(padded, metrics)
    trainer._update_actor(padded, metrics)
    return {
        "algorithm": algorithm,
        "configuration": trainer.configuration,
        "metrics": metrics,
        "start": start,
        "actor": weights(actor),
        "critic_start": critic_start if critic is not None else None,
        "critic": weights(critic) if critic is not None else None,
        "keys": padded.keys,
        "pads": [bool(tag.get("is_padding")) for tag in padded.tags],
        "data": queue.kv_batch_get(padded.keys, "train"),
        "tokenizer": tokenizer,
    }


def weights(one: StepWorker) -> dict[str, torch.Tensor]:
    """A worker's whole weights by name."""
    return {
        name: value.full_tensor().detach().clone() if hasattr(value, "full_tensor") else value
        for name, value in one.engine.module.state_dict().items()
    }


def expected(found: dict[str, Any]) -> tuple[Any, Any]:
    """Policy and critic after the suite's own update on the same rows, cut in the same way."""
    algorithm = found["algorithm"]
    model, reference = policy()[0], policy()[0]
    played = step_batch(found["data"], found["pads"])
    batch = collate([row for row in played.rows if not row.is_pad])
    batch = old_policy_pass(batch, model, algorithm, FORWARD, 4096)
    batch = reference_pass(batch, reference, FORWARD, 4096)
    critic = None
    if algorithm.needs.critic != "none":
        critic = value_model(found)
        batch = critic_pass(batch, critic, algorithm.needs.critic, 4096)
    if algorithm.needs.teacher == "privileged":
        batch = told(batch, found, model)
    batch = algorithm.prepare(batch, OneRank()).batch
    numbers = iter(range(len(batch)))
    places = [None if pad else next(numbers) for pad in found["pads"]]
    learners = [
        None
        if one is None
        else Learner(one, torch.optim.SGD(one.parameters(), lr=rate), rate, grad_clip=1e6)
        for one, rate in zip((model, critic), RATES.values(), strict=True)
    ]
    for start in range(0, len(places), 8):
        part = batch.select([place for place in places[start : start + 8] if place is not None])
        if learners[1] is not None:
            update_critic(learners[1], part, algorithm, OneRank(), most_tokens=4096, tally=Tally())
        update_policy(
            learners[0],
            part,
            algorithm,
            FORWARD,
            OneRank(),
            most_tokens=4096,
            tally=Tally(),
        )
    return model, critic


def told(batch: StepBatch, found: dict[str, Any], model: Any) -> StepBatch:
    tokenizer, configuration = found["tokenizer"], found["configuration"]
    episodes = [
        pickle.loads(values[EPISODE])
        for values, pad in zip(found["data"]["extra_fields"], found["pads"], strict=True)
        if values[EPISODE] is not None and not pad
    ]
    hinting = Hinting(RuleAnalyzer(), seed=configuration.run.seed)
    texts = hinting.hints(episodes, 1).texts
    rows = [replace(row, pi_text=texts[row.trajectory_id]) for row in batch.rows]
    assert any(row.pi_text for row in rows), "guidance was found for nobody"
    budget = configuration.settings.pi_tokens
    read = teacher_rows(rows, plain_encode(tokenizer), budget=budget)
    for number, row in zip(read.numbers, read.rows, strict=True):
        rows[number] = replace(rows[number], teacher_prompt_ids=row.prompt_ids)
    return teacher_pass(replace(batch, rows=tuple(rows)), Teacher(model), FORWARD, 4096)


def value_model(found: dict[str, Any]) -> Any:
    """The critic as veRL begins it: its head is drawn anew."""
    critic = make_critic(policy()[0])
    critic.load_state_dict(found["critic_start"])
    return critic


def without_flash_attention(local_path: str, torch_dtype: Any, model_config: Any, **_: Any) -> Any:
    """veRL's loading of a value model, which asks for an attention that needs an accelerator."""
    return AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config
    )


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("capo", {}),
        ("ppo", {}),
        ("taspo", {}),
        ("gigpo", {}),
        ("gspo", {"gspo_scope": "trajectory"}),
        ("reinforce_pp_baseline", {}),
        ("opsd", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_iteration_ends_with_the_suites_own_weights(
    name: str, settings: dict[str, Any], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verl.utils.model.load_valuehead_model", without_flash_attention)
    found = iterated(name, saved, monkeypatch, **settings)
    model, critic = expected(found)
    for before, ours, theirs in (
        (found["start"], model, found["actor"]),
        (found["critic_start"], critic, found["critic"]),
    ):
        if ours is not None:
            after = ours.state_dict()
            for one, value in theirs.items():
                torch.testing.assert_close(value, after[one], atol=2e-6, rtol=1e-4)
            moved = [(theirs[one] - value).abs().max() for one, value in before.items()]
            assert max(moved) > 1e-3
    assert name == "opsd" or found["metrics"]["agentgym/advantage/std"] > 0
    if name == "taspo":
        assert found["metrics"]["agentgym/credit/active"] > 0
    if name == "capo":
        assert found["metrics"]["actor/clip/out_of_range"] > 0


def test_padding_rows_of_verl_weigh_nothing(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iterated("grpo", saved, monkeypatch, horizon=5)
    assert any(found["pads"]) and not all(found["pads"])
    model, _ = expected(found)
    after = model.state_dict()
    for one, value in found["actor"].items():
        torch.testing.assert_close(value, after[one], atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "settings", "changes", "match"),
    [
        ("sapo_ar", {}, {}, "the policy's own logits"),
        ("opsd", {"objective": "full"}, {}, "divergence over the whole vocabulary"),
        ("opd", {}, {}, "veRL's workers do not give"),
        ("capo", {"bootstrap_truncated": True}, {}, "truncated"),
        ("taspo", {"pi_position": "user_turn"}, {}, "guidance in the last user message"),
        ("st_ppo", {"clip_bias_correction": True}, {"critic.enable": True}, "clipping takes away"),
        ("capo", {}, {"critic.enable": False}, "critic.enable=True"),
        ("grpo", {}, {"critic.enable": True}, "critic.enable=False"),
        ("grpo", {}, {"actor_rollout_ref.actor.use_kl_loss": False}, "use_kl_loss=True"),
        (
            "taspo",
            {"entropy_coef": 0.1},
            {"actor_rollout_ref.actor.calculate_entropy": False},
            "calculate_entropy=True",
        ),
    ],
)
def test_what_cannot_be_is_told_before_anything_starts(
    name: str, settings: dict[str, Any], changes: dict[str, Any], match: str
) -> None:
    config = play.verl_config(name, settings)
    for key, value in changes.items():
        OmegaConf.update(config, key, value)
    with pytest.raises(UsageError, match=match):
        StepTrainer(config)

"""A trajectory under veRL without Ray: a server, a queue and a loop that live in this process."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

import tests.trainers.verl_on_cpu  # noqa: F401  # isort: skip  # skips without veRL

from omegaconf import OmegaConf
from transfer_queue.utils.serial_utils import decode, encode
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.rollout.replica import TokenOutput

from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.trainers.collector import derived_seed
from agentgym_suite.trainers.verl_loop import EpisodeLoop
from agentgym_suite.trainers.verl_settings import PREFIX
from tests.trainers.tiny_training import policy

ENV_ID = "VerlCounting-v0"


def registered() -> str:
    """The counting game's id."""
    if ENV_ID not in gym.registry:
        gym.register(ENV_ID, entry_point="tests.counting:CountingEnv", max_episode_steps=8)
    return ENV_ID


class Server:
    """Stands where veRL's client of its servers does: samples with a tiny policy.

    Replies are a function of the prompt and of how often the trajectory has asked. Some are put
    into its mouth, so that trajectories differ in what they are worth.
    """

    def __init__(self, module: Any, tokenizer: Any, step: int = 7) -> None:
        self.engine = TransformersEngine(module, tokenizer, policy_version="-", max_rows=8)
        self.asked: list[dict[str, Any]] = []
        self._turns: dict[str, int] = {}
        self._step = step
        self._tokenizer = tokenizer

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        **more: Any,
    ) -> TokenOutput:
        """As ``LLMServerClient.generate``."""
        self.asked.append({"request_id": request_id, "prompt_ids": prompt_ids, **sampling_params})
        turn = self._turns[request_id] = self._turns.get(request_id, -1) + 1
        sampling = Sampling(max_new_tokens=6, stop_ids=self.engine.tokenizer.stop_ids)
        order = list(self._turns).index(request_id)
        seed = derived_seed("server", order, turn)
        reply = self.engine.generate([prompt_ids], sampling, [seed])[0]
        ids, logprobs = list(reply.ids), list(reply.logprobs)
        if (turn + order) % 3:
            said = self._tokenizer(f"add[{2 + order % 2}]")["input_ids"]
            ids = [*said, self._tokenizer.eos_token_id]
            logprobs = [-1.0] * len(ids)
        return TokenOutput(
            token_ids=ids,
            log_probs=logprobs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": self._step},
        )


def verl_config(name: str, settings: Mapping[str, Any] = (), **actor: Any) -> Any:  # type: ignore[assignment]
    """The sections of veRL's configuration that are read here."""
    return OmegaConf.create(
        {
            "algorithm": {
                "adv_estimator": PREFIX + name,
                "agentgym": {
                    "preset": "tiny",
                    "env": registered(),
                    "prompt": "terse",
                    "horizon": 8,
                    "reward": "verl_agent",
                    **dict(settings),
                },
            },
            "data": {},
            "critic": {
                "enable": name in ("capo", "ppo"),
                "ppo_mini_batch_size": 4,
                "ppo_epochs": 1,
                "data_loader_seed": 1,
                "shuffle": False,
            },
            "actor_rollout_ref": {
                "rollout": {
                    "prompt_length": 128,
                    "response_length": 16,
                    "calculate_log_probs": True,
                    "temperature": 1.0,
                    "n": 2,
                },
                "actor": {
                    "use_kl_loss": True,
                    "calculate_entropy": True,
                    "entropy_coeff": 0.0,
                    "ppo_mini_batch_size": 4,
                    "ppo_epochs": 1,
                    "data_loader_seed": 1,
                    "shuffle": False,
                    "loss_agg_mode": "token-mean",
                    "loss_scale_factor": None,
                    **actor,
                },
            },
            "trainer": {"critic_warmup": 0},
            "distillation": None,
        }
    )


def loop_of(config: Any, server: Server, tokenizer: Any) -> EpisodeLoop:
    """The agent loop as veRL's worker makes it."""
    return EpisodeLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=server,
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        hf_model_type="qwen3",
        tools=None,
    )


async def one(
    config: Any,
    server: Server,
    tokenizer: Any,
    row: dict[str, Any],
    sampling: Mapping[str, Any] | None = None,
) -> list[AgentLoopOutput]:
    """One trajectory; a loop of veRL's belongs to the event loop in which it is made."""
    loop = loop_of(config, server, tokenizer)
    outputs: list[AgentLoopOutput] = await loop.run(dict(sampling or {"logprobs": True}), **row)
    return outputs


def played(
    config: Any, tasks: Sequence[str], sessions: int = 2, sampling: Mapping[str, Any] | None = None
) -> tuple[list[tuple[dict[str, Any], list[AgentLoopOutput]]], Server, Any]:
    """Every session of every task, one after another, with the row of the data set."""

    async def all_of_them() -> list[tuple[dict[str, Any], list[AgentLoopOutput]]]:
        found = []
        for index, task in enumerate(tasks):
            for session in range(sessions):
                row = {
                    "uid": f"u{index}",
                    "session_id": session,
                    "index": index,
                    "global_steps": 7,
                    "raw_prompt": [{"role": "user", "content": task}],
                    "extra_info": {"task_id": task},
                }
                found.append((row, await one(config, server, tokenizer, row, sampling)))
        return found

    module, tokenizer = policy()
    server = Server(module, tokenizer)
    return asyncio.run(all_of_them()), server, tokenizer


class Queue:
    """Keeps columns by key, as veRL's transfer queue, each value through that queue's own codec."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.tags: dict[str, dict[str, Any]] = {}

    def kv_batch_put(
        self, keys: Sequence[str], partition_id: str, fields: Any, tags: Any = None
    ) -> Any:
        """Add columns to rows."""
        for name in fields.keys():  # noqa: SIM118  # a TensorDict
            column = fields[name]
            parts = column.unbind() if hasattr(column, "unbind") else list(column)
            for key, value in zip(keys, parts, strict=True):
                plain = getattr(value, "data", value) if not hasattr(value, "shape") else value
                self.rows.setdefault((partition_id, key), {})[name] = decode(encode(plain))
        for key, tag in zip(keys, tags or (), strict=False):
            self.tags[key] = tag
        return types.SimpleNamespace(
            keys=list(keys),
            partition_id=partition_id,
            tags=[self.tags[key] for key in keys],
            extra_info={},
        )

    async def async_kv_batch_put(self, **given: Any) -> None:
        """The same, awaited."""
        self.kv_batch_put(**given)

    def kv_batch_get(
        self, keys: Sequence[str], partition_id: str, select_fields: Sequence[str] | None = None
    ) -> Any:
        """Rows with those of the columns that they have."""
        lines = []
        for key in keys:
            row = self.rows[partition_id, key]
            wanted = row if select_fields is None else [n for n in select_fields if n in row]
            lines.append({name: row[name] for name in wanted})
        return list_of_dict_to_tensordict(lines)

    def kv_clear(self, keys: Sequence[str], partition_id: str) -> None:
        """Forget rows."""
        for key in keys:
            self.rows.pop((partition_id, key), None)

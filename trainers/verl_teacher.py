"""The second scoring pass under veRL: privileged information of whole groups, and its shifts.

Episodes of an iteration become guidance as in the suite's own trainer. The frozen actor then scores
the same responses behind prompts with that guidance; these rows lie in the queue for so long.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import torch
import transfer_queue as tq
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.utils.padding import response_from_nested

from agentgym_suite.episodes import Episode
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.privileged import plain_encode, teacher_rows
from agentgym_suite.trainers.privileged_rows import in_mixed_group
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.verl_rows import EPISODE

PARTITION = "agentgym_teacher"


@dataclass(frozen=True, slots=True)
class Rescoring:
    """How rows are scored a second time.

    Attributes:
        hinting: makes privileged texts of episodes.
        tokenizer: of transformers.
        actor: veRL's worker group, with the weights that played.
        temperature: that of the rollouts.
        pi_tokens: budget of a privileged text.
        mixed_by: as in ``Privileged``.
    """

    hinting: Hinting
    tokenizer: Any
    actor: Any
    temperature: float
    pi_tokens: int
    mixed_by: AlgorithmConfig | None = None

    def told(
        self, batch: StepBatch, carried: Sequence[dict[str, Any]], iteration: int
    ) -> tuple[StepBatch, dict[str, float]]:
        """The batch with its trajectories' privileged texts and the teacher's log-probabilities.

        Args:
            batch: an iteration, whole groups.
            carried: ``extra_fields`` of its rows.
            iteration: for the audit.
        """
        episodes: list[Episode] = [
            pickle.loads(values[EPISODE])
            for row, values in zip(batch.rows, carried, strict=True)
            if not row.is_pad and values.get(EPISODE) is not None
        ]
        hints = self.hinting.hints(episodes, iteration)
        rows = tuple(
            replace(row, pi_text=hints.texts.get(row.trajectory_id, "")) for row in batch.rows
        )
        made = teacher_rows(
            rows,
            plain_encode(self.tokenizer),
            wanted=in_mixed_group(rows, self.mixed_by) if self.mixed_by else None,
            budget=self.pi_tokens,
        )
        column = torch.full(batch.response_mask.shape, float("nan"), dtype=torch.float64)
        for number, line in zip(made.numbers, self._logprobs(made.rows), strict=True):
            column[number, : len(line)] = line.double()
        batch = replace(batch, rows=rows).with_columns(teacher_logprobs=column)
        return batch, {f"hints/{name}": value for name, value in hints.metrics.items()}

    def _logprobs(self, rows: Sequence[StepRow]) -> tuple[Tensor, ...]:
        """Log-probability of each response token behind the rows' prompts."""
        if not rows:
            return ()
        uid = uuid4().hex
        tags = [
            {
                "status": "success",
                "prompt_len": len(row.prompt_ids),
                "response_len": len(row.response_ids),
                "seq_len": len(row.prompt_ids) + len(row.response_ids),
            }
            for row in rows
        ]
        keys = [f"{uid}_{number}_0" for number in range(len(rows))]
        tq.kv_batch_put(
            keys=keys,
            partition_id=PARTITION,
            fields=list_of_dict_to_tensordict([_fields(row) for row in rows]),
            tags=tags,
        )
        batch = KVBatchMeta(partition_id=PARTITION, keys=keys, tags=tags)
        ranks = max(self.actor._dispatch_info["actor"]) + 1
        batch = upsample_batch_to_divisible_size(batch, ranks, self.tokenizer.eos_token_id)
        batch.extra_info.update(
            calculate_entropy=False, compute_loss=False, temperature=self.temperature
        )
        try:
            self.actor.compute_log_prob(batch)
            data = tq.kv_batch_get(
                keys=keys, partition_id=PARTITION, select_fields=["log_probs", "response_mask"]
            )
        finally:
            tq.kv_clear(keys=batch.keys, partition_id=PARTITION)
        found: tuple[Tensor, ...] = response_from_nested(
            data["log_probs"], data["response_mask"]
        ).unbind()
        return found


def _fields(row: StepRow) -> dict[str, Any]:
    """The columns that veRL's forward reads."""
    prompt = torch.tensor(row.prompt_ids, dtype=torch.int64)
    response = torch.tensor(row.response_ids, dtype=torch.int64)
    mask = torch.tensor(row.response_mask, dtype=torch.int64)
    ids = torch.cat([prompt, response])
    return {
        "prompts": prompt,
        "responses": response,
        "input_ids": ids,
        "position_ids": torch.arange(len(ids)),
        "response_mask": mask,
        "loss_mask": mask,
        "multi_modal_inputs": {},
    }

"""Rows in veRL's queue and back: what a step's output carries, and the batch that is made of it.

veRL keeps prompts, responses, masks and log-probabilities of a row. Its place in time, its reward
and the rest travel in the row's ``extra_fields``; what was derived of a whole iteration comes back
as columns beside veRL's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.batch import StepBatch, Targets, collate
from agentgym_suite.trainers.rows import StepRow, pad_row

FIELD = "agentgym"
"""Name of a row's own values in ``extra_fields``."""
EPISODE = "agentgym_episode"
"""The played episode, pickled, with the last step of a trajectory that is to be analyzed."""
WEIGHT, REAL, TEACHER = "agentgym_weight", "agentgym_real", "agentgym_teacher"
"""Columns that veRL has none for: a row's weight, 1 for no pad, the teacher's log-probabilities."""

_ELSEWHERE = ("prompt_ids", "response_ids", "response_mask", "rollout_logprobs", "is_pad")
_CARRIED = tuple(item.name for item in fields(StepRow) if item.name not in _ELSEWHERE)
_COLUMNS = {
    "old_logprobs": "old_log_probs",
    "ref_logprobs": "ref_log_prob",
    "token_values": "values",
    "teacher_logprobs": TEACHER,
}
READ = ("prompts", "responses", "response_mask", "rollout_log_probs", "extra_fields")
"""Columns of veRL's queue that rows are made of."""


def row_fields(row: StepRow) -> dict[str, Any]:
    """What of a row veRL has no column for."""
    return {name: getattr(row, name) for name in _CARRIED}


def padded(ragged: Tensor) -> Tensor:
    """A jagged tensor ``[N, *]`` as ``[N, R]``, 0 behind the end of each row."""
    return ragged.to_padded_tensor(0.0) if ragged.is_nested else ragged


def carried(data: Any) -> list[dict[str, Any]]:
    """``extra_fields`` of each row, whether the queue wraps them or not."""
    return [getattr(values, "data", values) for values in data["extra_fields"]]


def step_batch(data: Any, is_pad: Sequence[bool]) -> StepBatch:
    """The batch of an iteration, with every column that is there.

    Args:
        data: a ``TensorDict`` of veRL's queue with the columns of ``READ``.
        is_pad: which rows veRL added to make its batch divisible.

    Raises:
        UsageError: rows that the suite's agent loop has not made, or a broken invariant.
    """
    rows = [pad_row() if pad else row for row, pad in zip(_rows(data), is_pad, strict=True)]
    batch = collate(rows, width=padded(data["response_mask"]).shape[1])
    found = {ours: padded(data[name]).double() for ours, name in _COLUMNS.items() if name in data}
    if "token_values" in found:
        found["v_old"] = found["token_values"][:, 0]  # read at the last prompt token
    return batch.with_columns(**found)


def target_fields(batch: StepBatch) -> dict[str, Tensor]:
    """The targets of a prepared batch as padded columns, float32; veRL's names where it has one.

    ``returns`` are the critic's targets: one a token, or one a row on all its columns.

    Raises:
        UsageError: the batch is not prepared.
    """
    targets = batch.targets
    if targets is None:
        raise UsageError("the batch has no targets; prepare it first")
    values = targets.advantages if targets.values is None else targets.values
    if values.dim() == 1:
        values = values.unsqueeze(1).expand(batch.response_mask.shape)
    columns = {
        "advantages": targets.advantages,
        "returns": values,
        WEIGHT: targets.row_weights.unsqueeze(1),
        REAL: (~batch.is_pad).unsqueeze(1),
    }
    if batch.teacher_logprobs is not None:
        columns[TEACHER] = batch.teacher_logprobs
    return {name: column.float() for name, column in columns.items()}


def micro_batch(data: Any, *, boundary: bool = False) -> StepBatch:
    """Rows of a worker's batch with their targets, as far as losses read them.

    Args:
        data: a ``TensorDict`` with the columns of ``target_fields``.
        boundary: the critic has one value a row.
    """
    mask = padded(data["response_mask"]).bool()
    real = data[REAL].flatten().bool()
    returns = padded(data["returns"])
    columns = {ours: padded(data[name]) for ours, name in _COLUMNS.items() if name in data}
    if "token_values" in columns:
        columns["v_old"] = columns["token_values"][:, 0]
    nothing = torch.zeros_like(mask, dtype=torch.float32)
    return StepBatch(
        rows=tuple(
            replace(pad_row(), trajectory_id=values[FIELD]["trajectory_id"], is_pad=not kept)
            for values, kept in zip(carried(data), real.tolist(), strict=True)
        ),
        response_ids=torch.zeros_like(mask, dtype=torch.long),
        response_mask=mask,
        action_mask=torch.zeros_like(mask),
        rollout_logprobs=padded(data["rollout_log_probs"]),
        rewards=nothing[:, 0],
        is_pad=~real,
        targets=Targets(
            advantages=padded(data["advantages"]),
            row_weights=data[WEIGHT].flatten(),
            values=returns[:, 0] if boundary else returns,
        ),
        **columns,
    )


def _rows(data: Any) -> list[StepRow]:
    made = []
    ragged = ("prompts", "responses", "response_mask", "rollout_log_probs")
    for *columns, values in zip(
        *(data[name].unbind() for name in ragged), carried(data), strict=True
    ):
        if FIELD not in values:
            raise UsageError(
                "a row was not played by the suite's agent loop; set "
                "actor_rollout_ref.rollout.agent.default_agent_loop=agentgym"
            )
        prompt, response, mask, logprobs = (tuple(column.tolist()) for column in columns)
        own: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values[FIELD].items()
        }
        made.append(
            StepRow(
                prompt_ids=prompt,
                response_ids=response,
                response_mask=mask,
                rollout_logprobs=logprobs,
                **own,
            )
        )
    return made

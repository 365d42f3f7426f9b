"""``StepBatch``: rows collated into padded tensors, and what is computed for them later.

Prompts stay ragged in ``rows``; everything that algorithms compute with is aligned with the
response tokens (shape ``[N, R]``) or with the rows (shape ``[N]``). Whatever lies outside the
masks is padding, on either side, and never enters a number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.rows import StepRow, check_rows, pad_row

Side = Literal["right", "left"]
ROW_COLUMNS = ("v_old", "q_old", "bootstrap")
TOKEN_COLUMNS = ("old_logprobs", "old_entropy", "ref_logprobs", "teacher_logprobs", "token_values")


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What an algorithm derived from a whole iteration; constants of every loss.

    Attributes:
        advantages: Â of every response token, float64 ``[N, R]``; 0 outside the mask.
        row_weights: factor of a row's token mean, float64 ``[N]``; 1 unless the aggregation is
            ``traj-nested``.
        values: targets of V (``[N]``, one a step) or of the token critic (``[N, R]``).
        q_values: targets of Q, ``[N]``.
    """

    advantages: Tensor
    row_weights: Tensor
    values: Tensor | None = None
    q_values: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """Rows with their tensors; N rows, R response columns.

    Attributes:
        rows: what was played; identity and ragged ids.
        response_ids: int64 ``[N, R]``, 0 in padding.
        response_mask: bool ``[N, R]``, true on sampled tokens.
        action_mask: bool ``[N, R]``, true on tokens of the executable action.
        rollout_logprobs: float64 ``[N, R]``, 0 in padding.
        rewards: float64 ``[N]``, r_t.
        is_pad: bool ``[N]``.
        old_logprobs: log-probabilities under the frozen rollout weights, by the trainer's own
            forward ``[N, R]``; every ratio is taken against these.
        old_entropy: entropy of the distributions that these are of, in nats ``[N, R]``; it is
            logged, nothing else.
        ref_logprobs: log-probabilities under the reference policy.
        teacher_logprobs: the same under the teacher (the frozen weights with privileged
            information, or another model); NaN in rows that were not scored.
        v_old: frozen V at the last prompt token ``[N]``.
        q_old: frozen Q at the last response token ``[N]``.
        token_values: frozen values of a token critic ``[N, R]``: before each response token.
        bootstrap: V after the last observation of truncated trajectories ``[N]``, 0 elsewhere.
        targets: what ``Algorithm.prepare`` derived.
        side: where the padding of the response columns stands.
    """

    rows: tuple[StepRow, ...]
    response_ids: Tensor
    response_mask: Tensor
    action_mask: Tensor
    rollout_logprobs: Tensor
    rewards: Tensor
    is_pad: Tensor
    old_logprobs: Tensor | None = None
    old_entropy: Tensor | None = None
    ref_logprobs: Tensor | None = None
    teacher_logprobs: Tensor | None = None
    v_old: Tensor | None = None
    q_old: Tensor | None = None
    token_values: Tensor | None = None
    bootstrap: Tensor | None = None
    targets: Targets | None = None
    side: Side = "right"

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> Tensor:
        """L of every row: its sampled tokens, int64 ``[N]``."""
        return self.response_mask.sum(1)

    @property
    def is_action(self) -> Tensor:
        """Rows in which anything was sampled, bool ``[N]``; the others have no policy loss."""
        return (self.lengths > 0) & ~self.is_pad

    def trajectories(self) -> tuple[tuple[int, ...], ...]:
        """Row numbers of each trajectory in the order of its steps, pads left out.

        Trajectories come in the order of their ids, so that sums over them do not depend on the
        order of rows.
        """
        found: dict[str, list[int]] = defaultdict(list)
        for number, row in enumerate(self.rows):
            if not row.is_pad:
                found[row.trajectory_id].append(number)
        return tuple(
            tuple(sorted(found[name], key=lambda n: self.rows[n].step_index))
            for name in sorted(found)
        )

    def with_columns(self, **columns: Tensor | None) -> StepBatch:
        """The batch with columns that were computed later (``old_logprobs``, ``v_old``, …).

        Raises:
            UsageError: no such column, or a shape that is not the batch's.
        """
        n, width = self.response_mask.shape
        for name, column in columns.items():
            if name not in ROW_COLUMNS + TOKEN_COLUMNS:
                known = ", ".join(TOKEN_COLUMNS + ROW_COLUMNS)
                raise UsageError(f"column {name!r} does not exist; use {known}")
            shape = (n,) if name in ROW_COLUMNS else (n, width)
            if column is not None and tuple(column.shape) != shape:
                raise UsageError(f"{name} has shape {tuple(column.shape)}; the batch needs {shape}")
        changes: dict[str, Any] = dict(columns)
        return replace(self, **changes)

    def with_targets(self, targets: Targets | None) -> StepBatch:
        """The batch with the targets of its rows."""
        return replace(self, targets=targets)

    def with_pads(self, count: int) -> StepBatch:
        """The batch with so many rows without weight at its end."""

        def grow(tensor: Tensor) -> Tensor:
            return torch.cat([tensor, tensor.new_zeros((count, *tensor.shape[1:]))])

        grown = self._mapped(grow, self.rows + (pad_row(),) * count)
        is_pad = grown.is_pad.clone()
        is_pad[len(self.rows) :] = True
        return replace(grown, is_pad=is_pad)

    def select(self, numbers: Sequence[int]) -> StepBatch:
        """Those rows, in that order, without response columns that none of them uses.

        Every column goes along, targets too. Mini-batches, micro-batches and the shares of
        ranks are made by this.
        """
        rows = tuple(self.rows[number] for number in numbers)
        place = torch.tensor(list(numbers), dtype=torch.long, device=self.is_pad.device)
        used = max((len(row.response_ids) for row in rows), default=0) or 1
        width = self.response_mask.shape[1]
        kept = slice(0, used) if self.side == "right" else slice(width - used, width)

        def cut(tensor: Tensor) -> Tensor:
            chosen = tensor[place]
            return chosen if chosen.dim() == 1 else chosen[:, kept]

        return self._mapped(cut, rows)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> StepBatch:
        """Move every tensor; ``dtype`` is that of the floating ones (losses run in float32)."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, dtype if tensor.is_floating_point() else None)

        return self._mapped(move, self.rows)

    def _mapped(self, change: Callable[[Tensor], Tensor], rows: tuple[StepRow, ...]) -> StepBatch:
        changes: dict[str, Any] = {"rows": rows, **_mapped_tensors(self, change)}
        if self.targets is not None:
            changes["targets"] = replace(self.targets, **_mapped_tensors(self.targets, change))
        return replace(self, **changes)


def collate(
    rows: Sequence[StepRow],
    *,
    reserved_ids: Collection[int] = (),
    width: int | None = None,
    side: Side = "right",
) -> StepBatch:
    """Check rows and put them into one batch.

    Args:
        rows: all rows of whole trajectories, in any order.
        reserved_ids: ids that may occur nowhere (the value tokens of ``sapo_ar``).
        width: response columns; None takes the longest response.
        side: where shorter responses are padded.

    Raises:
        UsageError: no row, a broken invariant, or a width below the longest response.
    """
    if not rows:
        raise UsageError("a batch needs at least one row; collect a trajectory first")
    check_rows(rows, reserved_ids=reserved_ids)
    longest = max(len(row.response_ids) for row in rows)
    columns = max(longest, 1) if width is None else width
    if columns < longest:
        raise UsageError(f"width is {columns}; the longest response has {longest} tokens")

    def aligned(values: Sequence[Sequence[float]], dtype: torch.dtype) -> Tensor:
        table = torch.zeros(len(rows), columns, dtype=dtype)
        for number, line in enumerate(values):
            start = 0 if side == "right" else columns - len(line)
            table[number, start : start + len(line)] = torch.tensor(line, dtype=dtype)
        return table

    masks = [row.response_mask for row in rows]
    known = [row.action_mask or (0,) * len(row.response_ids) for row in rows]
    logprobs = [
        [value if kept else 0.0 for value, kept in zip(row.rollout_logprobs, mask, strict=True)]
        for row, mask in zip(rows, masks, strict=True)
    ]
    return StepBatch(
        rows=tuple(rows),
        response_ids=aligned([row.response_ids for row in rows], torch.long),
        response_mask=aligned(masks, torch.bool),
        action_mask=aligned(known, torch.bool),
        rollout_logprobs=aligned(logprobs, torch.float64),
        rewards=torch.tensor([row.reward for row in rows], dtype=torch.float64),
        is_pad=torch.tensor([row.is_pad for row in rows]),
        side=side,
    )


def _mapped_tensors(
    holder: StepBatch | Targets, change: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    return {
        field.name: change(value)
        for field in fields(holder)
        if isinstance(value := getattr(holder, field.name), Tensor)
    }

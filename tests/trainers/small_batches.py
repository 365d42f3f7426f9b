"""Small batches with every irregularity: ragged rows, forced tokens, an empty row, groups."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import torch

from agentgym_suite.trainers.batch import Side, StepBatch, collate
from agentgym_suite.trainers.rows import StepRow


def row(
    trajectory: str,
    step: int,
    steps: int,
    length: int,
    *,
    group: str = "",
    reward: float = 0.0,
    mask: Sequence[int] | None = None,
    **fields: object,
) -> StepRow:
    """One row whose ids tell trajectory and step apart."""
    given: dict[str, object] = {
        "prompt_ids": tuple(range(10 + step, 13 + step)),
        "response_ids": tuple(range(40, 40 + length)),
        "response_mask": tuple(mask) if mask is not None else (1,) * length,
        "rollout_logprobs": tuple(-0.1 * (place + 1) for place in range(length)),
        "reward": reward,
        "group_id": group or trajectory.partition("/")[0],
        "trajectory_id": trajectory,
        "step_index": step,
        "n_steps": steps,
        "terminated": step == steps - 1,
    }
    return StepRow(**(given | fields))  # type: ignore[arg-type]


def mixed_rows(seed: int = 3) -> list[StepRow]:
    """Three groups (of 3, 2 and 1 trajectories), 18 rows or so, one of them empty."""
    dice = random.Random(seed)
    rows = []
    for group, size in (("a", 3), ("b", 2), ("c", 1)):
        for trial in range(size):
            steps = dice.randint(2, 4)
            for step in range(steps):
                length = dice.randint(1, 5)
                mask = [1] * length
                if length > 2 and dice.random() < 0.5:
                    mask[dice.randrange(1, length)] = 0  # forced
                last = step == steps - 1
                rows.append(
                    row(
                        f"{group}/{trial}",
                        step,
                        steps,
                        length,
                        mask=mask,
                        reward=dice.choice([0.0, 1.0]) if last else dice.choice([0.0, 0.1]),
                        anchor=f"{group} {step % 2}",
                        valid_action=dice.random() < 0.8,
                        pi_text="" if (group, trial) == ("a", 2) else "- look first",
                        action_mask=tuple(mask),
                    )
                )
    empty = rows[1]
    rows[1] = replace(empty, response_ids=(), response_mask=(), rollout_logprobs=(), action_mask=())
    return rows


def with_frozen_columns(batch: StepBatch, seed: int = 5) -> StepBatch:
    """The batch with every later column, drawn by row identity so that order cannot matter."""

    def draw(number: int, name: str, count: int, scale: float) -> list[float]:
        played = batch.rows[number]
        dice = random.Random(f"{seed} {name} {played.trajectory_id} {played.step_index}")
        return [scale * dice.uniform(-1, 1) for _ in range(count)]

    def tokens(name: str, scale: float, shift: float = 0.0) -> torch.Tensor:
        table = torch.zeros(batch.response_mask.shape, dtype=torch.float64)
        for number, played in enumerate(batch.rows):
            count = len(played.response_ids)
            start = 0 if batch.side == "right" else table.shape[1] - count
            values = [shift + value for value in draw(number, name, count, scale)]
            table[number, start : start + count] = torch.tensor(values, dtype=torch.float64)
        return table

    def per_row(name: str) -> torch.Tensor:
        values = [draw(n, name, 1, 0.6)[0] for n in range(len(batch.rows))]
        return torch.tensor(values, dtype=torch.float64).masked_fill(batch.is_pad, 0.0)

    untold = torch.tensor([not played.pi_text for played in batch.rows])
    unscored = untold.unsqueeze(1) & (tokens("old", 0.3, -1.0) != 0)
    teacher = tokens("teacher", 0.3, -1.0)
    return batch.with_columns(
        old_logprobs=tokens("old", 0.3, -1.0),
        ref_logprobs=tokens("ref", 0.3, -1.0),
        teacher_logprobs=teacher.masked_fill(unscored, float("nan")),
        token_values=tokens("values", 0.5),
        v_old=per_row("v"),
        q_old=per_row("q"),
    )


def mixed_batch(*, width: int | None = None, side: Side = "right", seed: int = 3) -> StepBatch:
    """``mixed_rows`` collated, with every later column."""
    return with_frozen_columns(collate(mixed_rows(seed), width=width, side=side))

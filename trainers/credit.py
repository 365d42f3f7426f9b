"""TASPO: weights of turns from what privileged information changes in the policy's own mind.

Source of every equation: "Reconciling Process Supervision with Outcome-Based Credit in Agentic
Policy Optimization". A turn's score is the shift that the privileged text P makes in the
log-probability of the executed action, both sides under the frozen rollout weights. Weights are
positive, bounded and of mean one, so that a trajectory keeps the sign and the mean of its outcome
advantage. All of it is a constant of the loss, float64 on the host.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor

from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.returns import required

Key = TypeVar("Key", bound=Hashable)
Allocation = Literal["action", "token"]
Fallback = Literal["", "no_privileged_text", "zero_advantage", "too_few_scorable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditSettings:
    """How shifts become weights.

    Attributes:
        shift_clip: c_Δ, bound of a token's shift in nats; None leaves it unbounded.
        temperature: τ of the squashing.
        weight_range: ε_w in [0, 1): weights lie in 1 ± ε_w.
        min_shift: centred turn scores smaller than this count as 0; off at 0.
        strict_all_turns: weigh nothing unless every turn is scorable, as the public code does.
            Where turns are weighed, one is scorable then by those of its tokens whose shift is
            finite.
    """

    shift_clip: float | None = 2.0
    temperature: float = 0.5
    weight_range: float = 0.4
    min_shift: float = 0.0
    strict_all_turns: bool = False


@dataclass(frozen=True, slots=True)
class TurnWeights:
    """The weights of one trajectory.

    Attributes:
        weights: w_t of every turn.
        squashed: q_t of the scorable turns by turn index; empty in a fallback.
        fallback: why all weights are 1, "" if they are not.
    """

    weights: tuple[float, ...]
    squashed: dict[int, float]
    fallback: Fallback = ""


def turn_weights(
    advantage: float,
    shifts: Sequence[Sequence[float] | None],
    settings: CreditSettings,
) -> TurnWeights:
    """Weights of a trajectory's turns.

    Over the scorable turns I, with d_t the mean over action tokens of clip(Δ, ±c_Δ):
    d̂_t = d_t - mean_I d, q_t = tanh(sign(A)·d̂_t/τ), w_t = 1 + (ε_w/2)(q_t - mean_I q).
    Turns outside I have weight 1 and enter neither mean. All weights are 1 when A = 0 or fewer
    than two turns are scorable. With A < 0 a better supported action is blamed less.

    Args:
        advantage: A of the trajectory.
        shifts: Δ of the action tokens of each turn; None where a turn is not scorable. A turn
            with no token or a shift that is not finite is not scorable either, but for
            ``strict_all_turns``, which leaves such a token out.
        settings: the constants.
    """
    ones = (1.0,) * len(shifts)
    if advantage == 0.0:
        return TurnWeights(ones, {}, "zero_advantage")
    lines = [_finite(line) for line in shifts] if settings.strict_all_turns else shifts
    scored = {turn: list(line) for turn, line in enumerate(lines) if _scorable(line) and line}
    missing = settings.strict_all_turns and len(scored) < len(shifts)
    if len(scored) < 2 or missing:
        return TurnWeights(ones, {}, "too_few_scorable")
    scores = {turn: _mean(_clipped(line, settings)) for turn, line in scored.items()}
    squashed = _squashed(scores, advantage, settings)
    centre = _mean(list(squashed.values()))
    weights = list(ones)
    for turn, q in squashed.items():
        weights[turn] = 1.0 + 0.5 * settings.weight_range * (q - centre)
    return TurnWeights(tuple(weights), squashed)


def token_weights(
    advantage: float,
    shifts: Sequence[Sequence[float] | None],
    settings: CreditSettings,
) -> tuple[list[list[float] | None], Fallback]:
    """Weights of single action tokens: the ablation that allocates below the action.

    As ``turn_weights`` with every action token of the scorable turns in the place of a turn's
    score; the mean over all action tokens of the trajectory is 1. Our reading, the paper gives
    no equation.

    Returns:
        (weights of the action tokens of each turn, None for turns outside; why all are 1).
    """
    if advantage == 0.0:
        return [None] * len(shifts), "zero_advantage"
    scored = [line if _scorable(line) else None for line in shifts]
    usable = [line for line in scored if line is not None]
    if len(usable) < 2 or (settings.strict_all_turns and len(usable) < len(shifts)):
        return [None] * len(shifts), "too_few_scorable"
    flat = {
        (turn, place): _clipped([value], settings)[0]
        for turn, line in enumerate(scored)
        if line is not None
        for place, value in enumerate(line)
    }
    squashed = _squashed(flat, advantage, settings)
    centre = _mean(list(squashed.values()))
    return [
        None
        if line is None
        else [
            1.0 + 0.5 * settings.weight_range * (squashed[turn, place] - centre)
            for place in range(len(line))
        ]
        for turn, line in enumerate(scored)
    ], ""


def action_shifts(batch: StepBatch) -> list[list[float] | None]:
    """Δ of the action tokens of every row: log π_old with the privileged text minus without.

    None where a row cannot be scored: no privileged text, no action token, or no log-probability
    that is finite. A single shift is not finite where one of its sides is not.

    Raises:
        UsageError: ``old_logprobs`` or ``teacher_logprobs`` is missing.
    """
    plain = required(batch, "old_logprobs").double()
    privileged = required(batch, "teacher_logprobs").double()
    mask = batch.action_mask & batch.response_mask
    result: list[list[float] | None] = []
    for number, row in enumerate(batch.rows):
        place = mask[number]
        shift = (privileged[number][place] - plain[number][place]).tolist()
        usable = row.pi_text and not row.is_pad and any(map(math.isfinite, shift))
        result.append(shift if usable else None)
    return result


def nested_row_weights(
    batch: StepBatch, trajectories: float, rows: float, steps: Sequence[int]
) -> Tensor:
    """N_row / (N_traj · T) of each row: makes a mean over rows one over trajectories, then turns.

    Both counts are over real rows of the iteration's whole batch, all ranks; pads would cancel
    in them. Rows without tokens are no turns and weigh 0.

    Args:
        batch: the rows.
        trajectories: N_traj.
        rows: N_row, rows in which something was sampled.
        steps: T of each row's trajectory, counted in such rows; 0 in pads.

    Returns:
        float64 ``[N]``.
    """
    weights = [rows / (trajectories * count) if count else 0.0 for count in steps]
    active = batch.is_action.cpu()
    return torch.tensor(weights, dtype=torch.float64).masked_fill(~active, 0.0)


def _finite(line: Sequence[float] | None) -> list[float] | None:
    return None if line is None else [value for value in line if math.isfinite(value)]


def _scorable(line: Sequence[float] | None) -> bool:
    return line is not None and len(line) > 0 and all(math.isfinite(value) for value in line)


def _clipped(line: Sequence[float], settings: CreditSettings) -> list[float]:
    bound = settings.shift_clip
    if bound is None:
        return list(line)
    return [max(-bound, min(bound, value)) for value in line]


def _squashed(
    scores: dict[Key, float], advantage: float, settings: CreditSettings
) -> dict[Key, float]:
    centre = _mean(list(scores.values()))
    sign = math.copysign(1.0, advantage)
    result = {}
    for key, score in scores.items():
        centred = score - centre
        if abs(centred) < settings.min_shift:
            centred = 0.0
        result[key] = math.tanh(sign * centred / settings.temperature)
    return result


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

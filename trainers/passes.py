"""The passes without gradient: frozen columns of an iteration, before anything is learned.

Each pass goes over the rows in buckets (``row_buckets``), and puts its numbers back where the rows
stand; what is computed beside a row changes it by rounding alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Algorithm, PolicyOutputs
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.hidden_states import Ids, row_buckets
from agentgym_suite.trainers.logprobs import Forward, boundary_margins, policy_outputs
from agentgym_suite.trainers.metrics import timed
from agentgym_suite.trainers.minibatch import idle
from agentgym_suite.trainers.models import Reference, boundary_values, token_values
from agentgym_suite.trainers.stats import ALONE, Reducer
from agentgym_suite.trainers.teachers import Teacher

_NOTHING = (0,)
"""The prompt that a rank without work reads, so that the others' work goes on."""


def frozen_columns(
    batch: StepBatch,
    algorithm: Algorithm,
    forward: Forward,
    *,
    policy: Any,
    reference: Reference | None,
    critic: Any,
    teacher: Teacher | None,
    most_tokens: int,
    reducer: Reducer,
    begin: Callable[[str], None],
    seconds: dict[str, float],
) -> StepBatch:
    """Every column that an algorithm needs before it prepares a batch.

    Args:
        batch: of the iteration.
        algorithm: says what it needs.
        forward: how the policy is read.
        policy: the weights that sampled.
        reference: opens the reference; None where none is needed.
        critic: the value network; None where none is needed.
        teacher: scores, too; None where none is needed.
        most_tokens: padded tokens at a time.
        reducer: tells ranks how often the others read.
        begin: told each pass before it begins.
        seconds: gets what each pass took, see ``timed``.
    """
    how = (most_tokens, reducer)
    begin("the policy scores what was sampled")
    with timed(seconds, "old"):
        batch = old_policy_pass(batch, policy, algorithm, forward, *how)
    if reference is not None:
        begin("the reference scores what was sampled")
        with timed(seconds, "reference"), reference() as model:
            batch = reference_pass(batch, model, forward, *how)
    if critic is not None:
        begin("the critic values prompts")
        kind, merge = algorithm.needs.critic, forward.merge_append_only
        with timed(seconds, "critic"):
            batch = critic_pass(batch, critic, kind, *how, merge_append_only=merge)
    if algorithm.needs.bootstrap:
        begin("values behind trajectories that were cut")
        with timed(seconds, "bootstrap"):
            batch = bootstrap_pass(batch, algorithm, policy, critic, forward, *how)
    if teacher is not None:
        begin("the teacher scores what was sampled")
        with timed(seconds, "teacher"):
            batch = teacher_pass(batch, teacher, forward, *how)
    return batch


def old_policy_pass(
    batch: StepBatch,
    policy: Any,
    algorithm: Algorithm,
    forward: Forward,
    most_tokens: int,
    reducer: Reducer = ALONE,
) -> StepBatch:
    """Fill ``old_logprobs``, ``old_entropy``, and V and Q where the policy is read for them."""
    forward = replace(forward, entropy=True, divergence="none")
    outputs = scored(batch, policy, forward, most_tokens, reducer=reducer)
    batch = batch.with_columns(old_logprobs=outputs.logprobs, old_entropy=outputs.entropy)
    if outputs.v_margin is None or outputs.q_margin is None:
        return batch
    return batch.with_columns(
        v_old=algorithm.read_out(outputs.v_margin), q_old=algorithm.read_out(outputs.q_margin)
    )


def reference_pass(
    batch: StepBatch,
    reference: Any,
    forward: Forward,
    most_tokens: int,
    reducer: Reducer = ALONE,
) -> StepBatch:
    """Fill ``ref_logprobs``."""
    outputs = scored(batch, reference, forward.logprobs_only, most_tokens, reducer=reducer)
    return batch.with_columns(ref_logprobs=outputs.logprobs)


def teacher_pass(
    batch: StepBatch,
    teacher: Teacher,
    forward: Forward,
    most_tokens: int,
    reducer: Reducer = ALONE,
) -> StepBatch:
    """Fill ``teacher_logprobs``: the same responses behind the teacher's prompts; NaN without."""
    told = [number for number, row in enumerate(batch.rows) if row.teacher_prompt_ids]
    column = torch.full(batch.response_mask.shape, float("nan"), dtype=torch.float64)
    forward = replace(forward.logprobs_only, banned_ids=teacher.banned_ids)
    prompts = [batch.rows[number].teacher_prompt_ids for number in told]
    found = scored(
        batch.select(told), teacher.model, forward, most_tokens, prompts=prompts, reducer=reducer
    ).logprobs
    column[torch.tensor(told, dtype=torch.long), : found.shape[1]] = found.double()
    return batch.with_columns(teacher_logprobs=column)


def critic_pass(
    batch: StepBatch,
    critic: Any,
    kind: str,
    most_tokens: int,
    reducer: Reducer = ALONE,
    *,
    merge_append_only: bool = False,
) -> StepBatch:
    """Fill ``v_old`` (kind "boundary") or ``token_values`` (kind "token")."""
    prompts = [row.prompt_ids for row in batch.rows]
    if kind == "boundary":
        read = partial(boundary_values, critic, merge_append_only=merge_append_only)
        values = _at_boundaries(
            prompts, read, most_tokens, reducer, merge_append_only=merge_append_only
        )
        return batch.with_columns(v_old=values)
    table = torch.zeros(batch.response_mask.shape, dtype=torch.float64)
    with torch.no_grad():
        responses = [row.response_ids for row in batch.rows]
        buckets = row_buckets(prompts, responses, most_tokens, merge_append_only=merge_append_only)
        for numbers in _levelled(buckets, reducer):
            part = batch.select(numbers) if numbers else idle(batch)
            found = (
                token_values(critic, part, merge_append_only=merge_append_only)[: len(numbers)]
                .double()
                .cpu()
            )
            table[torch.tensor(numbers, dtype=torch.long), : found.shape[1]] = found
    return batch.with_columns(token_values=table)


def bootstrap_pass(
    batch: StepBatch,
    algorithm: Algorithm,
    policy: Any,
    critic: Any,
    forward: Forward,
    most_tokens: int,
    reducer: Reducer = ALONE,
) -> StepBatch:
    """Fill ``bootstrap``: V at the prompt behind the last observation of a trajectory that was cut.

    A critic of either kind is read at the prompt's last token, where the value before the next
    token would stand; without a critic, V comes from the policy's value tokens.

    Args:
        batch: rows of whole trajectories, with ``next_prompt_ids`` where they were cut.
        algorithm: reads values out of margins.
        policy: the frozen rollout weights.
        critic: None where the policy itself is read.
        forward: how the policy is read.
        most_tokens: padded tokens at a time.
        reducer: tells ranks how often the others read.

    Raises:
        UsageError: a trajectory that was cut has no prompt behind it.
    """
    cut = [
        n for n, row in enumerate(batch.rows) if row.is_last and not (row.terminated or row.is_pad)
    ]
    for number in cut:
        if not batch.rows[number].next_prompt_ids:
            raise UsageError(
                f"trajectory {batch.rows[number].trajectory_id!r} was cut and has no "
                "next_prompt_ids; play it with keep_next_turn"
            )

    def read(prompts: Sequence[Ids]) -> Tensor:
        if critic is not None:
            return boundary_values(critic, prompts)
        return algorithm.read_out(boundary_margins(policy, prompts, forward))

    values = torch.zeros(len(batch), dtype=torch.float64)
    prompts = [batch.rows[number].next_prompt_ids for number in cut]
    values[cut] = _at_boundaries(prompts, read, most_tokens, reducer)
    return batch.with_columns(bootstrap=values)


def scored(
    batch: StepBatch,
    model: Any,
    forward: Forward,
    most_tokens: int,
    *,
    prompts: Sequence[Ids] | None = None,
    reducer: Reducer = ALONE,
) -> PolicyOutputs:
    """``policy_outputs`` of a whole batch without gradient, in float64 on the host."""
    given = [row.prompt_ids for row in batch.rows] if prompts is None else list(prompts)
    responses = [row.response_ids for row in batch.rows]
    buckets = row_buckets(
        given, responses, most_tokens, merge_append_only=forward.merge_append_only
    )
    parts: list[tuple[list[int], PolicyOutputs]] = []
    with torch.no_grad():
        for numbers in _levelled(buckets, reducer):
            found = policy_outputs(
                model,
                batch.select(numbers) if numbers else idle(batch),
                forward,
                prompts=[given[number] for number in numbers] or [_NOTHING],
            )
            parts.append((numbers, found))

    def gathered(pick: Callable[[PolicyOutputs], Tensor | None]) -> Tensor | None:
        whole: Tensor | None = None
        for numbers, found in parts:
            value = pick(found)
            if value is None:
                return None
            value, place = value.double().cpu(), torch.tensor(numbers, dtype=torch.long)
            if whole is None:
                shape = batch.response_mask.shape if value.dim() == 2 else (len(batch),)
                whole = torch.zeros(shape, dtype=torch.float64)
            if value.dim() == 2:
                whole[place, : value.shape[1]] = value[: len(numbers)]
            else:
                whole[place] = value[: len(numbers)]
        return whole

    logprobs = gathered(lambda found: found.logprobs)
    if logprobs is None:  # no row, here and elsewhere
        logprobs = torch.zeros(batch.response_mask.shape, dtype=torch.float64)
    return PolicyOutputs(
        logprobs=logprobs,
        entropy=gathered(lambda found: found.entropy),
        v_margin=gathered(lambda found: found.v_margin),
        q_margin=gathered(lambda found: found.q_margin),
    )


def _at_boundaries(
    prompts: Sequence[Ids],
    read: Callable[[Sequence[Ids]], Tensor],
    most_tokens: int,
    reducer: Reducer,
    *,
    merge_append_only: bool = False,
) -> Tensor:
    """One number at the last token of each prompt, float64 on the host."""
    values = torch.zeros(len(prompts), dtype=torch.float64)
    nothing: list[Ids] = [()] * len(prompts)
    with torch.no_grad():
        buckets = row_buckets(prompts, nothing, most_tokens, merge_append_only=merge_append_only)
        for numbers in _levelled(buckets, reducer):
            found = read([prompts[number] for number in numbers] or [_NOTHING])
            values[numbers] = found[: len(numbers)].double().cpu()
    return values


def _levelled(buckets: list[list[int]], reducer: Reducer) -> list[list[int]]:
    """The buckets, with empty ones behind them until every rank has as many."""
    empty: list[list[int]] = [[]]
    return buckets + empty * (reducer.most(len(buckets)) - len(buckets))

"""One row = one agent step, as it was played: what every algorithm learns from.

A row keeps the token ids that the engine saw and sampled, so that nothing is tokenised twice,
and its place in time (trajectory and step), so that the order of rows never matters.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agentgym_suite.episodes import Episode
from agentgym_suite.errors import UsageError

FINISH_REASONS = ("stop", "length")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step of one trajectory, as the rollout left it.

    The state is the prompt, the action is the complete response; ``T`` is ``n_steps``.

    Attributes:
        prompt_ids: ids given to the engine.
        response_ids: ids of the response, sampled and forced ones.
        response_mask: 1 where the policy sampled the id, 0 where it was forced.
        rollout_logprobs: the engine's log-probability of each response id under the distribution
            it sampled from; for diagnostics, never for a ratio.
        reward: r_t of this step (environment and shaping); success sits on the last real step.
        group_id: one task instance (task id and environment seed) of one iteration.
        trajectory_id: one rollout; unique in the iteration.
        step_index: 0..T-1.
        n_steps: T.
        task_id: the task's id.
        env_id: Gymnasium id.
        env_seed: seed of the environment's reset.
        policy_version: the weights that sampled.
        terminated: the environment ended here; only on the last step.
        truncated: the episode was cut here; only on the last step.
        valid_action: the reply was readable and the environment took the action.
        invalid_reason: why not, "" if it was.
        finish_reason: "stop", or "length" when the response hit its cap.
        anchor: the observation as text, whitespace kept; equal anchors are one state (GiGPO).
        pi_text: privileged information of this trajectory, "" for none.
        action_mask: 1 on the response tokens of the executable action; () when unknown.
        teacher_prompt_ids: the prompt behind which a teacher scores the response: the one with the
            privileged text, or the plain one for another model; () where no teacher does.
        next_prompt_ids: the prompt after the last observation of a trajectory that was cut before
            it terminated, where its value may be bootstrapped; () otherwise.
        is_pad: a row added for shape alone; it has no weight in anything.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    response_mask: tuple[int, ...]
    rollout_logprobs: tuple[float, ...]
    reward: float
    group_id: str
    trajectory_id: str
    step_index: int
    n_steps: int
    task_id: str = ""
    env_id: str = ""
    env_seed: int = 0
    policy_version: str = ""
    terminated: bool = False
    truncated: bool = False
    valid_action: bool = True
    invalid_reason: str = ""
    finish_reason: str = "stop"
    anchor: str = ""
    pi_text: str = ""
    action_mask: tuple[int, ...] = ()
    teacher_prompt_ids: tuple[int, ...] = ()
    next_prompt_ids: tuple[int, ...] = ()
    is_pad: bool = False

    @property
    def length(self) -> int:
        """L_t: how many tokens the policy sampled."""
        return sum(self.response_mask)

    @property
    def b_v(self) -> int:
        """Position of V in prompt + response: the last prompt token."""
        return len(self.prompt_ids) - 1

    @property
    def b_q(self) -> int:
        """Position of Q in prompt + response: the last response token."""
        return len(self.prompt_ids) + len(self.response_ids) - 1

    @property
    def is_last(self) -> bool:
        """Whether this is the trajectory's last step."""
        return self.step_index == self.n_steps - 1


def pad_row() -> StepRow:
    """A row without weight: one prompt token, no response."""
    return StepRow(
        prompt_ids=(0,),
        response_ids=(),
        response_mask=(),
        rollout_logprobs=(),
        reward=0.0,
        group_id="",
        trajectory_id="",
        step_index=0,
        n_steps=1,
        is_pad=True,
    )


def trajectory_id(episode: Episode) -> str:
    """What an episode's trajectory is called: its group and its trial.

    An episode without a group is grouped by task id and seed.
    """
    return f"{_group_id(episode)}/{episode.trial}"


def episode_rows(
    episode: Episode, *, env_id: str, next_prompt_ids: Sequence[int] = ()
) -> tuple[StepRow, ...]:
    """The rows of one finished episode, one a step, in order.

    The trajectory is named by ``trajectory_id``. A last step that neither terminated nor
    truncated was stopped by the player and counts as truncated.

    Args:
        episode: what was played, with token ids in every reply.
        env_id: Gymnasium id of the environment.
        next_prompt_ids: the prompt after the last observation, for bootstrapping at truncation.

    Raises:
        UsageError: the episode failed, has no step, or a reply carries no token ids.
    """
    name = f"episode {episode.task_id!r} (trial {episode.trial})"
    if episode.failure is not None:
        raise UsageError(f"{name} failed with {episode.failure.kind!r}; drop or resample it")
    if not episode.steps:
        raise UsageError(f"{name} has no step; drop or resample it")
    rows = []
    for index, step in enumerate(episode.steps):
        trace = step.tokens
        if trace is None:
            raise UsageError(f"{name} has no token ids at step {index}; play it with an engine")
        last = index == len(episode.steps) - 1
        truncated = last and (step.truncated or not step.terminated)
        rows.append(
            StepRow(
                prompt_ids=trace.prompt_ids,
                response_ids=trace.response_ids,
                response_mask=trace.mask,
                rollout_logprobs=trace.logprobs,
                reward=step.reward,
                group_id=_group_id(episode),
                trajectory_id=trajectory_id(episode),
                step_index=index,
                n_steps=len(episode.steps),
                task_id=episode.task_id,
                env_id=env_id,
                env_seed=episode.seed,
                policy_version=trace.policy_version,
                terminated=step.terminated,
                truncated=truncated,
                valid_action=step.valid,
                invalid_reason=step.error,
                finish_reason=trace.finish_reason,
                anchor=step.observation,
                next_prompt_ids=() if step.terminated or not last else tuple(next_prompt_ids),
            )
        )
    return tuple(rows)


def _group_id(episode: Episode) -> str:
    return episode.group_id or f"{episode.task_id}@{episode.seed}"


def check_rows(rows: Sequence[StepRow], *, reserved_ids: Collection[int] = ()) -> None:
    """Refuse rows that break an invariant; the sentence names row and field.

    Args:
        rows: all rows of whole trajectories, in any order, pads among them.
        reserved_ids: ids that are read-outs and may occur in no prompt and no response.

    Raises:
        UsageError: at the first broken invariant.
    """
    reserved = frozenset(reserved_ids)
    chains: dict[str, list[StepRow]] = defaultdict(list)
    for number, row in enumerate(rows):
        where = f"row {number} (trajectory {row.trajectory_id!r}, step {row.step_index})"
        _check_tokens(where, row, reserved)
        if not row.is_pad:
            _check_place(where, row)
            chains[row.trajectory_id].append(row)
    for trajectory_id, chain in chains.items():
        _check_chain(trajectory_id, chain)


def _check_tokens(where: str, row: StepRow, reserved: frozenset[int]) -> None:
    ids = len(row.response_ids)
    if not row.prompt_ids:
        raise UsageError(f"{where}: prompt_ids is empty; the state needs at least one token")
    for field, values in (
        ("response_mask", row.response_mask),
        ("rollout_logprobs", row.rollout_logprobs),
        ("action_mask", row.action_mask or row.response_ids),
    ):
        if len(values) != ids:
            raise UsageError(
                f"{where}: {field} has {len(values)} values for {ids} response ids; give one each"
            )
    for field, flags in (("response_mask", row.response_mask), ("action_mask", row.action_mask)):
        wrong = [flag for flag in flags if flag not in (0, 1)]
        if wrong:
            raise UsageError(f"{where}: {field} holds {wrong[0]!r}; use 0 or 1")
    for place, value in enumerate(row.rollout_logprobs):
        if row.response_mask[place] and not math.isfinite(value):
            raise UsageError(
                f"{where}: rollout_logprobs is {value} at sampled token {place}; "
                "give what the engine sampled with"
            )
    if row.is_pad and any(row.response_mask):
        raise UsageError(f"{where}: response_mask of a pad row is not 0; a pad has no tokens")
    if found := reserved.intersection(row.prompt_ids + row.response_ids + row.next_prompt_ids):
        raise UsageError(
            f"{where}: id {min(found)} is a reserved value token; ban it in sampling and prompts"
        )


def _check_place(where: str, row: StepRow) -> None:
    if not math.isfinite(row.reward):
        raise UsageError(f"{where}: reward is {row.reward}; drop the trajectory")
    if not row.trajectory_id or not row.group_id:
        raise UsageError(f"{where}: trajectory_id or group_id is empty; name both")
    if not 0 <= row.step_index < row.n_steps:
        raise UsageError(
            f"{where}: step_index lies outside the {row.n_steps} steps of n_steps; count from 0"
        )
    if (row.terminated or row.truncated) and not row.is_last:
        raise UsageError(f"{where}: terminated or truncated before the last step; mark the last")
    if row.finish_reason not in FINISH_REASONS:
        raise UsageError(
            f"{where}: finish_reason is {row.finish_reason!r}; use {' or '.join(FINISH_REASONS)}"
        )


def _check_chain(trajectory_id: str, chain: Sequence[StepRow]) -> None:
    where = f"trajectory {trajectory_id!r}"
    lengths = sorted({row.n_steps for row in chain})
    if len(lengths) > 1:
        raise UsageError(f"{where}: n_steps is {lengths[0]} and {lengths[1]}; give one length")
    steps = sorted(row.step_index for row in chain)
    if steps != list(range(lengths[0])):
        raise UsageError(
            f"{where}: step_index holds {steps} for {lengths[0]} steps; give every step once"
        )
    groups = sorted({row.group_id for row in chain})
    if len(groups) > 1:
        raise UsageError(
            f"{where}: group_id is {groups[0]!r} and {groups[1]!r}; a trajectory has one"
        )

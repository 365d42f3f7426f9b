"""Episodes as an analyzer reads them: records, their shortening, and quotes looked up in them.

A ``Trace`` has no outcome in it: who succeeded stands beside the traces, in their group, so that
nothing which is made of a trace alone can tell of success or reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_suite.episodes import Episode
from agentgym_suite.errors import UsageError
from agentgym_suite.files import Json
from agentgym_suite.spaces import without_surrogates

TRACE_CHARACTERS = 12_000
"""Character budget of one trajectory in a request."""

_JOINT = " ... "
_SHORTEST_WITH_JOINT = 16


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step: the observation before it, the action, the observation after it.

    Attributes:
        pre: what the policy saw, as recorded.
        action: the text that was given to the environment.
        post: what the environment answered.
        valid: whether the action was valid.
        done: whether the step ended the episode.
        admissible: the legal actions before the step; empty where they are open-ended.
    """

    pre: str
    action: str
    post: str
    valid: bool
    done: bool = False
    admissible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """One trajectory without its outcome; steps are counted from 0."""

    traj_uid: str
    task: str
    steps: tuple[TraceStep, ...]


@dataclass(frozen=True, slots=True)
class TraceGroup:
    """The trajectories of one task in one iteration, with their outcomes.

    Attributes:
        group_uid: names the group.
        traces: one for each trajectory.
        verified_success: of each trajectory, 0 to 1; 0.5 and more is a success.
        rewards: the outcome of each trajectory that its advantage is made of.
        family: the task's family, for texts that are the same for all tasks of a family.

    Raises:
        UsageError: the three do not fit together, a number is none, or two trajectories have one
            name.
    """

    group_uid: str
    traces: tuple[Trace, ...]
    verified_success: tuple[float, ...]
    rewards: tuple[float, ...]
    family: str = ""

    def __post_init__(self) -> None:
        sizes = len(self.traces), len(self.verified_success), len(self.rewards)
        if len(set(sizes)) != 1:
            raise UsageError(
                f"group {self.group_uid!r} has {sizes[0]} traces, {sizes[1]} outcomes and "
                f"{sizes[2]} rewards; give one of each for every trajectory"
            )
        if not all(map(math.isfinite, (*self.verified_success, *self.rewards))):
            raise UsageError(
                f"group {self.group_uid!r} has the outcomes {self.verified_success} and rewards "
                f"{self.rewards}; give finite numbers"
            )
        if len({trace.traj_uid for trace in self.traces}) != len(self.traces):
            raise UsageError(
                f"group {self.group_uid!r} has two trajectories of one name; name each differently"
            )

    @property
    def successes(self) -> tuple[Trace, ...]:
        """The verified successes, in the group's order."""
        return tuple(
            trace
            for trace, success in zip(self.traces, self.verified_success, strict=True)
            if success >= 0.5
        )


def trace_of(episode: Episode, traj_uid: str, task: str = "") -> Trace:
    """The trace of an episode.

    Args:
        episode: what was played.
        traj_uid: names the trajectory.
        task: the task in words; the first observation, which states it, when not given.
    """
    steps = tuple(
        TraceStep(
            pre=without_surrogates(step.observation),
            action=without_surrogates(step.action),
            post=without_surrogates(step.next_observation),
            valid=step.valid,
            done=step.terminated or step.truncated,
            admissible=step.admissible,
        )
        for step in episode.steps
    )
    stated = task or (steps[0].pre if steps else "")
    return Trace(traj_uid, without_surrogates(stated), steps)


def trace_group(
    group_uid: str,
    episodes: Sequence[Episode],
    traj_uids: Sequence[str],
    *,
    task: str = "",
) -> TraceGroup:
    """The group of several episodes of one task, each with the sum of its steps' rewards.

    Args:
        group_uid: names the group.
        episodes: of the same task.
        traj_uids: the name of each episode's trajectory.
        task: the task in words; see ``trace_of``.

    Raises:
        UsageError: names are not as many as episodes, or a name comes twice.
    """
    if len(traj_uids) != len(episodes):
        raise UsageError(
            f"group {group_uid!r} has {len(episodes)} episodes and {len(traj_uids)} names; "
            "give one name for each"
        )
    pairs = zip(episodes, traj_uids, strict=True)
    return TraceGroup(
        group_uid,
        tuple(trace_of(episode, uid, task) for episode, uid in pairs),
        tuple(float(episode.success) for episode in episodes),
        tuple(map(_reward, episodes)),
        episodes[0].task_family if episodes else "",
    )


def _reward(episode: Episode) -> float:
    return math.fsum(step.reward for step in episode.steps)


@dataclass(frozen=True, slots=True)
class FieldCaps:
    """The longest text of each field of a shortened trace, in characters."""

    task: int
    action: int
    observation: int


def field_caps(n_steps: int, characters: int = TRACE_CHARACTERS) -> FieldCaps:
    """How many characters each field may have, so that all steps of a trajectory are kept.

    The budget is approximate: every field has a least length, and JSON comes on top.

    Args:
        n_steps: steps of the trajectory.
        characters: the trajectory's budget.
    """
    task = min(1200, max(300, characters // 10))
    per_step = max(180, max(1000, characters - task) // max(1, n_steps))
    action = min(320, max(80, per_step // 3))
    return FieldCaps(task, action, max(40, (per_step - action) // 2))


def collapsed(text: str) -> str:
    """``text`` with each run of whitespace as one blank, none at its ends."""
    return " ".join(text.split())


def shortened(text: str, cap: int) -> str:
    """The collapsed text; one longer than ``cap`` keeps its beginning and its end."""
    text = collapsed(text)
    if len(text) <= cap:
        return text
    if cap < _SHORTEST_WITH_JOINT:
        return text[:cap]
    kept = cap - len(_JOINT)
    front = kept // 2
    return text[:front] + _JOINT + text[len(text) - (kept - front) :]


def compact_trace(
    trace: Trace, characters: int = TRACE_CHARACTERS, *, with_done: bool
) -> dict[str, Json]:
    """A trace as requests carry it, every step kept and long fields shortened.

    Args:
        trace: the trajectory.
        characters: its budget.
        with_done: whether steps tell that they ended the episode.
    """
    caps = field_caps(len(trace.steps), characters)
    steps: list[Json] = []
    for index, step in enumerate(trace.steps):
        fields: dict[str, Json] = {
            "step": index,
            "pre": shortened(step.pre, caps.observation),
            "action": shortened(step.action, caps.action),
            "post": shortened(step.post, caps.observation),
            "valid": step.valid,
        }
        steps.append(fields | {"done": step.done} if with_done else fields)
    return {"traj_uid": trace.traj_uid, "task": shortened(trace.task, caps.task), "steps": steps}


def supports(record: str, quote: str) -> bool:
    """Whether a record says what a quote says, whatever the whitespace; an empty quote is none.

    Args:
        record: the text as it was recorded, not as it was shortened for a request.
        quote: what is said to stand in it.
    """
    quote = collapsed(quote)
    return bool(quote) and quote in collapsed(record)

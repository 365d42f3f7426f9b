"""Where the text of the privileged information comes from: the analyzer, or TASPO's ablations.

Source: the PI constructions that TASPO is compared with in its Table 2. The paper gives neither
the texts of ``generic_skill`` nor the similarity of ``nearest_success``; both are ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import get_args

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.analyzer import GroupAnalysis
from agentgym_suite.trainers.config import PiSource
from agentgym_suite.trainers.privileged import compose_guidance
from agentgym_suite.trainers.trajectory_traces import Trace, TraceGroup, collapsed

GENERIC_SKILLS: Mapping[str, str] = {
    "pick_and_place_simple": "Look for the object at the places where its kind is kept, take it, "
    "go to the receptacle of the task and put it there.",
    "look_at_obj_in_light": "Find the object and take it, then go to a lamp and turn the lamp on "
    "while you hold the object.",
    "pick_clean_then_place_in_recep": "Find and take the object, clean it at a sink basin, then "
    "put it where the task says.",
    "pick_heat_then_place_in_recep": "Find and take the object, heat it with a microwave, then "
    "put it where the task says.",
    "pick_cool_then_place_in_recep": "Find and take the object, cool it with a fridge, then put "
    "it where the task says.",
    "pick_two_obj_and_place": "Find one object of the kind, put it where the task says, then find "
    "and place a second one; only one can be carried at a time.",
}
"""A fixed text for each task family of ALFWorld."""

GENERIC_SKILL = (
    "Read what the task asks for, gather what is missing step by step, check every condition of "
    "the task against what you see, and end the episode only when all of them hold."
)
"""The fixed text of every other family."""


def privileged_texts(
    group: TraceGroup,
    source: PiSource = "aligned",
    *,
    analysis: GroupAnalysis | None = None,
    skills: Mapping[str, str] = GENERIC_SKILLS,
    seed: int = 0,
) -> dict[str, str]:
    """The PI's text of each trajectory of a group, by its name; "" for none.

    Args:
        group: the trajectories of one task.
        source: ``aligned`` (the analyzer's accepted statements), ``generic_skill`` (a fixed text
            for the task's family), ``random_success`` (the actions of some other trajectory that
            succeeded), ``nearest_success`` (of the one whose set of actions overlaps most, by
            Jaccard), ``none``.
        analysis: of the group, for ``aligned``.
        skills: family -> text, for ``generic_skill``.
        seed: of the choice in ``random_success``, which depends on it and the names alone.

    Raises:
        UsageError: an unknown source, or ``aligned`` without its analysis.
    """
    if source not in get_args(PiSource):
        known = ", ".join(get_args(PiSource))
        raise UsageError(f"pi_source {source!r} does not exist; use {known}")
    if source == "none":
        return {trace.traj_uid: "" for trace in group.traces}
    if source == "generic_skill":
        text = skills.get(group.family, GENERIC_SKILL)
        return {trace.traj_uid: text for trace in group.traces}
    if source == "aligned":
        if analysis is None or analysis.group_uid != group.group_uid:
            raise UsageError(
                f"pi_source 'aligned' needs the analysis of group {group.group_uid!r}; analyze it"
            )
        return {
            trace.traj_uid: compose_guidance(analysis.statements(trace.traj_uid))
            for trace in group.traces
        }
    texts = {}
    for trace in group.traces:
        siblings = [one for one in group.successes if one.traj_uid != trace.traj_uid]
        pick = _some if source == "random_success" else _nearest
        texts[trace.traj_uid] = _told(pick(trace, siblings, seed)) if siblings else ""
    return texts


def action_overlap(one: Trace, other: Trace) -> float:
    """Jaccard overlap of two trajectories' sets of actions, 0 to 1; 0 if both have none."""
    left, right = _actions(one), _actions(other)
    union = left | right
    return len(left & right) / len(union) if union else 0.0


def _nearest(trace: Trace, siblings: list[Trace], seed: int) -> Trace:
    return max(siblings, key=lambda one: action_overlap(trace, one))


def _some(trace: Trace, siblings: list[Trace], seed: int) -> Trace:
    def drawn(one: Trace) -> bytes:
        words = f"{seed}\n{trace.traj_uid}\n{one.traj_uid}"
        return hashlib.sha256(words.encode("utf-8")).digest()

    return min(siblings, key=drawn)


def _actions(trace: Trace) -> set[str]:
    return {collapsed(step.action) for step in trace.steps}


def _told(trace: Trace) -> str:
    """A trajectory as text: its accepted actions and what came of each."""
    lines = [
        f"> {collapsed(step.action)}\n{collapsed(step.post)}" for step in trace.steps if step.valid
    ]
    return "\n".join(lines)

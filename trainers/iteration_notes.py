"""What a user should be told of an iteration: signs that a training learns nothing."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_suite.trainers.run_settings import RunSettings

_MOSTLY = 0.5
_FAILED = "hints/error/"
PATIENCE: Mapping[str, int] = {"sat_v": 3, "sat_q": 3}
"""Iterations in a row before a sentence is worth saying; 1 for the others."""


def iteration_notes(values: Mapping[str, float], run: RunSettings) -> dict[str, str]:
    """The sentences that an iteration gives reason for, by what they are about.

    Args:
        values: metrics of the iteration.
        run: the run's settings, which the sentences advise on.
    """
    notes = {}
    if values.get("rollout/invalid") == 1:
        notes["invalid"] = (
            f"no reply was an action: the policy does not write what prompt {run.prompt!r} asks "
            "for; clone it first, or choose the prompt that it knows"
        )
    cut = values.get("rollout/cut", 0.0)
    if cut > _MOSTLY:
        notes["cut"] = (
            f"{cut:.0%} of the replies were cut at max_new_tokens = {run.max_new_tokens}; raise it"
        )
    if values.get("advantage/std") == 0 and "teacher/coverage" not in values:
        notes["uniform"] = (
            "every advantage is 0: the trajectories of each task earned the same, so nothing was "
            "learned from them; take easier tasks, more rollouts, or a reward that tells them apart"
        )
    failed = {
        name.removeprefix(_FAILED): count
        for name, count in values.items()
        if name.startswith(_FAILED)
    }
    if failed:
        named = ", ".join(f"{count:.0f} by {what}" for what, count in failed.items())
        notes["analyzer"] = (
            f"the analyzer failed for {sum(failed.values()):.0f} tasks ({named}), which go without "
            "privileged information; see audit/ in the run's folder, and check analyzer_url, "
            "analyzer_model and its key"
        )
    if values.get("teacher/coverage", values.get("hints/coverage")) == 0:
        notes["untold"] = (
            "no trajectory had privileged information, so the teacher said nothing; take other "
            "tasks, or pi_source = generic_skill"
        )
    dropped = values.get("rollout/dropped", 0.0)
    if dropped:
        notes["dropped"] = (
            f"{dropped:.0f} trajectories were dropped: they, or another of their group, broke "
            f"{run.attempts} times"
        )
    largest = values.get("value/largest_target", 1.0)
    if largest < _MOSTLY and values.get("rollout/success", 0.0) > 0:
        notes["r_max"] = (
            f"no target of V is beyond {largest:.0%} of r_max, though tasks were won; set r_max to "
            "what a success earns, or reward_scale so that it earns that much"
        )
    for name, what in (("sat_v", "V"), ("sat_q", "Q")):
        if values.get(name, 0.0) > _MOSTLY:
            notes[name] = (
                f"{values[name]:.0%} of the read-outs of {what} are saturated and learn nothing; "
                "raise value_temperature or r_max"
            )
    return notes

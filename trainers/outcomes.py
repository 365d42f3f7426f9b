"""How a policy did on each of its tasks, and ``evaluation.json``, which a finished run leaves.

Every planned episode counts: one that could not be played is no success, and stays visible.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agentgym_suite.episodes import Episode, EpisodeRequest
from agentgym_suite.errors import DataDamaged, DataVersion
from agentgym_suite.files import Json, write_json_atomic

OUTCOMES_FILE = "evaluation.json"
OUTCOMES_SCHEMA_VERSION = 1

TaskOutcomes = dict[str, list[int | None]]
"""Task -> 1 (success), 0 or None (it broke) for each planned episode."""
Outcomes = dict[str, TaskOutcomes]
"""Evaluation, such as ``seen/temperature_1`` -> its tasks."""


def task_outcomes(requests: Sequence[EpisodeRequest], episodes: Sequence[Episode]) -> TaskOutcomes:
    """The outcome of every planned episode, by task, in the order of the plan.

    Args:
        requests: the plan.
        episodes: what was played of it, in any order.
    """
    played = {(episode.group_id, episode.trial): int(episode.success) for episode in episodes}
    found: TaskOutcomes = {}
    for request in requests:
        outcome = played.get((request.group_id, request.trial))
        found.setdefault(request.task_id, []).append(outcome)
    return found


def success_rates(outcomes: Outcomes) -> dict[str, float]:
    """The share of planned episodes that succeeded, as ``evaluation/seen/temperature_1``."""
    return {f"evaluation/{name}": success_rate(tasks) for name, tasks in outcomes.items()}


def success_rate(tasks: TaskOutcomes) -> float:
    """The share of an evaluation's planned episodes that succeeded."""
    planned = [outcome or 0 for line in tasks.values() for outcome in line]
    return sum(planned) / len(planned)


def write_outcomes(folder: Path, outcomes: Outcomes) -> None:
    """Write ``evaluation.json``: the last thing that a run does, so that it marks a finished one.

    Raises:
        DataError: the file cannot be written.
    """
    value: Json = {"schema_version": OUTCOMES_SCHEMA_VERSION, "outcomes": outcomes}
    write_json_atomic(folder / OUTCOMES_FILE, value)


def read_outcomes(folder: Path) -> Outcomes | None:
    """What ``write_outcomes`` wrote; None for a run that is not finished.

    Raises:
        DataDamaged: the file is none of ours.
        DataVersion: another version wrote it.
    """
    path = folder / OUTCOMES_FILE
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_bytes())
        version, outcomes = value["schema_version"], value["outcomes"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataDamaged(f"{path} holds no outcomes ({error}); train again") from error
    if version != OUTCOMES_SCHEMA_VERSION:
        raise DataVersion(
            f"{path} has version {version!r}, not {OUTCOMES_SCHEMA_VERSION}; train again"
        )
    found: Outcomes = outcomes
    return found


def forget_outcomes(folder: Path) -> None:
    """A run that goes on is not finished."""
    (folder / OUTCOMES_FILE).unlink(missing_ok=True)

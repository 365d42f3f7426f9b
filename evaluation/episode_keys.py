"""What names an episode of a run, and which episodes a suite plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class EpisodeKey(NamedTuple):
    """The key of an episode within its run: environment, task and trial."""

    env_id: str
    task_id: str
    trial: int

    def __str__(self) -> str:
        return f"{self.task_id} of {self.env_id} (trial {self.trial})"


def key_of(record: Mapping[str, Any]) -> EpisodeKey:
    """The key of a stored episode or attempt."""
    key = record["key"]
    return EpisodeKey(key["env_id"], key["task_id"], key["trial"])


def planned_keys(entry: Mapping[str, Any]) -> Iterator[EpisodeKey]:
    """The episodes of one environment, in the suite's order.

    Args:
        entry: the environment as ``Suite.content()`` and ``run.json`` hold it.
    """
    for task in entry["tasks"]:
        for trial in range(entry["trials"]):
            yield EpisodeKey(entry["id"], task, trial)

"""The records of a run, read one at a time and reduced at once to what is counted.

A run of any length is scored in little memory, and nothing depends on the order in which its
episodes were finished.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of, planned_keys
from agentgym_suite.evaluation.run_directory import (
    ATTEMPTS,
    EPISODES,
    check_suite,
    read_records,
)
from agentgym_suite.evaluation.run_header import provenance_of

_MESSAGE_SHOWN = 200  # characters
_REASON_SHOWN = 80
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d,.]*\d|\d")  # quoted texts, numbers


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """What scoring needs of a finished episode."""

    score: float
    success: bool
    family: str
    outcome: str
    n_steps: int
    metrics: Mapping[str, float | None]
    failure: tuple[str, str] | None

    def value(self, metric: str) -> float:
        """A metric of the episode; 0 for one that broke before its first observation.

        Args:
            metric: "success", "score", "steps" or one of the environment's metrics.
        """
        if metric == "success":
            return float(self.success)
        if metric == "score":
            return self.score
        return float(self.n_steps) if metric == "steps" else self.metrics.get(metric) or 0.0


class Tally:
    """The records of one environment, reduced.

    Args:
        entry: the environment as ``run.json`` holds it.
        provenance: what it tells of itself.
    """

    def __init__(self, entry: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
        self.provenance = provenance
        self.max_steps: int | None = entry["max_steps"]
        self.split: str = entry["split"]
        self.tasks: Sequence[str] = entry["tasks"]
        self.trials: int = entry["trials"]
        self.plan = dict.fromkeys(planned_keys(entry))  # a set that keeps its order
        self.summaries: dict[EpisodeKey, EpisodeSummary] = {}
        self.lost: dict[EpisodeKey, tuple[str, str]] = {}
        self.attempts: Counter[tuple[str, str]] = Counter()
        self.messages: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.steps = 0
        self.invalid_steps = 0
        self.repeated_steps = 0
        self.format_errors: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.latencies = {"model": array("d"), "env": array("d")}
        self.price_tables: set[str | None] = set()
        self.prices: list[float] = []
        self._families: dict[EpisodeKey, str] = {}

    @property
    def complete(self) -> bool:
        """Whether every planned episode is finished."""
        return len(self.summaries) == len(self.plan)

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a finished episode.

        Raises:
            RunError: it has been counted before.
        """
        key = key_of(record)
        if key in self.summaries:
            raise RunError(f"the run holds the episode {key} twice; move it away")
        failure = None if record["failure"] is None else self._failure(record["failure"])
        self.summaries[key] = EpisodeSummary(
            record["score"] or 0.0,
            record["success"],
            record["task_family"],
            record["outcome"],
            record["n_steps"],
            record["metrics"],
            failure,
        )
        cost = record["cost"]
        self.price_tables.add(cost["price_table"] if cost["usd"] is not None else None)
        self.prices.append(cost["usd"] or 0.0)
        for calls in _uncounted_calls(record):
            self.tokens.update(calls)
        before: str | None = None
        for step in record["steps"]:
            self._add_step(step, before)
            before = step["parsed_action"]

    def _add_step(self, step: Mapping[str, Any], before: str | None) -> None:
        self.steps += 1
        self.repeated_steps += step["parsed_action"] == before
        if not step["action_valid"]:
            self.invalid_steps += 1
            self.format_errors[reason(step["action_error"])] += 1
        self.tokens.update(step["tokens"])
        for part, seconds in step["latency_s"].items():
            if seconds is not None:
                self.latencies[part].append(seconds)

    def add_attempt(self, record: Mapping[str, Any]) -> None:
        """Count a lost attempt, after all finished episodes."""
        key = key_of(record)
        failure = self._failure(record["failure"])
        self.attempts[failure] += 1
        if key not in self.summaries:
            self.lost[key] = failure
            self._families[key] = record["task_family"]

    def _failure(self, failure: Mapping[str, str]) -> tuple[str, str]:
        """Kind and origin; the message's first line is counted."""
        kind = failure["kind"], failure["origin"]
        first_line = failure["message"].strip().partition("\n")[0][:_MESSAGE_SHOWN]
        self.messages[kind][first_line] += 1
        return kind

    def family(self, key: EpisodeKey) -> str:
        """The family of an episode's task, "" if it has none or nothing of it was played."""
        summary = self.summaries.get(key)
        return self._families.get(key, "") if summary is None else summary.family

    def values(self, metric: str, tasks: Sequence[str] | None = None) -> list[list[float]]:
        """A metric of every trial of every task, in the suite's order.

        Args:
            metric: see ``EpisodeSummary.value``.
            tasks: of these tasks alone, in their order; all of their trials are finished.
        """
        chosen = self.tasks if tasks is None else tasks
        values: dict[str, list[float]] = {task: [] for task in chosen}
        for key in self.plan:
            if key.task_id in values:
                values[key.task_id].append(self.summaries[key].value(metric))
        return list(values.values())

    def finished_tasks(self) -> list[str]:
        """The tasks all of whose trials are finished, in the suite's order."""
        missing = {key.task_id for key in self.plan if key not in self.summaries}
        return [task for task in self.tasks if task not in missing]


def _uncounted_calls(record: Mapping[str, Any]) -> Iterator[Mapping[str, int]]:
    """The tokens of model calls that are no step of the episode: of the rounds before, and lost."""
    for played in record["earlier_rounds"]:
        yield from (step["tokens"] for step in played["steps"])
        yield played["reflection_tokens"]
    lost = record["failure"] and record["failure"]["tokens"]
    if lost:
        yield lost


def read_tallies(folder: Path, header: Mapping[str, Any]) -> dict[str, Tally]:
    """The records of every environment of a run, in the suite's order.

    Args:
        folder: the run.
        header: what its ``run.json`` says.

    Raises:
        RunError: its records cannot be read or are not its own.
    """
    told = header["config"]["environments"]
    tallies = {
        entry["id"]: Tally(entry, provenance_of(told, entry["id"]))
        for entry in header["suite"]["content"]["env"]
    }
    for record in read_records(folder / EPISODES):
        check_suite(record, header, folder / EPISODES)
        _tally_of(tallies, record, folder / EPISODES).add(record)
    for record in read_records(folder / ATTEMPTS):
        check_suite(record, header, folder / ATTEMPTS)
        _tally_of(tallies, record, folder / ATTEMPTS).add_attempt(record)
    return tallies


def reason(action_error: str) -> str:
    """Why an action was invalid, in words that are the same for all actions of the kind."""
    words = _PARTICULAR.sub("…", action_error.strip().partition("\n")[0])
    words = words.partition(": ")[0].strip(" .;:")
    return words[:_REASON_SHOWN] or "no reason"


def _tally_of(tallies: Mapping[str, Tally], record: Mapping[str, Any], path: Path) -> Tally:
    key = key_of(record)
    tally = tallies.get(key.env_id)
    if tally is None or key not in tally.plan:
        raise RunError(f"{path} has the episode {key}, which its suite does not plan")
    return tally

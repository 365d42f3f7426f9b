"""From a run's records to its results; a pure function of the directory's files.

Records are read one at a time and reduced at once, so that a run of any length is scored in
little memory. Nothing depends on the order in which episodes were finished.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of, planned_keys
from agentgym_suite.evaluation.intervals import (
    Interval,
    macro_interval,
    no_interval,
    success_interval,
    task_bootstrap,
    task_bootstraps,
    task_means,
)
from agentgym_suite.evaluation.results import (
    Bounds,
    EnvBounds,
    EnvResults,
    FailureCount,
    FamilyRate,
    Latency,
    Macro,
    RunName,
    RunResults,
    SuiteName,
    TokenTotals,
)
from agentgym_suite.evaluation.run_directory import ATTEMPTS, EPISODES, read_records
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.files import canonical_json

RESULTS_SCHEMA_VERSION = 1
_DIGEST_SHOWN = 12
_MESSAGE_SHOWN = 200  # characters


def score_run(folder: Path) -> RunResults:
    """The results of a run from its files.

    Raises:
        RunError: the folder holds no run, or its records cannot be read or are not its own.
    """
    header = read_run(folder)
    suite = header["suite"]
    tallies = {entry["id"]: _Tally(entry) for entry in suite["content"]["env"]}
    for record in read_records(folder / EPISODES):
        _tally_of(tallies, record, folder / EPISODES).add(record)
    for record in read_records(folder / ATTEMPTS):
        _tally_of(tallies, record, folder / ATTEMPTS).add_attempt(record)
    return _results(header, tallies)


def results_bytes(results: RunResults) -> bytes:
    """``results.json``: the same bytes for the same records."""
    return (canonical_json(results.as_dict()) + "\n").encode("utf-8")


def _tally_of(tallies: Mapping[str, _Tally], record: Mapping[str, Any], path: Path) -> _Tally:
    key = key_of(record)
    tally = tallies.get(key.env_id)
    if tally is None or key not in tally.plan:
        raise RunError(f"{path} has the episode {key}, which its suite does not plan")
    return tally


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


class _Tally:
    """The records of one environment, reduced."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.split: str = entry["split"]
        self.tasks: Sequence[str] = entry["tasks"]
        self.trials: int = entry["trials"]
        self.plan = dict.fromkeys(planned_keys(entry))  # a set that keeps its order
        self.summaries: dict[EpisodeKey, EpisodeSummary] = {}
        self.lost: dict[EpisodeKey, tuple[str, str]] = {}
        self.families: dict[EpisodeKey, str] = {}
        self.attempts: Counter[tuple[str, str]] = Counter()
        self.messages: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.steps = 0
        self.invalid_steps = 0
        self.tokens: Counter[str] = Counter()
        self.latencies = {"model": array("d"), "env": array("d")}

    @property
    def complete(self) -> bool:
        return len(self.summaries) == len(self.plan)

    def add(self, record: Mapping[str, Any]) -> None:
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
        for step in record["steps"]:
            self.steps += 1
            self.invalid_steps += not step["action_valid"]
            self.tokens.update(step["tokens"])
            for part, seconds in step["latency_s"].items():
                if seconds is not None:
                    self.latencies[part].append(seconds)

    def add_attempt(self, record: Mapping[str, Any]) -> None:
        key = key_of(record)
        failure = self._failure(record["failure"])
        self.attempts[failure] += 1
        if key not in self.summaries:  # the file of finished episodes has been read before
            self.lost[key] = failure
            self.families[key] = record["task_family"]

    def _failure(self, failure: Mapping[str, str]) -> tuple[str, str]:
        """Kind and origin; the message's first line is counted."""
        kind = failure["kind"], failure["origin"]
        first_line = failure["message"].strip().partition("\n")[0][:_MESSAGE_SHOWN]
        self.messages[kind][first_line] += 1
        return kind

    def by_task(self, value_of: Callable[[EpisodeSummary], float]) -> list[list[float]]:
        """A value of every trial of every task, in the suite's order."""
        values: dict[str, list[float]] = {task: [] for task in self.tasks}
        for key in self.plan:
            values[key.task_id].append(value_of(self.summaries[key]))
        return list(values.values())


def _results(header: Mapping[str, Any], tallies: Mapping[str, _Tally]) -> RunResults:
    suite = header["suite"]
    planned = sum(len(tally.plan) for tally in tallies.values())
    finished = sum(len(tally.summaries) for tally in tallies.values())
    complete = finished == planned
    reasons = list(suite["departures"])
    if not complete:
        reasons.append(f"{planned - finished} of {planned} episodes are missing")
    errors: Counter[str] = Counter()
    for tally in tallies.values():
        errors.update(b.failure[1] for b in tally.summaries.values() if b.failure is not None)
        errors.update(origin for _, origin in tally.lost.values())
    digest = header["config_digest"].removeprefix("sha256:")[:_DIGEST_SHOWN]
    return RunResults(
        schema_version=RESULTS_SCHEMA_VERSION,
        suite=SuiteName(
            suite["id"],
            suite["version"],
            suite["digest"],
            suite["title"],
            suite["content"]["metrics"]["primary"],
        ),
        run=RunName(
            id=f"{suite['id']}-{header['agent']}-{digest}",
            agent=header["agent"],
            policy_version=header["policy_version"],
            runner=header["options"]["runner"],
            config_digest=header["config_digest"],
        ),
        status="complete" if complete else "incomplete",
        rankable=not reasons,
        not_rankable_reasons=tuple(reasons),
        planned=planned,
        finished=finished,
        errors=dict(sorted(errors.items())),
        retries=sum(tally.attempts.total() - len(tally.lost) for tally in tallies.values()),
        envs={env_id: _env_results(tally) for env_id, tally in tallies.items()},
        macro=_macro(list(tallies.values())),
        bounds=None if complete else {env_id: _bounds(tally) for env_id, tally in tallies.items()},
        verification=None,
        provenance={
            "environments": header["config"]["environments"],
            "git": header["git"],
            "packages": header["packages"],
        },
    )


def _env_results(tally: _Tally) -> EnvResults:
    summaries = list(tally.summaries.values())
    return EnvResults(
        split=tally.split,
        n_tasks=len(tally.tasks),
        trials=tally.trials,
        planned=len(tally.plan),
        finished=len(summaries),
        successes=sum(summary.success for summary in summaries),
        success=success_interval(tally.by_task(_success)) if tally.complete else _missing(tally),
        score=task_bootstrap(_score_means(tally)) if tally.complete else _missing(tally),
        families=_families(tally),
        metrics=_metrics(tally) if tally.complete else {},
        outcomes=dict(sorted(Counter(summary.outcome for summary in summaries).items())),
        invalid_steps=tally.invalid_steps / tally.steps if tally.steps else None,
        tokens=TokenTotals(*(tally.tokens[part] for part in ("prompt", "completion", "cached"))),
        cost=None,
        latency={part: _latency(seconds) for part, seconds in tally.latencies.items()},
        failures=_failures(tally),
    )


def _success(summary: EpisodeSummary) -> float:
    return float(summary.success)


def _score_means(tally: _Tally) -> NDArray[np.float64]:
    return task_means(tally.by_task(lambda summary: summary.score))


def _missing(tally: _Tally) -> Interval:
    missing = len(tally.plan) - len(tally.summaries)
    return no_interval(f"incomplete: {missing} of {len(tally.plan)} episodes are missing")


def _macro(tallies: Sequence[_Tally]) -> Macro:
    if not all(tally.complete for tally in tallies):
        return Macro(no_interval("incomplete"), no_interval("incomplete"))
    if len(tallies) == 1:
        tally = tallies[0]
        return Macro(success_interval(tally.by_task(_success)), task_bootstrap(_score_means(tally)))
    return Macro(
        macro_interval([task_means(tally.by_task(_success)) for tally in tallies]),
        macro_interval([_score_means(tally) for tally in tallies]),
    )


def _bounds(tally: _Tally) -> EnvBounds:
    planned = len(tally.plan)
    missing = planned - len(tally.summaries)

    def of(total: float) -> Bounds:
        return Bounds(total / planned, (total + missing) / planned)

    summaries = tally.summaries.values()
    return EnvBounds(
        success=of(sum(summary.success for summary in summaries)),
        score=of(math.fsum(summary.score for summary in summaries)),
    )


def _families(tally: _Tally) -> dict[str, FamilyRate]:
    """Success by family; an episode that is missing counts as none, like everywhere."""
    trials: dict[str, dict[str, list[float]]] = {}
    for key in tally.plan:
        summary = tally.summaries.get(key)
        family = tally.families.get(key, "") if summary is None else summary.family
        if family:
            success = 0.0 if summary is None else float(summary.success)
            trials.setdefault(family, {}).setdefault(key.task_id, []).append(success)
    rates = {}
    for family, by_task in sorted(trials.items()):
        values = list(by_task.values())
        rate = success_interval(values) if tally.complete else no_interval("incomplete")
        k = round(sum(map(sum, values)))
        n = sum(map(len, values))
        rates[family] = FamilyRate(k, n, rate.estimate, rate.low, rate.high)
    return rates


def _metrics(tally: _Tally) -> dict[str, Interval]:
    names = sorted({name for summary in tally.summaries.values() for name in summary.metrics})
    columns = [task_means(tally.by_task(lambda summary: float(summary.n_steps)))]
    # An episode that broke before its first observation has no metrics: it counts as 0.
    for name in names:
        values = tally.by_task(partial(_metric, name))
        columns.append(task_means(values))
    intervals = task_bootstraps(np.stack(columns, axis=1))
    return dict(zip(["steps", *names], intervals, strict=True))


def _metric(name: str, summary: EpisodeSummary) -> float:
    return summary.metrics.get(name) or 0.0


def _latency(seconds: Iterable[float]) -> Latency:
    ordered = sorted(seconds)
    if not ordered:
        return Latency(None, None)
    p50, p95 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.50, 0.95))
    return Latency(p50, p95)


def _failures(tally: _Tally) -> tuple[FailureCount, ...]:
    ended = Counter(b.failure for b in tally.summaries.values() if b.failure is not None)
    episodes = ended + Counter(tally.lost.values())
    attempts = ended + tally.attempts
    return tuple(
        FailureCount(
            kind,
            origin,
            episodes[kind, origin],
            attempts[kind, origin],
            _most_frequent(tally.messages[kind, origin]),
        )
        for kind, origin in sorted(attempts)
    )


def _most_frequent(texts: Counter[str]) -> str:
    """Of equally frequent texts the first by name, whichever came first."""
    return min(texts, key=lambda text: (-texts[text], text), default="")

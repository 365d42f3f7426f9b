"""Success apart by what tells tasks from each other, and over all of these groups."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from agentgym_suite.evaluation.episode_keys import EpisodeKey
from agentgym_suite.evaluation.intervals import (
    Interval,
    macro_interval,
    no_interval,
    success_interval,
    task_means,
)
from agentgym_suite.evaluation.results import FamilyRate, GroupMeans, LengthRate
from agentgym_suite.evaluation.tallies import Tally

UNKNOWN = "unknown"
FAMILY, ORACLE_LENGTH = "family", "oracle_length"
"""Kinds of groups that any environment can have, beside its own."""
_LENGTHS = ((3, "up to 3"), (4, "4"), (5, "5"), (6, "6"), (9, "7-9"))
_LONGEST = "over 9"
Metrics = Mapping[str, float | None]


def _data_set(key: EpisodeKey, family: str, metrics: Metrics) -> str:
    return key.task_id.partition("/")[0]


def _hops(key: EpisodeKey, family: str, metrics: Metrics) -> str:
    hops = metrics.get("hops")
    return str(round(hops)) if hops else UNKNOWN


def _family(key: EpisodeKey, family: str, metrics: Metrics) -> str:
    return family or UNKNOWN


def _options(key: EpisodeKey, family: str, metrics: Metrics) -> str:
    asked = metrics.get("options_asked")
    return UNKNOWN if asked is None else "asked" if asked else "not asked"


_DIMENSIONS: Mapping[str, Mapping[str, Callable[[EpisodeKey, str, Metrics], str]]] = {
    "WebShop-v0": {"options": _options},
    "MultiHopQA-v0": {"data_set": _data_set, "hops": _hops, "question_type": _family},
    "PaperSearch-v0": {"query_type": _family},
}


def breakdowns(tally: Tally) -> dict[str, dict[str, FamilyRate]]:
    """Success by data set, hops, type or options: dimension -> group -> rate.

    A task none of whose episodes was begun is counted in the group "unknown".
    """
    return {dimension: rates(tally, groups) for dimension, groups in _named_groups(tally).items()}


def _named_groups(tally: Tally) -> dict[str, dict[str, str]]:
    """Dimension -> task -> its group."""
    named = _DIMENSIONS.get(next(iter(tally.plan)).env_id, {}) if tally.plan else {}
    found = {}
    for dimension, group_of in named.items():
        groups: dict[str, str] = {}
        for key in tally.plan:
            summary = tally.summaries.get(key)
            metrics = {} if summary is None else summary.metrics
            group = group_of(key, tally.family(key), metrics)
            if groups.get(key.task_id, UNKNOWN) == UNKNOWN:
                groups[key.task_id] = group
        found[dimension] = groups
    return found


def families(tally: Tally) -> dict[str, FamilyRate]:
    """Success by task family; tasks without one are left out."""
    return rates(tally, _family_groups(tally))


def _family_groups(tally: Tally) -> dict[str, str]:
    return {key.task_id: tally.family(key) for key in tally.plan if tally.family(key)}


def group_means(tally: Tally) -> dict[str, GroupMeans]:
    """Success over all groups of a kind: "family", "oracle_length" and the breakdowns' names.

    Tasks that no group of the kind holds are left out; so are kinds without a group.
    """
    stored = {task: _length_group(steps) for task, steps in stored_lengths(tally).items()}
    kinds = {FAMILY: _family_groups(tally), **_named_groups(tally), ORACLE_LENGTH: stored}
    return {kind: _means(tally, groups) for kind, groups in kinds.items() if groups}


def _means(tally: Tally, groups: Mapping[str, str]) -> GroupMeans:
    if not tally.complete:
        return GroupMeans(no_interval("incomplete"), no_interval("incomplete"))
    pooled = success_interval(_trials(tally, [key for key in tally.plan if key.task_id in groups]))
    each = [task_means(_trials(tally, keys)) for keys in _by_group(tally, groups).values()]
    return GroupMeans(macro_interval(each, rate=True) if len(each) > 1 else pooled, pooled)


def rates(tally: Tally, groups: Mapping[str, str]) -> dict[str, FamilyRate]:
    """Success by group; an episode that is missing counts as none, like everywhere.

    Args:
        tally: the records of an environment.
        groups: task -> its group; other tasks are left out.
    """
    found = {}
    for group, keys in _by_group(tally, groups).items():
        trials = _trials(tally, keys)
        scores = [tally.summaries[key].score for key in keys if key in tally.summaries]
        score = math.fsum(scores) / len(keys) if tally.complete else None
        found[group] = FamilyRate(*_rate(trials, tally.complete), score)
    return found


def length_rates(
    tally: Tally, lengths: Mapping[str, int], tasks: Collection[str] | None = None
) -> dict[str, LengthRate]:
    """Success by the steps that the oracle needs: "up to 3", "4", "5", "6", "7-9", "over 9".

    Args:
        tally: the records of an environment.
        lengths: task -> steps of the oracle; tasks without are left out.
        tasks: of these tasks alone, all of whose trials are finished; None takes every task.
    """
    complete = tally.complete if tasks is None else True
    chosen = lengths if tasks is None else lengths.keys() & set(tasks)
    groups = {task: _length_group(lengths[task]) for task in chosen}
    found = {}
    for group, keys in _by_group(tally, groups).items():
        solved = [key for key in keys if key in tally.summaries and tally.summaries[key].success]
        extra = [tally.summaries[key].n_steps - lengths[key.task_id] for key in solved]
        mean = sum(extra) / len(extra) if extra else None
        found[group] = LengthRate(*_rate(_trials(tally, keys), complete), mean)
    order = [*(name for _, name in _LENGTHS), _LONGEST]
    return {name: found[name] for name in order if name in found}


def stored_lengths(tally: Tally) -> dict[str, int]:
    """The steps of the solution that is stored with a task, where the environment tells them."""
    found = {}
    for key, summary in tally.summaries.items():
        steps = summary.metrics.get("walkthrough_steps")
        if steps:
            found[key.task_id] = round(steps)
    return found


def _length_group(length: int) -> str:
    return next((name for most, name in _LENGTHS if length <= most), _LONGEST)


def _by_group(tally: Tally, groups: Mapping[str, str]) -> dict[str, list[EpisodeKey]]:
    found: defaultdict[str, list[EpisodeKey]] = defaultdict(list)
    for key in tally.plan:
        if key.task_id in groups:
            found[groups[key.task_id]].append(key)
    return dict(sorted(found.items()))


def _trials(tally: Tally, keys: Sequence[EpisodeKey]) -> list[list[float]]:
    by_task: dict[str, list[float]] = {}
    for key in keys:
        summary = tally.summaries.get(key)
        success = 0.0 if summary is None else float(summary.success)
        by_task.setdefault(key.task_id, []).append(success)
    return list(by_task.values())


def _rate(
    trials: Sequence[Sequence[float]], complete: bool
) -> tuple[int, int, float | None, float | None, float | None]:
    """k, n, estimate, low, high."""
    rate: Interval = success_interval(trials) if complete else no_interval("incomplete")
    k = round(sum(map(sum, trials)))
    return k, sum(map(len, trials)), rate.estimate, rate.low, rate.high

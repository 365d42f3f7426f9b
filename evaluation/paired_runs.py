"""Comparing runs task by task: differences, tests, and what may have caused them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from agentgym_suite.errors import IncompleteRun, UsageError
from agentgym_suite.evaluation.breakdowns import length_rates
from agentgym_suite.evaluation.comparisons import difference_interval, holm
from agentgym_suite.evaluation.entrants import Entrant, find_entrants
from agentgym_suite.evaluation.intervals import macro_interval
from agentgym_suite.evaluation.paired_results import (
    COMPARISON_SCHEMA_VERSION,
    ComparedRun,
    Comparison,
    Flip,
    Pair,
    SuiteComparison,
)
from agentgym_suite.evaluation.primary_values import (
    EnvValues,
    PairedTest,
    macro,
    paired_p,
    primary_metric,
)
from agentgym_suite.evaluation.results import LengthRate, common_metric
from agentgym_suite.evaluation.run_directory import HTML
from agentgym_suite.evaluation.run_header import read_run, run_folder
from agentgym_suite.evaluation.setting_differences import setting_warnings
from agentgym_suite.evaluation.tallies import Tally, read_tallies

_UNESCAPED = "-_.!~*'()"  # what the page's encodeURIComponent leaves as it is


def compare(
    *folders: str | Path,
    common_tasks: bool = False,
    metric: str | None = None,
    oracle: str | Path | None = None,
) -> Comparison:
    """Compare runs of one suite with each other, task by task.

    Of a union's folder every suite is compared that all runs have. Nothing is read but the
    records; a run needs no report and no verification.

    Args:
        folders: runs, folders of nothing but runs, or folders of unions.
        common_tasks: compare what all runs have finished, even of different suites, instead of
            refusing runs that differ in their tasks.
        metric: what to compare: "success", "score", "steps" or a metric of the environments;
            None takes what a leaderboard of the suite is ordered by.
        oracle: a run of the same tasks, after whose steps success is told by length; None
            leaves that out.

    Raises:
        RunError: a folder holds no run, or a damaged one.
        IncompleteRun: a run lacks episodes, and ``common_tasks`` is off.
        UsageError: fewer than two runs, runs of different suites, no task in common, or suites
            that are ordered by different metrics while none is named.
    """
    entrants = find_entrants([run_folder(folder) for folder in folders])
    groups, left_out = _groups(entrants)
    lengths = None if oracle is None else recorded_lengths(run_folder(oracle))
    told = [
        _compared([_read(one, suite) for one, suite in group], common_tasks, metric, lengths)
        for group in groups
    ]
    p_values = [test.p for _, tests in told for test in tests]
    adjusted = iter(holm(p_values))
    suites = tuple(
        suite(pairs=tuple(_pair(test, next(adjusted)) for test in tests)) for suite, tests in told
    )
    return Comparison(COMPARISON_SCHEMA_VERSION, suites, left_out, len(p_values))


def recorded_lengths(folder: Path) -> dict[str, dict[str, int]]:
    """The steps that a recorded run needed: environment -> task -> steps of its shortest success.

    Raises:
        RunError: the folder holds no run, or a damaged one.
    """
    found: dict[str, dict[str, int]] = {}
    for env_id, tally in read_tallies(folder, read_run(folder)).items():
        steps = found.setdefault(env_id, {})
        for key, summary in tally.summaries.items():
            if summary.success:
                least = min(summary.n_steps, steps.get(key.task_id, summary.n_steps))
                steps[key.task_id] = least
    return found


@dataclass(frozen=True, slots=True)
class _OpenRun:
    """A run that is compared, read."""

    label: str
    folder: Path
    header: Mapping[str, Any]
    tallies: Mapping[str, Tally]

    @property
    def suite(self) -> str:
        suite = self.header["suite"]
        return f"{suite['id']} v{suite['version']}"

    @property
    def compared(self) -> ComparedRun:
        tallies = self.tallies.values()
        return ComparedRun(
            label=self.label,
            agent=self.header["agent"],
            folder=self.folder.as_posix(),
            suite=self.suite,
            planned=sum(len(tally.plan) for tally in tallies),
            finished=sum(len(tally.summaries) for tally in tallies),
        )

    def link(self, env_id: str, task_id: str) -> str:
        """Where the run's own page shows the first trial of a task."""
        parts = (self.header["agent"], env_id, task_id, "0")
        key = "/".join(quote(part, safe=_UNESCAPED) for part in parts)
        return f"{(self.folder / HTML).as_posix()}#{key}"


def _groups(
    entrants: Sequence[Entrant],
) -> tuple[list[list[tuple[Entrant, str]]], dict[str, str]]:
    """The runs that are compared with each other, and the suites that somebody lacks."""
    if not any(one.union for one in entrants):
        return [[(one, next(iter(one.runs))) for one in entrants]], {}
    suites = dict.fromkeys(suite for one in entrants for suite in one.runs)
    groups, left_out = [], {}
    for suite in suites:
        lacking = [one.label for one in entrants if suite not in one.runs]
        if lacking:
            left_out[suite] = f"no run of {', '.join(lacking)}"
        else:
            groups.append([(one, suite) for one in entrants])
    if not groups:
        raise UsageError(
            f"no suite was played by all of {', '.join(one.label for one in entrants)}; name runs "
            "of one suite"
        )
    return groups, left_out


def _read(entrant: Entrant, suite: str) -> _OpenRun:
    folder = entrant.runs[suite]
    header = read_run(folder)
    return _OpenRun(entrant.label, folder, header, read_tallies(folder, header))


def _compared(
    runs: Sequence[_OpenRun],
    common_tasks: bool,
    metric: str | None,
    lengths: Mapping[str, Mapping[str, int]] | None,
) -> tuple[Callable[..., SuiteComparison], list[_Test]]:
    """A suite's comparison but for its pairs, and the tests that these are made of."""
    if not common_tasks:
        _refuse_different_tasks(runs)
    tasks, remarks = _common_tasks(runs)
    metrics, more = _metrics(runs, list(tasks), metric)
    tasks = {env_id: tasks[env_id] for env_id in metrics}
    tests = [
        test for one, other in combinations(runs, 2) for test in _tests(one, other, tasks, metrics)
    ]
    warnings = dict.fromkeys(
        sentence
        for run in runs[1:]
        for sentence in setting_warnings(runs[0].header, run.header, (runs[0].label, run.label))
    )
    suite = partial(
        SuiteComparison,
        suite=", ".join(dict.fromkeys(run.suite for run in runs)),
        runs=tuple(run.compared for run in runs),
        remarks=(*remarks, *more),
        warnings=tuple(warnings),
        oracle_lengths={} if lengths is None else _oracle_lengths(runs, lengths, tasks),
    )
    return suite, tests


def _refuse_different_tasks(runs: Sequence[_OpenRun]) -> None:
    """Refuse runs that differ in what they were to play, or have not played it all."""
    first = runs[0]
    hint = "--common-tasks compares what all of them have"
    for run in runs[1:]:
        if run.suite != first.suite:
            raise UsageError(
                f"{first.label} and {run.label} are of different suites ({first.suite}, "
                f"{run.suite}); {hint}"
            )
        plans = [
            [key for tally in one.tallies.values() for key in tally.plan] for one in (first, run)
        ]
        if plans[0] != plans[1]:
            raise UsageError(
                f"{first.label} and {run.label} are of {first.suite} but planned {len(plans[0])} "
                f"and {len(plans[1])} episodes of different tasks or trials; {hint}"
            )
        if run.header["suite"]["digest"] != first.header["suite"]["digest"]:
            raise UsageError(
                f"{first.label} and {run.label} played the same tasks of {first.suite}, but with "
                f"other settings of the suite; {hint}"
            )
    for run in runs:
        one = run.compared
        if one.finished < one.planned:
            raise IncompleteRun(
                f"{one.label} is incomplete, {one.finished} of {one.planned} episodes; go on with "
                f"it, or {hint}"
            )


def _common_tasks(runs: Sequence[_OpenRun]) -> tuple[dict[str, list[str]], list[str]]:
    """The tasks of each environment that every run has finished, and what is left out."""
    first, *others = runs
    tasks, remarks = {}, []
    for env_id in dict.fromkeys(env_id for run in runs for env_id in run.tallies):
        lacking = [run.label for run in runs if env_id not in run.tallies]
        if lacking:
            remarks.append(f"{env_id} is not compared: {', '.join(lacking)} did not play it")
            continue
        kept = [set(run.tallies[env_id].finished_tasks()) for run in others]
        common = [
            task
            for task in first.tallies[env_id].finished_tasks()
            if all(task in there for there in kept)
        ]
        every = {task for run in runs for task in run.tallies[env_id].tasks}
        if common:
            tasks[env_id] = common
        if len(common) < len(every):
            remarks.append(
                f"{env_id}: {len(common)} of {len(every)} tasks were finished by all and are "
                "compared"
            )
    if not tasks:
        raise UsageError(
            f"{', '.join(run.label for run in runs)} have no finished task in common; name runs "
            "of the same tasks"
        )
    return tasks, remarks


def _metrics(
    runs: Sequence[_OpenRun], env_ids: Sequence[str], metric: str | None
) -> tuple[dict[str, str], list[str]]:
    """What is compared in each environment, and which environments do not measure it."""
    if metric is None:
        return {env_id: _primary(runs, env_id) for env_id in env_ids}, []
    known = {
        env_id: {
            "success",
            "score",
            "steps",
            *(n for run in runs for s in run.tallies[env_id].summaries.values() for n in s.metrics),
        }
        for env_id in env_ids
    }
    found = {env_id: metric for env_id in env_ids if metric in known[env_id]}
    if not found:
        names = ", ".join(sorted({name for names in known.values() for name in names}))
        raise UsageError(f"no environment measures {metric!r}; choose among {names}")
    absent = [env_id for env_id in env_ids if env_id not in found]
    return found, [f"{env_id} is not compared: it has no metric {metric}" for env_id in absent]


def _primary(runs: Sequence[_OpenRun], env_id: str) -> str:
    """What every run's suite orders an environment by."""
    primaries = [
        primary_metric(run.header["suite"]["content"]["metrics"]["primary"], env_id) for run in runs
    ]
    for run, primary in zip(runs, primaries, strict=True):
        if primary != primaries[0]:
            raise UsageError(
                f"{runs[0].label} and {run.label} are of suites that order {env_id} by different "
                f"metrics ({primaries[0]}, {primary}); name the one to compare with --metric"
            )
    return primaries[0]


@dataclass(frozen=True, slots=True)
class _Test:
    """Two runs in one environment, or over several, tested but not yet adjusted."""

    runs: tuple[str, str]
    env_id: str
    metric: str
    first: Mapping[str, EnvValues]
    second: Mapping[str, EnvValues]
    flips: tuple[Flip, ...]
    p: float
    name: PairedTest


def _tests(
    one: _OpenRun,
    other: _OpenRun,
    tasks: Mapping[str, Sequence[str]],
    metrics: Mapping[str, str],
) -> Iterator[_Test]:
    """The two runs in each environment, then over all of them where there are several."""
    labels = one.label, other.label
    first, second = (
        {e: _values(run, e, tasks[e], metrics[e]) for e in tasks} for run in (one, other)
    )
    for env_id, metric in metrics.items():
        flips = tuple(_flips(one, other, env_id, tasks[env_id]))
        values = {env_id: first[env_id]}, {env_id: second[env_id]}
        yield _Test(labels, env_id, metric, *values, flips, *paired_p(*values))
    if len(metrics) > 1:
        metric = common_metric(metrics.values())
        yield _Test(labels, "", metric, first, second, (), *paired_p(first, second))


def _pair(test: _Test, adjusted: float) -> Pair:
    differences = [test.first[env_id].means - test.second[env_id].means for env_id in test.first]
    together = np.concatenate(differences)
    wins, losses = int((together > 0).sum()), int((together < 0).sum())
    several = len(differences) > 1
    return Pair(
        env_id=test.env_id,
        metric=test.metric,
        first=test.runs[0],
        second=test.runs[1],
        n=len(together),
        first_value=macro(test.first),
        second_value=macro(test.second),
        difference=macro_interval(differences) if several else difference_interval(together),
        test=test.name,
        p=test.p,
        adjusted=adjusted,
        wins=wins,
        losses=losses,
        ties=len(together) - wins - losses,
        flips=test.flips,
    )


def _values(run: _OpenRun, env_id: str, tasks: Sequence[str], metric: str) -> EnvValues:
    """A metric of the tasks, in the order of the tasks for every run."""
    return EnvValues(metric, tuple(map(tuple, run.tallies[env_id].values(metric, tasks))))


def _flips(one: _OpenRun, other: _OpenRun, env_id: str, tasks: Sequence[str]) -> Iterator[Flip]:
    rates = [_values(run, env_id, tasks, "success").means for run in (one, other)]
    for task, first, second in zip(tasks, *map(np.ndarray.tolist, rates), strict=True):
        if first != second:
            links = one.link(env_id, task), other.link(env_id, task)
            yield Flip(task, first, second, *links)


def _oracle_lengths(
    runs: Sequence[_OpenRun],
    lengths: Mapping[str, Mapping[str, int]],
    tasks: Mapping[str, Sequence[str]],
) -> dict[str, dict[str, dict[str, LengthRate]]]:
    """Success on the compared tasks whose oracle's length is known."""
    return {
        env_id: {
            run.label: length_rates(run.tallies[env_id], lengths[env_id], compared) for run in runs
        }
        for env_id, compared in tasks.items()
        if lengths.get(env_id)
    }

"""From a run's records to its results; a pure function of the directory's files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_suite.evaluation.breakdowns import (
    breakdowns,
    families,
    group_means,
    length_rates,
    stored_lengths,
)
from agentgym_suite.evaluation.intervals import (
    Interval,
    macro_interval,
    no_interval,
    success_interval,
    task_bootstrap,
    task_bootstraps,
    task_means,
)
from agentgym_suite.evaluation.primary_values import primary_metric
from agentgym_suite.evaluation.repeated_trials import pass_intervals, trial_spread
from agentgym_suite.evaluation.results import (
    RESULTS_SCHEMA_VERSION,
    SMALL_SAMPLE,
    Bounds,
    EnvBounds,
    EnvResults,
    FailureCount,
    Latency,
    Macro,
    Provenance,
    RunName,
    RunResults,
    SuiteName,
    TokenTotals,
)
from agentgym_suite.evaluation.run_header import (
    DATA_DIGESTS,
    INDEX_DIGESTS,
    provenance_of,
    read_run,
    told_digest,
)
from agentgym_suite.evaluation.tallies import Tally, read_tallies
from agentgym_suite.evaluation.unranked_agents import agent_faults
from agentgym_suite.files import canonical_json

_DIGEST_SHOWN = 12
_REASONS_SHOWN = 12
_OTHER_REASONS = "other reasons"


def score_run(folder: Path) -> RunResults:
    """The results of a run from its files.

    Raises:
        RunError: the folder holds no run, or its records cannot be read or are not its own.
    """
    header = read_run(folder)
    return _results(header, read_tallies(folder, header))


def results_bytes(results: RunResults) -> bytes:
    """``results.json``: the same bytes for the same records."""
    return (canonical_json(results.as_dict()) + "\n").encode("utf-8")


def _results(header: Mapping[str, Any], tallies: Mapping[str, Tally]) -> RunResults:
    suite = header["suite"]
    planned = sum(len(tally.plan) for tally in tallies.values())
    finished = sum(len(tally.summaries) for tally in tallies.values())
    complete = finished == planned
    reasons = [*suite["departures"], *agent_faults(header["config"]["agent"])]
    if not complete:
        reasons.append(f"{planned - finished} of {planned} episodes are missing")
    errors: Counter[str] = Counter()
    for tally in tallies.values():
        errors.update(b.failure[1] for b in tally.summaries.values() if b.failure is not None)
        errors.update(origin for _, origin in tally.lost.values())
    primary = suite["content"]["metrics"]["primary"]
    digest = header["config_digest"].removeprefix("sha256:")[:_DIGEST_SHOWN]
    return RunResults(
        schema_version=RESULTS_SCHEMA_VERSION,
        suite=SuiteName(
            suite["id"],
            suite["version"],
            suite["digest"],
            suite["title"],
            primary,
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
        envs={
            env_id: _env_results(tally, primary_metric(primary, env_id))
            for env_id, tally in tallies.items()
        },
        macro=_macro(list(tallies.values())),
        bounds=None if complete else {env_id: _bounds(tally) for env_id, tally in tallies.items()},
        verification=None,
        provenance=_provenance(header),
    )


def _provenance(header: Mapping[str, Any]) -> Provenance:
    environments = header["config"]["environments"]
    told = {env_id: provenance_of(environments, env_id) for env_id in environments}
    data = {env_id: told_digest(one, DATA_DIGESTS) for env_id, one in told.items()}
    index = {env_id: told_digest(one, INDEX_DIGESTS) for env_id, one in told.items()}
    return Provenance(
        data_digests={env_id: digest for env_id, digest in data.items() if digest},
        index_digests={env_id: digest for env_id, digest in index.items() if digest},
        environments=environments,
        git=header["git"],
        packages=header["packages"],
    )


def _env_results(tally: Tally, metric: str) -> EnvResults:
    summaries = list(tally.summaries.values())
    outcomes = Counter(summary.outcome for summary in summaries)
    cut = sum(count for outcome, count in outcomes.items() if outcome.startswith("truncated"))
    pass_at, pass_hat = _passes(tally)
    metrics = _metrics(tally, metric) if tally.complete else {}
    return EnvResults(
        split=tally.split,
        n_tasks=len(tally.tasks),
        small_sample=len(tally.tasks) < SMALL_SAMPLE,
        trials=tally.trials,
        horizon=_horizon(tally),
        scorer=_text(tally.provenance.get("scorer")),
        metric=metric,
        planned=len(tally.plan),
        finished=len(summaries),
        successes=sum(summary.success for summary in summaries),
        success=success_interval(tally.values("success")) if tally.complete else _missing(tally),
        score=task_bootstrap(_score_means(tally)) if tally.complete else _missing(tally),
        pass_at=pass_at,
        pass_hat=pass_hat,
        seeds=trial_spread(tally.values("success")) if tally.complete else None,
        families=families(tally),
        breakdowns=breakdowns(tally),
        oracle_lengths=length_rates(tally, stored_lengths(tally)),
        group_means=group_means(tally),
        metrics=metrics,
        retrieval=_retrieval(tally, metrics),
        outcomes=dict(sorted(outcomes.items())),
        truncated=cut / len(tally.plan) if tally.complete else None,
        invalid_steps=tally.invalid_steps / tally.steps if tally.steps else None,
        repeated_steps=tally.repeated_steps / tally.steps if tally.steps else None,
        format_errors=_format_errors(tally.format_errors),
        tokens=TokenTotals(*(tally.tokens[part] for part in ("prompt", "completion", "cached"))),
        cost=None if None in tally.price_tables or not summaries else math.fsum(tally.prices),
        price_table=_price_table(tally),
        latency={part: _latency(seconds) for part, seconds in tally.latencies.items()},
        failures=_failures(tally),
    )


def _horizon(tally: Tally) -> int | None:
    """The step limit that was in force: the environment's own where the suite sets none."""
    if tally.max_steps is not None:
        return tally.max_steps
    told = tally.provenance.get("horizon")
    return told if type(told) is int and told > 0 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _passes(tally: Tally) -> tuple[dict[str, Interval], dict[str, Interval]]:
    if tally.complete:
        return pass_intervals(tally.values("success"))
    missing = {str(k): _missing(tally) for k in range(1, tally.trials + 1)}
    return missing, dict(missing)


def _format_errors(reasons: Counter[str]) -> dict[str, int]:
    """The most frequent reasons, equally frequent ones by name; rarer ones are counted together."""
    ordered = sorted(reasons, key=lambda name: (-reasons[name], name))
    shown = {name: reasons[name] for name in ordered[:_REASONS_SHOWN]}
    rest = sum(reasons[name] for name in ordered[_REASONS_SHOWN:])
    return {**shown, _OTHER_REASONS: rest} if rest else shown


def _price_table(tally: Tally) -> str | None:
    names = [name for name in tally.price_tables if name is not None]
    return ", ".join(sorted(names)) or None


def _score_means(tally: Tally) -> NDArray[np.float64]:
    return task_means(tally.values("score"))


def _missing(tally: Tally) -> Interval:
    missing = len(tally.plan) - len(tally.summaries)
    return no_interval(f"incomplete: {missing} of {len(tally.plan)} episodes are missing")


def _macro(tallies: Sequence[Tally]) -> Macro:
    if not all(tally.complete for tally in tallies):
        return Macro(no_interval("incomplete"), no_interval("incomplete"))
    if len(tallies) == 1:
        tally = tallies[0]
        return Macro(success_interval(tally.values("success")), task_bootstrap(_score_means(tally)))
    return Macro(
        macro_interval([task_means(tally.values("success")) for tally in tallies], rate=True),
        macro_interval([_score_means(tally) for tally in tallies]),
    )


def _bounds(tally: Tally) -> EnvBounds:
    planned = len(tally.plan)
    missing = planned - len(tally.summaries)

    def of(total: float) -> Bounds:
        return Bounds(total / planned, (total + missing) / planned)

    summaries = tally.summaries.values()
    return EnvBounds(
        success=of(sum(summary.success for summary in summaries)),
        score=of(math.fsum(summary.score for summary in summaries)),
    )


def _metrics(tally: Tally, primary: str) -> dict[str, Interval]:
    """Of every metric; the primary one is 0 where every episode broke before telling it."""
    names = {name for summary in tally.summaries.values() for name in summary.metrics}
    shown = ["steps", *sorted((names | {primary}) - {"success", "score", "steps"})]
    columns = [task_means(tally.values(name)) for name in shown]
    return dict(zip(shown, task_bootstraps(np.stack(columns, axis=1)), strict=True))


def _retrieval(tally: Tally, metrics: Mapping[str, Interval]) -> dict[str, Interval]:
    """Recall of what was to be found, and searches and expansions of an episode."""
    shown = {
        "recall": "recall_all",
        **{f"recall@{cut}": f"recall_{cut}" for cut in (20, 50, 100)},
        "searches": "search_calls" if "search_calls" in metrics else "searches",
        "expansions": "expand_calls",
    }
    found = {name: metrics[metric] for name, metric in shown.items() if metric in metrics}
    if "support_recall" in metrics:
        name = f"recall@{tally.provenance.get('top_k', '?')}"
        found[name] = _support_recall(tally, metrics["support_recall"])
    return found


def _support_recall(tally: Tally, over_all: Interval) -> Interval:
    """Over the questions whose supporting titles are known; the others tell nothing of recall."""
    known = task_means(tally.values("support_known")) > 0
    if known.all():
        return over_all
    if not known.any():
        return no_interval("no question's supporting titles are known")
    return task_bootstrap(task_means(tally.values("support_recall"))[known])


def _latency(seconds: Iterable[float]) -> Latency:
    ordered = sorted(seconds)
    if not ordered:
        return Latency(None, None)
    p50, p95 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.50, 0.95))
    return Latency(p50, p95)


def _failures(tally: Tally) -> tuple[FailureCount, ...]:
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

"""The results of a run as typed values: what ``results.json`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from agentgym_suite.evaluation.intervals import Interval, no_interval

_DECIMALS = 12  # far below any interval's width, far above the last bits of a sum


@dataclass(frozen=True, slots=True)
class FamilyRate:
    """Success within one task family: ``k`` of ``n`` episodes, with its interval."""

    k: int
    n: int
    est: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class FailureCount:
    """How often one kind of failure ended an episode, or an attempt that was tried again.

    Attributes:
        kind: what broke.
        origin: where: agent, model, env or infra.
        episodes: episodes that it ended.
        attempts: these and the attempts that were tried again.
        message: first line of the message that most of them have.
    """

    kind: str
    origin: str
    episodes: int
    attempts: int
    message: str


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of one step, nearest-rank percentiles; None without steps."""

    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class TokenTotals:
    """Tokens of all model calls."""

    prompt: int
    completion: int
    cached: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """A metric of an incomplete run, with every missing episode as 0 and as 1."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class EnvBounds:
    """The bounds of an environment of an incomplete run."""

    success: Bounds
    score: Bounds


@dataclass(frozen=True, slots=True)
class EnvResults:
    """One environment of a run.

    Attributes:
        split: split of the tasks, "" if the suite names none.
        n_tasks: tasks.
        trials: trials of each.
        planned: episodes, tasks times trials; every rate divides by it.
        finished: episodes that came to an end of their own.
        successes: how many of them succeeded.
        success: success rate; without estimate while the run is incomplete.
        score: mean score, likewise.
        families: success by task family; empty where tasks have none.
        metrics: means of the environment's metrics and of the steps played.
        outcomes: episodes by outcome.
        invalid_steps: share of steps whose action was invalid; None without steps.
        tokens: tokens of all model calls.
        cost: US dollars; None without a price table.
        latency: percentiles of ``model`` and ``env``.
        failures: what broke, by kind and origin.
    """

    split: str
    n_tasks: int
    trials: int
    planned: int
    finished: int
    successes: int
    success: Interval
    score: Interval
    families: Mapping[str, FamilyRate]
    metrics: Mapping[str, Interval]
    outcomes: Mapping[str, int]
    invalid_steps: float | None
    tokens: TokenTotals
    cost: float | None
    latency: Mapping[str, Latency]
    failures: tuple[FailureCount, ...]

    def primary(self, metric: str) -> Interval:
        """The metric that a suite is ordered by: "success", "score" or one of ``metrics``."""
        if metric in ("success", "score"):
            return self.success if metric == "success" else self.score
        return self.metrics.get(metric, no_interval(f"no metric {metric}"))


@dataclass(frozen=True, slots=True)
class SuiteName:
    """Which suite was run.

    Attributes:
        id: its id.
        version: its version.
        digest: digest of the suite as it was given.
        title: one line for people.
        primary: the metric that orders its tables.
    """

    id: str
    version: int
    digest: str
    title: str
    primary: str


@dataclass(frozen=True, slots=True)
class RunName:
    """Which run it was; the id is made of suite, agent and configuration."""

    id: str
    agent: str
    policy_version: str | None
    runner: str
    config_digest: str


@dataclass(frozen=True, slots=True)
class Macro:
    """Means over the environments, each weighing the same."""

    success: Interval
    score: Interval


@dataclass(frozen=True, slots=True)
class RunResults:
    """The results of one run.

    Attributes:
        schema_version: version of this schema.
        suite: the suite.
        run: the run.
        status: whether every planned episode is finished.
        rankable: whether nothing in the run itself speaks against ranking it.
        not_rankable_reasons: what does.
        planned: episodes of the run.
        finished: finished ones.
        errors: episodes lost or ended by an error, by origin.
        retries: attempts beyond the first.
        envs: results by environment.
        macro: means over the environments.
        bounds: by environment, of an incomplete run; None of a complete one.
        verification: verdict of a replay; None before it.
        provenance: what identifies data, versions and commit.
    """

    schema_version: int
    suite: SuiteName
    run: RunName
    status: Literal["complete", "incomplete"]
    rankable: bool
    not_rankable_reasons: tuple[str, ...]
    planned: int
    finished: int
    errors: Mapping[str, int]
    retries: int
    envs: Mapping[str, EnvResults]
    macro: Macro
    bounds: Mapping[str, EnvBounds] | None
    verification: Mapping[str, Any] | None
    provenance: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The results as JSON values, floats rounded to 12 decimals."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


def plain(value: Any) -> Any:
    """A typed value as JSON values, floats rounded to 12 decimals."""
    if isinstance(value, Interval):
        estimate, low, high, method, n = value
        return plain({"est": estimate, "low": low, "high": high, "method": method, "n": n})
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return round(value, _DECIMALS) + 0.0  # + 0.0: no negative zero
    return value

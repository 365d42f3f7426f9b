"""The results of a run as typed values: what ``results.json`` holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from agentgym_suite.evaluation.intervals import JSON_NAMES, Interval, no_interval

RESULTS_SCHEMA_VERSION = 3
SMALL_SAMPLE = 30
"""Below so many tasks a sample is too small for firm statements."""
PRIMARY = "primary metric"
"""What orders environments of different primary metrics together."""
_DECIMALS = 12  # far below any interval's width, far above the last bits of a sum


@dataclass(frozen=True, slots=True)
class FamilyRate:
    """Success within one group of tasks: ``k`` of ``n`` episodes, with its interval.

    Attributes:
        k: episodes that succeeded.
        n: episodes planned.
        est: the rate; None, like the next three, while the run is incomplete.
        low: lower end of its 95 % interval.
        high: upper end.
        score: mean score of the tasks.
    """

    k: int
    n: int
    est: float | None
    low: float | None
    high: float | None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class LengthRate:
    """Success on the tasks whose oracle needs so many steps.

    Attributes:
        k: episodes that succeeded.
        n: episodes planned.
        est: the rate; None, like its ends, while the run is incomplete.
        low: lower end of its 95 % interval.
        high: upper end.
        extra_steps: mean of the steps beyond the oracle's over the episodes that succeeded; None
            without one.
    """

    k: int
    n: int
    est: float | None
    low: float | None
    high: float | None
    extra_steps: float | None


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """Success over all groups of tasks of a kind, which published tables tell in two ways.

    Attributes:
        mean: mean of the groups' rates, each weighing the same.
        pooled: rate of the tasks that a group holds, each weighing the same.
    """

    mean: Interval
    pooled: Interval


@dataclass(frozen=True, slots=True)
class Spread:
    """What varies between repetitions; no confidence interval.

    Attributes:
        mean: mean of the repetitions' means.
        std: their sample deviation (n-1).
        n: how many repetitions.
    """

    mean: float
    std: float
    n: int


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
        small_sample: whether these are too few for firm statements.
        trials: trials of each.
        horizon: most steps of an episode; None where there is no bound.
        scorer: the script whose exact match and F1 the answers are measured by; "" for none.
        metric: what its tables are ordered by: "success", "score" or one of ``metrics``.
        planned: episodes, tasks times trials; every rate divides by it.
        finished: episodes that came to an end of their own.
        successes: how many of them succeeded.
        success: success rate; without estimate while the run is incomplete.
        score: mean score, likewise.
        pass_at: k -> chance that one of k trials succeeds, likewise.
        pass_hat: k -> chance that all of k trials succeed, likewise.
        seeds: how the success rate varies between the trials; None of one trial, likewise.
        families: success by task family; empty where tasks have none.
        breakdowns: success by what else tells tasks apart, such as the data set or the hops.
        oracle_lengths: success by the steps of the task's stored solution; empty without any.
        group_means: success over these groups: "family", "oracle_length" or a name of
            ``breakdowns`` -> its means, likewise.
        metrics: means of the environment's metrics and of the steps played.
        retrieval: recall of what was to be found, searches and expansions of an episode.
        outcomes: episodes by outcome.
        truncated: share of the planned episodes that a step limit or a full context ended; None
            while the run is incomplete.
        invalid_steps: share of steps whose action was invalid; None without steps.
        repeated_steps: share of steps whose action was that of the step before; likewise.
        format_errors: invalid steps by reason, quoted texts and numbers left out.
        tokens: tokens of all model calls.
        cost: US dollars; None without a price table.
        price_table: the dated table they are from; None without one.
        latency: percentiles of ``model`` and ``env``.
        failures: what broke, by kind and origin.
    """

    split: str
    n_tasks: int
    small_sample: bool
    trials: int
    horizon: int | None
    scorer: str
    metric: str
    planned: int
    finished: int
    successes: int
    success: Interval
    score: Interval
    pass_at: Mapping[str, Interval]
    pass_hat: Mapping[str, Interval]
    seeds: Spread | None
    families: Mapping[str, FamilyRate]
    breakdowns: Mapping[str, Mapping[str, FamilyRate]]
    oracle_lengths: Mapping[str, LengthRate]
    group_means: Mapping[str, GroupMeans]
    metrics: Mapping[str, Interval]
    retrieval: Mapping[str, Interval]
    outcomes: Mapping[str, int]
    truncated: float | None
    invalid_steps: float | None
    repeated_steps: float | None
    format_errors: Mapping[str, int]
    tokens: TokenTotals
    cost: float | None
    price_table: str | None
    latency: Mapping[str, Latency]
    failures: tuple[FailureCount, ...]

    @property
    def primary(self) -> Interval:
        """The value of ``metric``; without estimate while the run is incomplete."""
        if self.metric in ("success", "score"):
            return self.success if self.metric == "success" else self.score
        return self.metrics.get(self.metric, no_interval(self.success.method))


@dataclass(frozen=True, slots=True)
class SuiteName:
    """Which suite was run.

    Attributes:
        id: its id.
        version: its version.
        digest: digest of the suite as it was given.
        title: one line for people.
        primary: its metric as its file states it; "success" leaves each environment its usual one.
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
class StandingVerdict:
    """What became of replaying a run.

    Attributes:
        verdict: such as "verified".
        digest: of the files that the verdict was given for.
        at: when, ISO 8601 in UTC.
    """

    verdict: str
    digest: str
    at: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """What identifies the data, the versions and the code behind a run.

    Attributes:
        data_digests: environment -> digest of its data, where it tells one.
        index_digests: environment -> digest of its index, likewise.
        environments: environment -> everything that it tells of itself.
        git: commit, and whether files differed from it; None outside a repository.
        packages: version of each; None if it is not installed.
    """

    data_digests: Mapping[str, str]
    index_digests: Mapping[str, str]
    environments: Mapping[str, Any]
    git: Mapping[str, Any]
    packages: Mapping[str, str | None]


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
        verification: the verdict of a replay that still stands; None without one.
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
    verification: StandingVerdict | None
    provenance: Provenance

    @property
    def metric(self) -> str:
        """What orders its tables, where that is one thing; else "primary metric"."""
        return common_metric(env.metric for env in self.envs.values())

    def as_dict(self) -> dict[str, Any]:
        """The results as JSON values, floats rounded to 12 decimals."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


def common_metric(metrics: Iterable[str]) -> str:
    """The metric of several environments; "primary metric" where they differ in it."""
    names = set(metrics)
    return names.pop() if len(names) == 1 else PRIMARY


def plain(value: Any) -> Any:
    """A typed value as JSON values, floats rounded to 12 decimals."""
    if isinstance(value, Interval):
        return plain({JSON_NAMES.get(k, k): v for k, v in value._asdict().items()})
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

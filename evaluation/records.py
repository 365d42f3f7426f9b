"""What is kept of an episode: the record, one line of ``episodes.jsonl``.

The dataclasses here are the record's schema; ``episode.schema.json`` is generated from them.
Values are strict JSON: a number that is not finite becomes null, a lone surrogate U+FFFD.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from agentgym_suite.episodes import EarlierRound, Episode, Failure, Origin, Outcome
from agentgym_suite.evaluation.step_records import (
    Bound,
    Count,
    Keep,
    Seconds,
    StepRecord,
    StepTokens,
    TextReference,
    finite,
    kept_end,
    step_record,
    step_tokens,
)
from agentgym_suite.spaces import without_surrogates

SCHEMA_VERSION = 3

Dollars = Annotated[float, Bound("minimum", 0)]
"""US dollars, with what JSON Schema says of them."""

Moment = Annotated[
    str,
    Bound("pattern", r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$"),
]
"""A time in ISO 8601 with its offset from UTC."""


@dataclass(frozen=True, slots=True)
class RecordKey:
    """The full key of an episode, with the suite it belongs to."""

    suite: str
    version: int
    env_id: str
    task_id: str
    trial: Count


@dataclass(frozen=True, slots=True)
class EarlierRoundRecord:
    """A round that failed before the one that counts, of an agent that reflects.

    Attributes:
        steps: every step of it.
        final_obs: what its last step returned; null without steps or when kept by reference.
        final_obs_ref: reference to that text; null otherwise.
        score: task score at its end.
        outcome: how it ended.
        reflection: what the agent wrote about it.
        reflection_tokens: tokens of that model call.
    """

    steps: list[StepRecord]
    final_obs: str | None
    final_obs_ref: TextReference | None
    score: float | None
    outcome: Outcome
    reflection: str
    reflection_tokens: StepTokens


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """Why an episode or attempt was not played to its end.

    Attributes:
        kind: what broke.
        origin: whose doing it was.
        message: the exception in words.
        tokens: tokens of the model call that gave nothing to play with; null where no call was
            answered.
    """

    kind: str
    origin: Origin
    message: str
    tokens: StepTokens | None


@dataclass(frozen=True, slots=True)
class Cost:
    """Price of an episode.

    Attributes:
        usd: US dollars for every model call of its last attempt; null when the price is unknown.
        price_table: which table it was looked up in; null for agents without a model's price.
    """

    usd: Dollars | None
    price_table: str | None


UNPRICED = Cost(None, None)


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One finished episode, as stored.

    Attributes:
        schema_version: version of this schema.
        key: which episode it is.
        task_family: family of the task, "" if it has none.
        split: split of the task.
        seed: seed of the environment's reset.
        policy_version: digest of the weights that played; null for agents without weights.
        steps: every step.
        earlier_rounds: rounds that failed before these steps, of an agent that reflects.
        final_obs: what the last step returned; null without steps or when kept by reference.
        final_obs_ref: reference to that text; null otherwise.
        n_steps: how many steps.
        score: task score in [0, 1] at the end.
        success: whether the task was solved.
        outcome: how the episode ended.
        metrics: the environment's metrics at the end, fixed keys for each environment.
        failure: what broke; null if nothing did.
        attempts: how often it was started, this time included.
        cost: its price.
        started_at: ISO 8601, UTC.
        wall_s: seconds from start to end.
    """

    schema_version: int
    key: RecordKey
    task_family: str
    split: str
    seed: int
    policy_version: str | None
    steps: list[StepRecord]
    earlier_rounds: list[EarlierRoundRecord]
    final_obs: str | None
    final_obs_ref: TextReference | None
    n_steps: Count
    score: float | None
    success: bool
    outcome: Outcome
    metrics: dict[str, float | None]
    failure: FailureRecord | None
    attempts: Count
    cost: Cost
    started_at: Moment
    wall_s: Seconds


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt lost to the environment or the infrastructure: a line of ``attempts.jsonl``.

    Attributes:
        schema_version: version of this schema.
        key: which episode it was.
        task_family: family of the task, "" if unknown.
        seed: seed of the environment's reset; the next attempt has the same.
        attempt: number of this attempt, from 1; it starts anew when a lost episode is resumed.
        n_steps: how many steps were played.
        failure: what broke.
        started_at: ISO 8601, UTC.
        wall_s: seconds from start to failure.
    """

    schema_version: int
    key: RecordKey
    task_family: str
    seed: int
    attempt: Count
    n_steps: Count
    failure: FailureRecord
    started_at: Moment
    wall_s: Seconds


def episode_record(
    key: RecordKey,
    episode: Episode,
    *,
    attempts: int,
    policy_version: str | None,
    keep: Keep,
    cost: Cost = UNPRICED,
) -> EpisodeRecord:
    """The record of a finished episode."""
    final_obs, final_obs_ref = kept_end(episode.steps, keep)
    return EpisodeRecord(
        schema_version=SCHEMA_VERSION,
        key=key,
        task_family=episode.task_family,
        split=episode.split,
        seed=episode.seed,
        policy_version=policy_version,
        steps=[step_record(i, step, keep) for i, step in enumerate(episode.steps)],
        earlier_rounds=[_round_record(one, keep) for one in episode.earlier],
        final_obs=final_obs,
        final_obs_ref=final_obs_ref,
        n_steps=len(episode.steps),
        score=finite(episode.score),
        success=episode.success,
        outcome=episode.outcome,
        metrics={name: finite(value) for name, value in episode.metrics.items()},
        failure=None if episode.failure is None else _failure_record(episode.failure),
        attempts=attempts,
        cost=cost,
        started_at=_started_at(episode),
        wall_s=episode.wall_s,
    )


def attempt_record(key: RecordKey, episode: Episode, attempt: int) -> AttemptRecord:
    """The record of an attempt that failed."""
    failure = episode.failure or Failure("env_exception", "env", "")
    return AttemptRecord(
        schema_version=SCHEMA_VERSION,
        key=key,
        task_family=episode.task_family,
        seed=episode.seed,
        attempt=attempt,
        n_steps=len(episode.steps),
        failure=_failure_record(failure),
        started_at=_started_at(episode),
        wall_s=episode.wall_s,
    )


def json_line(record: EpisodeRecord | AttemptRecord) -> bytes:
    """The record as one line of strict JSON in UTF-8, line end included."""
    text = json.dumps(
        record, default=_fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return utf8(text) + b"\n"


def utf8(text: str) -> bytes:
    """``text`` in UTF-8; a lone surrogate, which UTF-8 cannot carry, becomes U+FFFD."""
    return without_surrogates(text).encode("utf-8")


def _round_record(played: EarlierRound, keep: Keep) -> EarlierRoundRecord:
    final_obs, final_obs_ref = kept_end(played.steps, keep)
    return EarlierRoundRecord(
        steps=[step_record(i, step, keep) for i, step in enumerate(played.steps)],
        final_obs=final_obs,
        final_obs_ref=final_obs_ref,
        score=finite(played.score),
        outcome=played.outcome,
        reflection=played.reflection.text,
        reflection_tokens=step_tokens(played.reflection.usage),
    )


def _failure_record(failure: Failure) -> FailureRecord:
    tokens = None if failure.usage is None else step_tokens(failure.usage)
    return FailureRecord(failure.kind, failure.origin, failure.message, tokens)


def _started_at(episode: Episode) -> str:
    started = datetime.now(UTC) - timedelta(seconds=episode.wall_s)
    return started.isoformat(timespec="milliseconds")


def _fields(value: Any) -> dict[str, Any]:
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no part of a record")
    return {field.name: getattr(value, field.name) for field in fields(value)}

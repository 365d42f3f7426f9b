"""What is kept of an episode: the record, one line of ``episodes.jsonl``.

The dataclasses here are the record's schema; ``episode.schema.json`` is generated from them
(evaluation specification, section 6). Values are strict JSON: a number that is not finite
becomes null, a lone surrogate U+FFFD.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from agentgym_suite.episodes import Episode, Failure, Step
from agentgym_suite.prompts import Message
from agentgym_suite.spaces import without_surrogates

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class RecordKey:
    """The full key of an episode, with the suite it belongs to."""

    suite: str
    version: int
    env_id: str
    task_id: str
    trial: int


@dataclass(frozen=True, slots=True)
class TextReference:
    """A long text kept apart in ``observations.jsonl.gz``.

    Attributes:
        sha256: hex digest of the text's UTF-8 bytes.
        offset: where its gzip member starts in that file, in bytes.
    """

    sha256: str
    offset: int


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message of the prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class StepTokens:
    """Tokens of the model call of one step."""

    prompt: int
    completion: int
    cached: int


@dataclass(frozen=True, slots=True)
class StepLatency:
    """Seconds of one step in the model and in the environment; null if not finite."""

    model: float | None
    env: float | None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step.

    Attributes:
        i: number of the step, from 0.
        messages: the prompt as rendered; null when it is kept by reference.
        messages_ref: reference to its JSON; null otherwise.
        reply: the agent's reply, as text.
        parsed_action: the action as the environment executed it.
        action_valid: whether reply and action could be read and executed.
        action_error: why not, "" if they could.
        obs: what the agent saw before the step; null when it is kept by reference.
        obs_ref: reference to that text; null otherwise.
        reward: the environment's own reward.
        terminated: whether the step ended the game.
        truncated: whether the horizon ended the episode here.
        state_hash: SHA-256 of the environment's state after the step.
        admissible_n: how many actions were admissible before the step; 0 when open-ended.
        dropped_steps: earlier steps that the prompt's token budget left out.
        cut_characters: characters of the observation that it left out.
        tokens: tokens of the model call.
        latency_s: seconds of the step.
    """

    i: int
    messages: list[MessageRecord] | None
    messages_ref: TextReference | None
    reply: str
    parsed_action: str
    action_valid: bool
    action_error: str
    obs: str | None
    obs_ref: TextReference | None
    reward: float | None
    terminated: bool
    truncated: bool
    state_hash: str
    admissible_n: int
    dropped_steps: int
    cut_characters: int
    tokens: StepTokens
    latency_s: StepLatency


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """Why an episode or attempt was not played to its end."""

    kind: str
    origin: Literal["agent", "model", "env", "infra"]
    message: str


@dataclass(frozen=True, slots=True)
class Cost:
    """Price of the episode in US dollars; null when no price table was given."""

    usd: float | None
    price_table: str | None


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
    final_obs: str | None
    final_obs_ref: TextReference | None
    n_steps: int
    score: float | None
    success: bool
    outcome: Literal["success", "failure", "truncated_steps", "truncated_context", "error"]
    metrics: dict[str, float | None]
    failure: FailureRecord | None
    attempts: int
    cost: Cost
    started_at: str
    wall_s: float


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
    attempt: int
    n_steps: int
    failure: FailureRecord
    started_at: str
    wall_s: float


Keep = Callable[[str], TextReference | None]
"""Stores a long text apart and returns its reference; None leaves a short one in place."""


def episode_record(
    key: RecordKey,
    episode: Episode,
    *,
    attempts: int,
    policy_version: str | None,
    keep: Keep,
) -> EpisodeRecord:
    """The record of a finished episode."""
    last = episode.steps[-1].next_observation if episode.steps else None
    final_obs, final_obs_ref = (None, None) if last is None else _kept(last, keep)
    return EpisodeRecord(
        schema_version=SCHEMA_VERSION,
        key=key,
        task_family=episode.task_family,
        split=episode.split,
        seed=episode.seed,
        policy_version=policy_version,
        steps=[_step_record(i, step, keep) for i, step in enumerate(episode.steps)],
        final_obs=final_obs,
        final_obs_ref=final_obs_ref,
        n_steps=len(episode.steps),
        score=_finite(episode.score),
        success=episode.success,
        outcome=episode.outcome,
        metrics={name: _finite(value) for name, value in episode.metrics.items()},
        failure=None if episode.failure is None else _failure_record(episode.failure),
        attempts=attempts,
        cost=Cost(None, None),
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


def _step_record(i: int, step: Step, keep: Keep) -> StepRecord:
    obs, obs_ref = _kept(step.observation, keep)
    messages, messages_ref = _kept_messages(step.messages, keep)
    usage = step.reply.usage
    return StepRecord(
        i=i,
        messages=messages,
        messages_ref=messages_ref,
        reply=step.reply.text,
        parsed_action=step.parsed_action,
        action_valid=step.valid,
        action_error=step.error,
        obs=obs,
        obs_ref=obs_ref,
        reward=_finite(step.env_reward),
        terminated=step.terminated,
        truncated=step.truncated,
        state_hash=step.state_hash,
        admissible_n=len(step.admissible),
        dropped_steps=step.dropped_steps,
        cut_characters=step.cut_characters,
        tokens=StepTokens(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens),
        latency_s=StepLatency(_finite(step.timings.model_s), _finite(step.timings.env_s)),
    )


def _kept(text: str, keep: Keep) -> tuple[str | None, TextReference | None]:
    reference = keep(text)
    return (text, None) if reference is None else (None, reference)


def _kept_messages(
    messages: tuple[Message, ...], keep: Keep
) -> tuple[list[MessageRecord] | None, TextReference | None]:
    if not messages:
        return [], None
    reference = keep(json.dumps([m.as_dict() for m in messages], ensure_ascii=False))
    if reference is not None:
        return None, reference
    return [MessageRecord(m.role, m.content) for m in messages], None


def _failure_record(failure: Failure) -> FailureRecord:
    return FailureRecord(failure.kind, failure.origin, failure.message)


def _started_at(episode: Episode) -> str:
    started = datetime.now(UTC) - timedelta(seconds=episode.wall_s)
    return started.isoformat(timespec="milliseconds")


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _fields(value: Any) -> dict[str, Any]:
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no part of a record")
    return {field.name: getattr(value, field.name) for field in fields(value)}

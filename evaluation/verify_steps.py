"""Replaying recorded episodes: the same loop, the recorded replies, every value compared.

The replies are read again under the recorded format and played in a fresh game; what that game
executes must be the recorded action, and what it answers the recorded observation, reward and
state. So one pass checks that the reply means the action and that the action had its effect.
The rounds that an agent played before the one that counts are replayed like it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from agentgym_suite.calls import ToolCall
from agentgym_suite.episodes import (
    AgentFactory,
    EarlierRound,
    Episode,
    EpisodeRequest,
    Failure,
    PlaySettings,
    Reply,
    Turn,
)
from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of
from agentgym_suite.evaluation.long_texts import LongTexts
from agentgym_suite.evaluation.open_suites import make_env
from agentgym_suite.evaluation.records import RecordKey, episode_record
from agentgym_suite.evaluation.run_directory import EPISODES, OBSERVATIONS, read_records
from agentgym_suite.evaluation.step_records import TextReference
from agentgym_suite.evaluation.suites import EnvEntry
from agentgym_suite.evaluation.verdicts import Mismatch, shown_difference
from agentgym_suite.playing import run_episode
from agentgym_suite.spaces import without_surrogates

TOLERANCE = 1e-9
MODEL_ORIGINS = ("agent", "model")

# what the environment gives back and a replay must give again; the rest is the model's
_STEP_FIELDS = (
    "i",
    "obs",
    "parsed_action",
    "action_valid",
    "action_error",
    "reward",
    "terminated",
    "truncated",
    "state_hash",
    "admissible_n",
)
_ROUND_FIELDS = ("final_obs", "outcome", "score")
_EPISODE_FIELDS = (
    *_ROUND_FIELDS,
    "n_steps",
    "success",
    "metrics",
    "task_family",
    "split",
)


@dataclass(frozen=True, slots=True)
class ReplayPart:
    """Episodes to be replayed by one process; it can be sent to another.

    Attributes:
        folder: the run.
        environments: the environments of its suite with the paths of their official files.
        specs: what Gymnasium knows of them, for a process where they are not registered.
        reply_format: how the recorded replies are read.
        keys: the episodes.
    """

    folder: Path
    environments: tuple[tuple[EnvEntry, str | None], ...]
    specs: tuple[Any, ...]
    reply_format: str
    keys: frozenset[EpisodeKey]


class Replayed(NamedTuple):
    """What became of one episode.

    Attributes:
        key: the episode.
        mismatch: the first value that differs; None when all are equal.
        roundings: numbers that differ by less than ``TOLERANCE``.
    """

    key: EpisodeKey
    mismatch: Mismatch | None
    roundings: int


class RecordingEnded(Exception):
    """The game goes on where the recording ends."""


def replay_part(part: ReplayPart) -> Iterator[Replayed]:
    """Replay the episodes of a part, in the order of their records."""
    for spec in part.specs:
        gym.registry.setdefault(spec.id, spec)
    entries = {entry.id: (entry, data) for entry, data in part.environments}
    games: dict[str, gym.Env[str, str]] = {}
    long_texts = LongTexts(part.folder / OBSERVATIONS)
    with ExitStack() as opened:
        for record in read_records(part.folder / EPISODES):
            key = key_of(record)
            if key not in part.keys:
                continue
            if key.env_id not in games:
                games[key.env_id] = make_env(*entries[key.env_id])
                opened.callback(games[key.env_id].close)
            yield replay_record(record, games[key.env_id], part.reply_format, long_texts)


def replay_record(
    record: Mapping[str, Any],
    env: gym.Env[str, str],
    reply_format: str,
    long_texts: LongTexts,
) -> Replayed:
    """Play a recorded episode again and compare it.

    Args:
        record: the episode, as ``episodes.jsonl`` holds it.
        env: its environment.
        reply_format: how its replies are read.
        long_texts: the long texts of its run.
    """
    key = key_of(record)
    request = EpisodeRequest(key.task_id, record["seed"], key.trial)
    rounds = len(record["earlier_rounds"]) + 1
    settings = PlaySettings(None, reply_format, max_rounds=rounds)
    episode = run_episode(env, _recorded_agent(record), request, settings)
    broken = None
    if record["failure"] is not None and not _broke_by_itself(episode):
        # The model's failure cannot happen again; what it leaves of an episode is known.
        told = record["failure"]
        failure = Failure(told["kind"], told["origin"], told["message"])
        context = failure.kind == "context_overflow"
        episode = replace(
            episode,
            failure=failure,
            score=0.0,
            success=False,
            outcome="truncated_context" if context else "error",
        )
    elif episode.failure is not None:
        broken = episode.failure.message
    comparison = _Comparison(key)
    comparison.compare(record, _as_recorded(episode, record["key"]), long_texts, broken)
    return Replayed(key, comparison.mismatch, comparison.roundings)


def _broke_by_itself(episode: Episode) -> bool:
    """Whether the replay failed for a reason other than its recording's end."""
    failure = episode.failure
    return failure is not None and not failure.message.startswith(RecordingEnded.__name__)


class _RecordedAgent:
    """Gives the recorded replies, one a turn, of each round in its order."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._rounds = [*record["earlier_rounds"], record]
        self._round = 0

    def act(self, turn: Turn) -> Reply:
        """The reply of this step.

        Raises:
            RecordingEnded: there is none.
        """
        steps = self._rounds[self._round]["steps"]
        if turn.step_index >= len(steps):
            raise RecordingEnded(f"the recording has {len(steps)} steps, the game goes on")
        step = steps[turn.step_index]
        calls = tuple(ToolCall(**call) for call in step["tool_calls"])
        return Reply(step["reply"], calls)

    def reflect(self, turn: Turn, earlier: tuple[EarlierRound, ...]) -> Reply:
        """What was written about the round; the next one begins."""
        reflection = self._rounds[self._round]["reflection"]
        self._round += 1
        return Reply(reflection)

    def close(self) -> None:
        """Nothing is held."""


def _recorded_agent(record: Mapping[str, Any]) -> AgentFactory:
    """The agent of a recorded episode; one that was never made fails again."""

    def make(env: gym.Env[str, str], seed: int) -> _RecordedAgent:
        if record["failure"] is not None and not record["metrics"]:
            raise RecordingEnded("the episode broke before its first observation")
        return _RecordedAgent(record)

    return make


def _as_recorded(episode: Episode, key: Mapping[str, Any]) -> dict[str, Any]:
    """The replayed episode in the form of a record, its texts in place."""
    record = episode_record(
        RecordKey(**key), episode, attempts=1, policy_version=None, keep=lambda text: None
    )
    return asdict(record)


class _Comparison:
    """Compares one episode with its replay up to the first difference."""

    def __init__(self, key: EpisodeKey) -> None:
        self._key = key
        self._within = ""
        self.mismatch: Mismatch | None = None
        self.roundings = 0

    def compare(
        self,
        recorded: Mapping[str, Any],
        replayed: Mapping[str, Any],
        long_texts: LongTexts,
        broken: str | None,
    ) -> None:
        """Compare step by step, then the whole; ``broken`` is why the replay went no further."""
        failure = recorded["failure"]
        if failure is not None and failure["origin"] not in MODEL_ORIGINS:
            self._differ(None, "failure.origin", failure["origin"], "no result: to be tried again")
            return
        told, again = recorded["earlier_rounds"], replayed["earlier_rounds"]
        for number, (one, other) in enumerate(zip(told, again, strict=False)):
            self._within = f"earlier_rounds.{number}."
            if not self._same_round(one, other, _ROUND_FIELDS, long_texts, None):
                return
        if len(again) < len(told):  # the replay came no further than into one of them
            self._within = f"earlier_rounds.{len(again)}."
            if not self._same_round(told[len(again)], replayed, (), long_texts, broken):
                return
        self._within = ""
        if len(told) != len(again):
            self._differ(None, "earlier_rounds", len(told), len(again))
            return
        self._same_round(recorded, replayed, _EPISODE_FIELDS, long_texts, broken)

    def _same_round(
        self,
        recorded: Mapping[str, Any],
        replayed: Mapping[str, Any],
        names: Sequence[str],
        long_texts: LongTexts,
        broken: str | None,
    ) -> bool:
        """Compare one round, or the episode with the round that counts."""
        pairs = zip(recorded["steps"], replayed["steps"], strict=False)
        for i, (step, again) in enumerate(pairs):
            if not self._same_fields(_STEP_FIELDS, i, step, again, long_texts):
                return False
        played = len(replayed["steps"])
        if broken is not None:
            return self._differ(played, "replay", f"{len(recorded['steps'])} steps", broken)
        if len(recorded["steps"]) != played:
            return self._differ(played, "steps", len(recorded["steps"]), played)
        return self._same_fields(names, None, recorded, replayed, long_texts)

    def _same_fields(
        self,
        names: Sequence[str],
        step: int | None,
        recorded: Mapping[str, Any],
        replayed: Mapping[str, Any],
        long_texts: LongTexts,
    ) -> bool:
        for name in names:
            value, again = recorded[name], _stored(replayed[name])
            reference = recorded.get(f"{name}_ref")
            if reference is not None:
                if value is not None:
                    return self._differ(step, name, value, "a text that is kept apart")
                try:
                    value = long_texts.read(TextReference(**reference))
                except RunError as error:
                    return self._differ(step, name, str(error), again)
            if isinstance(value, Mapping) and isinstance(again, Mapping):
                for inner in sorted({*value, *again}):
                    told = value.get(inner, "absent"), again.get(inner, "absent")
                    if not self._same(step, f"{name}.{inner}", *told):
                        return False
            elif not self._same(step, name, value, again):
                return False
        return True

    def _same(self, step: int | None, name: str, value: Any, again: Any) -> bool:
        if type(value) is type(again) and value == again:
            return True
        numbers = isinstance(value, int | float) and isinstance(again, int | float)
        if numbers and not isinstance(value, bool) and not isinstance(again, bool):
            if value == again:
                return True
            if math.isclose(value, again, rel_tol=0.0, abs_tol=TOLERANCE):
                self.roundings += 1
                return True
        return self._differ(step, name, value, again)

    def _differ(self, step: int | None, name: str, value: Any, again: Any) -> bool:
        key = self._key
        told = shown_difference(value, again)
        place = self._within + name
        self.mismatch = Mismatch(key.env_id, key.task_id, key.trial, step, place, *told)
        return False


def _stored(value: Any) -> Any:
    """A replayed value as a record would hold it."""
    return without_surrogates(value) if isinstance(value, str) else value

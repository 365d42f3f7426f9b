"""The contracts of playing: ``Turn``, ``Reply``, ``Step``, ``Episode``, ``Agent``.

What evaluation stores and trainers learn from is made of these; ``rollouts`` plays them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import gymnasium as gym

from agentgym_suite.calls import ToolCall
from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import Message, StepPrompt
from agentgym_suite.replies import REPLY_FORMATS
from agentgym_suite.rewards import RewardPreset
from agentgym_suite.tasks import Task
from agentgym_suite.usage import Usage

Outcome = Literal["success", "failure", "truncated_steps", "truncated_context", "error"]
Origin = Literal["agent", "model", "env", "infra"]


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """What an engine sampled, kept as ids so that nothing is tokenised twice.

    Attributes:
        prompt_ids: the prompt's token ids.
        response_ids: the sampled ids.
        logprobs: log-probability of each response id under the sampling distribution.
        mask: 1 where the policy sampled the id, 0 where it was forced.
        finish_reason: "stop" or "length".
        policy_version: the weights that sampled.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    mask: tuple[int, ...]
    finish_reason: str
    policy_version: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answers to one turn."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    latency_s: float = field(default=0.0, compare=False)
    tokens: TokenTrace | None = None


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of one step in the model and in the environment."""

    model_s: float = 0.0
    env_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One turn and what the environment made of it.

    ``env_reward`` is the environment's own reward, ``reward`` the shaped one; ``span`` are the
    character offsets of the executable action in the reply; ``admissible`` the legal actions
    before the step; ``state_hash`` the state after it; ``dropped_steps`` and ``cut_characters``
    what the prompt's token budget took away. Seconds do not count when steps are compared.
    """

    observation: str
    next_observation: str
    messages: tuple[Message, ...]
    reply: Reply
    action: str
    parsed_action: str
    valid: bool
    error: str
    span: tuple[int, int]
    env_reward: float
    reward: float
    terminated: bool
    truncated: bool
    admissible: tuple[str, ...]
    state_hash: str
    dropped_steps: int = 0
    cut_characters: int = 0
    timings: Timings = field(default=Timings(), compare=False)

    @property
    def tokens(self) -> TokenTrace | None:
        """What the engine sampled, if one did."""
        return self.reply.tokens


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent is asked: the state of its episode before one step."""

    task: Task
    step_index: int
    observation: str
    info: Mapping[str, Any]
    messages: tuple[Message, ...]
    history: tuple[Step, ...]
    tools: tuple[dict[str, Any], ...]
    trial: int = 0


@dataclass(frozen=True, slots=True)
class EarlierRound:
    """A round that failed and was followed by another one of the same episode.

    Attributes:
        steps: what was played.
        score: task score at its end.
        outcome: how it ended.
        reflection: what the agent wrote about it.
    """

    steps: tuple[Step, ...]
    score: float
    outcome: Outcome
    reflection: Reply


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an episode could not be played to its end: data, never an exception.

    Attributes:
        kind: what broke, such as "empty_reply".
        origin: whose doing it was.
        message: the exception in words.
        usage: tokens of the model call that gave nothing to play with; None where no call was
            answered.
    """

    kind: str
    origin: Origin
    message: str
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished (or failed) episode; trainers and evaluation derive everything from it.

    ``steps`` and all numbers are of its only round, or of the last one where the agent reflects
    on failed rounds; ``earlier`` holds those. ``next_turn`` is what the agent would have been asked
    next where the episode was cut, if ``PlaySettings.keep_next_turn`` wanted it.
    """

    task_id: str
    trial: int
    seed: int
    group_id: str
    task_family: str
    split: str
    steps: tuple[Step, ...]
    score: float
    success: bool
    outcome: Outcome
    failure: Failure | None
    metrics: Mapping[str, float]
    provenance: str
    wall_s: float = field(compare=False, default=0.0)
    earlier: tuple[EarlierRound, ...] = ()
    next_turn: Turn | None = field(compare=False, default=None)


class Agent(Protocol):
    """Plays one episode: one object per episode, ``close()`` always called."""

    def act(self, turn: Turn) -> Reply | Awaitable[Reply]:
        """Answer one turn, directly or as an awaitable."""
        ...

    def close(self) -> None:
        """Release what the agent holds."""
        ...


@runtime_checkable
class ReflectingAgent(Protocol):
    """An agent that can write down what to do better, for a further round of the same task."""

    def reflect(self, turn: Turn, earlier: tuple[EarlierRound, ...]) -> Reply | Awaitable[Reply]:
        """Reflect on a round that failed.

        Args:
            turn: the end of the round: its last observation, with every step in ``history``.
            earlier: the rounds before it, with what was written about them.
        """
        ...


AgentFactory = Callable[[gym.Env[str, str], int], Agent]
"""Makes the agent of one episode from its environment and the episode's seed."""


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """Which episode to play.

    Attributes:
        task_id: the task.
        seed: of the environment's reset, and of the agent where it has none of its own.
        trial: numbers episodes of one task.
        group_id: names episodes that trainers compare.
        agent_seed: of the agent alone, so that equal environments are played differently.
    """

    task_id: str
    seed: int
    trial: int = 0
    group_id: str = ""
    agent_seed: int | None = None


@dataclass(frozen=True, slots=True)
class PlaySettings:
    """How episodes are played, beside environment and agent.

    Attributes:
        prompt: builds each step's messages; None leaves them empty (agents without a model).
        reply_format: a name of ``replies.REPLY_FORMATS``.
        reward: the shaping preset.
        max_steps: stop after so many steps even if the environment goes on; None leaves it to it.
        max_rounds: how often the task may be played in one episode. After a round that failed, the
            agent reflects and plays from the beginning; it is told of its failure, which no
            ordinary agent is.
        keep_next_turn: keep what the agent would be asked next where an episode is cut; a value
            of the state behind the cut is read there.

    Raises:
        UsageError: on an unknown reply format or a bound out of its range.
    """

    prompt: StepPrompt | None = None
    reply_format: str = "raw"
    reward: RewardPreset = RewardPreset()
    max_steps: int | None = None
    max_rounds: int = 1
    keep_next_turn: bool = False

    def __post_init__(self) -> None:
        if self.reply_format not in REPLY_FORMATS:
            known = ", ".join(REPLY_FORMATS)
            raise UsageError(f"reply format {self.reply_format!r} does not exist; use {known}")
        if self.max_steps is not None and self.max_steps < 1:
            raise UsageError(f"max_steps is {self.max_steps}; give at least 1, or None")
        if self.max_rounds < 1:
            raise UsageError(f"max_rounds is {self.max_rounds}; give at least 1")

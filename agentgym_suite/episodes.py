"""The contracts of playing: ``Turn``, ``Reply``, ``Step``, ``Episode``, and ``run_episode``.

``run_episode`` is the only loop that plays; evaluation and trainers both go through it. The
concurrent form of it is ``rollouts.run_episodes``.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import gymnasium as gym

from agentgym_suite.calls import ToolCall
from agentgym_suite.errors import RemoteEnvError, StepTimeout, UsageError
from agentgym_suite.prompts import Message, PastStep, PromptInput, StepPrompt
from agentgym_suite.replies import ParsedAction, parse_reply
from agentgym_suite.rewards import RewardPreset, shape_reward
from agentgym_suite.tasks import Task

Outcome = Literal["success", "failure", "truncated_steps", "truncated_context", "error"]
Origin = Literal["agent", "model", "env", "infra"]
GOAL_KEYS = ("instruction", "goal", "question", "query")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


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
    latency_s: float = 0.0
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
    before the step; ``state_hash`` the state after it.
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
    timings: Timings

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


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an episode could not be played to its end: data, never an exception."""

    kind: str
    origin: Origin
    message: str


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished (or failed) episode; trainers and evaluation derive everything from it."""

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


class Agent(Protocol):
    """Plays one episode: one object per episode, ``close()`` always called."""

    def act(self, turn: Turn) -> Reply | Awaitable[Reply]:
        """Answer one turn, directly or as an awaitable."""
        ...

    def close(self) -> None:
        """Release what the agent holds."""
        ...


AgentFactory = Callable[[gym.Env[str, str], int], Agent]
"""Makes the agent of one episode from its environment and the episode's seed."""


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """Which episode to play; ``group_id`` names episodes that trainers compare."""

    task_id: str
    seed: int
    trial: int = 0
    group_id: str = ""


@dataclass(frozen=True, slots=True)
class PlaySettings:
    """How episodes are played, beside environment and agent.

    Attributes:
        prompt: builds each step's messages; None leaves them empty (agents without a model).
        reply_format: a name of ``replies.REPLY_FORMATS``.
        reward: the shaping preset.
        max_steps: stop after so many steps even if the environment goes on; None leaves it to it.
    """

    prompt: StepPrompt | None = None
    reply_format: str = "raw"
    reward: RewardPreset = RewardPreset()
    max_steps: int | None = None


class EpisodeRecorder:
    """The growing record of one episode; readable at any moment, so a hang loses nothing."""

    def __init__(self, request: EpisodeRequest) -> None:
        self.request = request
        self.steps: list[Step] = []
        self.task = Task(request.task_id, -1, "")
        self.info: Mapping[str, Any] = {}
        self.provenance = ""
        self.phase: Literal["env", "agent"] = "env"
        self.started = time.perf_counter()

    def finish(self, outcome: Outcome | None = None, failure: Failure | None = None) -> Episode:
        """The episode as far as it went."""
        success = bool(self.info.get("success", False)) and failure is None
        if outcome is None:
            ended = bool(self.steps) and self.steps[-1].terminated
            outcome = "success" if success else "failure" if ended else "truncated_steps"
        lost = failure is not None
        return Episode(
            task_id=self.task.id,
            trial=self.request.trial,
            seed=self.request.seed,
            group_id=self.request.group_id,
            task_family=self.task.family,
            split=self.task.split,
            steps=tuple(self.steps),
            score=0.0 if lost else float(self.info.get("score", 0.0)),
            success=success,
            outcome="error" if lost else outcome,
            failure=failure,
            metrics=dict(self.info.get("metrics", {})),
            provenance=self.provenance,
            wall_s=time.perf_counter() - self.started,
        )


def run_episode(
    env: gym.Env[str, str],
    make_agent: AgentFactory,
    request: EpisodeRequest,
    settings: PlaySettings | None = None,
    *,
    recorder: EpisodeRecorder | None = None,
    wait: Callable[[Awaitable[Reply]], Reply] | None = None,
) -> Episode:
    """Play one episode to its end; failures become data.

    Args:
        env: an environment of this package, local or remote; used by nobody else meanwhile.
        make_agent: makes the agent; it is closed at the end whatever happens.
        request: the task, seed and trial.
        settings: prompt, reply format, reward preset and step bound.
        recorder: where the steps go as they happen.
        wait: resolves the awaitable of an asynchronous agent; needed for those only.

    Returns:
        The episode; ``failure`` says what broke, if anything did.

    Raises:
        UsageError: if the request itself is wrong, such as an unknown task.
    """
    settings = settings or PlaySettings()
    record = recorder or EpisodeRecorder(request)
    agent: Agent | None = None
    try:
        record.phase = "agent"
        agent = make_agent(env, request.seed)
        record.phase = "env"
        observation, info = env.reset(seed=request.seed, options={"task_id": request.task_id})
        record.task = _task_of(env, info)
        record.info, record.provenance = info, str(info["provenance"])
        valid_before = 0
        while settings.max_steps is None or len(record.steps) < settings.max_steps:
            step = _play_turn(env, agent, observation, record, settings, valid_before, wait)
            record.steps.append(step)
            valid_before += step.valid
            observation = step.next_observation
            if step.terminated or step.truncated:
                break
        return record.finish()
    except Exception as error:  # the boundary where a broken part becomes data
        if isinstance(error, UsageError) and not record.provenance:
            raise  # the request itself is wrong: nothing has been played
        return record.finish(failure=classify(error, record.phase))
    finally:
        if agent is not None:
            agent.close()


def _play_turn(
    env: gym.Env[str, str],
    agent: Agent,
    observation: str,
    record: EpisodeRecorder,
    settings: PlaySettings,
    valid_before: int,
    wait: Callable[[Awaitable[Reply]], Reply] | None,
) -> Step:
    info = record.info
    turn = Turn(
        task=record.task,
        step_index=len(record.steps),
        observation=observation,
        info=info,
        messages=_messages(env, observation, record, settings.prompt),
        history=tuple(record.steps),
        tools=env.unwrapped.tools if settings.prompt else (),  # type: ignore[attr-defined]
    )
    record.phase = "agent"
    asked = time.perf_counter()
    answer = agent.act(turn)
    if isinstance(answer, Reply):
        reply = answer
    elif inspect.isawaitable(answer) and wait is not None:
        reply = wait(answer)
    else:
        raise TypeError(f"the agent returned {type(answer).__name__}; return a Reply")
    answered = time.perf_counter()
    parsed = _parse(env, reply, settings.reply_format)
    record.phase = "env"
    result, env_reward, terminated, truncated, next_info = env.step(parsed.action)
    finished = time.perf_counter()
    record.info = next_info
    valid = bool(next_info["action_valid"]) and not parsed.error
    metrics = next_info["metrics"]
    return Step(
        observation=observation,
        next_observation=result,
        messages=turn.messages,
        reply=reply,
        action=parsed.action,
        parsed_action=str(next_info["parsed_action"]),
        valid=valid,
        error=parsed.error or str(next_info["action_error"]),
        span=parsed.span,
        env_reward=float(env_reward),
        reward=shape_reward(
            settings.reward,
            env_reward=float(env_reward),
            valid=valid,
            valid_before=valid_before,
            success=bool(next_info["success"]),
            purchased=bool(metrics.get("purchases", 0.0)),
            terminated=terminated,
        ),
        terminated=terminated,
        truncated=truncated,
        admissible=tuple(info["admissible_actions"]),
        state_hash=str(next_info["state_hash"]),
        timings=Timings(answered - asked, finished - answered),
    )


def _task_of(env: gym.Env[str, str], info: Mapping[str, Any]) -> Task:
    return Task(str(info["task_id"]), -1, str(info["split"]), str(info["task_family"]))


def _parse(env: gym.Env[str, str], reply: Reply, reply_format: str) -> ParsedAction:
    if reply_format == "raw":
        return ParsedAction(reply.text, span=(0, len(reply.text)))
    codec = env.unwrapped.codec  # type: ignore[attr-defined]
    return parse_reply(reply.text, reply_format, codec=codec, tool_calls=reply.tool_calls)


def _messages(
    env: gym.Env[str, str], observation: str, record: EpisodeRecorder, prompt: StepPrompt | None
) -> tuple[Message, ...]:
    if prompt is None:
        return ()
    info = record.info
    tools = env.unwrapped.tools  # type: ignore[attr-defined]
    return prompt.render(
        PromptInput(
            goal=next((str(info[key]) for key in GOAL_KEYS if info.get(key)), ""),
            observation=observation,
            history=tuple(PastStep(s.observation, s.action) for s in record.steps),
            admissible=tuple(info["admissible_actions"]),
            feedback=str(info["action_error"]),
            calls=tuple(_call_line(tool["function"]) for tool in tools),
        )
    ).messages


def _call_line(function: Mapping[str, Any]) -> str:
    parameters = ", ".join(function["parameters"]["properties"])
    return f"{function['name']}({parameters}): {function['description']}"


def classify(error: Exception, phase: str) -> Failure:
    """An exception as a failure with kind and origin (evaluation spec, section 7)."""
    message = f"{type(error).__name__}: {error}"[:2000]
    if isinstance(error, MemoryError):
        return Failure("oom", "infra", message)
    if phase == "agent":
        if isinstance(error, ConnectionError):
            return Failure("connection", "infra", message)
        return Failure("agent_exception", "agent", message)
    if isinstance(error, StepTimeout):
        return Failure("env_timeout", "env", message)
    if isinstance(error, RemoteEnvError | ConnectionError):
        return Failure("connection", "infra", message)
    return Failure("env_exception", "env", message)

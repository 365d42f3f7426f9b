"""The one loop that plays: ``run_episode``. Evaluation and trainers both go through it."""

from __future__ import annotations

import inspect
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym

from agentgym_suite.env import MAX_ACTION_CHARACTERS
from agentgym_suite.episodes import (
    Agent,
    AgentFactory,
    EarlierRound,
    Episode,
    EpisodeRequest,
    Failure,
    Outcome,
    PlaySettings,
    ReflectingAgent,
    Reply,
    Step,
    Timings,
    Turn,
)
from agentgym_suite.errors import (
    ContextTooLong,
    ModelError,
    ModelUnusable,
    RemoteEnvError,
    StepTimeout,
    UsageError,
    WorkerLost,
)
from agentgym_suite.game import Game, game_of
from agentgym_suite.prompts import PastStep, PromptInput, RenderedPrompt, StepPrompt
from agentgym_suite.replies import ParsedAction, parse_reply
from agentgym_suite.rewards import PURCHASES, shape_reward
from agentgym_suite.tasks import Task

_TOLD = "told_where_it_was_raised"
_REMEMBERED = 3  # reflections that a prompt shows, the latest ones


class EpisodeRecorder:
    """The growing record of one episode; readable at any moment, so a hang loses nothing.

    Attributes:
        abandoned: set when nobody waits for the episode any more; the loop then stops.
    """

    def __init__(self, request: EpisodeRequest) -> None:
        self.request = request
        self.steps: list[Step] = []
        self.earlier: list[EarlierRound] = []
        self.task = Task(request.task_id, -1, "")
        self.info: Mapping[str, Any] = {}
        self.provenance = ""
        self.next_turn: Turn | None = None
        self.phase: Literal["env", "agent"] = "env"
        self.abandoned = threading.Event()
        self.started = time.perf_counter()

    def begin_again(self, reflection: Reply) -> None:
        """Keep the round so far as an earlier one; the next starts without a step."""
        outcome = self._outcome(success=False, failure=None)
        score = float(self.info.get("score", 0.0))
        self.earlier.append(EarlierRound(tuple(self.steps), score, outcome, reflection))
        self.steps = []

    def finish(self, failure: Failure | None = None) -> Episode:
        """The episode as far as it went."""
        success = bool(self.info.get("success", False)) and failure is None
        return Episode(
            task_id=self.task.id,
            trial=self.request.trial,
            seed=self.request.seed,
            group_id=self.request.group_id,
            task_family=self.task.family,
            split=self.task.split,
            steps=tuple(self.steps),
            score=0.0 if failure else float(self.info.get("score", 0.0)),
            success=success,
            outcome=self._outcome(success, failure),
            failure=failure,
            metrics=dict(self.info.get("metrics", {})),
            provenance=self.provenance,
            wall_s=time.perf_counter() - self.started,
            earlier=tuple(self.earlier),
            next_turn=self.next_turn if failure is None else None,
        )

    def _outcome(self, success: bool, failure: Failure | None) -> Outcome:
        if failure is not None:
            return "truncated_context" if failure.kind == "context_overflow" else "error"
        if success:
            return "success"
        ended = bool(self.steps) and self.steps[-1].terminated
        return "failure" if ended else "truncated_steps"


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
        UsageError: if the request itself is wrong, such as an unknown task, or the model cannot be
            asked at all.
    """
    record = recorder or EpisodeRecorder(request)
    agents: list[Agent] = []
    failure: Failure | None = None
    try:
        _play_through(env, make_agent, record, settings or PlaySettings(), agents, wait)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the boundary where a broken part becomes data
        if isinstance(error, UsageError) and not record.provenance:
            raise  # the request itself is wrong: nothing has been played
        if isinstance(error, ModelUnusable):
            raise  # every further episode would fail for the same reason
        failure = classify(error, record.phase)
    finally:
        for agent in agents:
            try:
                agent.close()
            except Exception as error:  # a failing close is the agent's failure, too
                failure = failure or classify(error, "agent")
    return record.finish(failure)


def _play_through(
    env: gym.Env[str, str],
    make_agent: AgentFactory,
    record: EpisodeRecorder,
    settings: PlaySettings,
    agents: list[Agent],
    wait: Callable[[Awaitable[Reply]], Reply] | None,
) -> None:
    record.phase = "agent"
    request = record.request
    agent_seed = request.seed if request.agent_seed is None else request.agent_seed
    agent = make_agent(env, agent_seed)
    agents.append(agent)
    while True:
        observation = _play_round(env, agent, record, settings, wait)
        last_round = len(record.earlier) + 1 >= settings.max_rounds
        if last_round or record.info["success"] or record.abandoned.is_set():
            break
        record.phase = "agent"
        if not isinstance(agent, ReflectingAgent):
            raise TypeError(f"{type(agent).__name__} has no reflect(); play it without reflections")
        turn = _turn(env, observation, record, settings, RenderedPrompt(()))
        record.begin_again(_resolved(agent.reflect(turn, tuple(record.earlier)), wait))
    if settings.keep_next_turn and record.steps and not record.steps[-1].terminated:
        record.phase = "agent"
        prompt = _prompt(game_of(env), observation, record, settings.prompt)
        record.next_turn = _turn(env, observation, record, settings, prompt)


def _play_round(
    env: gym.Env[str, str],
    agent: Agent,
    record: EpisodeRecorder,
    settings: PlaySettings,
    wait: Callable[[Awaitable[Reply]], Reply] | None,
) -> str:
    """Play from a reset to an end; the last observation."""
    record.phase = "env"
    request = record.request
    observation, info = env.reset(seed=request.seed, options={"task_id": request.task_id})
    record.task = Task(str(info["task_id"]), -1, str(info["split"]), str(info["task_family"]))
    record.info, record.provenance = info, str(info["provenance"])
    while settings.max_steps is None or len(record.steps) < settings.max_steps:
        step = _play_turn(env, agent, observation, record, settings, wait)
        record.steps.append(step)
        observation = step.next_observation
        if step.terminated or step.truncated or record.abandoned.is_set():
            break
    return observation


def _turn(
    env: gym.Env[str, str],
    observation: str,
    record: EpisodeRecorder,
    settings: PlaySettings,
    prompt: RenderedPrompt,
) -> Turn:
    return Turn(
        task=record.task,
        step_index=len(record.steps),
        observation=observation,
        info=record.info,
        messages=prompt.messages,
        history=tuple(record.steps),
        tools=game_of(env).tools if settings.prompt else (),
        trial=record.request.trial,
    )


def _play_turn(
    env: gym.Env[str, str],
    agent: Agent,
    observation: str,
    record: EpisodeRecorder,
    settings: PlaySettings,
    wait: Callable[[Awaitable[Reply]], Reply] | None,
) -> Step:
    info = record.info
    game = game_of(env)
    prompt = _prompt(game, observation, record, settings.prompt)
    turn = _turn(env, observation, record, settings, prompt)
    record.phase = "agent"
    asked = time.perf_counter()
    reply = _resolved(agent.act(turn), wait)
    answered = time.perf_counter()
    codec = None if settings.reply_format == "raw" else game.codec
    parsed = _bounded(
        parse_reply(reply.text, settings.reply_format, codec=codec, tool_calls=reply.tool_calls)
    )
    record.phase = "env"
    result, env_reward, terminated, truncated, next_info = env.step(parsed.action)
    finished = time.perf_counter()
    record.info = next_info
    valid = bool(next_info["action_valid"]) and not parsed.error
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
            valid_before=sum(step.valid for step in record.steps),
            success=bool(next_info["success"]),
            purchased=bool(next_info["metrics"].get(PURCHASES, 0.0)),
            terminated=terminated,
        ),
        terminated=terminated,
        truncated=truncated,
        admissible=tuple(info["admissible_actions"]),
        state_hash=str(next_info["state_hash"]),
        dropped_steps=prompt.dropped_steps,
        cut_characters=prompt.cut_characters,
        timings=Timings(answered - asked, finished - answered),
    )


def _bounded(parsed: ParsedAction) -> ParsedAction:
    """The action cut to what a step takes: an endless reply is a bad reply, no broken episode."""
    size = len(parsed.action)
    if size <= MAX_ACTION_CHARACTERS:
        return parsed
    error = f"the action has {size:,} characters; use at most {MAX_ACTION_CHARACTERS:,}"
    return replace(parsed, action=parsed.action[:MAX_ACTION_CHARACTERS], error=error)


def _resolved(
    answer: Reply | Awaitable[Reply], wait: Callable[[Awaitable[Reply]], Reply] | None
) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if inspect.isawaitable(answer) and wait is not None:
        return wait(answer)
    raise TypeError(f"the agent returned {type(answer).__name__}; return a Reply")


def _prompt(
    game: Game, observation: str, record: EpisodeRecorder, prompt: StepPrompt | None
) -> RenderedPrompt:
    if prompt is None:
        return RenderedPrompt(())
    info = record.info
    return prompt.render(
        PromptInput(
            goal=str(info[game.goal_key]) if game.goal_key else "",
            observation=observation,
            history=tuple(PastStep(s.observation, s.action, s.reply.text) for s in record.steps),
            admissible=tuple(info["admissible_actions"]),
            feedback=record.steps[-1].error if record.steps else str(info["action_error"]),
            calls=tuple(_call_line(tool["function"]) for tool in game.tools),
            reflections=tuple(t.reflection.text for t in record.earlier[-_REMEMBERED:]),
        )
    )


def _call_line(function: Mapping[str, Any]) -> str:
    parameters = ", ".join(function["parameters"]["properties"])
    return f"{function['name']}({parameters}): {function['description']}"


def classify(error: BaseException, phase: str) -> Failure:
    """An exception as a failure with kind and origin; the message ends with where it was raised."""
    message = told(error)
    if isinstance(error, ContextTooLong):
        return Failure("context_overflow", "model", message)
    if isinstance(error, MemoryError):
        return Failure("oom", "infra", message)
    if isinstance(error, WorkerLost):  # also while an agent asks its environment for an action
        return Failure("worker_lost", "infra", message)
    if isinstance(error, ModelError):
        return Failure(error.kind, error.origin, message, error.usage)
    if phase == "agent":
        if isinstance(error, ConnectionError):
            return Failure("connection", "infra", message)
        return Failure("agent_exception", "agent", message)
    if isinstance(error, StepTimeout):
        return Failure("env_timeout", "env", message)
    if isinstance(error, RemoteEnvError | ConnectionError):
        return Failure("connection", "infra", message)
    return Failure("env_exception", "env", message)


def told(error: BaseException) -> str:
    """An exception in words, with the place where it was raised."""
    carried = vars(error).get(_TOLD)
    if isinstance(carried, str):
        return carried
    try:
        words = f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose own text cannot be made
        words = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    place = f" ({Path(last.filename).name}, {last.name}, line {last.lineno})" if last else ""
    return words[:2000] + place


def carry_told(error: BaseException, words: str) -> None:
    """Let an exception say ``words`` in another process, where its traceback is lost."""
    vars(error)[_TOLD] = words

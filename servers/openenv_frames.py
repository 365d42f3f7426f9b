"""The frames of OpenEnv's socket: what a client may send, and the words of every answer.

Written down from openenv-core 0.3.0. A frame is a JSON object with a ``type`` and, for some types,
``data``; answers have the same form. Nothing here knows a socket or a session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from agentgym_suite.arguments import json_kind, shown_json
from agentgym_suite.env import MAX_ACTION_CHARACTERS
from agentgym_suite.errors import AgentGymSuiteError
from agentgym_suite.servers.bodies import MAX_BODY_BYTES, Field, check_object
from agentgym_suite.servers.problems import Problem, encode_json

Code = Literal[
    "INVALID_JSON",
    "UNKNOWN_TYPE",
    "VALIDATION_ERROR",
    "EXECUTION_ERROR",
    "CAPACITY_REACHED",
    "FACTORY_ERROR",
    "SESSION_ERROR",
]

MAX_FRAME_BYTES = MAX_BODY_BYTES
_TYPE = Field((str,), "the frame's type")
_FRAMES: Mapping[str, Mapping[str, Field]] = {
    "reset": {"type": _TYPE, "data": Field((dict,), "an object of reset arguments")},
    "step": {"type": _TYPE, "data": Field((dict,), 'an object like {"text": …}', required=True)},
    "state": {"type": _TYPE},
    "close": {"type": _TYPE},
}
RESET_DATA = {
    "seed": Field((int,), "a whole number from 0 on", minimum=0),
    "episode_id": Field((str,), "a text of at most 255 characters"),
    "task_id": Field((str, int), "a task id or number"),
    "split": Field((str,), "a split's name"),
}
STEP_DATA = {
    "text": Field((str,), "the action's text"),
    "action": Field((str,), "the action's text"),
}
LONGEST_EPISODE_ID = 255

# what a problem is called here, and its sentence where the protocol's speaks of deleting sessions
_CODES: Mapping[str, Code] = {
    "invalid": "VALIDATION_ERROR",
    "no-task": "VALIDATION_ERROR",
    "full": "CAPACITY_REACHED",
    "draining": "SESSION_ERROR",
    "loading": "SESSION_ERROR",
    "no-env": "SESSION_ERROR",
    "no-session": "SESSION_ERROR",
    "lease-expired": "SESSION_ERROR",
    "broken": "SESSION_ERROR",
}
_AFRESH = "close this socket and open another"
_SENTENCES = {
    "not-reset": "reset first: the session has no episode yet",
    "episode-over": "reset first: the episode is over",
    "env-error": f"the environment failed, and the server's log has the reason; {_AFRESH}",
    "step-timeout": f"the environment took too long, and the session is broken; {_AFRESH}",
    "broken": f"the session is broken; {_AFRESH}",
    "lease-expired": "the session has ended, as one without messages does; open another socket",
}


class FrameError(AgentGymSuiteError):
    """A frame that cannot be answered otherwise than by an error.

    Args:
        code: one of OpenEnv's codes.
        message: one sentence: what, the value, what to do.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Code = code


class Frame(NamedTuple):
    """A client's frame whose data are sound.

    Attributes:
        kind: "reset", "step", "state" or "close".
        data: of a reset the arguments that were given, of a step ``{"text": action}``.
    """

    kind: str
    data: dict[str, Any]


def read_frame(message: Mapping[str, Any]) -> Frame:
    """The frame in an ASGI ``websocket.receive`` message.

    Raises:
        FrameError: it is none, with OpenEnv's code.
    """
    text = message.get("text")
    if text is None:
        raise FrameError("INVALID_JSON", "the frame is binary; send JSON in a text frame")
    value = _object(text)
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _FRAMES:
        raise FrameError(
            "UNKNOWN_TYPE", f"the frame's type is {shown_json(kind)}; use {', '.join(_FRAMES)}"
        )
    try:
        data = check_object(value, _FRAMES[kind]).get("data", {})
        if kind == "reset":
            data = _reset_data(data)
        elif kind == "step":
            data = _step_data(data)
    except Problem as problem:
        raise FrameError("VALIDATION_ERROR", problem.detail) from None
    return Frame(kind, data)


def _object(text: str) -> dict[str, Any]:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_FRAME_BYTES:
        raise FrameError(
            "VALIDATION_ERROR", f"the frame has {size:,} bytes; send at most {MAX_FRAME_BYTES:,}"
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError(
            "INVALID_JSON", 'the frame is not JSON; send an object like {"type": "state"}'
        ) from None
    if not isinstance(value, dict):
        raise FrameError(
            "VALIDATION_ERROR",
            f'the frame is a JSON {json_kind(value)}; send an object like {{"type": "state"}}',
        )
    try:
        encode_json(value)  # whatever is quoted back must be sendable
    except (ValueError, RecursionError):
        raise FrameError(
            "VALIDATION_ERROR",
            "the frame has a lone surrogate, a number that is not finite or too deep a nesting; "
            "send what UTF-8 and JSON can carry",
        ) from None
    return value


def _reset_data(given: dict[str, Any]) -> dict[str, Any]:
    data = check_object(given, RESET_DATA)
    length = len(data.get("episode_id", ""))
    if length > LONGEST_EPISODE_ID:
        raise Problem(
            "invalid",
            f"episode_id has {length:,} characters; give at most {LONGEST_EPISODE_ID}",
        )
    return data


def _step_data(given: dict[str, Any]) -> dict[str, Any]:
    # typed clients dump their action with the metadata that every action has
    data = check_object({k: v for k, v in given.items() if k != "metadata"}, STEP_DATA)
    if len(data) != 1:
        wrong = "is given twice" if data else "is missing"
        raise Problem("invalid", f"the action's text {wrong}; give it once, as text")
    (text,) = data.values()
    if len(text) > MAX_ACTION_CHARACTERS:
        raise Problem(
            "invalid",
            f"the action has {len(text):,} characters; send at most {MAX_ACTION_CHARACTERS:,}",
        )
    return {"text": text}


def observation_frame(answer: Mapping[str, Any]) -> str:
    """The answer to a reset or a step, from that of ``agentgym-suite/1``."""
    terminated, truncated = answer.get("terminated", False), answer.get("truncated", False)
    observation = {
        "text": answer["observation"],
        "terminated": terminated,
        "truncated": truncated,
        "info": answer["info"],
    }
    return _frame(
        "observation",
        {
            "observation": observation,
            "reward": answer.get("reward"),
            "done": terminated or truncated,
        },
    )


def state_frame(state: Mapping[str, Any]) -> str:
    """The answer to a question for the state."""
    return _frame("state", state)


def error_frame(code: Code, message: str, **more: Any) -> str:
    """An error."""
    sound = message.encode("utf-8", "replace").decode("utf-8")
    return _frame("error", {"message": sound, "code": code, **more})


def error_of(problem: Problem) -> tuple[Code, str]:
    """The code and the sentence of a problem that came up in a session."""
    return (
        _CODES.get(problem.slug, "EXECUTION_ERROR"),
        _SENTENCES.get(problem.slug, problem.detail),
    )


def _frame(kind: str, data: Mapping[str, Any]) -> str:
    return encode_json({"type": kind, "data": data}).decode("utf-8")

"""The light clients of ``servers.py``: hand-made HTTP, two dialects, and answers compared as bytes.

What an answer must be was worked out before, so that a client does nothing while it is timed but
write a request, read an answer and compare. Only an answer that differs is parsed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Script:
    """An episode as the environment plays it here.

    Attributes:
        task_id: its task.
        actions: what is played.
        told: what reset and each step tell, as ``{"observation", "reward", …}``.
    """

    task_id: str
    actions: tuple[str, ...]
    told: tuple[dict[str, Any], ...]


class Dialect(Protocol):
    """How a kind of server is spoken to."""

    name: str

    def create(self) -> tuple[str, Any]:
        """Path and body that make a session."""

    def session(self, answer: Any) -> str:
        """The session that an answer to it names."""

    def reset(self, session: str, script: Script) -> tuple[str, Any]:
        """Path and body that begin a script."""

    def step(self, session: str, episode: int, index: int, action: str) -> tuple[str, Any]:
        """Path and body of a step."""

    def expected(self, told: dict[str, Any], index: int) -> tuple[bytes, Any]:
        """The end of an answer's bytes, and its members that are compared if those differ."""


class Ours:
    """``agentgym-suite/1``: everything that an environment tells is compared."""

    name = "agentgym-suite/1"

    def __init__(self, env_id: str) -> None:
        self._env_id = env_id

    def create(self) -> tuple[str, Any]:
        """Path and body that make a session."""
        return "/v1/sessions", {"env_id": self._env_id}

    def session(self, answer: Any) -> str:
        """The session that an answer to it names."""
        return str(answer["session_id"])

    def reset(self, session: str, script: Script) -> tuple[str, Any]:
        """Path and body that begin a script."""
        return f"/v1/sessions/{session}/reset", {"seed": 0, "task_id": script.task_id}

    def step(self, session: str, episode: int, index: int, action: str) -> tuple[str, Any]:
        """Path and body of a step."""
        body = {"episode": episode, "step_index": index, "action": action}
        return f"/v1/sessions/{session}/step", body

    def expected(self, told: dict[str, Any], index: int) -> tuple[bytes, Any]:
        """The end of an answer's bytes, and its members that are compared if those differ."""
        document = {"step_index": index, **told}
        return _encoded(document)[1:], document


class AgentGymStyle:
    """AgentGym's WebShop: observation, reward and end are compared, there is no more."""

    name = "AgentGym style"

    def create(self) -> tuple[str, Any]:
        """Path and body that make a session."""
        return "/create", None

    def session(self, answer: Any) -> str:
        """The session that an answer to it names."""
        return str(answer)

    def reset(self, session: str, script: Script) -> tuple[str, Any]:
        """Path and body that begin a script."""
        return "/reset", {"env_idx": int(session), "session_id": script.task_id}

    def step(self, session: str, episode: int, index: int, action: str) -> tuple[str, Any]:
        """Path and body of a step."""
        return "/step", {"env_idx": int(session), "action": action}

    def expected(self, told: dict[str, Any], index: int) -> tuple[bytes, Any]:
        """The end of an answer's bytes, and its members that are compared if those differ."""
        if "reward" not in told:
            answer: Any = [told["observation"], None]
        else:
            done = told["terminated"] or told["truncated"]
            answer = {
                "state": told["observation"],
                "reward": told["reward"],
                "done": done,
                "info": None,
            }
        return _encoded(answer), answer


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


Expected = list[tuple[bytes, Any]]
"""What a reset and each step of a script are answered, as ``Dialect.expected`` has it."""


def expected_answers(dialect: Dialect, scripts: Sequence[Script]) -> list[Expected]:
    """The answers to every script."""
    return [
        [dialect.expected(told, index) for index, told in enumerate(script.told)]
        for script in scripts
    ]


@dataclass(slots=True)
class Tally:
    """What many clients found.

    Attributes:
        steps: steps answered.
        resets: resets answered.
        errors: answers that were refusals, with the first few.
        mixed: answers that were not those of the script, with the first few.
        latencies_s: seconds of each step.
    """

    steps: int = 0
    resets: int = 0
    errors: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)


class Wire:
    """One kept connection; ``repeats`` counts the requests that went out again over a new one."""

    def __init__(self, host: str, port: int) -> None:
        self.repeats = 0
        self._address = (host, port)
        self._head = f"Host: {host}:{port}\r\nContent-Type: application/json\r\n"

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(*self._address, limit=1 << 22)

    async def post(self, path: str, body: Any) -> tuple[int, bytes]:
        """Status and body of one request."""
        content = b"" if body is None else _encoded(body)
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(content)}\r\n\r\n"
        request = head.encode("ascii") + content
        try:
            return await self._ask(request)
        except (ConnectionError, asyncio.IncompleteReadError):
            # a server closes connections that it believes idle, if need be under a request
            self.repeats += 1
            self.close()
            await self.open()
            return await self._ask(request)

    async def _ask(self, request: bytes) -> tuple[int, bytes]:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
        return int(head[9:12]), await self._reader.readexactly(length)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


class Player:
    """A client with sessions of its own, one step of each in turn.

    Args:
        wire: its connection.
        dialect: how the server is spoken to.
        scripts: what is played; each session goes through them from another one on.
        expected: what ``expected_answers`` gave for them.
        tally: where everybody counts.
    """

    def __init__(
        self,
        wire: Wire,
        dialect: Dialect,
        scripts: Sequence[Script],
        expected: Sequence[Expected],
        tally: Tally,
    ) -> None:
        self._wire = wire
        self._dialect = dialect
        self._scripts = scripts
        self._expected = expected
        self._tally = tally
        self._sessions: list[_Session] = []

    async def create(self, numbers: range) -> None:
        """Make one session for each number."""
        for number in numbers:
            status, body = await self._wire.post(*self._dialect.create())
            if status not in (200, 201):
                raise SystemExit(f"no session: status {status}: {body[:300]!r}")
            name = self._dialect.session(json.loads(body))
            self._sessions.append(_Session(name, number % len(self._scripts)))

    async def play(self, enough: Callable[[], bool]) -> None:
        """Play until it is enough."""
        while not enough():
            for session in self._sessions:
                await self._turn(session)

    async def _turn(self, session: _Session) -> None:
        script = self._scripts[session.script]
        index = session.index
        if index < 0:
            session.episode += 1
            request = self._dialect.reset(session.name, script)
        else:
            action = script.actions[index]
            request = self._dialect.step(session.name, session.episode, index, action)
        began = time.perf_counter()
        status, body = await self._wire.post(*request)
        took = time.perf_counter() - began
        if status != 200:
            self._tally.errors.append(f"{request}: {status} {body[:200]!r}")
        end, members = self._expected[session.script][index + 1]
        if not body.endswith(end) and not _same(body, members):
            self._tally.mixed.append(f"{request}: {body[:200]!r}")
        if index < 0:
            self._tally.resets += 1
        else:
            self._tally.steps += 1
            self._tally.latencies_s.append(took)
        session.index += 1
        if session.index == len(script.actions):
            session.index = -1
            session.script = (session.script + 1) % len(self._scripts)


@dataclass(slots=True)
class _Session:
    name: str
    script: int
    episode: int = 0
    index: int = -1  # -1: the next request is a reset


def _same(body: bytes, members: Any) -> bool:
    try:
        answer = json.loads(body)
    except ValueError:
        return False
    if isinstance(members, dict) and isinstance(answer, dict):
        return all(answer.get(name) == value for name, value in members.items())
    return bool(answer == members)

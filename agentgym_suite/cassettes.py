"""Recordings of a model: request -> reply, so that a run is played again without the model.

A cassette is a file of JSON lines. The first names the model; each other one holds the digest of a
request and the reply to it. A request that is not there is an error, never a call.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from agentgym_suite.calls import ToolCall
from agentgym_suite.chat import ChatModel, ChatReply, ChatRequest, ConnectsModel, FinishReason
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, ModelUnusable
from agentgym_suite.files import explain_full_disk, irregular, write_atomic
from agentgym_suite.usage import Usage

CASSETTE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Cassette:
    """What a cassette holds.

    Attributes:
        path: the file.
        model: the model that was recorded.
        replies: request digest -> reply.
    """

    path: Path
    model: str
    replies: Mapping[str, ChatReply]

    @classmethod
    def read(cls, path: Path) -> Cassette:
        """The cassette of a file; a torn last line, which a killed recorder leaves, is left out.

        Raises:
            DataMissing: there is no such file.
            DataDamaged: it is no cassette.
            DataError: it cannot be read.
        """
        if irregular(path):
            raise DataError(f"{path} is no regular file; give the file of a cassette")
        try:
            lines = path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError as error:
            raise DataMissing(f"there is no cassette {path}; record one with --record") from error
        except OSError as error:
            told = f"{path} cannot be read ({error.strerror}); make it readable"
            raise DataError(told) from error
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        replies: dict[str, ChatReply] = {}
        model = ""
        for number, line in enumerate(lines, 1):
            try:
                value = json.loads(line)
                if number == 1:
                    model = _model_of(value)
                else:
                    digest, reply = str(value["request"]), _reply(value["reply"])
                    if replies.setdefault(digest, reply) != reply:
                        raise DataDamaged(
                            f"{path} has two replies to the request {digest} (line {number}); "
                            "record it again"
                        )
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise DataDamaged(
                    f"{path} is no cassette of version {CASSETTE_VERSION} (line {number}); "
                    "record it again"
                ) from error
        if not lines:
            raise DataDamaged(f"{path} is an empty cassette; record it again")
        return cls(path, model, replies)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[CassetteModel]:
        """The model that answers from the cassette alone."""
        yield CassetteModel(self)


class CassetteModel:
    """Answers the requests that a cassette holds."""

    def __init__(self, cassette: Cassette) -> None:
        self._cassette = cassette

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The recorded reply.

        Raises:
            ModelUnusable: the request was not recorded.
        """
        digest = request.digest(self._cassette.model)
        reply = self._cassette.replies.get(digest)
        if reply is None:
            raise ModelUnusable(
                f"{self._cassette.path} holds no reply to the request {digest}; give the --suite, "
                "--prompting, --prompt, --reply-format and decoding of the recorded run, or record "
                "it again"
            )
        return reply


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """A model whose replies go to a cassette; one that is there already is gone on with.

    Attributes:
        connect_model: opens the model.
        name: the model's name.
        path: the file.

    Raises:
        ModelUnusable: the file holds another model.
        DataDamaged: the file is no cassette.
    """

    connect_model: ConnectsModel
    name: str
    path: Path

    def __post_init__(self) -> None:
        if not self.path.exists():
            return
        recorded = Cassette.read(self.path).model
        if recorded != self.name:
            raise ModelUnusable(
                f"{self.path} holds replies of {recorded}, not of {self.name}; record to another "
                "file"
            )

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RecordingModel]:
        """The model; when it closes, the file is sorted, so that equal runs give equal files."""
        replies = dict(Cassette.read(self.path).replies) if self.path.exists() else {}
        async with self.connect_model() as model:
            recording = RecordingModel(model, self.name, self.path, replies)
            recording.write()
            try:
                yield recording
            finally:
                recording.write()


class RecordingModel:
    """Passes requests on, and keeps each reply; a request that is known is not asked again.

    Without that, an attempt that is repeated could leave two replies to one request.
    """

    def __init__(
        self, model: ChatModel, name: str, path: Path, replies: dict[str, ChatReply]
    ) -> None:
        self._model = model
        self._name = name
        self._path = path
        self._replies = replies

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The model's reply, kept before it is given; or the one that is kept already.

        Raises:
            ModelError: the model gave none.
            DiskFull: it cannot be kept.
        """
        digest = request.digest(self._name)
        if digest not in self._replies:
            reply = await self._model.complete(request)
            if digest not in self._replies:  # an equal request may have been on its way
                self._replies[digest] = reply
                with explain_full_disk(self._path.parent), self._path.open("ab") as stream:
                    stream.write(_line(digest, reply))
        return self._replies[digest]

    def write(self) -> None:
        """Write the whole cassette, sorted."""
        lines = [_json({"cassette": CASSETTE_VERSION, "model": self._name})]
        lines += [_line(digest, reply) for digest, reply in sorted(self._replies.items())]
        with explain_full_disk(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._path, b"".join(lines))


def _line(digest: str, reply: ChatReply) -> bytes:
    usage = reply.usage
    calls = [{"name": c.name, "arguments": c.arguments, "id": c.id} for c in reply.tool_calls]
    return _json(
        {
            "request": digest,
            "reply": {
                "text": reply.text,
                "tool_calls": calls,
                "usage": [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens],
                "finish_reason": reply.finish_reason,
            },
        }
    )


def _json(value: Any) -> bytes:
    """A line; ASCII, so that any text of a model is there again when it is read."""
    return json.dumps(value, sort_keys=True, allow_nan=False).encode("ascii") + b"\n"


def _model_of(header: Any) -> str:
    if header["cassette"] != CASSETTE_VERSION:
        raise ValueError("another version")
    return str(header["model"])


def _reply(value: Any) -> ChatReply:
    if value["finish_reason"] not in get_args(FinishReason):
        raise ValueError("no such finish reason")
    return ChatReply(
        str(value["text"]),
        tuple(ToolCall(c["name"], c["arguments"], c["id"]) for c in value["tool_calls"]),
        Usage(*map(int, value["usage"])),
        value["finish_reason"],
    )

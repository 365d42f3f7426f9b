"""An OpenAI-compatible server that answers by a script, and misbehaves as the script says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One answer of the server.

    ``cut`` ends the connection in the middle of the body, ``slow_s`` waits before the answer.
    """

    body: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    slow_s: float = 0.0


def completion(
    text: str | None = "ok",
    *,
    tool_calls: Sequence[Mapping[str, Any]] = (),
    finish_reason: str = "stop",
    usage: Mapping[str, Any] | None = None,
    **message: Any,
) -> dict[str, Any]:
    """The body of a chat completion."""
    said: dict[str, Any] = {"role": "assistant", "content": text, **message}
    if tool_calls:
        said["tool_calls"] = list(tool_calls)
    return {
        "id": "c1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": said, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3} if usage is None else usage,
    }


def tool_call(name: str, arguments: str) -> dict[str, Any]:
    """A call as a completion holds it."""
    return {"id": "t1", "type": "function", "function": {"name": name, "arguments": arguments}}


@dataclass
class ChatServer:
    """The running server: its address and what it was asked."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


Script = Callable[[dict[str, Any]], Answer]


@contextmanager
def chat_server(answers: Sequence[Answer] | Script) -> Iterator[ChatServer]:
    """A server on a free port; a list of answers goes on with its last one."""
    lock = threading.Lock()
    seen = ChatServer("")

    def next_answer(request: dict[str, Any]) -> Answer:
        with lock:
            seen.requests.append(request)
            number = len(seen.requests)
        if callable(answers):
            return answers(request)
        return answers[min(number, len(answers)) - 1]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.keys.append(self.headers.get("Authorization"))
            seen.paths.append(self.path)
            answer = next_answer(json.loads(body))
            time.sleep(answer.slow_s)
            payload = answer.body
            if not isinstance(payload, bytes):
                payload = (
                    payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()
                )
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload[: len(payload) // 2] if answer.cut else payload)
            except OSError:
                pass  # the client has given up
            if answer.cut:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is logged."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that goes away is no error."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    seen.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""An analyzer behind an endpoint that misbehaves in every way it can."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentgym_suite.errors import AnalyzerError, UsageError
from agentgym_suite.trainers.analyzer import analyze_group, analyze_groups
from agentgym_suite.trainers.analyzer_audit import write_audit
from agentgym_suite.trainers.analyzer_client import ChatAnalyzer
from agentgym_suite.trainers.analyzer_prompts import extraction_request
from tests.trainers.traced import group, hint, item, mug, target

KEY = "sk-0123456789"
REQUEST = extraction_request(group())
Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


def completion(content: Any, finish: str = "stop", **message: Any) -> httpx.Response:
    choice = {"index": 0, "finish_reason": finish, "message": {"content": content} | message}
    usage = {"prompt_tokens": 11, "completion_tokens": 3}
    return httpx.Response(200, json={"choices": [choice], "usage": usage})


def said(**reply: Any) -> httpx.Response:
    return completion(json.dumps(reply))


EMPTY = '{"evidence": []}'


class Endpoint(httpx.BaseTransport):
    """Gives its answers in order, the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            answer = httpx.Response(
                answer.status_code, headers=answer.headers, content=answer.content
            )
            return answer
        return answer(request)

    def body(self, number: int = 0) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.requests[number].content)
        return read


@pytest.fixture
def opened() -> Iterator[Callable[..., ChatAnalyzer]]:
    """Makes analyzers of an endpoint, and closes them."""
    made: list[ChatAnalyzer] = []

    def make(endpoint: Endpoint, **options: Any) -> ChatAnalyzer:
        made.append(
            ChatAnalyzer(
                options.pop("url", "http://llm.test/v1"),
                "judge",
                transport=endpoint,
                sleep=endpoint.pauses.append,
                **options,
            )
        )
        return made[-1]

    yield make
    for analyzer in made:
        analyzer.close()


Opened = Callable[..., ChatAnalyzer]


def failed(analyzer: ChatAnalyzer) -> AnalyzerError:
    with pytest.raises(AnalyzerError) as raised:
        analyzer.reply(REQUEST)
    return raised.value


def test_two_messages_are_sent_without_sampling_and_reasoning(opened: Opened) -> None:
    endpoint = Endpoint(completion(EMPTY))
    analyzer = opened(endpoint, api_key=KEY)
    reply = analyzer.reply(REQUEST)
    assert (reply.content, reply.prompt_tokens, reply.completion_tokens) == (EMPTY, 11, 3)
    assert endpoint.body() == {
        "model": "judge",
        "messages": [
            {"role": "system", "content": REQUEST.instructions},
            {"role": "user", "content": REQUEST.content},
        ],
        "temperature": 0,
        "max_tokens": 4096,
        "thinking": {"type": "disabled"},
    }
    (request,) = endpoint.requests
    assert str(request.url) == "http://llm.test/v1/chat/completions"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert analyzer.label == "judge" and not endpoint.pauses


def test_reasoning_is_turned_off_in_the_endpoints_own_way(opened: Opened) -> None:
    ways = {
        "chat_template": {"chat_template_kwargs": {"enable_thinking": False}},
        "effort": {"reasoning_effort": "none"},
        "unsaid": {},
    }
    for name, fields in ways.items():
        endpoint = Endpoint(completion(EMPTY))
        opened(endpoint, reasoning_off=name, extra={"seed": 7}).reply(REQUEST)
        body = endpoint.body()
        assert body.pop("seed") == 7 and "thinking" not in body
        assert fields.items() <= body.items()


@pytest.mark.parametrize(
    ("answer", "category"),
    [
        (httpx.ConnectError("refused"), "connection"),
        (httpx.RemoteProtocolError("cut"), "connection"),
        (httpx.ReadTimeout("slow"), "timeout"),
        (httpx.Response(500, text="oops"), "http_status"),
        (httpx.Response(429, headers={"Retry-After": "1"}), "http_status"),
        (httpx.Response(408), "http_status"),
        (httpx.Response(200, html="<html>Welcome</html>"), "malformed_answer"),
        (httpx.Response(200, text='{"choices": [{"mess'), "malformed_answer"),
        (httpx.Response(200, json=[]), "malformed_answer"),
        (httpx.Response(200, json={"choices": []}), "malformed_answer"),
        (httpx.Response(200, json={"choices": [None]}), "malformed_answer"),
        (httpx.Response(200, json={"choices": [{"message": None}]}), "malformed_answer"),
        (httpx.Response(200, json={"error": {"message": "busy"}}), "malformed_answer"),
        (httpx.Response(200, text="[" * 100_000), "malformed_answer"),
        (httpx.Response(200, content=b"\xff\xfe\x00"), "malformed_answer"),
        (completion(7), "malformed_answer"),
        (completion(None), "empty_content"),
        (completion(None, refusal="I cannot."), "empty_content"),
        (completion("", reasoning_content="Let me see"), "reasoning_only"),
        (completion("<think>Let me see {"), "reasoning_only"),
        (completion('{"evidence": [{"st', "length"), "truncated_json"),
        (completion("I am sorry."), "no_object"),
        (completion("[1, 2]"), "no_object"),
        (completion("{evidence}"), "invalid_json"),
    ],
)  # fmt: skip
def test_a_bad_answer_is_asked_for_again_once_and_has_a_category(
    opened: Opened, answer: Answer, category: str
) -> None:
    endpoint = Endpoint(answer)
    error = failed(opened(endpoint))
    assert error.category == category
    assert len(endpoint.requests) == 2 and endpoint.pauses == [1.0]
    again = Endpoint(answer, completion(EMPTY))
    assert opened(again).reply(REQUEST).content == EMPTY
    found = analyze_group(group(), opened(Endpoint(answer)))
    assert found.error == category and found.no_hint == dict.fromkeys("abc", "analyzer_error")


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 422])
def test_a_refusal_is_not_repeated(opened: Opened, status: int) -> None:
    endpoint = Endpoint(httpx.Response(status, text="no"))
    error = failed(opened(endpoint, retries=3))
    assert error.category == "http_status" and str(status) in str(error)
    assert len(endpoint.requests) == 1 and not endpoint.pauses


def test_more_retries_wait_longer(opened: Opened) -> None:
    endpoint = Endpoint(httpx.Response(503))
    failed(opened(endpoint, retries=3))
    assert len(endpoint.requests) == 4 and endpoint.pauses == [1.0, 5.0, 15.0]
    endpoint = Endpoint(httpx.Response(503))
    failed(opened(endpoint, retries=0))
    assert len(endpoint.requests) == 1


def test_tolerated_forms_of_an_answer(opened: Opened) -> None:
    parts = [{"type": "text", "text": '{"evidence"'}, {"type": "text", "text": ": []}"}]
    forms = (
        completion(parts),
        completion("<think>{a}</think>" + EMPTY),
        completion(f"```json\n{EMPTY}\n```", reasoning_content="short"),
        httpx.Response(200, json={"choices": [{"message": {"content": EMPTY}}], "usage": None}),
    )
    for form in forms:
        found = analyze_group(group(), opened(Endpoint(form)))
        assert found.error == "" and found.no_hint["a"] == "no_evidence"


def test_an_endless_answer_is_given_up(opened: Opened) -> None:
    class Endless(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            while True:
                yield b" " * (1 << 20)

    endpoint = Endpoint(lambda request: httpx.Response(200, stream=Endless()))
    assert failed(opened(endpoint)).category == "malformed_answer"


def test_an_answer_that_drips_is_given_up_at_its_deadline(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    class Dripping(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            while True:
                clock[0] += 50.0
                yield b" "

    endpoint = Endpoint(lambda request: httpx.Response(200, stream=Dripping()))
    error = failed(opened(endpoint, retries=0))
    assert error.category == "timeout" and clock[0] == 150.0


# --- the cache


def test_nothing_is_asked_twice(opened: Opened, tmp_path: Path) -> None:
    endpoint = Endpoint(completion(EMPTY))
    first = opened(endpoint, cache=tmp_path).reply(REQUEST)
    second = opened(endpoint, cache=tmp_path, api_key=KEY).reply(REQUEST)
    assert len(endpoint.requests) == 1
    assert (first.cached, second.cached) == (False, True) and first.content == second.content
    for changed in ({"max_tokens": 100}, {"reasoning_off": "effort"}, {"extra": {"seed": 1}}):
        assert not opened(endpoint, cache=tmp_path, **changed).reply(REQUEST).cached
    other = ChatAnalyzer("http://llm.test/v1", "other", transport=endpoint, cache=tmp_path)
    with closing(other):
        assert not other.reply(REQUEST).cached
        assert not other.reply(extraction_request(group(), 500)).cached
        assert other.reply(REQUEST).cached


def test_only_usable_answers_are_kept_and_damaged_ones_asked_again(
    opened: Opened, tmp_path: Path
) -> None:
    endpoint = Endpoint(completion("Sorry."), completion("Sorry."), completion(EMPTY))
    analyzer = opened(endpoint, cache=tmp_path)
    failed(analyzer)
    assert not list(tmp_path.iterdir())
    analyzer.reply(REQUEST)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_text()
    swapped = json.loads(whole) | {"request_digest": "sha256:0"}
    wrong = json.loads(whole) | {"reply": {"content": 7}}
    for damaged in ("", whole[:30], "[]", "null", json.dumps(swapped), json.dumps(wrong)):
        kept.write_text(damaged)
        assert not analyzer.reply(REQUEST).cached
        assert kept.read_text() == whole


def test_a_lone_surrogate_in_an_answer_is_kept_and_audited(opened: Opened, tmp_path: Path) -> None:
    evidence = item(mug("a"), mug("b"), statement="Take it \ud83d.")
    endpoint = Endpoint(said(evidence=[evidence]), said(targets=[target("c", hint("e1"))]))
    found = analyze_group(group(), opened(endpoint, cache=tmp_path / "cache"))
    assert found.evidence[0].statement == "Take it \ufffd." and found.statements("c")
    write_audit(tmp_path / "audit", 0, [found])


# --- the key


def test_the_key_is_in_no_error_log_cache_or_audit(
    opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def echo(request: httpx.Request) -> httpx.Response:
        return httpx.Response(401, text=f"wrong key {request.headers['Authorization']}")

    refused = opened(Endpoint(echo), api_key=KEY, cache=tmp_path / "cache")
    error = failed(refused)
    assert KEY not in str(error) and KEY not in repr(refused) and KEY not in repr(error)
    bad = analyze_group(group(), refused)
    good = Endpoint(said(evidence=[item(mug("a"), mug("b"))]), said(targets=[]))
    fine = analyze_group(group(), opened(good, api_key=KEY, cache=tmp_path / "cache"))
    write_audit(tmp_path / "audit", 0, [bad, fine])
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 3 and not [text for text in written if KEY in text]
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", ["", "sk 1", "sk-1\n", "sk-é"])
def test_a_key_that_is_none_is_refused_without_saying_it(key: str) -> None:
    with pytest.raises(UsageError) as raised:
        ChatAnalyzer("http://llm.test/v1", "m", api_key=key)
    assert not key or key not in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "llm.test"},
        {"url": "ftp://llm.test"},
        {"url": f"http://me:{KEY}@llm.test/v1"},
        {"url": "http://[::1"},
        {"url": None},
        {"retries": 4},
        {"retries": -1},
        {"timeout_s": 0},
        {"max_tokens": 0},
        {"reasoning_off": "never"},
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(opened: Opened, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        opened(Endpoint(completion(EMPTY)), **wrong)
    assert "\n" not in str(raised.value) and KEY not in str(raised.value)


def test_the_route_is_added_once_and_a_query_is_kept_out_of_errors(opened: Opened) -> None:
    for url in ("http://h/v1", "http://h/v1/", "http://h/v1/chat/completions"):
        endpoint = Endpoint(completion(EMPTY))
        opened(endpoint, url=url).reply(REQUEST)
        assert str(endpoint.requests[0].url) == "http://h/v1/chat/completions"
    endpoint = Endpoint(httpx.Response(404))
    error = failed(opened(endpoint, url=f"http://h/v1?api-key={KEY}"))
    assert endpoint.requests[0].url.query and KEY not in str(error)
    assert "http://h/v1/chat/completions" in str(error)


# --- over a real socket


class Server(ThreadingHTTPServer):
    """Answers extraction and alignment, after one failure of each connection's kind."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked = 0
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked += 1
            first = self.server.asked == 1
        if first:  # half an answer, then the end of the connection
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
            return
        extraction = "successful_trajectories" in json.loads(body["messages"][1]["content"])
        evidence = [item(mug("a"), mug("b"))]
        reply = {"evidence": evidence} if extraction else {"targets": [target("c", hint("e1"))]}
        content = completion(json.dumps(reply)).content
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_several_groups_over_a_socket_survive_a_cut_answer(tmp_path: Path) -> None:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        analyzer = ChatAnalyzer(url, "judge", sleep=lambda seconds: None)
        with closing(analyzer):
            found = analyze_groups([group()] * 6, analyzer)
        server.shutdown()
        thread.join()
    assert [one.statements("c") for one in found] == [("Take the mug 1 that you saw.",)] * 6
    assert server.asked == 13


def test_a_port_where_nobody_listens_is_a_category() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with closing(ChatAnalyzer(url, "judge", retries=0)) as analyzer:
            assert failed(analyzer).category == "connection"

"""Selectors behind a server, against a real one on this machine that answers right and wrong."""

from __future__ import annotations

import json
import math
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.indexes.http_selectors import HttpSelector, OpenAILogprobs, VllmClassify
from agentgym_suite.indexes.paper_store import Paper
from agentgym_suite.indexes.retrying_client import RetryingClient
from agentgym_suite.indexes.selector_prompts import fill_prompt, selector_prompt

Answer = tuple[int, dict[str, str], bytes]


def paper(number: int, title: str = "A {title} of {} {0!r}", abstract: str = "{{x}}") -> Paper:
    return Paper(0, f"P{number}", None, title, abstract, (), None, "", "", 0, 99_999_999)


def said(value: object, status: int = 200, **headers: str) -> Answer:
    return status, headers, json.dumps(value).encode()


class Server:
    """Answers as it is told to: the n-th request with the n-th answer, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[Answer | Callable[[dict[str, Any]], Answer]] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.pauses: list[float] = []
        self.at_once = self.most_at_once = 0
        lock = threading.Lock()
        told = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    told.at_once += 1
                    told.most_at_once = max(told.most_at_once, told.at_once)
                    place = min(len(told.bodies), len(told.answers) - 1)
                    told.bodies.append(body)
                    told.paths.append(self.path)
                    told.headers.append(dict(self.headers))
                answer = told.answers[place]
                status, headers, content = answer if isinstance(answer, tuple) else answer(body)
                with lock:
                    told.at_once -= 1
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(content))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:  # the client has gone
                    self.close_connection = True

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def opened(server: Server) -> Iterator[Callable[..., Any]]:
    """Makes selectors of the server, and closes them."""
    made: list[HttpSelector] = []

    def make(kind: type[HttpSelector], url: str = "", **options: Any) -> HttpSelector:
        made.append(kind(url or server.url, sleep=server.pauses.append, **options))
        return made[-1]

    yield make
    for selector in made:
        selector.close()


def probs(*values: object) -> Answer:
    return said({"data": [{"index": 0, "label": "LABEL_0", "probs": list(values)}]})


def tokens(*places: tuple[str, dict[str, float]]) -> Answer:
    logprobs = {
        "tokens": [token for token, _ in places],
        "top_logprobs": [
            {text: math.log(chance) if chance else -math.inf for text, chance in listed.items()}
            for _, listed in places
        ],
    }
    return said({"choices": [{"index": 0, "text": "", "logprobs": logprobs}]})


# --- vllm_classify


def test_a_classifier_is_sent_the_raw_prompt(server: Server, opened: Callable[..., Any]) -> None:
    server.answers = [probs(0.25, 0.75)]
    selector = opened(VllmClassify, token="secret")
    assert selector.score("Which {title}?", [paper(1)]) == [0.25]
    prompt = fill_prompt(
        selector_prompt("pasa"), "Which {title}?", "A {title} of {} {0!r}", "{{x}}"
    )
    assert "Title: A {title} of {} {0!r}\nAbstract: {{x}}\n" in prompt
    assert server.bodies == [{"input": prompt, "activation": False}]
    assert server.paths == ["/classify"]
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert selector.score("q", []) == [] and len(server.bodies) == 1
    named = opened(VllmClassify, server.url + "/classify/", model="m", prompt="steppo")
    named.score("\ud800", [paper(1)])
    assert server.paths[-1] == "/classify" and server.bodies[-1]["model"] == "m"
    assert "research on \ufffd. " in server.bodies[-1]["input"]
    assert "...\nDecision:" in server.bodies[-1]["input"]
    assert named.digest != selector.digest


def test_scores_come_in_the_order_of_the_papers(server: Server, opened: Callable[..., Any]) -> None:
    def slow(body: dict[str, Any]) -> Answer:
        number = int(body["input"].partition("Title: ")[2].partition("\n")[0])
        time.sleep(0.02 * (5 - number % 5))
        return probs(1 - number / 40)

    server.answers = [slow]
    selector = opened(VllmClassify, concurrency=4)
    scores = selector.score("q", [paper(n, title=str(n)) for n in range(20)])
    assert scores == pytest.approx([n / 40 for n in range(20)])
    assert 2 <= server.most_at_once <= 4


def test_what_leaves_the_range_is_clamped_counted_and_told_once(
    server: Server, opened: Callable[..., Any]
) -> None:
    server.answers = [probs(-2.5), probs(1.75), probs(0.5), probs(3)]
    selector = opened(VllmClassify, concurrency=1)
    with pytest.warns(UserWarning, match=r"the score 3\.5; .* clamped") as told:
        assert selector.score("q", [paper(n) for n in range(3)]) == [1.0, 0.0, 0.5]
    assert len(told) == 1
    assert selector.score("q", [paper(3)]) == [0.0]  # warnings are errors here
    assert selector.info()["clamped"] == 3


# --- openai_logprobs


def test_the_probability_of_the_decision(server: Server, opened: Callable[..., Any]) -> None:
    server.answers = [
        tokens(("True", {"True": 0.7, "False": 0.2, " True": 0.1}), (".", {".": 1.0})),
        tokens((" False", {" False": 0.75, " True": 0.25}), ("\n", {"\n": 1.0})),
        tokens((" ", {" ": 0.9, "True": 0.05}), ("True", {"True": 0.6, "False": 0.4})),
    ]
    selector = opened(OpenAILogprobs, concurrency=1, model="m", top_logprobs=5)
    scores = selector.score("q", [paper(n) for n in range(3)])
    assert scores == pytest.approx([0.8, 0.25, 0.6])
    assert selector.info()["missing"] == selector.info()["clamped"] == 0
    body = server.bodies[0]
    prompt = body.pop("prompt")
    assert prompt.endswith("Reason:... \nDecision:")
    assert body == {"max_tokens": 2, "temperature": 0, "logprobs": 5, "model": "m"}
    assert server.paths[0] == "/v1/completions"


def test_a_decision_that_is_not_listed_is_counted(
    server: Server, opened: Callable[..., Any]
) -> None:
    server.answers = [
        tokens(("False", {"False": 0.9, "No": 0.06})),
        tokens(("No", {"No": 0.7, "false": 0.1, "TRUE": 0.0})),
        tokens(("\n", {"\n": 1.0}), ("  ", {"  ": 1.0})),
    ]
    selector = opened(OpenAILogprobs, concurrency=1)
    assert selector.score("q", [paper(0), paper(1)]) == [0.0, 0.0]
    assert selector.info()["missing"] == 2
    assert selector.info()["missing_mass"] == pytest.approx(0.2)
    assert selector.score("q", [paper(2)]) == [0.0]
    assert (selector.info()["missing"], selector.info()["missing_mass"]) == (3, 1.0)


def test_servers_that_answer_as_chats_do(server: Server, opened: Callable[..., Any]) -> None:
    listed = [{"token": "True", "logprob": math.log(0.3)}, {"token": "False", "logprob": -1.0}]
    content = [{"token": "False", "logprob": -1.0, "top_logprobs": listed}]
    server.answers = [said({"choices": [{"logprobs": {"content": content}}]})]
    assert opened(OpenAILogprobs).score("q", [paper(0)]) == pytest.approx([0.3])


@pytest.mark.parametrize(
    ("given", "route"),
    [("", "/v1/completions"), ("/", "/v1/completions"), ("/v1/", "/v1/completions")]
    + [("/v1/completions", "/v1/completions"), ("/api", "/api/v1/completions")],
)
def test_the_route(given: str, route: str) -> None:
    assert OpenAILogprobs(f"http://host:1{given}").url == f"http://host:1{route}"


# --- faults

FAULTS: dict[str, Answer] = {
    "half JSON": (200, {}, b'{"data": [{"probs": [0.1'),
    "HTML": (200, {"Content-Type": "text/html"}, b"<html><body>It works!</body></html>"),
    "nothing": (200, {}, b""),
    "no UTF-8": (200, {}, b'{"data": "\xff"}'),
    "deep": (200, {}, b"[" * 100_000),
    "a list": said([1]),
    "null": said(None),
    "an error with status 200": said({"error": "no such model"}),
    "no data": said({"data": []}),
    "two for one": said({"data": [{"probs": [0.1]}, {"probs": [0.2]}]}),
    "no probs": said({"data": [{"probs": []}]}),
    "a text": probs("0.5"),
    "a truth": probs(True),
    "NaN": probs(math.nan),
    "a label only": said({"data": [{"label": "LABEL_1"}]}),
    "no choice": said({"choices": []}),
    "no log-probabilities": said({"choices": [{"text": " True", "logprobs": None}]}),
    "empty log-probabilities": tokens(),
    "no alternatives": said(
        {"choices": [{"logprobs": {"tokens": ["True"], "top_logprobs": None}}]}
    ),
    "wrong lengths": said(
        {"choices": [{"logprobs": {"tokens": ["True", "."], "top_logprobs": [{"True": 0.0}]}}]}
    ),
    "an empty alternative": tokens(("False", {})),
    "a token of 5": said({"choices": [{"logprobs": {"tokens": [5], "top_logprobs": [{"a": 0}]}}]}),
    "NaN logprob": said(
        {"choices": [{"logprobs": {"tokens": ["a"], "top_logprobs": [{"True": math.nan}]}}]}
    ),
}


@pytest.mark.parametrize("kind", [VllmClassify, OpenAILogprobs])
@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_used_is_an_error(
    kind: type[HttpSelector], fault: str, server: Server, opened: Callable[..., Any]
) -> None:
    server.answers = [FAULTS[fault]]
    with pytest.raises(RetrievalError, match="gave an answer that"):
        opened(kind).score("q", [paper(0)])
    assert not server.pauses


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 301])
def test_a_refusal_is_told_at_once(status: int, server: Server, opened: Callable[..., Any]) -> None:
    server.answers = [said({"message": "the model `m` does not exist"}, status)]
    with pytest.raises(RetrievalError, match=f"status {status} and said .*does not exist"):
        opened(VllmClassify).score("q", [paper(0)])
    assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(
    status: int, server: Server, opened: Callable[..., Any]
) -> None:
    server.answers = [said("later", status)] * 3 + [probs(0.25)]
    assert opened(VllmClassify).score("q", [paper(0)]) == [0.75]
    assert server.pauses == [0.5, 1.0, 2.0]
    server.answers = [said("later", status)]
    with pytest.raises(RetrievalError, match=f"in 4 tries .status {status} and said '\"later\"'"):
        opened(VllmClassify).score("q", [paper(0)])


def test_a_server_may_say_when_to_come_again(server: Server, opened: Callable[..., Any]) -> None:
    answers = [said("", 429, **{"Retry-After": after}) for after in ("3", "600", "soon")]
    server.answers = [*answers, probs(1.0)]
    assert opened(VllmClassify).score("q", [paper(0)]) == [0.0]
    assert server.pauses == [3.0, 8.0, 2.0]


def test_a_slow_server(server: Server, opened: Callable[..., Any]) -> None:
    def sleeps(body: dict[str, Any]) -> Answer:
        time.sleep(0.5)
        return probs(0.5)

    server.answers = [sleeps, probs(0.25)]
    assert opened(VllmClassify, timeout_s=0.1).score("q", [paper(0)]) == [0.75]
    assert server.pauses == [0.5]
    server.answers = [sleeps]
    with pytest.raises(RetrievalError, match="ReadTimeout.*see that the selector's server runs"):
        opened(VllmClassify, timeout_s=0.05).score("q", [paper(0)])


def test_a_server_that_is_not_there(opened: Callable[..., Any], server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    selector = opened(OpenAILogprobs, f"http://127.0.0.1:{port}", concurrency=2)
    with pytest.raises(RetrievalError, match=f":{port}/v1/completions gave no answer in 4 tries"):
        selector.score("q", [paper(n) for n in range(40)])
    # The first failure ends the batch: what has not begun is not tried.
    assert len(server.pauses) < 3 * 40


def test_one_failure_among_many_is_an_error(server: Server, opened: Callable[..., Any]) -> None:
    def one(body: dict[str, Any]) -> Answer:
        return said("x", 404) if "Title: 7\n" in body["input"] else probs(0.5)

    server.answers = [one]
    with pytest.raises(RetrievalError, match="404"):
        opened(VllmClassify).score("q", [paper(n, title=str(n)) for n in range(12)])


# --- settings


def test_it_pickles_as_its_settings(server: Server) -> None:
    server.answers = [probs(2.0)]
    with closing(VllmClassify(server.url, model="m", token="t")) as selector:
        with pytest.warns(UserWarning, match="clamped"):
            selector.score("q", [paper(0)])
        again = pickle.loads(pickle.dumps(selector))
        assert (again.url, again.model, again.digest) == (selector.url, "m", selector.digest)
        assert again.info()["clamped"] == 0
        with pytest.warns(UserWarning, match="clamped"):
            assert again.score("q", [paper(0)]) == [0.0]
        assert server.headers[-1]["Authorization"] == "Bearer t"
        again.close()
        again.close()
    copy = pickle.loads(pickle.dumps(OpenAILogprobs("http://h", top_logprobs=3)))
    assert copy._body("p")["logprobs"] == 3


@pytest.mark.parametrize(
    ("url", "options", "what"),
    [
        ("host:1", {}, "host:1"),
        ("ftp://host", {}, "ftp"),
        ("http://", {}, "http://host:port"),
        ("http://h:x", {}, "http://host:port"),
        ("", {}, "http://host:port"),
        ("http://h", {"concurrency": 0}, "concurrency is 0"),
        ("http://h", {"timeout_s": 0}, "timeout_s is 0"),
        ("http://h", {"prompt": "x"}, "prompt is 'x'"),
    ],
)
def test_wrong_settings(url: str, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        VllmClassify(url, **options)


def test_a_closed_client_opens_again(server: Server) -> None:
    server.answers = [said({"x": 1})]
    client = RetryingClient("the server")
    for _ in range(2):
        assert client.post_json(server.url, ["é"]) == {"x": 1}
        client.close()
    assert server.bodies == [["é"], ["é"]]

"""Fuzz the environment server by its own description: every operation of ``/openapi.json``.

    make fuzz-openapi

A live server of all environments, their embedded worlds, gets requests that the document allows and
requests that it forbids. Most of them are aimed: at a live session, at a served environment, at the
step that comes next. No answer may be a 5xx but a 503 that the document tells of, and every
answer has a status, a form, headers and members that the document tells of.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import IO, Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from schemathesis import APIOperation, Case, GenerationMode, Response
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
LOAD_S = 120.0
TABLE_WIDTH = 120
MOST_FAILURES = 3  # told of one operation
AIMS = ("next", "next", "session", "nowhere")


class LiveServer:
    """A server in a process of its own, at a free port."""

    def __init__(self, log: IO[str]) -> None:
        command = [sys.executable, "-m", "agentgym_suite", "serve", "env", "--port", "0"]
        self._log = log
        self._process = subprocess.Popen([*command, "--drain", "5"], stderr=log)
        self.address = self._ready_address()

    def _ready_address(self) -> str:
        deadline = time.monotonic() + LOAD_S
        while time.monotonic() < deadline and self._process.poll() is None:
            time.sleep(0.2)
            told = re.search(r"http://[\d.]+:\d+", self.log())
            if told and requests.get(f"{told[0]}/readyz", timeout=10).ok:
                return told[0]
        self._process.kill()
        raise SystemExit(f"the server was not ready within {LOAD_S:g} s: {self.log()[-2000:]}")

    def log(self) -> str:
        """What it wrote so far."""
        return Path(self._log.name).read_text(encoding="utf-8")

    def stop(self) -> int:
        """Its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)


class Aim:
    """Points generated requests at what is there."""

    def __init__(self, address: str) -> None:
        self._http = requests.Session()
        self._address = address
        info = self._http.get(f"{address}/v1/info", timeout=30).json()
        self.env_ids = [env["env_id"] for env in info["envs"]]
        self._sessions: dict[str, str] = {}

    def point(self, case: Case, env_id: str, *, to_next: bool) -> None:
        """Change a request into one of a live session, and into its next step if it is a step."""
        path, body = case.operation.path, case.body
        if path == "/v1/sessions" and isinstance(body, dict):
            case.body = {**body, "env_id": env_id}
        if "{" not in path:
            return
        session = self._session(env_id)
        case.path_parameters = {"session_id": session}
        if to_next and path.endswith("/step") and isinstance(body, dict):
            state = self._next_step(session)
            case.body = {"action": "look", **body, **state}

    def tidy(self, answer: Response) -> None:
        """End a session that a request opened, so that the server has room for the next."""
        if answer.status_code == 201:
            address = f"{self._address}/v1/sessions/{answer.json()['session_id']}"
            self._http.delete(address, timeout=30)

    def _session(self, env_id: str) -> str:
        session = self._sessions.get(env_id, "none")
        if not self._http.get(f"{self._address}/v1/sessions/{session}/state", timeout=30).ok:
            made = self._http.post(
                f"{self._address}/v1/sessions", json={"env_id": env_id}, timeout=60
            )
            session = self._sessions[env_id] = made.json()["session_id"]
        return session

    def _next_step(self, session: str) -> dict[str, Any]:
        address = f"{self._address}/v1/sessions/{session}"
        state = self._http.get(f"{address}/state", timeout=30).json()
        if not state["running"]:
            state = self._http.post(f"{address}/reset", json={}, timeout=60).json()
        return {name: state[name] for name in ("episode", "step_index")}


class Fuzz:
    """Requests of one operation, and what became of them."""

    def __init__(self, operation: APIOperation, address: str, aim: Aim) -> None:
        self.name = f"{operation.method.upper()} {operation.path}"
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []
        self._operation = operation
        self._address = address
        self._aim = aim
        self._http = requests.Session()

    def run(self, cases: int, random_seed: int) -> None:
        """Send so many."""
        requests_of = st.one_of(
            self._operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
            self._operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
        )

        @seed(random_seed)
        @settings(
            max_examples=cases,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(
            case=requests_of,
            aim=st.sampled_from(AIMS),
            env_id=st.sampled_from(self._aim.env_ids),
        )
        def send(case: Case, aim: str, env_id: str) -> None:
            if aim != "nowhere":
                self._aim.point(case, env_id, to_next=aim == "next")
            self._send(case)

        send()

    def _send(self, case: Case) -> None:
        answer = case.call(base_url=self._address, session=self._http, timeout=60)
        self.statuses[answer.status_code] += 1
        self._aim.tidy(answer)
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as failure:
            self._fail(str(failure))
        if answer.status_code >= 500 and answer.status_code != 503:
            self._fail(f"{answer.status_code}: {answer.text}\n{case.as_curl_command()}")

    def _fail(self, words: str) -> None:
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(words)


def main() -> int:
    """Fuzz every operation, print the table; 1 if an answer was not as described."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2_000, help="of each operation (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the requests (%(default)s)")
    parser.add_argument("--operation", default="", help="only those with this text in their name")
    args = parser.parse_args()
    console = Console(width=TABLE_WIDTH)
    table = Table("operation", "cases", "statuses", "s")
    failures = []
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        server = LiveServer(log)
        try:
            document = requests.get(f"{server.address}/openapi.json", timeout=30).json()
            # not from_url, which would leave out the operation that serves the document
            schema = schemathesis.openapi.from_dict(document)
            aim = Aim(server.address)
            for found in schema.get_all_operations():
                fuzz = Fuzz(found.ok(), server.address, aim)
                if args.operation not in fuzz.name:
                    continue
                began = time.monotonic()
                fuzz.run(args.cases, args.seed)
                seen = "  ".join(f"{code}: {n:,}" for code, n in sorted(fuzz.statuses.items()))
                seconds = f"{time.monotonic() - began:.0f}"
                table.add_row(fuzz.name, f"{fuzz.statuses.total():,}", seen, seconds)
                failures += [f"{fuzz.name}\n{words}" for words in fuzz.failures]
        finally:
            code = server.stop()
        if code != 0:
            failures.append(f"the server ended with {code}")
        if "Traceback" in server.log():
            failures.append(f"the server's log has a traceback:\n{server.log()[-4000:]}")
    console.print(table)
    for words in failures:
        console.print(words, markup=False, soft_wrap=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""AgentGym's HTTP clients as far as a server sees them, and a server for them.

Written from what their sources do: which requests they build, what they take for a failure, and
when they post again. They know nothing of this suite.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from tests.servers.in_process import running

TRIES = 5
END_TOKEN = "</s>"


@contextmanager
def serving(
    *served: Served, limits: Limits | None = None, token: str | None = None
) -> Iterator[httpx.Client]:
    """A server of some environments, loaded, in AgentGym's dialects."""
    host = EnvHost(served, limits or Limits())
    with running(env_app(host, token=token, compat=["agentgym"])) as transport:
        deadline = time.monotonic() + 60
        while host.status[0] == "starting" and time.monotonic() < deadline:
            time.sleep(0.005)
        assert host.status[0] == "ready", host.status
        with httpx.Client(
            transport=transport, base_url="http://localhost/compat/agentgym"
        ) as client:
            yield client


class Failed(Exception):
    """The assertion of a client on a status that it does not know."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"{answer.status_code} {answer.text}")
        self.status = answer.status_code
        self.told = answer.json()


class Client:
    """What the clients share.

    Args:
        http: a connection.
        name: the environment's part of the address.
    """

    number_name = "env_idx"
    reset_name = "id"

    def __init__(self, http: httpx.Client, name: str) -> None:
        self._http = http
        self._base = name
        self.requests: list[Any] = []
        self.number = self._number(self._create())

    def _create(self) -> Any:
        return self._checked(self._http.post(f"/{self._base}/create"))

    def _number(self, created: Any) -> Any:
        return created

    def _post(self, path: str, data: dict[str, Any]) -> Any:
        data[self.number_name] = self.number
        return self._checked(self._http.post(f"/{self._base}/{path}", json=data))

    def _get(self, path: str) -> Any:
        answer = self._http.get(f"/{self._base}/{path}?{self.number_name}={self.number}")
        return self._checked(answer)

    @staticmethod
    def _checked(answer: httpx.Response) -> Any:
        if answer.status_code != 200:
            raise Failed(answer)
        return answer.json()

    def reset(self, item: int | None) -> Any:
        return self._post("reset", {self.reset_name: item})

    def observe(self) -> str:
        return str(self._get("observation"))

    def step(self, action: str) -> dict[str, Any]:
        return dict(self._post("step", {"action": action}))

    def close(self) -> Any:
        return self._post("close", {})


class WebShopClient(Client):
    reset_name = "session_id"
    waits = 0

    def _post(self, path: str, data: dict[str, Any]) -> Any:
        data[self.number_name] = self.number
        for _ in range(TRIES):
            answer = self._http.post(f"/{self._base}/{path}", json=data)
            if answer.status_code == 200:
                break
            if answer.status_code == 503:  # it sleeps; any other status it posts again at once
                self.waits += 1
                time.sleep(0.1)
        return self._checked(answer)

    def reset(self, item: int | None) -> Any:
        answer = super().reset(item)
        answer[0] = self.observe()
        return answer

    def say(self, reply: str) -> dict[str, Any]:
        """A step by a model's reply in ReAct's form."""
        return self.step(react_action(reply))


class AlfWorldClient(Client):
    number_name = "id"

    def _number(self, created: Any) -> Any:
        return created["id"]

    def reset(self, item: int | None) -> Any:
        self.info = self._post("reset", {"game": item, "world_type": "Text"})
        return self.info

    def step(self, action: str) -> dict[str, Any]:
        self.info = super().step(action)
        return self.info

    def observe(self) -> str:
        actions = ",".join(self.info["available_actions"])
        return f"{self.info['observation']}\nAVAILABLE ACTIONS: {actions}"


class SearchClient(Client):
    def _create(self) -> Any:
        return self._checked(self._http.post(f"/{self._base}/create", json={"id": 0}))


def react_action(reply: str) -> str:
    """The action in a reply, as the ReAct adapter finds it."""
    text = reply.removesuffix(END_TOKEN)
    if "Action:" in text:
        return text.rpartition("Action:")[2].strip()
    return text.strip() if "search[" in text or "click[" in text else ""

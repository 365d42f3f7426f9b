"""A server of the counting game that OpenEnv's clients may play on, and what they say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.types import ASGIApp

from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.openenv import openenv_routes
from tests.servers.asgi_socket import Socket, started
from tests.servers.counting_server import ENV_ID, register

register()
BASE = "/compat/openenv/servedcounting"


@dataclass
class Live:
    host: EnvHost
    app: ASGIApp

    async def socket(self, path: str = f"{BASE}/ws", *headers: tuple[bytes, bytes]) -> Socket:
        return await Socket(self.app, path, headers).opened()

    async def http(self, method: str, path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path)


@asynccontextmanager
async def serving(
    limits: Limits | None = None,
    *,
    token: str | None = None,
    longest_answer_s: float = 55.0,
    ready: bool = True,
    **kwargs: Any,
) -> AsyncIterator[Live]:
    host = EnvHost([Served(ENV_ID, kwargs)], limits or Limits())
    routes = openenv_routes(host, longest_answer_s=longest_answer_s)
    app = env_app(host, token=token, more_routes=routes)
    async with started(app):
        if ready:
            await until(lambda: host.status[0] != "starting")
        yield Live(host, app)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def step(text: str) -> dict[str, Any]:
    return {"type": "step", "data": {"text": text}}


def error(answer: dict[str, Any], code: str) -> str:
    assert answer["type"] == "error", answer
    assert answer["data"]["code"] == code, answer
    return str(answer["data"]["message"])

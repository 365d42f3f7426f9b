"""What AgentGym's WebShop client is told: pages as text, goals by their number."""

from __future__ import annotations

from typing import Any

from agentgym_suite.servers.agentgym_calls import ACTION, ID, Call
from agentgym_suite.servers.agentgym_sessions import Seats, Turn
from agentgym_suite.servers.bodies import Field
from agentgym_suite.webshop.html import HtmlPages

_ONE = {"env_idx": ID}
_RESET = {**_ONE, "session_id": Field((int,), "a goal's number or null", minimum=0)}
_STEP = {**_ONE, "action": ACTION}


class WebShopDialect:
    """The calls of ``agentenv.envs.webshop``.

    Args:
        seats: the ids of the server.
        lists: whether there is ``/list_envs``.
    """

    name = "webshop"
    env_id = "WebShop-v0"

    def __init__(self, seats: Seats, *, lists: bool = False) -> None:
        self._seats = seats
        self._lists = lists
        self._pages = HtmlPages()

    @property
    def calls(self) -> list[Call]:
        """The addresses."""
        listing = [Call("GET", "/list_envs", self.list_envs)] if self._lists else []
        return [
            *listing,
            Call("GET", "/", self.greet),
            Call("POST", "/create", self.create),
            Call("POST", "/reset", self.reset, _RESET),
            Call("POST", "/step", self.step, _STEP),
            Call("GET", "/observation", self.observation, _ONE),
            Call("GET", "/available_actions", self.available_actions, _ONE),
            Call("GET", "/instruction_text", self.instruction_text, _ONE),
            Call("GET", "/state", self.state, _ONE),
            Call("POST", "/close", self.close, _ONE),
        ]

    async def greet(self, given: dict[str, Any]) -> str:
        """The server is there."""
        return "ok"

    async def list_envs(self, given: dict[str, Any]) -> list[int]:
        """The ids of the live shops."""
        return self._seats.numbers(self.env_id)

    async def create(self, given: dict[str, Any]) -> int:
        """A new id."""
        return await self._seats.open(self.env_id, {"observation_mode": "text"})

    async def reset(self, given: dict[str, Any]) -> list[str | None]:
        """Begin with a goal; without a number one is drawn from the training goals."""
        chosen = {"task_id": given["session_id"]} if "session_id" in given else {}
        async with self._seats.at(given["env_idx"], self.env_id) as seat:
            turn = await self._seats.reset(seat, given, lambda env: chosen)
        return [turn.observation, None]

    async def step(self, given: dict[str, Any]) -> dict[str, Any]:
        """Search or click."""
        async with self._seats.at(given["env_idx"], self.env_id) as seat:
            turn = await self._seats.step(seat, given["action"])
        return {"state": turn.observation, "reward": turn.score, "done": turn.done, "info": None}

    async def observation(self, given: dict[str, Any]) -> str:
        """The page as text."""
        return (await self._heard(given)).observation

    async def available_actions(self, given: dict[str, Any]) -> dict[str, Any]:
        """What can be clicked, and whether there is a search field."""
        info = (await self._heard(given)).info
        return {name: info[name] for name in ("has_search_bar", "clickables")}

    async def instruction_text(self, given: dict[str, Any]) -> str:
        """What the customer wants."""
        return str((await self._heard(given)).info["instruction"])

    async def state(self, given: dict[str, Any]) -> dict[str, str]:
        """Address and HTML of the page."""
        async with self._seats.at(given["env_idx"], self.env_id) as seat:
            instruction = seat.heard.info["instruction"]
            url, html = await self._seats.look(
                seat, lambda env: (env.session.url, self._pages.render(env.session))
            )
        return {"url": url, "html": html, "instruction_text": instruction}

    async def close(self, given: dict[str, Any]) -> bool:
        """End the session; again if need be."""
        await self._seats.close(given["env_idx"], self.env_id)
        return True

    async def _heard(self, given: dict[str, Any]) -> Turn:
        async with self._seats.at(given["env_idx"], self.env_id) as seat:
            return seat.heard

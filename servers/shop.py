"""The shop as a web site: readable pages, the same pages as JSON, and a few addresses beside.

Every address of the original is here with its methods and redirects. Looking changes nothing but
the visit's log; buying is a POST.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agentgym_suite.servers.bodies import parse_form, parse_object, read_body
from agentgym_suite.servers.gate import Gate
from agentgym_suite.servers.problems import Problem, encode_json, explain, problem_response
from agentgym_suite.servers.shop_api import ShopApi
from agentgym_suite.servers.shop_json import page_value
from agentgym_suite.servers.shop_log import TrajectoryLog
from agentgym_suite.servers.shop_pages import CONTENT_SECURITY_POLICY, ShopPages, stylesheet
from agentgym_suite.servers.shop_urls import (
    API_PREFIX,
    STYLESHEET,
    Address,
    ShopUrls,
    parse_address,
    split_path,
)
from agentgym_suite.servers.shop_visits import Visit, Visits
from agentgym_suite.servers.workers import JobTimeout, PoolOverloaded, WorkerPool
from agentgym_suite.webshop.session import ShopSession

PAGE_TIMEOUT_S = 60.0
SEARCH_FIELD = "search_query"
MOST_SEARCH_CHARACTERS = 1_000  # the words must fit in an address
HEADERS = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)


@dataclass(frozen=True, slots=True)
class ShopSettings:
    """What a site shows and allows.

    Attributes:
        show_parts: the done page tells the reward's parts and the target.
        show_goals: ``/api/goals/{id}`` tells what a goal's answer is, ``/api/goals`` their ids.
        buy_by_get: the original's purchase address works by GET, too.
    """

    show_parts: bool = False
    show_goals: bool = False
    buy_by_get: bool = False


@dataclass(frozen=True, slots=True)
class _Visitor:
    """How the request of a page was made."""

    method: str
    wants_json: bool
    prefix: str
    form: dict[str, str]
    goal: str


class ShopSite:
    """The handlers of the site.

    Args:
        visits: the visits, over one catalogue.
        settings: what is shown.
        log: where pages are recorded; None for nowhere.
        threads: pages made at a time.
    """

    def __init__(
        self,
        visits: Visits,
        settings: ShopSettings | None = None,
        *,
        log: TrajectoryLog | None = None,
        threads: int = 2,
    ) -> None:
        self.visits = visits
        self.settings = settings or ShopSettings()
        self.urls = ShopUrls()
        self.pool = WorkerPool(threads, queue_limit=1_024)
        self.draining = False
        self._pages = ShopPages(self.urls, show_parts=self.settings.show_parts)
        self._api = ShopApi(visits, show_goals=self.settings.show_goals)
        self._log = log
        self._stylesheet = stylesheet()

    @property
    def routes(self) -> list[Route]:
        """The route table; everything that is no fixed address is a page."""
        return [
            Route("/healthz", self.healthz, methods=["GET"]),
            Route("/readyz", self.readyz, methods=["GET"]),
            Route("/favicon.ico", self.nothing, methods=["GET"]),
            Route(STYLESHEET, self.style, methods=["GET"]),
            Route("/{path:path}", self.page, methods=["GET", "POST"]),
        ]

    def drain(self) -> None:
        """Be ready no more: the server stops."""
        self.draining = True

    async def healthz(self, request: Request) -> Response:
        """The process is alive."""
        return _json({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Whether pages are served; store and index were opened before the first request."""
        status = "draining" if self.draining else "ready"
        return _json({"status": status, "reason": ""}, 503 if self.draining else 200)

    async def style(self, request: Request) -> Response:
        """The style sheet."""
        headers = {"Cache-Control": "max-age=300"}
        return Response(self._stylesheet, media_type="text/css", headers=headers)

    async def nothing(self, request: Request) -> Response:
        """No picture."""
        return Response(status_code=204)

    async def page(self, request: Request) -> Response:
        """A page of the shop, or of its JSON side."""
        raw_path = request.scope.get("raw_path") or request.scope["path"].encode("utf-8")
        wants_json = _wants_json(request)
        parts: list[str] = []
        try:
            parts = split_path(raw_path)
            prefixed = parts[0] == API_PREFIX
            visitor = _Visitor(
                method=request.method,
                wants_json=wants_json,
                prefix=f"/{API_PREFIX}" if prefixed else "",
                form=await _form(request) if request.method == "POST" else {},
                goal=request.query_params.get("goal", ""),
            )
            parts = parts[1:] if prefixed else parts
            question = self._api.find(parts, request.query_params) if prefixed else None
            if question is not None:
                return _json(await self.pool.run(question, PAGE_TIMEOUT_S))
            return await self.pool.run(partial(self._answer, visitor, parts), PAGE_TIMEOUT_S)
        except PoolOverloaded:
            problem = Problem("overloaded", "the shop is crowded; try again", retry_after_s=1)
        except JobTimeout:
            problem = Problem("step-timeout", "the page took too long; try again")
        except Problem as raised:
            problem = raised
        return self._refuse(request, problem, parts, wants_json)

    async def fail(self, request: Request, error: Exception) -> Response:
        """The exception handler: the router's refusals, and bugs."""
        return self._refuse(request, explain(request, error), [], _wants_json(request))

    # ------------------------------------------------------------------- in a worker thread

    def _answer(self, visitor: _Visitor, parts: list[str]) -> Response:
        if parts in ([], [""]):
            return self._welcome(visitor, secrets.token_hex(5))
        address = parse_address(parts)
        if address.page == "index" and visitor.goal:
            return self._welcome(visitor, address.session_id)
        if address.page == "index":
            place = self.visits.begin(address.session_id)
        else:
            place = self.visits.find(address.session_id)
        with place.lock:
            session = self.visits.look(place.value, address)
            if visitor.method == "POST":
                return self._act(visitor, address, place.value, session)
            return self._view(visitor, address, place.value, session)

    def _view(
        self, visitor: _Visitor, address: Address, visit: Visit, session: ShopSession
    ) -> Response:
        if address.page == "done" and not self.visits.receipt(visit, session):
            if not self.settings.buy_by_get or visitor.method != "GET":  # a HEAD buys nothing
                raise _wrong_method(visitor.method, "POST")
            self.visits.buy(visit, session)
        return self._show(visitor, visit, session)

    def _act(
        self, visitor: _Visitor, address: Address, visit: Visit, session: ShopSession
    ) -> Response:
        if address.page == "index":
            words = visitor.form.get(SEARCH_FIELD, "").lower()
            if not words.strip():
                raise Problem("invalid", "the search has no words; type some", field="keywords")
            if len(words) > MOST_SEARCH_CHARACTERS:
                raise Problem(
                    "invalid",
                    f"the search has {len(words):,} characters; type at most "
                    f"{MOST_SEARCH_CHARACTERS:,}",
                    field="keywords",
                )
            keywords = tuple(words.split(" "))
            found = replace(address, page="results", keywords=keywords, page_number=1)
            return self._redirect(visitor, found)
        if address.page == "item":
            chosen = replace(address, options={**session.state.options, **visitor.form})
            self.visits.look(visit, chosen)
            return self._redirect(visitor, chosen)
        if address.page != "done":
            raise _wrong_method(visitor.method, "GET")
        self.visits.buy(visit, session)
        if visitor.wants_json:
            return self._show(visitor, visit, session)
        return self._redirect(visitor, address)  # so that loading the receipt again buys nothing

    def _welcome(self, visitor: _Visitor, session_id: str) -> Response:
        if visitor.method == "POST":
            raise _wrong_method(visitor.method, "GET")
        if visitor.goal:
            session_id = f"{session_id[:40]}_{self.visits.goal(visitor.goal).id}"
        return self._redirect(visitor, Address("index", session_id))

    def _show(self, visitor: _Visitor, visit: Visit, session: ShopSession) -> Response:
        if self._log is not None:
            self._log.write(session, visit.state)
        visit.state = session.state
        if visitor.wants_json:
            return _json(page_value(session, self.urls, show_parts=self.settings.show_parts))
        return Response(self._pages.page(session), media_type="text/html")

    def _redirect(self, visitor: _Visitor, address: Address) -> Response:
        # the address is encoded already; 302 is what the original answers
        return Response(
            status_code=302, headers={"Location": visitor.prefix + self.urls.write(address)}
        )

    def _refuse(
        self, request: Request, problem: Problem, parts: list[str], wants_json: bool
    ) -> Response:
        if wants_json:
            return problem_response(problem, request.state.request_id)
        session_id = _known_session(parts)
        html = self._pages.error(problem, session_id)
        return Response(html, problem.status, headers=problem.headers, media_type="text/html")


def shop_app(site: ShopSite, *, hosts: tuple[str, ...] = ()) -> ASGIApp:
    """The application of a site.

    Args:
        site: the handlers.
        hosts: accepted ``Host`` names; empty for any.
    """
    app = Starlette(
        routes=site.routes,
        exception_handlers=dict.fromkeys((HTTPException, Exception), site.fail),
    )
    app.router.redirect_slashes = False
    return Gate(app, hosts=hosts, headers=HEADERS)


def _known_session(parts: list[str]) -> str:
    place = 1 if parts and parts[0] != "" and len(parts) > 1 else 0
    try:
        return parse_address([parts[place]]).session_id if parts else ""
    except Problem:
        return ""


def _wants_json(request: Request) -> bool:
    if f"{request.scope['path']}/".startswith(f"/{API_PREFIX}/"):
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


async def _form(request: Request) -> dict[str, str]:
    body = await read_body(request)
    if request.headers.get("content-type", "").startswith("application/json"):
        return {k: v for k, v in parse_object(body, doubles=True).items() if isinstance(v, str)}
    return parse_form(body)


def _wrong_method(method: str, allowed: str) -> Problem:
    return Problem(
        "method", f"{method} is no method of this page; use {allowed}", headers={"Allow": allowed}
    )


def _json(value: Any, status: int = 200) -> Response:
    return Response(encode_json(value), status, media_type="application/json")

"""The retrieval server: an index over HTTP, as the clients of Search-R1 and its heirs ask for it.

    POST /retrieve                          Search-R1, verl, SkyRL, verl-agent, gem
    POST /rllm/retrieve                     rLLM, whose shape clashes with the others
    GET  /healthz, /readyz                  alive; able to search
    GET  /health, /stats (also below /rllm) what those clients look at
    GET  /info, /metrics                    the index and the limits; Prometheus

Bad input is a 4xx, overload a 503 with ``Retry-After``, a search beyond its time a 504: retrying
clients repeat just these. Errors are problem documents; see ``problems``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agentgym_suite.servers.answer_sizes import COUNTED_FROM, LargeAnswer, NoRoom, answer_size
from agentgym_suite.servers.bodies import read_body
from agentgym_suite.servers.problems import JSON_TYPE, Problem
from agentgym_suite.servers.retrieval_bodies import (
    MAX_BODY_BYTES,
    MOST_PASSAGES,
    MOST_QUERIES,
    Wanted,
    encode_answer,
    encode_rllm,
    read_rllm,
    read_wanted,
)
from agentgym_suite.servers.retrieval_service import RetrievalService
from agentgym_suite.servers.search_app import Page, SearchPages, json_response, search_app
from agentgym_suite.servers.search_queue import MOST_SLICE, Results
from agentgym_suite.servers.search_service import index_failed
from agentgym_suite.versions import suite_version

_LARGE_BODY_BYTES = 1 << 16
_CLIENT_GONE = 499

T = TypeVar("T")


class RetrievalRoutes:
    """The handlers over one service.

    Args:
        service: the index and its queue.
    """

    def __init__(self, service: RetrievalService) -> None:
        self.service = service

    @property
    def routes(self) -> list[Route]:
        """The route table."""
        pages: dict[str, Page] = {
            **SearchPages(self.service).pages,
            "/health": self.health,
            "/info": self.info,
            "/rllm/health": self.health,
        }
        pages["/rllm/stats"] = pages["/stats"]
        return [
            Route("/retrieve", self.retrieve, methods=["POST"]),
            Route("/rllm/retrieve", self.rllm_retrieve, methods=["POST"]),
            *(Route(path, page, methods=["GET"]) for path, page in pages.items()),
        ]

    async def retrieve(self, request: Request) -> Response:
        """Passages for each query."""
        content_type = request.headers.get("content-type", "")
        return await self._answer(
            request,
            lambda body: read_wanted(body, content_type, self.service.corpus),
            encode_answer,
        )

    async def rllm_retrieve(self, request: Request) -> Response:
        """Passages for one query, in rLLM's shape."""
        return await self._answer(
            request,
            lambda body: read_rllm(body, self.service.corpus),
            lambda wanted, found: (encode_rllm(wanted, found, self.service.method), JSON_TYPE),
        )

    async def health(self, request: Request) -> Response:
        """Whether searches are answered, in the words of the clients that ask here."""
        status, reason = self.service.status
        ready = status == "ready"
        page = {
            "status": "healthy" if ready else status,
            "reason": reason,
            "corpus_size": self.service.corpus.rows,
            "index_type": self.service.method,
            "index_loaded": ready,
            "topk": self.service.settings.topk,
        }
        return json_response(page, 200 if ready else 503)

    async def info(self, request: Request) -> Response:
        """What is searched, and the limits."""
        limits = {
            **asdict(self.service.settings),
            "body_bytes": MAX_BODY_BYTES,
            "queries": MOST_QUERIES,
            "passages": MOST_PASSAGES,
        }
        return json_response(
            {
                "suite_version": suite_version(),
                "digest": self.service.digest,
                "rows": self.service.corpus.rows,
                "default_k": self.service.settings.topk,
                "batching": self.service.queue.batching,
                "index": self.service.about,
                "limits": limits,
            }
        )

    async def _answer(
        self,
        request: Request,
        read: Callable[[bytes], Wanted],
        encode: Callable[[Wanted, Results], tuple[bytes, str]],
    ) -> Response:
        began = time.perf_counter()
        body = await read_body(request, MAX_BODY_BYTES)
        # what takes long must not keep other requests from being read
        large = len(body) > _LARGE_BODY_BYTES
        wanted = await run_in_threadpool(read, body) if large else read(body)
        search = self.service.search(wanted)
        # a search of many slices can be stopped on its way
        if self.service.queue.must_wait or len(wanted.queries) > MOST_SLICE:
            results = await _unless_gone(request, search)
            if results is None:
                return Response(status_code=_CLIENT_GONE)
        else:
            results = await search
        size = answer_size(results)
        if size < COUNTED_FROM:
            answer, media_type = _encoded(encode, wanted, results)
            self.service.figures.answered(len(wanted.queries), time.perf_counter() - began)
            return Response(answer, media_type=media_type)
        room = self.service.room
        try:
            room.take(size)
        except NoRoom:
            raise Problem(
                "overloaded",
                f"large answers of {room.taken:,} characters are on their way; try again",
                retry_after_s=1,
            ) from None
        try:
            answer, media_type = await run_in_threadpool(_encoded, encode, wanted, results)
        except BaseException:
            room.give_back(size)
            raise
        self.service.figures.answered(len(wanted.queries), time.perf_counter() - began)
        return LargeAnswer(answer, media_type, lambda: room.give_back(size))


def retrieval_app(
    service: RetrievalService,
    *,
    token: str | None = None,
    hosts: Sequence[str] = (),
    public_metrics: bool = False,
) -> ASGIApp:
    """The application of a retrieval server.

    Args:
        service: the index and its queue.
        token: the bearer token; None for a server that trusts whoever reaches it.
        hosts: accepted ``Host`` names; empty for any.
        public_metrics: whether ``/metrics`` needs no token.
    """
    return search_app(
        RetrievalRoutes(service).routes,
        service,
        token=token,
        hosts=hosts,
        public_metrics=public_metrics,
    )


def _encoded(
    encode: Callable[[Wanted, Results], tuple[bytes, str]], wanted: Wanted, results: Results
) -> tuple[bytes, str]:
    try:
        return encode(wanted, results)
    except ValueError as error:
        raise index_failed() from error


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of the work, or None if its client goes away before: then it is cancelled."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return await task
        task.cancel()
        await asyncio.wait((task,))
        return None
    finally:
        task.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

"""The paper server: a store of papers over HTTP, as the clients of Lewen's API ask for it.

    GET /paper/search                       papers for a question: StepPO, PaperScout
    GET /paper/search/title                 papers with such a title
    GET /paper/{id}                         one paper, by any of its ids, which may have slashes
    GET /paper/{id}/citations               the papers that cite it
    GET /paper/{id}/references              the papers that it cites
    GET /healthz, /readyz, /stats, /info, /metrics

An error is ``{"detail": "one sentence"}``: a 4xx for what is wrong with a request, a 503 with
``Retry-After`` for overload, a 504 for a search beyond its time, and no other 5xx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agentgym_suite.indexes.paper_index import PaperIndex
from agentgym_suite.servers.paper_answers import (
    citations_answer,
    paper_answer,
    references_answer,
    search_answer,
    title_answer,
)
from agentgym_suite.servers.paper_queries import (
    DEEPEST,
    MOST_PAPERS,
    read_fields,
    read_id,
    read_neighbours,
    read_search,
)
from agentgym_suite.servers.paper_service import PaperService
from agentgym_suite.servers.problems import JSON_TYPE, Problem, detail_response
from agentgym_suite.servers.search_app import Page, SearchPages, json_response, search_app
from agentgym_suite.servers.search_service import index_failed
from agentgym_suite.versions import suite_version

KEY_HEADER = "X-API-Key"


class PaperRoutes:
    """The handlers over one service.

    Args:
        service: the papers and their threads.
    """

    def __init__(self, service: PaperService) -> None:
        self.service = service

    @property
    def routes(self) -> list[Route]:
        """The route table; the first that fits is taken."""
        pages: dict[str, Page] = {
            "/paper/search": self.search,
            "/paper/search/title": self.search_title,
            "/paper/{id:path}/citations": self.citations,
            "/paper/{id:path}/references": self.references,
            "/paper/{id:path}": self.paper,
            **SearchPages(self.service).pages,
            "/info": self.info,
        }
        return [Route(path, page, methods=["GET"]) for path, page in pages.items()]

    async def search(self, request: Request) -> Response:
        """Papers for a question."""
        wanted = read_search(request.query_params, self.service.index.retrievals)
        return await self._answer(lambda index: search_answer(index, wanted))

    async def search_title(self, request: Request) -> Response:
        """Papers with such a title, the most similar first."""
        wanted = read_search(request.query_params)
        return await self._answer(lambda index: title_answer(index, wanted))

    async def paper(self, request: Request) -> Response:
        """One paper."""
        paper_id, fields = _id(request), read_fields(request.query_params)
        return await self._answer(lambda index: paper_answer(index, paper_id, fields))

    async def citations(self, request: Request) -> Response:
        """The papers that cite a paper."""
        wanted = read_neighbours(_id(request), request.query_params)
        return await self._answer(lambda index: citations_answer(index, wanted))

    async def references(self, request: Request) -> Response:
        """The papers that a paper cites."""
        wanted = read_neighbours(_id(request), request.query_params)
        return await self._answer(lambda index: references_answer(index, wanted))

    async def info(self, request: Request) -> Response:
        """What is searched, and the limits."""
        index = self.service.index
        limits = {**asdict(self.service.settings), "papers": MOST_PAPERS, "depth": DEEPEST}
        about = {
            "suite_version": suite_version(),
            "digest": index.digest,
            "rows": len(index),
            "retrievals": list(index.retrievals),
            "index": index.info(),
            "limits": limits,
        }
        return json_response(about)

    async def _answer(self, work: Callable[[PaperIndex], bytes]) -> Response:
        return Response(await self.service.answer(work), media_type=JSON_TYPE)


def papers_app(
    service: PaperService,
    *,
    token: str | None = None,
    hosts: Sequence[str] = (),
    public_metrics: bool = False,
) -> ASGIApp:
    """The application of a paper server.

    Args:
        service: the papers and their threads.
        token: what ``X-API-Key`` or a bearer must carry; None for a server that trusts whoever
            reaches it.
        hosts: accepted ``Host`` names; empty for any.
        public_metrics: whether ``/metrics`` needs no token.
    """
    return search_app(
        PaperRoutes(service).routes,
        service,
        token=token,
        hosts=hosts,
        public_metrics=public_metrics,
        key_header=KEY_HEADER,
        respond=_respond,
    )


def _respond(problem: Problem, request_id: str) -> Response:
    # clients repeat a 503; a 500 would end their run
    return detail_response(index_failed() if problem.status == 500 else problem, request_id)


def _id(request: Request) -> str:
    return read_id(request.path_params["id"])

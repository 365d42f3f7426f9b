"""The AgentGym dialects: its HTTP clients as they are, each environment at its own addresses.

    /compat/agentgym/webshop/…      WebShop-v0        see ``agentgym_webshop``
    /compat/agentgym/alfworld/…     ALFWorld-v0       see ``agentgym_alfworld``
    /compat/agentgym/searchqa/…     MultiHopQA-v0     see ``agentgym_search``
    /compat/agentgym/academia/…     PaperSearch-v0    see ``agentgym_search``

Sessions are those of the server, with its leases and limits; ids are whole numbers. ``reward`` is
the task's score so far, whatever reward preset runs behind: AgentGym-RL takes the last step's
reward for the score of the trajectory.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from agentgym_suite.servers.agentgym_alfworld import AlfWorldDialect
from agentgym_suite.servers.agentgym_search import AcademiaDialect, SearchQADialect
from agentgym_suite.servers.agentgym_sessions import Seats
from agentgym_suite.servers.agentgym_webshop import WebShopDialect
from agentgym_suite.servers.hosting import EnvHost

PREFIX = "/compat/agentgym"


def agentgym_routes(host: EnvHost, *, guarded: bool = False) -> list[BaseRoute]:
    """The routes of the dialects whose environments a server has.

    Args:
        host: the environments and their sessions.
        guarded: whether the server asks for a token; only then there is ``/list_envs``, since
            an id is all that it takes to play in a session.
    """
    seats = Seats(host)
    dialects = (
        WebShopDialect(seats, lists=guarded),
        AlfWorldDialect(seats),
        SearchQADialect(seats),
        AcademiaDialect(seats),
    )
    return [
        call.route(f"{PREFIX}/{dialect.name}")
        for dialect in dialects
        if dialect.env_id in host.served
        for call in dialect.calls
    ]

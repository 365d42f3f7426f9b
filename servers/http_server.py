"""Running an application on a port: one sentence for a taken port, and a stop that drains."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import time
from collections.abc import Callable
from importlib.util import find_spec
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from agentgym_suite.errors import UsageError
from agentgym_suite.servers.gate import LOOPBACK_HOSTS

LAST_ANSWERS_S = 5
# a thousand characters of search words take 12 kB in an address, and options come on top
LONGEST_HEAD_BYTES = 1 << 16
LONGEST_FRAME_BYTES = 2 << 20  # a WebSocket message, as a body


class DrainingServer(uvicorn.Server):
    """Stops at the second signal at once, at the first one when nobody is left.

    Args:
        config: uvicorn's own settings.
        drain: tells the application that no new session is wanted.
        in_use: whether somebody still plays.
        drain_s: longest time to wait for them.
        useless: whether there is nothing that could ever be answered.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        drain: Callable[[], None],
        in_use: Callable[[], bool],
        drain_s: float,
        useless: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(config)
        self._drain = drain
        self._in_use = in_use
        self._drain_s = drain_s
        self._useless = useless
        self._deadline: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; at a further signal, stop."""
        if self._deadline is not None:
            self.should_exit = True
            self.force_exit = sig == signal.SIGINT
            return
        self._deadline = time.monotonic() + self._drain_s
        self._drain()

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, whether the draining is over."""
        if self._deadline is not None and (
            not self._in_use() or time.monotonic() >= self._deadline
        ):
            self.should_exit = True
        self.should_exit = self.should_exit or self._useless()
        return await super().on_tick(counter)


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        UsageError: the port is taken, or the host is not this machine's.
    """
    try:
        # resolved first, so that the family is known
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=1_024)
        # connections inherit it; without it each answer waits 40 ms for an acknowledgement
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"{host} port {port} cannot be opened ({_reason(error)}); choose another with --port"
        ) from None


def check_free(host: str, port: int) -> None:
    """Say that a port is taken before anything is loaded for it.

    Raises:
        UsageError: as ``open_socket``.
    """
    with open_socket(host, port):
        pass


def _reason(error: OSError | UnicodeError) -> str:
    if not isinstance(error, OSError):
        return "no host name"
    # the system's own words, since Python's repeat the address
    code = error.errno or 0
    return os.strerror(code) if code > 0 else str(error.strerror)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def accepted_hosts(host: str) -> tuple[str, ...]:
    """``Host`` names that a server on this address answers; empty for any."""
    return LOOPBACK_HOSTS if is_loopback(host) else ()


def address_of(listener: socket.socket) -> str:
    """The address to open in a browser."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(
    app: ASGIApp,
    listener: socket.socket,
    *,
    drain: Callable[[], None],
    in_use: Callable[[], bool],
    drain_s: float,
    useless: Callable[[], bool] = lambda: False,
    sockets: bool = False,
) -> None:
    """Serve until a signal ends it, or it is of no use.

    Args:
        app: the application.
        listener: where it is reached.
        drain: tells it that no new session is wanted.
        in_use: whether somebody still plays.
        drain_s: longest time to wait for them after the first signal.
        useless: whether there is nothing that could ever be answered.
        sockets: as ``server_config`` takes it.
    """
    config = server_config(app, sockets=sockets)
    server = DrainingServer(config, drain=drain, in_use=in_use, drain_s=drain_s, useless=useless)
    server.run(sockets=[listener])


def server_config(app: ASGIApp, *, sockets: bool = False) -> uvicorn.Config:
    """How every application is served.

    Args:
        app: the application.
        sockets: whether WebSockets are taken; nothing is served on them without the package
            ``websockets``.
    """
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws=_socket_protocol() if sockets and find_spec("websockets") else "none",
        ws_max_size=LONGEST_FRAME_BYTES,
        ws_ping_timeout=None,  # a thinking model answers none for minutes; leases end the dead
        timeout_graceful_shutdown=LAST_ANSWERS_S,
        h11_max_incomplete_event_size=LONGEST_HEAD_BYTES,
    )


def _socket_protocol() -> type[asyncio.Protocol]:
    from agentgym_suite.servers.web_sockets import PatientSocket  # needs the package websockets

    return PatientSocket

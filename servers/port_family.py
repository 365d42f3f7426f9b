"""``serve env --ports 8100-8107``: one parent, and for each port a process that serves it alone.

Sessions live in one process, so that more cores are used by more ports. The parent passes signals
on, starts again what died, and ends when all have ended.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from types import FrameType

from agentgym_suite.servers.serve_options import say

MOST_PORTS = 256
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
SOUND_LIFE_S = 60.0  # whoever lived so long did not die of its start
LOOK_S = 0.1
ASK_TIMEOUT_S = 1.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SERVE_ENV = (sys.executable, "-m", "agentgym_suite", "serve", "env")

# what the parent sees to, and what argparse adds of its own
_NOT_PASSED_ON = frozenset({"run", "port", "ports"})


def port_range(text: str) -> range:
    """The ports of ``FIRST-LAST``, for argparse."""
    first, _, last = text.partition("-")
    if not all(end.isascii() and end.isdigit() and len(end) <= 5 for end in (first, last)):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no range of ports; give FIRST-LAST")
    ports = range(int(first), int(last) + 1)
    if not ports or ports[0] < 1 or ports[-1] >= 1 << 16 or len(ports) > MOST_PORTS:
        raise argparse.ArgumentTypeError(
            f"{text} are {len(ports)} ports; give 1 to {MOST_PORTS} of them, from 1 to 65535"
        )
    return ports


def command_of(args: argparse.Namespace) -> list[str]:
    """The words after ``serve env`` that say what ``args`` says, but for the ports.

    A token is none of them: its file is named, or children inherit the variable.
    """
    words: list[str] = []
    for name, value in vars(args).items():
        if name in _NOT_PASSED_ON or value in (None, False, ()):
            continue
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, list):
            words += [f"{option}={member}" for member in value]
        else:
            text = ",".join(value) if isinstance(value, tuple) else value
            words.append(f"{option}={text}")
    return words


def serve_ports(
    ports: Sequence[int], host: str, arguments: Sequence[str], command: Sequence[str] = SERVE_ENV
) -> int:
    """Serve every port in a process of its own until signals end them all.

    Args:
        ports: which ones.
        host: the address that the processes listen on.
        arguments: of their command, ``--port`` left out.
        command: what is run.

    Returns:
        0, or the worst exit code; 128 and the number of the signal for one that was killed.

    Raises:
        UsageError: a port is taken.
    """
    addresses = [_free_address(host, port) for port in ports]
    family = PortFamily(ports, host, [*command, *arguments])
    before = {number: signal.signal(number, family.pass_on) for number in SIGNALS}
    try:
        say(f"Starting {len(ports)} servers at {addresses[0]} to {addresses[-1]}.")
        return family.run(lambda: say(f"All are ready: {' '.join(addresses)}"))
    finally:
        family.stop(signal.SIGTERM)
        for number, handler in before.items():
            signal.signal(number, handler)


def _free_address(host: str, port: int) -> str:
    # imported here, since uvicorn is not needed to read a command line
    from agentgym_suite.servers.http_server import address_of, open_socket

    with open_socket(host, port) as listener:
        return address_of(listener)


@dataclass(slots=True)
class _Child:
    """The process of a port; the times are monotonic seconds."""

    port: int
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    next_start: float = 0.0
    pause_s: float = 0.0  # before the last start
    code: int = 0
    ready: bool = False


class PortFamily:
    """The processes of several ports.

    Args:
        ports: which ones.
        host: the address that they listen on.
        command: what is run; ``--port=N`` is added.
    """

    def __init__(self, ports: Sequence[int], host: str, command: Sequence[str]) -> None:
        self._children = [_Child(port) for port in ports]
        self._host = host
        self._command = tuple(command)
        self._stopping = False

    def run(self, tell_ready: Callable[[], None]) -> int:
        """Keep a process at every port until a signal came and the last one has ended.

        Args:
            tell_ready: called once, when all are ready for the first time.

        Returns:
            The worst exit code.
        """
        told = False
        while True:
            for child in self._children:
                self._look_after(child)
            if self._stopping and all(child.process is None for child in self._children):
                return max(child.code for child in self._children)
            if not told and not self._stopping and all(map(self._becomes_ready, self._children)):
                told = True
                tell_ready()
            time.sleep(LOOK_S)

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: everybody gets it, and nobody is started again."""
        # a closed terminal would end them in the middle of an episode
        self.stop(signal.SIGTERM if number == signal.SIGHUP else number)

    def stop(self, number: int) -> None:
        """Send a signal to every process that lives."""
        self._stopping = True
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(number)

    def _look_after(self, child: _Child) -> None:
        now = time.monotonic()
        if child.process is None:
            if not self._stopping and now >= child.next_start:
                self._start(child)
            return
        code = child.process.poll()
        if code is None:
            return
        child.process, child.ready = None, False
        child.code = code if code >= 0 else 128 - code
        if self._stopping:
            return
        lived = now - child.started
        at_once = child.pause_s if lived < SOUND_LIFE_S else 0.0
        child.pause_s = min(max(FIRST_PAUSE_S, 2 * at_once), LONGEST_PAUSE_S)
        child.next_start = now + child.pause_s
        say(
            f"The server of port {child.port} ended with code {child.code} after {lived:.0f} s; "
            f"it is started again in {child.pause_s:g} s."
        )

    def _start(self, child: _Child) -> None:
        child.started = time.monotonic()
        child.process = subprocess.Popen(
            [*self._command, f"--port={child.port}"],
            stdin=subprocess.DEVNULL,
            # a terminal's Ctrl-C reaches the parent alone, which passes it on once
            start_new_session=True,
        )
        if self._stopping:  # the signal came while it was born
            child.process.send_signal(signal.SIGTERM)

    def _becomes_ready(self, child: _Child) -> bool:
        if not child.ready and child.process is not None:
            child.ready = _is_ready(self._host, child.port)
        return child.ready


def _is_ready(host: str, port: int) -> bool:
    connection = HTTPConnection(host, port, timeout=ASK_TIMEOUT_S)
    try:
        # the name that every server answers to, whatever address it listens on
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()

"""The line to a Qdrant server: every question has its time, and no answer is one sentence."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from agentgym_suite.errors import MissingExtra, RetrievalError, UsageError, reason_of

TIMEOUT_S = 30
MOST_RETRIES = 3
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0

_RETRIED_STATUS = (502, 503, 504)
_Answer = TypeVar("_Answer")


def load_client() -> ModuleType:
    """The client, imported when it is needed.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import qdrant_client
    except ImportError as error:
        raise MissingExtra("retrieval", "a Qdrant server") from error
    module: ModuleType = qdrant_client
    return module


class QdrantServer:
    """A server, or a client that was made elsewhere; threads and forked processes may share it.

    Pickling keeps the address, the key and the timeout.

    Args:
        url: ``http(s)://host[:port]``, port 6333 when it names none.
        api_key: for a server that asks for one.
        timeout_s: longest wait for one answer, whole seconds.
        client: asked instead of one made for the address; no other process can use it.
        sleep: waits before a request is repeated.

    Raises:
        UsageError: the address or the timeout is wrong, or there is neither address nor client.
        MissingExtra: the client is not installed.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: int = TIMEOUT_S,
        client: Any = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not isinstance(timeout_s, int) or isinstance(timeout_s, bool) or timeout_s < 1:
            raise UsageError(f"timeout_s is {timeout_s!r}; give whole seconds, at least 1")
        if client is None and (url is None or not url.startswith(("http://", "https://"))):
            raise UsageError(f"the address of Qdrant is {url!r}; give http://host:port")
        load_client()
        self.url = url
        self.timeout_s = timeout_s
        self._api_key = api_key
        self._given = client
        self._sleep = sleep
        self._opened: tuple[int, Any] | None = None

    def __reduce__(self) -> tuple[Callable[..., QdrantServer], tuple[Any, ...]]:
        if self._given is not None:
            raise UsageError(
                "an index over a client object cannot go to another process; open it by url=…"
            )
        return _reopened, (self.url, self._api_key, self.timeout_s)

    def __str__(self) -> str:
        return f"Qdrant at {self.url}" if self._given is None else "the given Qdrant client"

    @property
    def local_mode(self) -> bool:
        """Whether there is no server behind the client."""
        if self._given is None:
            return False
        options = getattr(self._given, "init_options", {})
        return options.get("location") == ":memory:" or options.get("path") is not None

    def ask(self, what: Callable[[Any], _Answer]) -> _Answer:
        """What the client answers; repeated when the server is busy or cannot be reached.

        Raises:
            RetrievalError: no usable answer came.
        """
        from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        pause, reason = FIRST_PAUSE_S, ""
        for attempt in range(MOST_RETRIES + 1):
            if attempt:
                self._sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
            try:
                return what(self._client())
            except ResourceExhaustedResponse as error:
                pause, reason = min(float(error.retry_after_s), LONGEST_PAUSE_S), "status 429"
            except UnexpectedResponse as error:
                if error.status_code not in _RETRIED_STATUS:
                    raise RetrievalError(
                        f"{self} refused with status {error.status_code} and said "
                        f"{_shortly(error.content)!r}; see that the index was built there"
                    ) from error
                reason = f"status {error.status_code}"
            except ResponseHandlingException as error:
                reason = self._reason_to_go_on(error.source)
            except (ValueError, AssertionError) as error:  # it asserts that there is a result
                if self.local_mode:  # which says so of a collection that it does not have
                    raise RetrievalError(f"{self} refused ({_shortly(error)})") from error
                raise self._unusable(error) from error
        raise RetrievalError(
            f"{self} gave no answer in {MOST_RETRIES + 1} tries ({reason}); see that the server "
            "runs and that the address is right"
        )

    def close(self) -> None:
        """Close the connections; the next question opens others."""
        opened, self._opened = self._opened, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()

    def _reason_to_go_on(self, error: BaseException) -> str:
        """Why there was no answer; raises when asking again would be no use."""
        import httpx

        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.PoolTimeout):
            if isinstance(error, httpx.ConnectTimeout):
                return f"no connection within {self.timeout_s} s"
            raise RetrievalError(
                f"{self} did not answer within {self.timeout_s} s; give it more time by "
                "timeout_s, or see what keeps it busy"
            ) from error
        if isinstance(error, httpx.TransportError):
            return f"{type(error).__name__}: {_shortly(error)}"
        raise self._unusable(error) from error

    def _unusable(self, error: BaseException) -> RetrievalError:
        return RetrievalError(
            f"{self} gave an answer that cannot be used ({_shortly(error)}); see that a Qdrant "
            "server is at that address"
        )

    def _client(self) -> Any:
        """This process's client: connections may not cross a fork."""
        if self._given is not None:
            return self._given
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            client = load_client().QdrantClient(
                url=self.url,
                api_key=self._api_key,
                timeout=self.timeout_s,
                # Or it would ask for the version at once, and only warn when nobody answers.
                check_compatibility=False,
            )
            opened = self._opened = os.getpid(), client
        return opened[1]


def _shortly(said: object) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return reason_of(text)


def _reopened(url: str | None, api_key: str | None, timeout_s: int) -> QdrantServer:
    return QdrantServer(url, api_key=api_key, timeout_s=timeout_s)

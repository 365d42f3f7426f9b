"""Plain code that waits for a coroutine: in a script, a notebook, or under Ctrl-C."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def complete(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where an event loop runs already (a notebook).

    Nobody but Ctrl-C cancels it from outside, so a cancellation that comes out is told as that:
    asyncio itself forgets an interrupt that arrives while its runner starts.

    Raises:
        KeyboardInterrupt: it was interrupted.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(work)
    return _run_in_thread(work)


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(_run(work))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="coroutine")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return returned[0]

"""Waiting for a coroutine from plain code."""

from __future__ import annotations

import asyncio
import signal
from asyncio import runners
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_suite.coroutines import complete


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C is heard, as it is not in what a shell starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def worth(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def broken() -> int:
    raise LookupError("nothing there")


def test_the_result_comes_back() -> None:
    assert complete(worth(7)) == 7


def test_what_it_raises_comes_out() -> None:
    with pytest.raises(LookupError, match="nothing there"):
        complete(broken())


def test_a_running_loop_is_left_alone() -> None:
    async def notebook() -> tuple[int, str]:
        with pytest.raises(LookupError) as raised:
            complete(broken())
        return complete(worth(7)), str(raised.value)

    assert asyncio.run(notebook()) == (7, "nothing there")


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="no signals to raise")
def test_an_interrupt_while_it_runs() -> None:
    async def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        complete(interrupted())


def test_an_interrupt_at_the_moment_its_handler_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    # the runner sets its handler, then its count of interrupts to 0
    def set_and_interrupt(number: int, handler: Any) -> Any:
        before = signal.signal(number, handler)
        if handler is not signal.default_int_handler:
            handler(number, None)
        return before

    pretended = SimpleNamespace(**{**vars(signal), "signal": set_and_interrupt})
    monkeypatch.setattr(runners, "signal", pretended)
    with pytest.raises(KeyboardInterrupt):
        complete(worth(7))

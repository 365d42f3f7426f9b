"""Concurrent callers of one engine: together while they can, each with its own reply or error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from agentgym_suite.engines.batching import BatchingEngine
from agentgym_suite.engines.tokens import Generated, Sampling, TokenEngine
from agentgym_suite.errors import EngineError, UsageError
from tests.engines.scripted_engine import BROKEN, REFUSED, ScriptedBatch, ScriptedEngine

WAIT_S = 30.0
"""Far beyond what any of these takes: a test that hangs shall fail instead."""


class Gate:
    """Holds up the engine before each step until it is opened; steps can be let through."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.reached = threading.Semaphore(0)
        self._through = threading.Semaphore(0)
        self._open = threading.Event()
        engine.before_step = self._hold

    def _hold(self, batch: ScriptedBatch) -> None:
        self.reached.release()
        while not self._open.is_set() and not self._through.acquire(timeout=0.01):
            pass

    def step(self) -> None:
        self._through.release()

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def scripted() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def front(scripted: ScriptedEngine) -> Iterator[BatchingEngine]:
    made = BatchingEngine(scripted)
    yield made
    scripted.before_step = lambda batch: None
    made.close()


def tokens(count: int) -> Sampling:
    return Sampling(max_new_tokens=count)


def test_replies_come_to_those_who_asked(front: BatchingEngine) -> None:
    async def ask() -> list[Generated]:
        calls = [front.generate_one([start], tokens(1 + start % 7), start) for start in range(40)]
        return await asyncio.gather(*calls)

    for start, reply in enumerate(asyncio.run(ask())):
        assert reply.ids == tuple(range(start + 1, start + 2 + start % 7))


def test_calls_run_together_join_and_leave(scripted: ScriptedEngine, front: BatchingEngine) -> None:
    gate = Gate(scripted)

    async def play() -> list[int]:
        long = asyncio.create_task(front.generate_one([20], tokens(4), 0))
        await asyncio.to_thread(gate.reached.acquire, timeout=WAIT_S)
        short = asyncio.create_task(front.generate_one([30], tokens(1), 0))
        await asyncio.sleep(0)  # asked for before the first step is through
        gate.step()
        await asyncio.to_thread(gate.reached.acquire, timeout=WAIT_S)
        gate.step()
        assert (await asyncio.wait_for(short, WAIT_S)).ids == (31,)
        assert not long.done()
        gate.open()
        assert (await asyncio.wait_for(long, WAIT_S)).ids == (21, 22, 23, 24)
        return scripted.sizes

    assert asyncio.run(play()) == [1, 2, 1, 1]


def test_what_is_refused_reaches_its_caller_alone(front: BatchingEngine) -> None:
    async def ask() -> list[Generated | BaseException]:
        calls = [front.generate_one([start], tokens(3), 0) for start in (5, REFUSED, 6)]
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert isinstance(first, Generated) and isinstance(third, Generated)
    assert isinstance(second, UsageError) and "holds 1013" in str(second)


def test_a_step_that_fails_costs_only_who_fails_alone(
    scripted: ScriptedEngine, front: BatchingEngine
) -> None:
    async def ask() -> list[Generated | BaseException]:
        calls = [front.generate_one([start], tokens(3), 0) for start in (5, BROKEN, 6)]
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert isinstance(first, Generated) and first.ids == (6, 7, 8)
    assert isinstance(third, Generated) and third.ids == (7, 8, 9)
    assert isinstance(second, RuntimeError) and str(second) == "no memory left"
    assert front.generate([[7]], tokens(2), [0])[0].ids == (8, 9)


def test_a_cancelled_caller_frees_its_place(
    scripted: ScriptedEngine, front: BatchingEngine
) -> None:
    gate = Gate(scripted)

    async def ask() -> Generated:
        given_up = asyncio.create_task(front.generate_one([5], tokens(50), 0))
        await asyncio.to_thread(gate.reached.acquire, timeout=WAIT_S)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        other = asyncio.create_task(front.generate_one([6], tokens(2), 0))
        await asyncio.sleep(0)
        gate.open()
        return await asyncio.wait_for(other, WAIT_S)

    assert asyncio.run(ask()).ids == (7, 8)
    assert scripted.sizes == [1, 1, 1]


def test_weights_change_between_replies_never_within_one(
    scripted: ScriptedEngine, front: BatchingEngine
) -> None:
    gate = Gate(scripted)
    found: list[Generated] = []
    before = threading.Thread(
        target=lambda: found.extend(front.generate([[5], [6]], tokens(3), [0, 0]))
    )
    before.start()
    assert gate.reached.acquire(timeout=WAIT_S)
    loading = threading.Thread(target=front.load_weights, args=({"w": 1}, "1"))
    loading.start()
    gate.open()
    loading.join(WAIT_S)
    before.join(WAIT_S)
    assert {reply.policy_version for reply in found} == {"0"}
    assert front.policy_version == "1"
    assert front.generate([[5]], tokens(1), [0])[0].policy_version == "1"


def test_weights_that_do_not_fit_raise_where_they_were_given(front: BatchingEngine) -> None:
    with pytest.raises(UsageError, match="no weights"):
        front.load_weights({}, "1")
    assert front.policy_version == "0"
    assert front.generate([[5]], tokens(1), [0])[0].ids == (6,)


def test_closing_is_final_and_tells_those_who_wait(
    scripted: ScriptedEngine, front: BatchingEngine
) -> None:
    gate = Gate(scripted)
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            front.generate([[5]], tokens(10**9), [0])
        except EngineError as error:
            raised.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert gate.reached.acquire(timeout=WAIT_S)
    closing = threading.Thread(target=front.close)
    closing.start()
    gate.open()
    closing.join(WAIT_S)
    asking.join(WAIT_S)
    assert scripted.closed.is_set()
    assert "closed before the reply was done" in str(raised[0])
    front.close()
    for again in (
        lambda: front.generate([[5]], tokens(1), [0]),
        lambda: front.load_weights({"w": 1}, "1"),
        lambda: asyncio.run(front.generate_one([5], tokens(1), 0)),
    ):
        with pytest.raises(EngineError, match="the engine is closed"):
            again()


def test_wrong_seeds_are_refused_at_once(front: BatchingEngine) -> None:
    with pytest.raises(UsageError, match="a seed is -1"):
        front.generate([[5]], tokens(1), [-1])
    with pytest.raises(UsageError, match="1 prompts have 2 seeds"):
        front.generate([[5]], tokens(1), [1, 2])
    with pytest.raises(UsageError, match="a seed is -1"):
        asyncio.run(front.generate_one([5], tokens(1), -1))


def test_it_is_a_token_engine(front: BatchingEngine) -> None:
    kept: TokenEngine = front
    assert kept.policy_version == "0"
    assert kept.generate([], tokens(1), []) == []


def test_concurrent_episodes_get_the_samples_of_lonely_ones() -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install '.[train]'")
    from agentgym_suite.engines.transformers_engine import TransformersEngine
    from tests.engines.small_policy import small_module

    engine = TransformersEngine(small_module(), policy_version="0")
    sampling = Sampling(max_new_tokens=16, stop_ids=(1, 11, 23), temperature=0.9)
    asked = [[5 + place, 7, 9 + place] for place in range(12)]
    expected = engine.generate(asked, sampling, range(12))
    front = BatchingEngine(engine)

    async def episode(place: int) -> list[Generated]:
        first = await front.generate_one(asked[place], sampling, place)
        return [first, await front.generate_one(asked[place], sampling, place)]

    async def play() -> list[list[Generated]]:
        return await asyncio.gather(*map(episode, range(12)))

    for found, alone in zip(asyncio.run(play()), expected, strict=True):
        for reply in found:
            assert reply.ids == alone.ids
            assert reply.logprobs == pytest.approx(alone.logprobs, abs=1e-5)
    front.close()
    with pytest.raises(EngineError, match="the engine is closed"):
        engine.generate([[5]], sampling, [0])

"""Replies of running episodes: together, in a fixed order, each its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agentgym_suite.engines.tokens import Generated, Sampling
from agentgym_suite.errors import EngineError
from agentgym_suite.trainers.turns import TurnEngine

SAMPLING = Sampling(max_new_tokens=1)


class Echo:
    """Answers with each prompt, and remembers who was asked together."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.policy_version = "1"

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generated]:
        self.calls.append(list(seeds))
        if any(prompt[0] == 13 for prompt in prompts):
            raise EngineError("the model failed")
        return [Generated(tuple(prompt), (0.0,), "stop", "1") for prompt in prompts]

    def load_weights(self, weights: object, version: str) -> None: ...

    def close(self) -> None: ...


def test_all_who_play_are_asked_together_in_the_order_of_their_seeds() -> None:
    async def play() -> list[list[int]]:
        engine = Echo()
        turns = TurnEngine(engine, SAMPLING, [3, 1, 2])

        async def episode(seed: int, steps: int) -> None:
            for step in range(steps):
                reply = await turns.reply(seed, [seed, step], 100 * seed + step)
                assert reply.ids == (seed, step)
            turns.leave(seed)

        await asyncio.gather(episode(3, 2), episode(1, 1), episode(2, 3))
        return engine.calls

    assert asyncio.run(play()) == [[100, 200, 300], [201, 301], [202]]


def test_one_who_hangs_is_not_waited_for_for_ever() -> None:
    async def play() -> list[list[int]]:
        engine = Echo()
        turns = TurnEngine(engine, SAMPLING, [1, 2], patience_s=0.01)
        await turns.reply(1, [7], 10)  # the second never asks
        await turns.reply(1, [7], 11)
        return engine.calls

    assert asyncio.run(play()) == [[10], [11]]


def test_an_error_reaches_those_who_asked_and_the_next_turn_works() -> None:
    async def play() -> None:
        turns = TurnEngine(Echo(), SAMPLING, [1, 2])
        asked = [turns.reply(1, [13], 1), turns.reply(2, [5], 2)]
        for told in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(told, EngineError)
        turns.leave(2)
        assert (await turns.reply(1, [5], 3)).ids == (5,)

    asyncio.run(play())


def test_one_who_gave_up_is_left_out() -> None:
    async def play() -> list[list[int]]:
        engine = Echo()
        turns = TurnEngine(engine, SAMPLING, [1, 2])
        given_up = asyncio.create_task(turns.reply(1, [5], 1))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        await turns.reply(2, [5], 2)
        return engine.calls

    assert asyncio.run(play()) == [[2]]

"""One request of an id at a time: order, clients that leave, ids that end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentgym_suite.servers.agentgym_sessions import Seats
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.problems import Problem
from tests.servers.counting_server import ENV_ID, Hold, register

register()


def with_seats(play: Callable[[Seats, EnvHost], Awaitable[None]], hold: Hold | None = None) -> None:
    """Play with the ids of a server of the counting game."""

    async def run() -> None:
        host = EnvHost([Served(ENV_ID, {"hold": hold})], Limits())
        await host.start()
        try:
            while host.status[0] == "starting":
                await asyncio.sleep(0.005)
            await play(Seats(host), host)
        finally:
            await host.stop()

    asyncio.run(run())


def entered(hold: Hold) -> Awaitable[Any]:
    return asyncio.to_thread(hold.entered.wait, 20)


def test_requests_of_an_id_are_carried_out_in_their_order() -> None:
    hold = Hold()

    async def play(seats: Seats, host: EnvHost) -> None:
        number = await seats.open(ENV_ID, {})
        done: list[str] = []

        async def step(action: str) -> None:
            async with seats.at(number, ENV_ID) as seat:
                turn = await seats.step(seat, action)
                done.append(action)
                assert turn.info["history"] == done

        async with seats.at(number, ENV_ID) as seat:
            await seats.reset(seat, {}, lambda env: {})
        actions = ["say[wait]", *(f"say[{n}]" for n in range(-5, 0))]
        tasks = []
        for action in actions:
            tasks.append(asyncio.create_task(step(action)))
            await asyncio.sleep(0)
        await entered(hold)
        other = await seats.open(ENV_ID, {})  # who has another id does not wait
        async with seats.at(other, ENV_ID) as seat:
            await seats.reset(seat, {}, lambda env: {})
        assert not done
        hold.release.set()
        await asyncio.gather(*tasks)
        assert done == actions

    with_seats(play, hold)


def test_closing_waits_for_the_step_before_it_and_ends_those_behind() -> None:
    hold = Hold()

    async def play(seats: Seats, host: EnvHost) -> None:
        number = await seats.open(ENV_ID, {})
        async with seats.at(number, ENV_ID) as seat:
            await seats.reset(seat, {}, lambda env: {})

        async def step(action: str) -> str:
            async with seats.at(number, ENV_ID) as seat:
                return (await seats.step(seat, action)).observation

        running = asyncio.create_task(step("say[wait]"))
        await entered(hold)
        closing = [asyncio.create_task(seats.close(number, ENV_ID)) for _ in range(2)]
        await asyncio.sleep(0)
        behind = asyncio.create_task(step("say[1]"))
        await asyncio.sleep(0)
        hold.release.set()
        assert await running
        await asyncio.gather(*closing)
        with pytest.raises(Problem, match="has ended"):
            await behind

    with_seats(play, hold)


def test_a_step_whose_client_is_gone_is_played_and_told_to_the_next() -> None:
    hold = Hold()

    async def play(seats: Seats, host: EnvHost) -> None:
        number = await seats.open(ENV_ID, {})
        async with seats.at(number, ENV_ID) as seat:
            await seats.reset(seat, {}, lambda env: {})

        async def step() -> None:
            async with seats.at(number, ENV_ID) as seat:
                await seats.step(seat, "say[wait]")

        gone = asyncio.create_task(step())
        await entered(hold)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        async with seats.at(number, ENV_ID) as seat:
            with pytest.raises(Problem) as busy:
                await seats.step(seat, "say[1]")
            assert busy.value.slug == "busy"  # which leaves the server as a 503
            hold.release.set()
            while seat.place.value.running is not None:
                await asyncio.sleep(0.005)
            assert seat.heard.info["history"] == ["say[wait]"]

    with_seats(play, hold)


def test_ended_ids_are_not_kept_for_ever() -> None:
    async def play(seats: Seats, host: EnvHost) -> None:
        numbers = []
        for _ in range(3 * host.limits.max_sessions):
            number = await seats.open(ENV_ID, {})
            numbers.append(number)
            host.end(seats._seats[number].place.id)  # as the reaper does
        assert len(seats._seats) <= host.limits.max_sessions
        with pytest.raises(Problem, match="has ended"):
            async with seats.at(numbers[0], ENV_ID):
                pass

    with_seats(play)


def test_a_broken_session_says_so_until_it_is_closed() -> None:
    async def play(seats: Seats, host: EnvHost) -> None:
        number = await seats.open(ENV_ID, {})
        async with seats.at(number, ENV_ID) as seat:
            await seats.reset(seat, {}, lambda env: {})
            with pytest.raises(Problem) as failed:
                await seats.step(seat, "say[nan]")
            assert failed.value.slug == "env-error"
        with pytest.raises(Problem) as broken:
            async with seats.at(number, ENV_ID):
                pass
        assert broken.value.slug == "broken"
        await seats.close(number, ENV_ID)

    with_seats(play)

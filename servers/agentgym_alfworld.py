"""What AgentGym's ALFWorld client is told: rooms, commands, and games by AgentGym's numbers.

AgentGym numbers 2,420 games of ``train`` and 200 of ``valid_train`` in two files of its ALFWorld
server, which nothing else can replace: the first is a selection. Where official games are served,
copies of these files beside ``json_2.1.1`` say which game a number means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym_suite.alfworld.env import ALFWorldEnv
from agentgym_suite.alfworld.game_index import (
    GameIndex,
    claims_to_be_official,
    differences_from_official,
)
from agentgym_suite.alfworld.game_layout import LAYOUT_FOLDER, OFFICIAL_COUNTS
from agentgym_suite.servers.agentgym_calls import ACTION, ID, Call
from agentgym_suite.servers.agentgym_sessions import Seats, Turn
from agentgym_suite.servers.bodies import Field, invalid
from agentgym_suite.servers.problems import Problem

# AgentGym's file of numbers -> the split that its games are in
MAPPINGS = {"mappings_train.json": "train", "mappings_test.json": "valid_train"}
WORLD_TYPE = "Text"

_ONE = {"id": ID}
_RESET = {
    **_ONE,
    "game": Field((int,), "a game's number", required=True, minimum=0),
    "world_type": Field((str,), f"{WORLD_TYPE!r}"),
}
_STEP = {**_ONE, "action": ACTION}
_ARRIVAL = "You arrive at loc "


class AlfWorldDialect:
    """The calls of ``agentenv.envs.alfworld``.

    Args:
        seats: the ids of the server.
    """

    name = "alfworld"
    env_id = "ALFWorld-v0"

    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self._games = NumberedGames()

    @property
    def calls(self) -> list[Call]:
        """The addresses."""
        return [
            Call("GET", "/", self.greet),
            Call("POST", "/create", self.create),
            Call("POST", "/reset", self.reset, _RESET),
            Call("POST", "/step", self.step, _STEP),
            Call("GET", "/available_actions", self.available_actions, _ONE),
            Call("GET", "/observation", self.observation, _ONE),
            Call("GET", "/detail", self.detail, _ONE),
            Call("POST", "/close", self.close, _ONE),
        ]

    async def greet(self, given: dict[str, Any]) -> str:
        """The server is there."""
        return "This is environment AlfWorld."

    async def create(self, given: dict[str, Any]) -> dict[str, int]:
        """A new id."""
        # the client writes "put X in/on R", whatever the game's own words are
        return {"id": await self._seats.open(self.env_id, {"accept_put_alias": True})}

    async def reset(self, given: dict[str, Any]) -> dict[str, Any]:
        """Begin a game."""
        world_type = given.get("world_type", WORLD_TYPE)
        if world_type != WORLD_TYPE:
            raise invalid("world_type", f"is {world_type[:80]!r}; this server has {WORLD_TYPE!r}")
        async with self._seats.at(given["id"], self.env_id) as seat:
            turn = await self._seats.reset(
                seat, given, lambda env: self._games.find(env, given["game"])
            )
        return {
            "id": given["id"],
            "observation": _observation(turn),
            "available_actions": turn.info["admissible_actions"],
            "task_type": turn.info["game_id"].partition("/")[2],
        }

    async def step(self, given: dict[str, Any]) -> dict[str, Any]:
        """Play a command."""
        async with self._seats.at(given["id"], self.env_id) as seat:
            return _told(await self._seats.step(seat, given["action"]))

    async def available_actions(self, given: dict[str, Any]) -> list[str]:
        """The commands that do something now."""
        actions: list[str] = (await self.detail(given))["available_actions"]
        return actions

    async def observation(self, given: dict[str, Any]) -> str:
        """What was said last."""
        return str((await self.detail(given))["observation"])

    async def detail(self, given: dict[str, Any]) -> dict[str, Any]:
        """What was asked for and said last."""
        async with self._seats.at(given["id"], self.env_id) as seat:
            told = _told(seat.heard)
            game = seat.asked["game"]
        return {"world_type": WORLD_TYPE, "game": game, **told, "deleted": False}

    async def close(self, given: dict[str, Any]) -> bool:
        """End the session; again if need be."""
        await self._seats.close(given["id"], self.env_id)
        return True


class NumberedGames:
    """Which game a number means; reads AgentGym's files once for each place they lie at."""

    def __init__(self) -> None:
        self._mappings: dict[Path, Mapping[int, str]] = {}

    def find(self, env: ALFWorldEnv, number: int) -> dict[str, Any]:
        """*Work*: the options of a reset to a game.

        Where there are no files, which only official games need, numbers count in ``train``.

        Raises:
            Problem: ``no-task``: no game has the number, or official games have no files.
        """
        index = env.library.index
        for root in index.roots:
            place = root.parent if root.name == LAYOUT_FOLDER else root
            games = self._mappings.get(place) or _read(place)
            if games:
                self._mappings[place] = games
                return {"task_id": _game_of(games, number)}
        if _is_official(index):
            raise Problem(
                "no-task",
                f"game {number} is not known: AgentGym's {' and '.join(MAPPINGS)} are absent; put "
                f"copies of them beside {LAYOUT_FOLDER}",
                field="game",
            )
        tasks: Any = env.tasks
        return {"task_id": number, "split": tasks.default_split}


def _is_official(index: GameIndex) -> bool:
    known = index.counts().keys() & OFFICIAL_COUNTS.keys()
    whole = bool(known) and not differences_from_official(index)
    return whole or any(map(claims_to_be_official, index.roots))


def _game_of(games: Mapping[int, str], number: int) -> str:
    if number not in games:
        raise Problem(
            "no-task",
            f"game {number} does not exist; AgentGym's games are {min(games)} to {max(games)}",
            field="game",
        )
    return games[number]


def _read(place: Path) -> Mapping[int, str]:
    games: dict[int, str] = {}
    for name, split in MAPPINGS.items():
        path = place / name
        if not path.is_file():
            continue
        try:
            rows = json.loads(path.read_text("utf-8"))
            games |= {int(r["item_id"]): f"{split}/{r['task_type']}/{r['task_id']}" for r in rows}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Problem(
                "no-task",
                f"{name} of this server is not AgentGym's list of games "
                f"({type(error).__name__}); copy it anew",
                field="game",
            ) from error
    return games


def _told(turn: Turn) -> dict[str, Any]:
    return {
        "observation": _observation(turn),
        "reward": float(turn.info["won"]) if turn.info["step"] else 0.0,
        "available_actions": turn.info["admissible_actions"],
        "done": turn.done,
    }


def _observation(turn: Turn) -> str:
    if not turn.info["step"]:
        return "\n".join(turn.observation.split("\n\n")[1:])
    if turn.observation.startswith(_ARRIVAL):
        return turn.observation.partition(". ")[2]
    return turn.observation

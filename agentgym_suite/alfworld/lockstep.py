"""Two engines in one game, step by step: the first difference, and the shortest way to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym_suite.alfworld.backends import LoadedGame, PlayedGame

_MOST_REPLAYS = 60
_AWKWARD = (
    lambda c, seen, rng: c.upper(),
    lambda c, seen, rng: c.title(),
    lambda c, seen, rng: f" {c}\u3000 ",
    lambda c, seen, rng: c.replace(" ", "  ", 1),
    lambda c, seen, rng: f"{c}.",
    lambda c, seen, rng: f"{c.rpartition(' ')[0]} 99",
    lambda c, seen, rng: f"take unicorn 1 from {c.rpartition(' from ')[2]}",
    lambda c, seen, rng: f"juggle {c.partition(' ')[2]}",
    lambda c, seen, rng: "",
    lambda c, seen, rng: " \n",
    lambda c, seen, rng: "examine",
    lambda c, seen, rng: c.replace("move ", "put ").replace(" to ", " in/on "),
    lambda c, seen, rng: c.replace("put ", "move ").replace(" in/on ", " to "),
    lambda c, seen, rng: seen[int(rng.integers(len(seen)))],
    lambda c, seen, rng: seen[int(rng.integers(len(seen)))],
    lambda c, seen, rng: "go to é 你好 😀 1",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two engines part.

    Attributes:
        commands: what leads there; the last one shows it, none means the start does.
        field: ``observation``, ``admissible`` or ``won``.
        ours: what the native engine gives.
        theirs: what the other one gives.
    """

    commands: tuple[str, ...]
    field: str
    ours: object
    theirs: object


@dataclass(slots=True)
class Tally:
    """What was compared so far."""

    episodes: int = 0
    steps: int = 0
    refused: int = 0
    wins: int = 0

    def add(self, other: Tally) -> None:
        """Count another tally in."""
        self.episodes += other.episodes
        self.steps += other.steps
        self.refused += other.refused
        self.wins += other.wins


Chooser = Callable[[PlayedGame], "str | None"]
"""The next command for a state, None at the end of the episode."""


def compare_episode(
    ours: LoadedGame, theirs: LoadedGame, choose: Chooser, tally: Tally
) -> Difference | None:
    """Play one episode in both engines until they differ or it ends.

    Args:
        ours: the game in the native engine.
        theirs: the same game in the other one.
        choose: gives the commands, from the native engine's state.
        tally: counted up.
    """
    here, there = ours.start(), theirs.start()
    tally.episodes += 1
    commands: list[str] = []
    found = _first_difference(here, there, commands)
    while found is None:
        command = choose(here)
        if command is None:
            return None
        commands.append(command)
        here_valid, there_valid = here.step(command)[1], there.step(command)[1]
        tally.steps += 1
        tally.refused += not here_valid
        tally.wins += here.won
        found = _first_difference(here, there, commands)
        if found is None and here_valid != there_valid:
            found = Difference(tuple(commands), "valid", here_valid, there_valid)
    return _shrink(ours, theirs, found)


def replaying(commands: Sequence[str], then: Chooser | None = None) -> Chooser:
    """Gives the commands in order, then those of ``then``."""
    waiting = iter(commands)

    def choose(play: PlayedGame) -> str | None:
        command = next(waiting, None)
        return then(play) if command is None and then is not None else command

    return choose


def fuzzing(steps: int, rng: np.random.Generator, awkward: float = 0.1) -> Chooser:
    """Random commands: mostly what does something, some that no engine should accept.

    Args:
        steps: how many.
        rng: decides everything.
        awkward: share of awkward commands.
    """
    seen: list[str] = ["look"]
    left = steps

    def choose(play: PlayedGame) -> str | None:
        nonlocal left
        if not left:
            return None
        left -= 1
        admissible = play.admissible
        seen.extend(command for command in admissible if command not in seen)
        acting = [command for command in admissible if not command.startswith("go to ")]
        pool = acting if acting and rng.random() < 0.7 else admissible
        command = pool[int(rng.integers(len(pool)))] if pool else "look"
        if rng.random() >= awkward:
            return command
        return _AWKWARD[int(rng.integers(len(_AWKWARD)))](command, seen, rng)

    return choose


def _first_difference(
    here: PlayedGame, there: PlayedGame, commands: Sequence[str]
) -> Difference | None:
    for field in ("observation", "won", "admissible"):
        mine, yours = getattr(here, field), getattr(there, field)
        if mine != yours:
            return Difference(tuple(commands), field, mine, yours)
    return None


def _shrink(ours: LoadedGame, theirs: LoadedGame, found: Difference) -> Difference:
    """The same difference after fewer commands, within a bounded number of replays."""
    replays = 0
    position = len(found.commands) - 2
    while position >= 0 and replays < _MOST_REPLAYS:
        shorter = found.commands[:position] + found.commands[position + 1 :]
        replays += 1
        smaller = _replay(ours, theirs, shorter)
        if smaller is not None:
            found = smaller
            position = min(position, len(found.commands) - 1)
        position -= 1
    return found


def _replay(ours: LoadedGame, theirs: LoadedGame, commands: Sequence[str]) -> Difference | None:
    here, there = ours.start(), theirs.start()
    for count in range(len(commands) + 1):
        if count:
            here.step(commands[count - 1])
            there.step(commands[count - 1])
        found = _first_difference(here, there, commands[:count])
        if found is not None:
            return found
    return None

"""The oracle: plans from the state of the game alone, whatever the goal's family.

The stored walkthrough is never looked at. A plan is found in three steps: the actions that the
goal needs are grounded backward; relaxed plans rank the alternatives of the goal (which mug, which
shelf); the best ones are searched with the actions that make what their relaxed plan reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_suite.alfworld.conditions import TooManyBranches
from agentgym_suite.alfworld.grounding import LiftedGame
from agentgym_suite.alfworld.planning import Atom, Operator, Relaxation, State, Wish, search
from agentgym_suite.alfworld.play import Play
from agentgym_suite.errors import EnvError, UsageError

_RANKED = 30
_SEARCHED = 3
_MOST_STATES = 3_000


class OraclePolicy:
    """Plays what it planned; plans again whenever something else was played meanwhile.

    Args:
        play: gives the running episode of the native engine.
    """

    def __init__(self, play: Callable[[], object]) -> None:
        self._running = play
        self._play: Play | None = None
        self._plan: list[Atom] = []
        self._next_step = -1
        self._command = ""
        self._hopeless = False

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next command of the plan; any command that does something where there is no plan.

        Raises:
            UsageError: the episode is another engine's.
            EnvError: there are too many ways to act, or to reach the goal.
        """
        play = self._running()
        if not isinstance(play, Play):
            raise UsageError("the oracle reads the native engine's state; use backend='native'")
        same = play is self._play
        follows = info["step"] == self._next_step and info["parsed_action"] == self._command
        if not (same and follows) and not (same and self._hopeless):
            plan = plan_from(play)
            self._play, self._plan, self._hopeless = play, list(plan or ()), plan is None
        command = _command_of(play, self._plan.pop(0)) if self._plan else ""
        if command not in play.admissible:
            self._plan.clear()
            command = play.admissible[-1] if play.admissible else "look"
        self._next_step, self._command = info["step"] + 1, command
        return command


def plan_from(play: Play) -> tuple[Atom, ...] | None:
    """Ground actions that win an episode from where it is; None when no way was found.

    Raises:
        EnvError: there are too many ways to act, or to reach the goal.
    """
    facts, entities = play.facts(), play.game.entities
    types = dict(zip(entities.ids, entities.types, strict=True))
    try:
        game = LiftedGame(play.game.domain.domain, types, play.game.wanted.condition, facts)
        return find_plan(game, game.changing(facts))
    except TooManyBranches as error:
        raise EnvError(
            f"game {play.game.source.game} leaves the oracle too many ways to act or to reach its "
            "goal: let another agent play it"
        ) from error


def plan_commands(play: Play) -> tuple[str, ...] | None:
    """The commands that win an episode from where it is; None when no way was found.

    Raises:
        EnvError: there are too many ways to act, or to reach the goal.
    """
    plan, ahead = plan_from(play), play.copy()
    if plan is None:
        return None
    commands = []
    for action in plan:
        commands.append(_command_of(ahead, action))
        ahead.step(commands[-1])
    return tuple(commands)


def _command_of(play: Play, action: Atom) -> str:
    """What a ground action is called now, "" if it cannot be executed."""
    return play.command_for(action[0], action[1:]) or ""


def find_plan(game: LiftedGame, state: State) -> tuple[Atom, ...] | None:
    """Ground actions that lead from a state to the goal; None when no way was found.

    Args:
        game: the game's actions and goal.
        state: the true facts that actions can change.
    """
    alternatives = game.alternatives()
    if any(all(wish.met(state) for wish in goal) for goal in alternatives):
        return ()
    operators = game.relevant({wish for goal in alternatives for wish in goal}, state)
    relaxation = Relaxation(operators)
    makers = relaxation.makers(state)
    lengths: list[tuple[int, int]] = []
    for number, goal in enumerate(alternatives):
        plan = relaxation.relaxed_plan(state, goal, makers)
        if plan is not None:
            lengths.append((len(plan), number))
    best: tuple[Operator, ...] | None = None
    for tried, (_, number) in enumerate(sorted(lengths)[:_RANKED]):
        if best is not None and tried >= _SEARCHED:
            break
        found = _search(game, state, alternatives[number])
        if found is not None and (best is None or len(found) < len(best)):
            best = found
    return None if best is None else tuple(operator.key for operator in best)


def _search(game: LiftedGame, state: State, goal: frozenset[Wish]) -> tuple[Operator, ...] | None:
    """The real plan for one alternative."""
    relevant = game.relevant(goal, state)
    wanted = goal.union(*(operator.needs for operator in relevant))
    known = state.union(w.atom for operator in relevant for w in operator.makes if w.holds)
    operators = dict.fromkeys((*relevant, *game.making(wanted, known)))
    return search(tuple(operators), state, goal, _MOST_STATES)

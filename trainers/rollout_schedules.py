"""When trajectories are played: in step with the update, or beside it with older weights.

Both schedules are functions of the settings alone. With a bound of s, iteration m is played with
the weights that m - 1 - s iterations have made, those of the start for the first ones, whatever
ends first. So a run is the same each time, and one that was killed plays what was under way again,
with the weights that it had: a checkpoint holds them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from agentgym_suite.errors import EngineError, UsageError
from agentgym_suite.trainers.collector import Collection
from agentgym_suite.trainers.outcomes import Outcomes
from agentgym_suite.trainers.policy_rollouts import PolicyRollouts
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.stats import ALONE, Reducer
from agentgym_suite.trainers.weight_sync import Snapshot, WeightSync

_Result = TypeVar("_Result")
_FAREWELL_S = 5.0  # an environment, or another process, may keep a thread for longer


def staleness(rows: Sequence[StepRow], versions: Sequence[str]) -> dict[str, float]:
    """How many iterations old the weights of an iteration's rows are, mean and most.

    Args:
        rows: of the iteration.
        versions: those that are allowed, the newest first.

    Returns:
        Numbers to log; none where only the newest version is allowed.

    Raises:
        UsageError: a row is of another version.
    """
    ages = {version: float(age) for age, version in enumerate(versions)}
    others = {row.policy_version for row in rows} - ages.keys()
    if others:
        raise UsageError(
            f"rows were sampled by {min(others)}, not by {versions[0]} or one of the "
            f"{len(versions) - 1} before it; collect anew"
        )
    if len(versions) == 1 or not rows:
        return {}
    found = [ages[row.policy_version] for row in rows]
    return {"staleness/mean": sum(found) / len(found), "staleness/max": max(found)}


class Schedule(Protocol):
    """What the loop asks of its rollouts."""

    def start(self, done: int, tasks_drawn: int, held: Mapping[int, Snapshot]) -> None:
        """Stand behind so many iterations.

        Args:
            done: iterations done.
            tasks_drawn: groups drawn in them.
            held: what ``held`` was there; empty at the start of a run.
        """
        ...

    def offer(self, done: int, snapshot: Snapshot) -> None:
        """The weights that so many iterations have made."""
        ...

    def take(self, number: int) -> Collection:
        """The trajectories of an iteration; raises what playing them raised."""
        ...

    def evaluation(self, snapshot: Snapshot, *, final: bool) -> Outcomes:
        """What a snapshot wins; see ``PolicyRollouts.evaluation``."""
        ...

    def held(self, done: int) -> dict[int, Snapshot]:
        """The weights of what is played beside iterations to come, by the iterations they took."""
        ...

    def close(self) -> None:
        """Play nothing more, and end what plays beside the update."""
        ...


class InStep:
    """Each iteration is played with the newest weights, before anything is learned from it.

    Args:
        rollouts: plays.
        sync: brings weights to the engine that it asks.
    """

    def __init__(self, rollouts: PolicyRollouts, sync: WeightSync) -> None:
        self._rollouts = rollouts
        self._sync = sync
        self._drawn = 0

    def start(self, done: int, tasks_drawn: int, held: Mapping[int, Snapshot]) -> None:
        """Stand behind so many iterations; nothing is held."""
        self._drawn = tasks_drawn

    def offer(self, done: int, snapshot: Snapshot) -> None:
        """Sample with these weights."""
        self._sync.load(snapshot)

    def take(self, number: int) -> Collection:
        """Play the iteration now."""
        collection = self._rollouts.iteration(number, self._drawn)
        self._drawn += collection.groups
        return collection

    def evaluation(self, snapshot: Snapshot, *, final: bool) -> Outcomes:
        """Play the tasks that are watched now."""
        self._sync.load(snapshot)
        return self._rollouts.evaluation(final=final)

    def held(self, done: int) -> dict[int, Snapshot]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """Nothing is under way."""


class Ahead:
    """Iterations to come are played in a thread of their own, in their order.

    Args:
        rollouts: plays; this thread alone asks its engine.
        sync: brings weights to that engine.
        bound: how many iterations weights may be old, at least 1.
        last: no later iteration is played.
        reducer: tells what other ranks have begun; every rank plays the same in the same order.
    """

    def __init__(
        self,
        rollouts: PolicyRollouts,
        sync: WeightSync,
        bound: int,
        *,
        last: float,
        reducer: Reducer = ALONE,
    ) -> None:
        self._rollouts = rollouts
        self._sync = sync
        self._bound = bound
        self._last = last
        self._reducer = reducer
        self._failed: BaseException | None = None
        self._next = 1
        self._drawn = 0
        self._offered: dict[int, Snapshot] = {}
        self._pending: dict[int, Future[Collection]] = {}
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._begun: Future[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="rollouts ahead", daemon=True)
        self._thread.start()

    def start(self, done: int, tasks_drawn: int, held: Mapping[int, Snapshot]) -> None:
        """Stand behind so many iterations, and play what was under way there again."""
        self._drawn = tasks_drawn
        self._next = done + 1
        self._offered = dict(held)
        while self._next <= done + self._bound and self._weights_of(self._next) in held:
            self._submit(self._next)

    def offer(self, done: int, snapshot: Snapshot) -> None:
        """Play what these weights were waited for, and whatever still waits for none."""
        self._offered[done] = snapshot
        while self._next <= done + 1 + self._bound:
            self._submit(self._next)

    def take(self, number: int) -> Collection:
        """Wait for the iteration's trajectories."""
        collection = self._pending.pop(number).result()
        needed = self._weights_of(number + 1)
        self._offered = {done: kept for done, kept in self._offered.items() if done >= needed}
        return collection

    def evaluation(self, snapshot: Snapshot, *, final: bool) -> Outcomes:
        """Play the tasks that are watched, after what is under way."""
        if final:
            self._begin_nothing_more()

        def work() -> Outcomes:
            self._sync.load(snapshot)
            return self._rollouts.evaluation(final=final)

        return self._later(work).result()

    def held(self, done: int) -> dict[int, Snapshot]:
        """The weights of the iterations that are under way behind so many that are done."""
        wanted = {self._weights_of(number) for number in range(done + 1, done + 1 + self._bound)}
        return {done: self._offered[done] for done in sorted(wanted & self._offered.keys())}

    def close(self) -> None:
        """Begin nothing more, and break off what is played now, by closing its engine."""
        self._failed = self._failed or EngineError("rollouts are closed; make another trainer")
        self._drop()
        self._work.put(None)
        if self._begun is not None and not self._begun.done():
            self._rollouts.engine.close()
        self._thread.join(_FAREWELL_S)  # a thread that computes would abort a process that ends

    def _weights_of(self, number: int) -> int:
        """How many iterations made the weights that an iteration is played with."""
        return max(0, number - 1 - self._bound)

    def _submit(self, number: int) -> None:
        # weights that no checkpoint held are replaced by the oldest that there are
        least = min(done for done in self._offered if done >= self._weights_of(number))
        snapshot = self._offered[least]
        self._next = number + 1
        if number > self._last:
            return

        def work() -> Collection:
            self._sync.load(snapshot)
            collection = self._rollouts.iteration(number, self._drawn)
            self._drawn += collection.groups
            return collection

        self._pending[number] = self._later(work)

    def _later(self, work: Callable[[], _Result]) -> Future[_Result]:
        done: Future[_Result] = Future()

        def run() -> None:
            self._begun = done
            if not done.set_running_or_notify_cancel():
                return
            try:
                if self._failed is not None:
                    raise self._failed
                done.set_result(work())
            except BaseException as error:  # belongs to whoever waits for it
                if self._reducer is not ALONE:  # the others wait where this one left
                    self._failed = error
                done.set_exception(error)

        self._work.put(run)
        return done

    def _begin_nothing_more(self) -> None:
        """Play what any rank has begun, since it waits for the others there, and no more."""
        numbers = list(self._pending)
        dropped = self._drop()
        begun_here = max((number for number in numbers if number not in dropped), default=0)
        begun = self._reducer.most(begun_here)
        for number in dropped:
            if number <= begun:
                self._submit(number)

    def _drop(self) -> list[int]:
        """Let go what is not begun; its numbers in order."""
        # the last first, so that none is passed over by what the thread begins meanwhile
        waiting = reversed(self._pending.items())
        dropped = [number for number, future in waiting if future.cancel()]
        self._pending.clear()
        return dropped[::-1]

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

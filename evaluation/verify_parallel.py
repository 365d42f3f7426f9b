"""Replaying in several processes: each has its share of the episodes and tells one by one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from agentgym_suite.errors import AgentGymSuiteError, RunError
from agentgym_suite.evaluation.verify_steps import Replayed, ReplayPart, replay_part


def replay_parts(parts: Sequence[ReplayPart]) -> Iterator[Replayed]:
    """Replay every part in a process of its own; the episodes come as they are done.

    Raises:
        RunError: a process ended before its part.
        AgentGymSuiteError: what a part raised.
    """
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that threads hold
    processes: list[BaseProcess] = []
    open_ends: list[Connection] = []
    try:
        for part in parts:
            here, there = context.Pipe(duplex=False)
            processes.append(context.Process(target=_tell, args=(part, there), daemon=True))
            processes[-1].start()
            there.close()  # the end of a process that dies is then seen here
            open_ends.append(here)
        yield from _told(open_ends)
    finally:
        for process in processes:
            process.terminate()
            process.join()
        for end in open_ends:
            end.close()


def _told(open_ends: Sequence[Connection]) -> Iterator[Replayed]:
    waiting = list(open_ends)
    while waiting:
        for end in wait(waiting):
            if not isinstance(end, Connection):
                continue
            try:
                told = end.recv()
            except EOFError as error:
                raise RunError(
                    "a process that replayed ended early; verify again with --jobs 1"
                ) from error
            if isinstance(told, Replayed):
                yield told
            elif isinstance(told, BaseException):
                raise told
            else:
                waiting.remove(end)


def _tell(part: ReplayPart, there: Connection) -> None:
    """What a process does: each episode, then None; or the error that it met."""
    try:
        for replayed in replay_part(part):
            there.send(replayed)
    except (AgentGymSuiteError, OSError) as error:
        there.send(error)
        return
    there.send(None)

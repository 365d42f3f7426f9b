"""A small group of trajectories in a kitchen, and analyzers that say what a test has them say."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_suite.errors import AnalyzerError
from agentgym_suite.trainers.analyzer import AnalyzerReply
from agentgym_suite.trainers.analyzer_prompts import AnalyzerRequest
from agentgym_suite.trainers.trajectory_traces import Trace, TraceGroup, TraceStep

TASK = "put a clean mug on the desk"
LONG = "The shelf 1 holds\n\t a mug 1. " + "dust " * 400 + "Far behind lies a key 7."


def step(pre: str, action: str, post: str, *, valid: bool = True, done: bool = False) -> TraceStep:
    return TraceStep(pre, action, post, valid, done)


def trace(uid: str, *steps: TraceStep) -> Trace:
    return Trace(uid, TASK, steps)


def group(
    successes: Sequence[float] = (1.0, 1.0, 0.0), rewards: Sequence[float] = ()
) -> TraceGroup:
    """Two successes and a failure; the first success refuses one action and has one long text."""
    first = trace(
        "a",
        step("You are in the kitchen.", "go to shelf 1", LONG),
        step(LONG, "juggle mug 1", "Nothing happens.", valid=False),
        step(LONG, "take mug 1 from shelf 1", "You pick up the mug 1."),
        step("You pick up the mug 1.", "move mug 1 to desk 2", "You put it down.", done=True),
    )
    second = trace(
        "b",
        step("You are in the kitchen.", "take mug 1 from shelf 1", "You pick up the mug 1."),
        step("You pick up the mug 1.", "clean mug 1 with sink 1", "The mug 1 is clean.", done=True),
    )
    failure = trace(
        "c",
        step("You are in the kitchen.", "look", "You are in the kitchen."),
        step("You are in the kitchen.", "go to desk 2", "On the desk 2 is a mug 1.", done=True),
    )
    traces = (first, second, failure)
    return TraceGroup("g", traces, tuple(successes), tuple(rewards or successes))


def source(uid: str = "a", number: Any = 0, **changed: Any) -> dict[str, Any]:
    fields = {
        "traj_uid": uid,
        "step": number,
        "action_quote": "go to shelf 1",
        "pre_quote": "in the kitchen",
        "post_quote": "",
    }
    return fields | changed


def mug(uid: str) -> dict[str, Any]:
    """A source for taking the mug, in ``a`` or ``b``."""
    number = {"a": 2, "b": 0}[uid]
    return source(uid, number, action_quote="take mug 1", pre_quote="", post_quote="pick up")


def item(*sources: Any, **changed: Any) -> dict[str, Any]:
    return {
        "evidence_id": "e1",
        "kind": "requirement",
        "statement": "The mug has to be taken first.",
        "sources": list(sources),
    } | changed


def hint(*ids: Any, **changed: Any) -> dict[str, Any]:
    return {
        "statement": "Take the mug 1 that you saw.",
        "evidence_ids": list(ids),
        "target_support": [{"field": "post", "step": 1, "quote": "a mug 1"}],
    } | changed


def target(uid: str, *hints: Any, **changed: Any) -> dict[str, Any]:
    return {"traj_uid": uid, "guidance": list(hints)} | changed


class Scripted:
    """Gives replies in order, one list for each kind of request; keeps what it was asked."""

    label = "scripted"

    def __init__(self, **replies: Any) -> None:
        self._replies = {kind: list(said) for kind, said in replies.items()}
        self.asked: list[AnalyzerRequest] = []
        self._lock = threading.Lock()

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        with self._lock:
            self.asked.append(request)
            said = self._replies[request.kind]
            answer = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, AnalyzerReply):
            return answer
        return AnalyzerReply(answer if isinstance(answer, str) else json.dumps(answer))

    def close(self) -> None:
        """Nothing is held."""


def scripted(evidence: Sequence[Any], targets: Sequence[Any]) -> Scripted:
    return Scripted(extraction=[{"evidence": evidence}], alignment=[{"targets": targets}])


def down() -> AnalyzerError:
    return AnalyzerError("connection", "the analyzer is not there; start it")


def payload(request: AnalyzerRequest) -> Mapping[str, Any]:
    """The payload as the analyzer reads it."""
    read: Mapping[str, Any] = json.loads(request.content)
    return read

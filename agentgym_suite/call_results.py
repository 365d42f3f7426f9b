"""What becomes of the calls of one action: which are refused, which may be executed.

Environments whose action is one call a line share these rules. Lines are taken in their order; a
call over the limit of a step, or behind the call that ends the episode, is refused with feedback
and never dropped silently. However many lines an action has, only so many refused ones of a kind
are told one by one as calls are allowed in a step; the rest of that kind share one result.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from agentgym_suite.calls import Call, Malformed, format_calls, parse_calls
from agentgym_suite.files import canonical_json

Status = Literal[
    "ok",
    "empty",
    "repeated",
    "malformed",
    "unknown_id",
    "already_expanded",
    "over_limit",
    "after_end",
]
EXECUTED: frozenset[Status] = frozenset(("ok", "empty"))
"""The statuses of calls that did what they say; ``empty`` found nothing."""

_DIGITS = 12  # sums of tenths are told as tenths
_SHOWN_CHARACTERS = 80

_NOT_SHOWN: Mapping[Status, str] = {
    "malformed": "malformed",
    "over_limit": "refused: they exceed the calls of this step",
    "after_end": "refused: the episode has ended",
}


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one line of an action did.

    Attributes:
        line: the line's number among the lines that are not blank, from 1.
        name: the call's name, "" of a malformed line.
        argument: its argument; the whole line of a malformed one.
        status: one of ``Status``.
        reward: its part of the step's reward.
        new_ids: what it found that was not known before.
        message: what the policy is told, one sentence; "" where there is nothing to tell.
    """

    line: int
    name: str
    argument: str
    status: Status
    reward: float = 0.0
    new_ids: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A well-formed call that may be executed."""

    line: int
    name: str
    argument: str

    def result(
        self,
        status: Status,
        reward: float = 0.0,
        new_ids: Sequence[str] = (),
        message: str = "",
    ) -> CallResult:
        """What executing it, or refusing it after all, gave."""
        return CallResult(
            self.line, self.name, self.argument, status, reward, tuple(new_ids), message
        )


@dataclass(frozen=True, slots=True)
class CallRules:
    """The calls of an environment and how many of them one step may hold.

    Attributes:
        longest: the legal calls, each with the most characters of its argument.
        counted: the calls that use up the limit of a step.
        argued: the calls whose argument must not be blank.
        ending: the calls that end the episode.
        counted_as: what people call the counted ones, such as ``searches``.
    """

    longest: Mapping[str, int]
    counted: frozenset[str]
    argued: frozenset[str]
    ending: frozenset[str]
    counted_as: str = "calls"


@dataclass(frozen=True, slots=True)
class CallPlan:
    """The lines of one action, refused already or to be executed.

    Attributes:
        lines: in their order, at last those that stand for several lines.
        parsed_action: the action in canonical form; planned again, it gives the same plan.
        recognised: whether any line is a call at all, refused or not.
        malformed: how many lines are malformed, told one by one or not.
        refused: how many well-formed lines are over the limit or after the end.
    """

    lines: tuple[CallResult | PendingCall, ...]
    parsed_action: str
    recognised: bool
    malformed: int
    refused: int

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that may be executed, in their order."""
        return tuple(line for line in self.lines if isinstance(line, PendingCall))


@dataclass(frozen=True, slots=True)
class Played:
    """What one action did: its reward, why it is invalid ("" if it is not), its canonical form."""

    reward: float
    error: str
    parsed_action: str


def plan_calls(action: str, rules: CallRules, max_calls: int, *, closed: str = "") -> CallPlan:
    """Read an action and refuse what may not be executed.

    Args:
        action: any text.
        rules: the calls there are.
        max_calls: how many counted calls one step may hold.
        closed: why this step takes no counted call at all; "" if it does.

    Returns:
        A plan of at most ``max_calls`` counted calls and at most ``max_calls + 1`` refused lines
        of a kind, whatever the length of the action.
    """
    read = _lines(action, rules)
    parsed = [_argued(call, rules) for call in read]
    allowed = 0 if closed else max_calls
    why = closed or f"at most {max_calls} {rules.counted_as} per step"
    lines: list[CallResult | PendingCall] = []
    seen: Counter[Status] = Counter()
    first_untold: dict[Status, int] = {}
    refusals = _refusals(parsed, rules, allowed, why)
    for line, (call, refusal) in enumerate(zip(parsed, refusals, strict=True), 1):
        if refusal is None and isinstance(call, Call):
            lines.append(PendingCall(line, call.name, call.argument))
        elif refusal is not None:
            status, message = refusal
            seen[status] += 1
            if seen[status] <= max_calls:
                lines.append(_refused(line, call, status, message))
            else:
                first_untold.setdefault(status, line)
    for status, line in first_untold.items():
        told = f"{seen[status] - max_calls:,} more lines are {_NOT_SHOWN[status]}"
        lines.append(CallResult(line, "", "", status, message=told))
    return CallPlan(
        lines=tuple(lines),
        parsed_action=format_calls(parsed),
        recognised=any(isinstance(call, Call) for call in read),
        malformed=seen["malformed"],
        refused=seen["over_limit"] + seen["after_end"],
    )


def settle(results: Sequence[CallResult], parsed_action: str) -> Played:
    """What an action did in all: it is valid when any of its calls was executed."""
    valid = any(result.status in EXECUTED for result in results)
    return Played(
        reward=total_reward(result.reward for result in results),
        error="" if valid else first_fault(results),
        parsed_action=parsed_action,
    )


def first_fault(results: Iterable[CallResult]) -> str:
    """Why an action is invalid: the message of its first line that was not executed."""
    return next((r.message for r in results if r.status not in EXECUTED), "")


def messages_of(results: Iterable[CallResult], most: int = 3) -> tuple[str, ...]:
    """What the policy is told of its last action: the last few messages there are."""
    return tuple(result.message for result in results if result.message)[-most:]


def results_json(results: Iterable[CallResult]) -> str:
    """The results as one JSON list of objects, for ``info``."""
    return canonical_json([asdict(result) for result in results])


def total_reward(parts: Iterable[float]) -> float:
    """The sum of parts, without the last digits that adding tenths leaves."""
    return round(math.fsum(parts), _DIGITS)


def format_paid(done: int, each: float, cap: float | None) -> float:
    """The format reward of the next call, after so many that were paid or could have been.

    Args:
        done: how many those are.
        each: what a call is paid.
        cap: the most that all calls together are paid; None for no bound.
    """
    totals = [many * each if cap is None else min(many * each, cap) for many in (done, done + 1)]
    return round(totals[1] - totals[0], _DIGITS)


def spelling(text: str) -> str:
    """Text without differences of form: NFKC, single blanks."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def query_key(query: str) -> str:
    """What two queries have in common that count as the same."""
    return spelling(query).casefold()


def quoted(argument: str) -> str:
    """An argument as messages show it: in quotes, and cut where it is long."""
    long = len(argument) > _SHOWN_CHARACTERS
    return f"'{argument[: _SHOWN_CHARACTERS - 1]}…'" if long else f"'{argument}'"


def _lines(action: str, rules: CallRules) -> list[Call | Malformed]:
    parsed = parse_calls(action, names=rules.longest, limits=rules.longest)
    legal = " or ".join(f"{name}[…]" for name in rules.longest)
    return parsed or [Malformed("", f"the action is empty; write {legal}")]


def _argued(call: Call | Malformed, rules: CallRules) -> Call | Malformed:
    if isinstance(call, Call) and not call.argument and call.name in rules.argued:
        return Malformed(
            f"{call.name}[]", f"{call.name}[] is empty; put words between the brackets"
        )
    return call


def _refusals(
    parsed: Sequence[Call | Malformed], rules: CallRules, allowed: int, why: str
) -> Iterator[tuple[Status, str] | None]:
    """For each line as what it is refused, and the message; None for a call to be executed.

    Args:
        parsed: the lines.
        rules: the calls there are.
        allowed: how many counted calls may be executed.
        why: the reason why no more may.
    """
    end = _ending(parsed, rules)
    counted = sum(isinstance(c, Call) and c.name in rules.counted for c in parsed[:end])
    number = 0
    for line, call in enumerate(parsed, 1):
        if line > end:
            yield "after_end", f"line {line} refused: the episode has ended"
        elif isinstance(call, Malformed):
            yield "malformed", call.reason
        elif call.name in rules.counted and (number := number + 1) > allowed:
            yield "over_limit", f"call {number} of {counted} refused: {why}"
        else:
            yield None


def _ending(parsed: Sequence[Call | Malformed], rules: CallRules) -> int:
    """The number of the line that ends the episode; that of the last line if none does."""
    for line, call in enumerate(parsed, 1):
        if isinstance(call, Call) and call.name in rules.ending:
            return line
    return len(parsed)


def _refused(line: int, call: Call | Malformed, status: Status, message: str) -> CallResult:
    if isinstance(call, Call):
        return CallResult(line, call.name, call.argument, status, message=message)
    return CallResult(line, "", call.text, status, message=message)

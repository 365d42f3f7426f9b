"""What an analyzer answered, read and checked: every field, every bound, every quote.

A reply is text of a language model. One without a usable JSON object is an ``AnalyzerError`` with
a category; inside a usable one each wrong item is discarded and counted, and nothing raises.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from agentgym_suite.errors import AnalyzerError
from agentgym_suite.spaces import without_surrogates
from agentgym_suite.trainers.trajectory_traces import Trace, TraceGroup, supports

MOST_STATEMENT_CHARACTERS = 800
MOST_CANDIDATES = 8
"""How many guidance candidates of a target are looked at; what comes behind is not."""

KINDS = ("requirement", "progress", "constraint", "alternative")
FIELDS = ("task", "pre", "action", "post")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a piece of evidence stands: a step of a success, with verbatim quotes."""

    traj_uid: str
    step: int
    action_quote: str
    pre_quote: str = ""
    post_quote: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One statement that successes of the group support.

    Attributes:
        evidence_id: names it within the reply.
        kind: one of ``KINDS``.
        statement: 1 to 800 characters.
        sources: those whose quotes the records support, at least one.
    """

    evidence_id: str
    kind: str
    statement: str
    sources: tuple[Source, ...]

    def apart_from(self, traj_uid: str) -> tuple[Source, ...]:
        """The sources that are other trajectories than this one."""
        return tuple(source for source in self.sources if source.traj_uid != traj_uid)


@dataclass(frozen=True, slots=True)
class Support:
    """Where a target's own record bears a piece of guidance out; ``step`` is -1 for the task."""

    field: str
    quote: str
    step: int = -1


@dataclass(frozen=True, slots=True)
class Guidance:
    """One statement that applies to a target, with the evidence and the target's text."""

    statement: str
    evidence_ids: tuple[str, ...]
    support: tuple[Support, ...]


@dataclass(frozen=True, slots=True)
class TargetGuidance:
    """What was accepted for one target; ``abstain_reason`` is the analyzer's, if it gave one."""

    traj_uid: str
    guidance: tuple[Guidance, ...] = ()
    abstain_reason: str = ""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The accepted evidence, and how often each rule discarded something."""

    evidence: tuple[Evidence, ...]
    discarded: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Alignment:
    """What was accepted for each target by name, and how often each rule discarded something."""

    targets: Mapping[str, TargetGuidance]
    discarded: Mapping[str, int]


class _WrongType(Exception):
    """An item whose fields are not of the schema's types."""


def parse_reply_object(
    content: str, *, reasoning: str = "", cut_off: bool = False
) -> dict[str, Any]:
    """The JSON object of a reply: alone, in a fence, or within other text.

    Args:
        content: the reply's text.
        reasoning: what the model wrote beside it, if the endpoint tells.
        cut_off: whether the reply ended at its token bound.

    Raises:
        AnalyzerError: ``empty_content``, ``reasoning_only``, ``truncated_json``, ``invalid_json``
            or ``no_object``.
    """
    text = content.strip()
    if not text:
        if reasoning.strip():
            raise AnalyzerError("reasoning_only", "the analyzer reasoned and answered nothing")
        raise AnalyzerError("empty_content", "the analyzer answered nothing")
    _refuse_other_json(text)
    start = text.find("{")
    if start < 0:
        raise AnalyzerError("no_object", "the analyzer's answer has no JSON object")
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if cut_off or not _is_closed(text, start):
            raise AnalyzerError(
                "truncated_json", "the analyzer's JSON object has no end"
            ) from error
        raise AnalyzerError(
            "invalid_json", f"the analyzer's answer is no JSON ({error.msg})"
        ) from error
    except (ValueError, RecursionError) as error:
        raise AnalyzerError(
            "invalid_json", f"the analyzer's JSON cannot be read ({type(error).__name__})"
        ) from error
    found: dict[str, Any] = value
    return found


def _refuse_other_json(text: str) -> None:
    """An answer that is JSON as a whole and no object is none, whatever stands in it."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(value, dict):
        raise AnalyzerError(
            "no_object", f"the analyzer's answer is a JSON {type(value).__name__}, no object"
        )


def _is_closed(text: str, start: int) -> bool:
    """Whether the brackets that open at ``start`` are closed again, strings left out."""
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 0:
            return True
    return False


def _no_such_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]]', re.DOTALL)
_DECODER = json.JSONDecoder(parse_constant=_no_such_number)


def read_extraction(reply: Mapping[str, Any], group: TraceGroup) -> Extraction:
    """The evidence of an extraction reply that the group's successes support.

    Raises:
        AnalyzerError: ``wrong_shape``: there is no list of evidence.
    """
    items = _list_of(reply, "evidence")
    successes = {trace.traj_uid: trace for trace in group.successes}
    accepted: dict[str, Evidence] = {}
    discarded: Counter[str] = Counter()
    for item in items:
        try:
            evidence = _evidence(item, successes, discarded)
        except _WrongType:
            discarded["wrong_type"] += 1
            continue
        if not evidence.evidence_id:
            discarded["empty_id"] += 1
        elif evidence.evidence_id in accepted:
            discarded["repeated_id"] += 1
        elif not _is_statement(evidence.statement):
            discarded["statement_length"] += 1
        elif not evidence.sources:
            discarded["no_source"] += 1
        else:
            accepted[evidence.evidence_id] = evidence
    return Extraction(tuple(accepted.values()), dict(+discarded))


def _evidence(item: Any, successes: Mapping[str, Trace], discarded: Counter[str]) -> Evidence:
    fields = _object(item)
    kind = _text(fields, "kind", "")
    sources = [_source(one) for one in _list(fields, "sources")]
    read = [_supported(one, successes.get(one.traj_uid)) for one in sources]
    supported = [one for one in read if one is not None]
    discarded["unsupported_source"] += len(sources) - len(supported)
    return Evidence(
        _text(fields, "evidence_id").strip(),
        kind if kind in KINDS else "progress",
        _text(fields, "statement").strip(),
        tuple(supported),
    )


def _source(item: Any) -> Source:
    fields = _object(item)
    return Source(
        _text(fields, "traj_uid"),
        _integer(fields, "step"),
        _text(fields, "action_quote"),
        _text(fields, "pre_quote", ""),
        _text(fields, "post_quote", ""),
    )


def _supported(source: Source, trace: Trace | None) -> Source | None:
    """The reference without a quote that the record does not have; None where it has none."""
    if trace is None or not 0 <= source.step < len(trace.steps):
        return None
    step = trace.steps[source.step]
    before = source.pre_quote if supports(step.pre, source.pre_quote) else ""
    behind = source.post_quote if supports(step.post, source.post_quote) else ""
    if not (step.valid and supports(step.action, source.action_quote) and (before or behind)):
        return None
    return replace(source, pre_quote=before, post_quote=behind)


def read_alignment(
    reply: Mapping[str, Any],
    targets: Sequence[Trace],
    allowed: Mapping[str, frozenset[str]],
) -> Alignment:
    """The guidance of an alignment reply that evidence and each target's own record support.

    Args:
        reply: what the analyzer answered.
        targets: the trajectories that were sent.
        allowed: for each target, the ids of the evidence that it was sent.

    Raises:
        AnalyzerError: ``wrong_shape``: there is no list of targets.
    """
    traces = {trace.traj_uid: trace for trace in targets}
    accepted: dict[str, TargetGuidance] = {}
    discarded: Counter[str] = Counter()
    for entry in _list_of(reply, "targets"):
        uid = entry.get("traj_uid") if isinstance(entry, dict) else None
        trace = traces.get(uid) if isinstance(uid, str) else None
        if trace is None:
            discarded["unknown_target"] += 1
        elif trace.traj_uid in accepted:
            discarded["repeated_target"] += 1
        else:
            ids = allowed.get(trace.traj_uid, frozenset())
            accepted[trace.traj_uid] = _target(entry, trace, ids, discarded)
    return Alignment(accepted, dict(+discarded))


def _target(
    entry: Any, trace: Trace, allowed: frozenset[str], discarded: Counter[str]
) -> TargetGuidance:
    try:
        candidates = _list(entry, "guidance")
        abstained = _text(entry, "abstain_reason", "")[:MOST_STATEMENT_CHARACTERS]
    except _WrongType:
        discarded["wrong_type"] += 1
        return TargetGuidance(trace.traj_uid)
    discarded["over_candidates"] += max(0, len(candidates) - MOST_CANDIDATES)
    accepted: list[Guidance] = []
    for candidate in candidates[:MOST_CANDIDATES]:
        try:
            guidance = _guidance(candidate, trace)
        except _WrongType:
            discarded["wrong_type"] += 1
            continue
        if not _is_statement(guidance.statement):
            discarded["statement_length"] += 1
        elif not guidance.evidence_ids or not allowed.issuperset(guidance.evidence_ids):
            discarded["evidence_not_allowed"] += 1
        elif not guidance.support:
            discarded["no_target_support"] += 1
        else:
            accepted.append(guidance)
    return TargetGuidance(trace.traj_uid, tuple(accepted), abstained)


def _guidance(item: Any, trace: Trace) -> Guidance:
    fields = _object(item)
    ids = [_checked(one) for one in _list(fields, "evidence_ids")]
    support = [_support(one) for one in _list(fields, "target_support")]
    return Guidance(
        _text(fields, "statement").strip(),
        tuple(dict.fromkeys(one.strip() for one in ids)),
        tuple(one for one in support if _bears_out(one, trace)),
    )


def _support(item: Any) -> Support:
    fields = _object(item)
    field, quote = _text(fields, "field"), _text(fields, "quote")
    if field == "task" or "step" not in fields:
        return Support(field, quote)
    return Support(field, quote, _integer(fields, "step"))


def _bears_out(support: Support, trace: Trace) -> bool:
    if support.field == "task":
        return supports(trace.task, support.quote)
    if support.field not in FIELDS or not 0 <= support.step < len(trace.steps):
        return False
    step = trace.steps[support.step]
    record = {"pre": step.pre, "action": step.action, "post": step.post}[support.field]
    return supports(record, support.quote)


def _is_statement(text: str) -> bool:
    return 1 <= len(text) <= MOST_STATEMENT_CHARACTERS


def _list_of(reply: Mapping[str, Any], key: str) -> list[Any]:
    items = reply.get(key)
    if not isinstance(items, list):
        raise AnalyzerError("wrong_shape", f"the analyzer's answer has no list {key!r}")
    return items


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongType
    return value


def _list(fields: Mapping[str, Any], key: str) -> list[Any]:
    value = fields.get(key)
    if not isinstance(value, list):
        raise _WrongType
    return value


def _text(fields: Mapping[str, Any], key: str, default: str | None = None) -> str:
    return _checked(fields.get(key, default))


def _checked(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongType
    return without_surrogates(value)


def _integer(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _WrongType
    return value

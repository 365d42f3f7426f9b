"""TASPO's two requests: what a group's successes show, and what of it applies to each attempt.

Source: "Reconciling Process Supervision with Outcome-Based Credit in Agentic Policy Optimization".
The analyzer is frozen and outside of the policy; whatever it answers, training goes on: a
trajectory without accepted guidance has a reason instead, and its steps weigh as in GRPO.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from agentgym_suite.errors import AnalyzerError, UsageError
from agentgym_suite.trainers.analyzer_prompts import (
    AnalyzerRequest,
    RequestKind,
    alignment_request,
    extraction_request,
)
from agentgym_suite.trainers.analyzer_replies import (
    Evidence,
    TargetGuidance,
    parse_reply_object,
    read_alignment,
    read_extraction,
)
from agentgym_suite.trainers.config import AlignMode
from agentgym_suite.trainers.trajectory_traces import TRACE_CHARACTERS, TraceGroup

NoHint = Literal[
    "no_success",
    "uniform_outcome",
    "analyzer_error",
    "no_evidence",
    "no_external_evidence",
    "alignment_abstained",
]
"""Why a trajectory has no guidance."""

LEAST_SPREAD = 1e-8
"""Rewards of a group that differ by no more are uniform: every advantage is 0."""


@dataclass(frozen=True, slots=True)
class AnalyzerReply:
    """What an analyzer answered to one request.

    Attributes:
        content: the text, which should hold one JSON object.
        reasoning: what the model wrote beside it, if the endpoint tells.
        cut_off: whether the reply ended at its token bound.
        prompt_tokens: tokens of the request, 0 where unknown.
        completion_tokens: tokens of the reply, 0 where unknown.
        cached: whether it was answered before.
    """

    content: str
    reasoning: str = ""
    cut_off: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False


class Analyzer(Protocol):
    """Answers requests; threads share one."""

    @property
    def label(self) -> str:
        """What records call it, such as "rules" or the name of a model."""
        ...

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        """The answer to one request.

        Raises:
            AnalyzerError: there is none.
        """
        ...

    def close(self) -> None:
        """Release what the analyzer holds."""
        ...


@dataclass(frozen=True, slots=True)
class AnalyzerSettings:
    """How groups are analyzed.

    Attributes:
        trace_characters: budget of one trajectory in a request; approximate.
        align_mode: one alignment request for a group, or one for each of its targets.
        align_sees_outcome: tell each target's success and reward, as the public code does; the
            paper keeps them out.
        required: raise what the analyzer did wrong, instead of going on without guidance.
        workers: groups under analysis at the same time.

    Raises:
        UsageError: a value is out of its range.
    """

    trace_characters: int = TRACE_CHARACTERS
    align_mode: AlignMode = "per_group"
    align_sees_outcome: bool = False
    required: bool = False
    workers: int = 4

    def __post_init__(self) -> None:
        if self.align_mode not in get_args(AlignMode):
            known = ", ".join(get_args(AlignMode))
            raise UsageError(f"align_mode {self.align_mode!r} does not exist; use {known}")
        if self.workers < 1:
            raise UsageError(f"workers is {self.workers}; give at least 1")
        if self.trace_characters < 1:
            raise UsageError(f"trace_characters is {self.trace_characters}; give at least 1")


@dataclass(frozen=True, slots=True)
class AnalyzerCall:
    """One request that was made, for figures and the audit."""

    kind: RequestKind
    request_digest: str
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True)
class GroupAnalysis:
    """What came of one group.

    Attributes:
        group_uid: the group.
        analyzer: the label of what analyzed it.
        traj_uids: its trajectories, in the group's order.
        evidence: what the successes show.
        guidance: accepted guidance of each target by name.
        no_hint: why each of the other trajectories has none.
        error: the category of what the analyzer did wrong; "" if nothing.
        error_message: the same in one sentence.
        discarded: how often each rule discarded an item.
        calls: the requests that were made.
    """

    group_uid: str
    analyzer: str
    traj_uids: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()
    guidance: Mapping[str, TargetGuidance] = field(default_factory=dict)
    no_hint: Mapping[str, NoHint] = field(default_factory=dict)
    error: str = ""
    error_message: str = ""
    discarded: Mapping[str, int] = field(default_factory=dict)
    calls: tuple[AnalyzerCall, ...] = ()

    def statements(self, traj_uid: str) -> tuple[str, ...]:
        """The accepted statements of a trajectory; () if it has none."""
        target = self.guidance.get(traj_uid)
        return tuple(one.statement for one in target.guidance) if target else ()


def analyze_groups(
    groups: Sequence[TraceGroup], analyzer: Analyzer, settings: AnalyzerSettings | None = None
) -> list[GroupAnalysis]:
    """Analyze the groups of an iteration, several at a time; the order is that of ``groups``.

    Args:
        groups: the trajectories of each task.
        analyzer: what answers.
        settings: how.

    Raises:
        AnalyzerError: the analyzer failed and ``settings.required`` is set.
    """
    chosen = settings or AnalyzerSettings()
    with ThreadPoolExecutor(chosen.workers, thread_name_prefix="analyzer") as pool:
        return list(pool.map(lambda group: analyze_group(group, analyzer, chosen), groups))


def analyze_group(
    group: TraceGroup, analyzer: Analyzer, settings: AnalyzerSettings | None = None
) -> GroupAnalysis:
    """Extract evidence from a group's successes and align it to each of its trajectories.

    Nothing is asked of the analyzer when no trajectory succeeded or all have the same reward.

    Args:
        group: the trajectories of one task.
        analyzer: what answers.
        settings: how.

    Raises:
        AnalyzerError: the analyzer failed and ``settings.required`` is set.
    """
    return _Analysis(group, analyzer, settings or AnalyzerSettings()).result()


class _Analysis:
    """The analysis of one group as it goes on."""

    def __init__(self, group: TraceGroup, analyzer: Analyzer, settings: AnalyzerSettings) -> None:
        self._group = group
        self._analyzer = analyzer
        self._settings = settings
        self._evidence: tuple[Evidence, ...] = ()
        self._discarded: Counter[str] = Counter()
        self._calls: list[AnalyzerCall] = []

    def result(self) -> GroupAnalysis:
        group = self._group
        if not group.successes:
            return self._without("no_success")
        if max(group.rewards) - min(group.rewards) <= LEAST_SPREAD:
            return self._without("uniform_outcome")
        try:
            guidance, no_hint = self._extract_and_align()
        except Exception as error:  # whatever the analyzer does, training goes on
            if self._settings.required:
                raise
            category = error.category if isinstance(error, AnalyzerError) else "exception"
            message = str(error) if isinstance(error, AnalyzerError) else type(error).__name__
            return self._without("analyzer_error", category, message)
        return self._finished(guidance, no_hint)

    def _extract_and_align(self) -> tuple[dict[str, TargetGuidance], dict[str, NoHint]]:
        group, settings = self._group, self._settings
        request = extraction_request(group, settings.trace_characters)
        extraction = read_extraction(self._ask(request), group)
        self._evidence = extraction.evidence
        self._discarded.update(extraction.discarded)
        uids = [trace.traj_uid for trace in group.traces]
        if not extraction.evidence:
            return {}, dict.fromkeys(uids, "no_evidence")
        allowed = {
            uid: external
            for uid in uids
            if (external := tuple(one for one in extraction.evidence if one.apart_from(uid)))
        }
        answered: dict[str, TargetGuidance] = {}
        for targets in self._batches(allowed):
            request = alignment_request(
                group,
                targets,
                settings.trace_characters,
                sees_outcome=settings.align_sees_outcome,
            )
            ids = {
                uid: frozenset(one.evidence_id for one in evidence)
                for uid, evidence in targets.items()
            }
            alignment = read_alignment(self._ask(request), request.traces, ids)
            answered.update(alignment.targets)
            self._discarded.update(alignment.discarded)
        no_hint: dict[str, NoHint] = {
            uid: "alignment_abstained" if uid in allowed else "no_external_evidence"
            for uid in uids
            if uid not in answered or not answered[uid].guidance
        }
        return answered, no_hint

    def _batches(
        self, allowed: Mapping[str, tuple[Evidence, ...]]
    ) -> Iterable[Mapping[str, tuple[Evidence, ...]]]:
        if self._settings.align_mode == "per_target":
            return [{uid: evidence} for uid, evidence in allowed.items()]
        return [allowed] if allowed else []

    def _ask(self, request: AnalyzerRequest) -> dict[str, Any]:
        reply = AnalyzerReply("")
        error = ""
        try:
            reply = self._analyzer.reply(request)
            return parse_reply_object(
                reply.content, reasoning=reply.reasoning, cut_off=reply.cut_off
            )
        except AnalyzerError as raised:
            error = raised.category
            raise
        except Exception:
            error = "exception"
            raise
        finally:
            self._calls.append(
                AnalyzerCall(
                    request.kind,
                    request.digest,
                    error,
                    reply.prompt_tokens,
                    reply.completion_tokens,
                    reply.cached,
                )
            )

    def _without(self, reason: NoHint, error: str = "", message: str = "") -> GroupAnalysis:
        uids = [trace.traj_uid for trace in self._group.traces]
        return self._finished({}, dict.fromkeys(uids, reason), error, message)

    def _finished(
        self,
        guidance: Mapping[str, TargetGuidance],
        no_hint: Mapping[str, NoHint],
        error: str = "",
        message: str = "",
    ) -> GroupAnalysis:
        return GroupAnalysis(
            self._group.group_uid,
            self._analyzer.label,
            tuple(trace.traj_uid for trace in self._group.traces),
            self._evidence,
            guidance,
            no_hint,
            error,
            message,
            dict(self._discarded),
            tuple(self._calls),
        )


def analysis_metrics(analyses: Sequence[GroupAnalysis]) -> dict[str, float]:
    """The figures of an iteration's analyses, by name.

    Args:
        analyses: of all groups.

    Returns:
        ``coverage`` (share of trajectories with guidance; NaN without any), ``calls``,
        ``cache_hits``, ``prompt_tokens``, ``completion_tokens`` (of calls that the cache did not
        answer), ``evidence``, and counts
        ``no_hint/REASON``, ``error/CATEGORY``, ``discarded/RULE`` of what occurred; every reason
        is there.
    """
    trajectories = sum(len(one.traj_uids) for one in analyses)
    covered = sum(bool(one.statements(uid)) for one in analyses for uid in one.traj_uids)
    calls = [call for one in analyses for call in one.calls]
    asked = [call for call in calls if not call.cached]
    figures = {
        "coverage": covered / trajectories if trajectories else math.nan,
        "calls": float(len(calls)),
        "cache_hits": float(sum(call.cached for call in calls)),
        "prompt_tokens": float(sum(call.prompt_tokens for call in asked)),
        "completion_tokens": float(sum(call.completion_tokens for call in asked)),
        "evidence": float(sum(len(one.evidence) for one in analyses)),
    }
    reasons = Counter(reason for one in analyses for reason in one.no_hint.values())
    errors = Counter(one.error for one in analyses if one.error)
    discarded: Counter[str] = Counter()
    for one in analyses:
        discarded.update(one.discarded)
    figures |= {f"no_hint/{reason}": float(reasons[reason]) for reason in get_args(NoHint)}
    figures |= {f"error/{category}": float(n) for category, n in sorted(errors.items())}
    return figures | {f"discarded/{rule}": float(n) for rule, n in sorted(discarded.items())}

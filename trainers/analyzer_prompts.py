"""What an analyzer is told and shown: instructions, payloads and reply schemas of both requests.

The payload of an alignment has no outcome of its targets: it is made of traces, which hold none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from agentgym_suite.files import Json, canonical_json, json_digest
from agentgym_suite.trainers.analyzer_replies import (
    FIELDS,
    KINDS,
    MOST_CANDIDATES,
    MOST_STATEMENT_CHARACTERS,
    Evidence,
    Source,
)
from agentgym_suite.trainers.trajectory_traces import (
    TRACE_CHARACTERS,
    Trace,
    TraceGroup,
    compact_trace,
)

PROMPT_VERSION = 1
"""Raised with any change of wording or payload; part of every request's digest."""

RequestKind = Literal["extraction", "alignment"]

_STATEMENT: Json = {"type": "string", "minLength": 1, "maxLength": MOST_STATEMENT_CHARACTERS}
_TEXT: Json = {"type": "string"}


def _list_schema(items: Json, least: int = 0) -> dict[str, Json]:
    bound: dict[str, Json] = {"minItems": least} if least else {}
    return {"type": "array", "items": items} | bound


def _object_schema(required: Sequence[str], properties: Mapping[str, Json]) -> dict[str, Json]:
    return {"type": "object", "required": list(required), "properties": properties}


EXTRACTION_SCHEMA: Mapping[str, Json] = _object_schema(
    ["evidence"],
    {
        "evidence": _list_schema(
            _object_schema(
                ["evidence_id", "statement", "sources"],
                {
                    "evidence_id": {"type": "string", "minLength": 1},
                    "kind": {"enum": list(KINDS)},
                    "statement": _STATEMENT,
                    "sources": _list_schema(
                        _object_schema(
                            ["traj_uid", "step", "action_quote"],
                            {
                                "traj_uid": _TEXT,
                                "step": {"type": "integer"},
                                "pre_quote": _TEXT,
                                "action_quote": _TEXT,
                                "post_quote": _TEXT,
                            },
                        ),
                        1,
                    ),
                },
            )
        )
    },
)
"""JSON schema of an extraction's reply."""

ALIGNMENT_SCHEMA: Mapping[str, Json] = _object_schema(
    ["targets"],
    {
        "targets": _list_schema(
            _object_schema(
                ["traj_uid", "guidance"],
                {
                    "traj_uid": _TEXT,
                    "abstain_reason": _TEXT,
                    "guidance": _list_schema(
                        _object_schema(
                            ["statement", "evidence_ids", "target_support"],
                            {
                                "statement": _STATEMENT,
                                "evidence_ids": _list_schema(_TEXT, 1),
                                "target_support": _list_schema(
                                    _object_schema(
                                        ["field", "quote"],
                                        {
                                            "step": {"type": "integer"},
                                            "field": {"enum": list(FIELDS)},
                                            "quote": {"type": "string", "minLength": 1},
                                        },
                                    ),
                                    1,
                                ),
                            },
                        )
                    ),
                },
            )
        )
    },
)
"""JSON schema of an alignment's reply."""

_EXTRACTION_RULES = """\
You study recorded attempts of an agent at one task. Every attempt you are given succeeded, and
nothing but these attempts counts as evidence.

Write down what they show about the task:
- what the task requires, what must hold before an action works, which order matters, which limits
  apply, and where the attempts show that several ways work (kind: requirement, progress,
  constraint, alternative);
- say what is needed, never one fixed plan of actions;
- for each statement name its sources: the attempt, the number of the step, the words of an action
  that was accepted there, and words of the observation before it (pre_quote) or after it
  (post_quote);
- quotes are short and copied letter by letter; none may reach over " ... ", which stands where a
  long text was cut;
- give no scores and no weights;
- leave out whatever you are unsure of; few statements, or none, are a good answer.
"""

_ALIGNMENT_RULES = """\
You are given further attempts of an agent at one task (targets), each with the evidence that may be
used for it. For every target, pick what would help this attempt, and word it for this attempt:
- use the allowed evidence of that target and nothing else;
- keep what fits the states that this attempt reached and the actions that it took; evidence from a
  good attempt may not apply to this one;
- attempts that succeed and attempts that fail both have good and bad steps, so judge each step by
  what is recorded there;
- for each piece of guidance cite the ids of its evidence and words of the target itself: its task,
  or the pre, action or post of one numbered step, copied letter by letter and never over " ... ";
- invent no observation and do not tell what would have happened otherwise;
- give no scores and no weights;
- if you are unsure, give an empty list and say why in abstain_reason;
- at most {candidates} pieces of guidance for a target are read.
"""

_SEES_OUTCOME = """\
Each target tells whether it succeeded and its reward; look at that outcome first.
"""

_ANSWER = "Answer with one JSON object and nothing else. Its schema:\n"


@dataclass(frozen=True)
class AnalyzerRequest:
    """One request to an analyzer.

    Attributes:
        kind: extraction or alignment.
        instructions: the system message.
        payload: the user message, as JSON.
        traces: the full records behind the payload: the successes, or the targets.
        allowed: for an alignment, the evidence of each target with the sources it may see.
    """

    kind: RequestKind
    instructions: str
    payload: Mapping[str, Json]
    traces: tuple[Trace, ...] = field(repr=False)
    allowed: Mapping[str, tuple[Evidence, ...]] = field(default_factory=dict, repr=False)

    @property
    def content(self) -> str:
        """The user message: the payload's one JSON text."""
        return canonical_json(self.payload)

    @cached_property
    def digest(self) -> str:
        """``sha256:<hex>`` of what the analyzer is told and shown."""
        return json_digest([PROMPT_VERSION, self.kind, self.instructions, self.payload])


def extraction_request(group: TraceGroup, characters: int = TRACE_CHARACTERS) -> AnalyzerRequest:
    """The request for what a group's verified successes show.

    Args:
        group: the trajectories of one task.
        characters: the budget of one trajectory.
    """
    successes = group.successes
    payload: dict[str, Json] = {
        "group_uid": group.group_uid,
        "successful_trajectories": [
            compact_trace(trace, characters, with_done=True) for trace in successes
        ],
    }
    instructions = _EXTRACTION_RULES + "\n" + _ANSWER + canonical_json(EXTRACTION_SCHEMA)
    return AnalyzerRequest("extraction", instructions, payload, successes)


def alignment_request(
    group: TraceGroup,
    allowed: Mapping[str, Sequence[Evidence]],
    characters: int = TRACE_CHARACTERS,
    *,
    sees_outcome: bool = False,
) -> AnalyzerRequest:
    """The request for what of the evidence applies to each target.

    Args:
        group: the trajectories of one task.
        allowed: the evidence of each target by name; trajectories that are not named, or have
            none, are no targets. A target's own steps are never among the sources shown to it.
        characters: the budget of one trajectory.
        sees_outcome: tell each target's success and reward, as the public code does.
    """
    targets: list[Json] = []
    traces: list[Trace] = []
    shown: dict[str, tuple[Evidence, ...]] = {}
    outcomes = zip(group.traces, group.verified_success, group.rewards, strict=True)
    for trace, success, reward in outcomes:
        evidence = tuple(
            replace(one, sources=external)
            for one in allowed.get(trace.traj_uid, ())
            if (external := one.apart_from(trace.traj_uid))
        )
        if not evidence:
            continue
        target = compact_trace(trace, characters, with_done=False)
        target["allowed_evidence_ids"] = [one.evidence_id for one in evidence]
        target["allowed_evidence"] = [_shown(one) for one in evidence]
        if sees_outcome:
            target |= {"verified_success": success, "episode_reward": reward}
        targets.append(target)
        traces.append(trace)
        shown[trace.traj_uid] = evidence
    rules = _ALIGNMENT_RULES.format(candidates=MOST_CANDIDATES)
    rules += _SEES_OUTCOME if sees_outcome else ""
    instructions = rules + "\n" + _ANSWER + canonical_json(ALIGNMENT_SCHEMA)
    payload: dict[str, Json] = {"group_uid": group.group_uid, "targets": targets}
    return AnalyzerRequest("alignment", instructions, payload, tuple(traces), shown)


def _shown(evidence: Evidence) -> dict[str, Json]:
    return {
        "evidence_id": evidence.evidence_id,
        "kind": evidence.kind,
        "statement": evidence.statement,
        "source_support": [_quotes(source) for source in evidence.sources],
    }


def _quotes(source: Source) -> dict[str, Json]:
    return {
        "pre_quote": source.pre_quote,
        "action_quote": source.action_quote,
        "post_quote": source.post_quote,
    }

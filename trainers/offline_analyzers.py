"""Analyzers without a model: rules, a recording, and none at all. All are deterministic."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym_suite.calls import Call, parse_calls, split_lines
from agentgym_suite.errors import AnalyzerError, DataDamaged, DataMissing
from agentgym_suite.files import make_folder
from agentgym_suite.trainers.analyzer import Analyzer, AnalyzerReply
from agentgym_suite.trainers.analyzer_prompts import AnalyzerRequest
from agentgym_suite.trainers.analyzer_replies import MOST_CANDIDATES, Evidence
from agentgym_suite.trainers.trajectory_traces import Trace, TraceStep, collapsed, shortened

_MOST_ACTION_CHARACTERS = 320  # of a statement
_MOST_QUOTE_CHARACTERS = 160
_LEAST_WORD_CHARACTERS = 4
_NUMBERED_NAME = re.compile(r"[A-Za-z]+ \d+")
_WORD = re.compile(r"\w+")


class NullAnalyzer:
    """Never finds evidence, so that TASPO is GRPO with its own averaging."""

    label = "none"

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        """An empty list."""
        key = "evidence" if request.kind == "extraction" else "targets"
        return AnalyzerReply(json.dumps({key: []}))

    def close(self) -> None:
        """Nothing is held."""


class RuleAnalyzer:
    """Fixed rules in the place of a language model; every record calls it "rules".

    Evidence is every valid action of a success that changed the observation (each call of one that
    has several), one item for each, with all successes that took it as sources. A target gets the
    items whose action was admissible in one of its states, or whose objects all occur in its
    record; those with the most sources first, then those taken earliest.
    """

    label = "rules"

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        """The reply that the rules give, in the form of a model's."""
        reply = _extract(request) if request.kind == "extraction" else _align(request)
        return AnalyzerReply(json.dumps(reply))

    def close(self) -> None:
        """Nothing is held."""


def _extract(request: AnalyzerRequest) -> dict[str, Any]:
    sources: dict[str, list[dict[str, Any]]] = {}
    for trace in request.traces:
        taken = set()
        for index, step in enumerate(trace.steps):
            if not step.valid or collapsed(step.pre) == collapsed(step.post):
                continue
            for call in filter(None, map(collapsed, split_lines(step.action))):
                if call not in taken:
                    taken.add(call)
                    sources.setdefault(call, []).append(_source(trace.traj_uid, index, step, call))
    found = sorted(sources.items(), key=lambda one: min(source["step"] for source in one[1]))
    return {
        "evidence": [
            {
                "evidence_id": f"action-{number}",
                "kind": "progress",
                "statement": _statement(action),
                "sources": cited,
            }
            for number, (action, cited) in enumerate(found)
        ]
    }


def _statement(action: str) -> str:
    shown = shortened(action, _MOST_ACTION_CHARACTERS)
    return f"In a success this action had an effect: {shown}"


def _source(traj_uid: str, index: int, step: TraceStep, call: str) -> dict[str, Any]:
    return {
        "traj_uid": traj_uid,
        "step": index,
        "action_quote": call,
        "pre_quote": collapsed(step.pre)[:_MOST_QUOTE_CHARACTERS],
        "post_quote": collapsed(step.post)[:_MOST_QUOTE_CHARACTERS],
    }


def _align(request: AnalyzerRequest) -> dict[str, Any]:
    return {
        "targets": [
            {
                "traj_uid": trace.traj_uid,
                "guidance": _guidance(trace, request.allowed[trace.traj_uid]),
            }
            for trace in request.traces
        ]
    }


def _guidance(trace: Trace, allowed: Iterable[Evidence]) -> list[dict[str, Any]]:
    record = _Record(trace)
    ranked = sorted(allowed, key=_rank)
    kept: list[dict[str, Any]] = []
    for evidence in ranked:
        support = record.support(evidence.sources[0].action_quote)
        if support is not None:
            kept.append(
                {
                    "statement": evidence.statement,
                    "evidence_ids": [evidence.evidence_id],
                    "target_support": [support],
                }
            )
        if len(kept) == MOST_CANDIDATES:
            break
    return kept


def _rank(evidence: Evidence) -> tuple[int, int, str]:
    first = min(source.step for source in evidence.sources)
    return -len(evidence.sources), first, evidence.evidence_id


class _Record:
    """The record of a target, searched for actions and names."""

    def __init__(self, trace: Trace) -> None:
        self._fields: list[tuple[str, int, str]] = [("task", -1, collapsed(trace.task))]
        self._first_admissible: dict[str, int] = {}
        for index, step in enumerate(trace.steps):
            self._fields += [
                ("pre", index, collapsed(step.pre)),
                ("action", index, collapsed(step.action)),
                ("post", index, collapsed(step.post)),
            ]
            for action in step.admissible:
                self._first_admissible.setdefault(collapsed(action), index)
        self._text = "\n".join(dict.fromkeys(text for _, _, text in self._fields)).lower()

    def support(self, action: str) -> dict[str, Any] | None:
        """Words of the target that bear an action out; None if it does not apply."""
        state = self._first_admissible.get(action)
        if state is not None:
            quote = self._pre(state)[:_MOST_QUOTE_CHARACTERS]
            if quote:
                return {"step": state, "field": "pre", "quote": quote}
        names = names_in(action)
        if not names or any(name.lower() not in self._text for name in names):
            return None
        longest = re.compile(re.escape(max(names, key=len)), re.IGNORECASE)
        for field, index, text in self._fields:
            match = longest.search(text)
            if match is not None:
                place = {} if field == "task" else {"step": index}
                return {"field": field, "quote": match[0]} | place
        return None

    def _pre(self, index: int) -> str:
        return self._fields[1 + 3 * index][2]


def names_in(action: str) -> tuple[str, ...]:
    """The names of the objects of an action.

    Args:
        action: a command such as ``take mug 1 from desk 2``, or calls ``name[argument]``.

    Returns:
        Numbered objects if there are any (``mug 1``, ``desk 2``), else the words of the arguments
        (of the whole text, where there is no call) with at least four characters, else the
        arguments as they are.
    """
    calls = [one.argument for one in parse_calls(action) if isinstance(one, Call)]
    arguments = [collapsed(one) for one in calls] if calls else [collapsed(action)]
    numbered = [] if calls else _NUMBERED_NAME.findall(arguments[0])
    words = [
        word
        for word in chain.from_iterable(map(_WORD.findall, arguments))
        if len(word) >= _LEAST_WORD_CHARACTERS
    ]
    whole = [argument for argument in arguments if argument]
    return tuple(dict.fromkeys(numbered or words or whole))


class CassetteAnalyzer:
    """Gives the replies of a recording, by what was asked; never asks anybody.

    Args:
        path: the JSONL file that a ``RecordingAnalyzer`` wrote.

    Raises:
        DataMissing: there is no such file.
        DataDamaged: a line of it cannot be read.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        if not self._path.is_file():
            raise DataMissing(f"there is no recording {path}; record one, or check the path")
        self._replies: dict[str, AnalyzerReply] = {}
        labels: dict[str, None] = {}
        lines = self._path.read_text(encoding="ascii", errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                self._replies[str(row["request_digest"])] = AnalyzerReply(**row["reply"])
                labels[str(row["analyzer"])] = None
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise DataDamaged(
                    f"line {number} of the recording {path} cannot be read "
                    f"({type(error).__name__}); record it again"
                ) from error
        self._label = f"cassette of {', '.join(labels)}" if labels else "cassette"

    @property
    def label(self) -> str:
        """What was recorded, as "cassette of LABEL"."""
        return self._label

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        """The recorded reply.

        Raises:
            AnalyzerError: ``cassette_miss``: this was never asked.
        """
        try:
            return self._replies[request.digest]
        except KeyError:
            raise AnalyzerError(
                "cassette_miss",
                f"the recording has no reply to the {request.kind} request {request.digest}; "
                "record it with the same traces and version",
            ) from None

    def close(self) -> None:
        """Nothing is held."""


class RecordingAnalyzer:
    """Asks another analyzer and appends each reply to a file for ``CassetteAnalyzer``.

    Args:
        inner: what answers.
        path: the JSONL file; begun if it is not there, else continued.
    """

    def __init__(self, inner: Analyzer, path: Path | str) -> None:
        self._inner = inner
        self._path = Path(path)
        self._lock = threading.Lock()
        make_folder(self._path.parent)

    @property
    def label(self) -> str:
        """The label of what answers."""
        return self._inner.label

    def reply(self, request: AnalyzerRequest) -> AnalyzerReply:
        """The inner analyzer's reply, which is recorded; what it raises is not."""
        reply = self._inner.reply(request)
        row: Mapping[str, Any] = {
            "analyzer": self._inner.label,
            "request_digest": request.digest,
            "reply": asdict(reply),
        }
        line = json.dumps(row, sort_keys=True) + "\n"
        with self._lock, self._path.open("a", encoding="ascii") as stream:
            stream.write(line)
        return reply

    def close(self) -> None:
        """Close what answers."""
        self._inner.close()

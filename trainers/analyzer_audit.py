"""The audit of an iteration: one JSON line a group, with all that was used and why the rest not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentgym_suite.files import make_folder, write_atomic
from agentgym_suite.trainers.analyzer import GroupAnalysis

AUDIT_VERSION = 1


def audit_record(iteration: int, analysis: GroupAnalysis) -> dict[str, Any]:
    """What the audit keeps of one group.

    Args:
        iteration: the number of the update.
        analysis: the group's.

    Returns:
        Label of the analyzer, evidence with its sources' quotes, guidance of each target with
        its quotes and abstain reason, why others have none, errors, discards, calls.
    """
    return {
        "audit_version": AUDIT_VERSION,
        "iteration": iteration,
        "group_uid": analysis.group_uid,
        "analyzer": analysis.analyzer,
        "evidence": [asdict(one) for one in analysis.evidence],
        "targets": [asdict(one) for one in analysis.guidance.values()],
        "no_hint": dict(analysis.no_hint),
        "error": analysis.error,
        "error_message": analysis.error_message,
        "discarded": dict(analysis.discarded),
        "calls": [asdict(call) for call in analysis.calls],
    }


def audit_path(folder: Path, iteration: int) -> Path:
    """Where the audit of an iteration lies in a run's audit folder."""
    return folder / f"iteration-{iteration:06d}.jsonl"


def write_audit(folder: Path, iteration: int, analyses: Sequence[GroupAnalysis]) -> Path:
    """Write an iteration's audit, whole or not at all; a repeated iteration replaces its file.

    Args:
        folder: the run's audit folder; made if it is not there.
        iteration: the number of the update.
        analyses: of all its groups, one line each in this order.

    Raises:
        DataError: the folder cannot be written.
    """
    make_folder(folder)
    lines = [_line(audit_record(iteration, one)) for one in analyses]
    path = audit_path(folder, iteration)
    write_atomic(path, "".join(lines).encode("ascii"))
    return path


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True) + "\n"

"""The folder of a union of suites: what ``union.json`` must hold for it to be found again.

OUT/<suite>/                          the run of one agent, or a folder for each of several
OUT/union.json, union.md, union.html  the summary, made from the runs at any time again
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.schema import json_schema, misfit

UNION_SCHEMA_VERSION = 1
UNION_JSON, UNION_MARKDOWN, UNION_HTML = "union.json", "union.md", "union.html"
UNION_FILES = frozenset({UNION_JSON, UNION_MARKDOWN, UNION_HTML})
ABSENT = "data absent"


class _Member(TypedDict):
    suite: str
    version: int
    digest: str
    status: str
    reason: str
    planned: int
    metric: str


class _Row(TypedDict):
    agent: str
    members: list[_Member]


class _Summary(TypedDict):
    """The fields that are read again; the file holds more."""

    schema_version: int
    id: str
    version: int
    digest: str
    title: str
    rows: list[_Row]


_SCHEMA = json_schema(_Summary, "agentgym_suite union")


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """A suite of a union, as far as its results need it.

    Attributes:
        suite: the suite's id, and the name of its folder.
        version: its version.
        digest: its digest.
        planned: episodes of one run.
        metric: its primary metric.
    """

    suite: str
    version: int
    digest: str
    planned: int
    metric: str


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """A union, as far as its results need it.

    Attributes:
        id: its id.
        version: its version.
        digest: its digest.
        title: one line for people.
        members: its suites, in order.
    """

    id: str
    version: int
    digest: str
    title: str
    members: tuple[PlannedMember, ...]


@dataclass(frozen=True, slots=True)
class StoredUnion:
    """What a folder says of the union that was run there.

    Attributes:
        plan: the union.
        agents: the agents that were to play it.
        absent: suite -> why its data were not there.
    """

    plan: UnionPlan
    agents: tuple[str, ...]
    absent: Mapping[str, str]


def is_union(folder: Path) -> bool:
    """Whether a union of suites was run in a folder."""
    return (folder / UNION_JSON).is_file()


def read_union(folder: Path) -> StoredUnion:
    """The union that was run in a folder.

    Raises:
        RunError: its summary is absent, damaged or of another version.
    """
    path = folder / UNION_JSON
    try:
        summary = json.loads(path.read_bytes())
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); check the path") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not JSON") from error
    version = summary.get("schema_version") if isinstance(summary, dict) else None
    if type(version) is int and version != UNION_SCHEMA_VERSION:
        raise RunError(
            f"{path} has schema version {version}, this version of the suite reads "
            f"{UNION_SCHEMA_VERSION}; use the version of the suite that wrote it"
        )
    fault = misfit(summary, _SCHEMA) or _fault(summary)
    if fault:
        raise _damaged(path, fault)
    found: _Summary = summary
    members = found["rows"][0]["members"]
    plan = UnionPlan(
        found["id"],
        found["version"],
        found["digest"],
        found["title"],
        tuple(
            PlannedMember(m["suite"], m["version"], m["digest"], m["planned"], m["metric"])
            for m in members
        ),
    )
    agents = tuple(row["agent"] for row in found["rows"])
    return StoredUnion(
        plan, agents, {m["suite"]: m["reason"] for m in members if m["status"] == ABSENT}
    )


def _fault(summary: _Summary) -> str:
    if not summary["rows"] or not summary["rows"][0]["members"]:
        return "it names no agent or no suite"
    names = [member["suite"] for member in summary["rows"][0]["members"]]
    if any(Path(name).name != name for name in names):  # no way out of the folder
        return f"its suites are {names!r}"
    return ""


def _damaged(path: Path, fault: str) -> RunError:
    return RunError(
        f"{path} is damaged ({fault}); the command that made it writes it anew, or give the folder "
        "of one of its suites"
    )

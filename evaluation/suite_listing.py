"""What suites and unions there are, and which can be played here: rows for listings."""

from __future__ import annotations

from typing import Any

from agentgym_suite.evaluation.missing_data import absence, absent_data
from agentgym_suite.evaluation.primary_values import metric_of
from agentgym_suite.evaluation.suite_unions import load_union, shipped_unions
from agentgym_suite.evaluation.suites import Suite, load_suite, shipped_suites


def suite_rows() -> list[dict[str, Any]]:
    """The shipped suites, then the unions, as JSON values.

    Each has ``id``, ``version``, ``title``, ``episodes``, ``environments`` (Gymnasium ids),
    ``horizon`` (steps by environment), ``primary``, ``members`` (of a union), ``here`` (whether
    the data are on this machine) and ``get`` (the commands that bring what is absent).
    """
    suites = [load_suite(name) for name in shipped_suites()]
    unions = [load_union(name) for name in shipped_unions()]
    rows = [
        {
            "id": suite.id,
            "version": suite.version,
            "title": suite.title,
            "primary": metric_of(suite),
            "members": [],
            **_played([suite]),
        }
        for suite in suites
    ]
    rows += [
        {
            "id": union.id,
            "version": union.version,
            "title": union.title,
            "primary": "primary",
            "members": [member.id for member in union.members],
            **_played(union.members),
        }
        for union in unions
    ]
    return rows


def absence_here() -> str:
    """Which data the shipped suites miss on this machine and how to get them; "" if none."""
    suites = [load_suite(name) for name in shipped_suites()]
    absent = [one for suite in suites for one in absent_data(suite, {})]
    return absence(absent) if absent else ""


def _played(suites: list[Suite] | tuple[Suite, ...]) -> dict[str, Any]:
    entries = [entry for suite in suites for entry in suite.envs]
    absent = [one for suite in suites for one in absent_data(suite, {})]
    return {
        "episodes": sum(suite.planned for suite in suites),
        "environments": list(dict.fromkeys(entry.id for entry in entries)),
        "horizon": {suite.id: [entry.max_steps for entry in suite.envs] for suite in suites},
        "here": not absent,
        "get": list(dict.fromkeys(one.sentence for one in absent)),
    }

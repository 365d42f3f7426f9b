"""A leaderboard as files: ``leaderboard.json``, ``.md`` and ``.html``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentgym_suite.evaluation.leaderboard import Board, Leaderboard, Row
from agentgym_suite.evaluation.pages import render, render_page
from agentgym_suite.evaluation.reference_rows import PROVENANCES, ReferenceRow
from agentgym_suite.evaluation.results import plain
from agentgym_suite.evaluation.run_directory import write_derived
from agentgym_suite.files import canonical_json, make_folder
from agentgym_suite.spaces import without_surrogates

LEADERBOARD_SCHEMA_VERSION = 2
REFERENCE_TITLE = "Reported elsewhere, not measured here"


def write_leaderboard(out: Path, board: Leaderboard) -> Path:
    """Write the three files; the same bytes for the same runs.

    Returns:
        The path of the page.
    """
    make_folder(out)
    texts = {
        "leaderboard.json": canonical_json(leaderboard_values(board)) + "\n",
        "leaderboard.md": markdown_leaderboard(board),
        "leaderboard.html": html_leaderboard(board),
    }
    for name, text in texts.items():
        write_derived(out / name, without_surrogates(text).encode("utf-8"))
    return out / "leaderboard.html"


def html_leaderboard(board: Leaderboard) -> str:
    """The page: self-contained, without a script."""
    return render_page("leaderboard.html", **_context(board))


def markdown_leaderboard(board: Leaderboard) -> str:
    """The same tables as text."""
    return render("leaderboard.md", **_context(board))


def leaderboard_values(board: Leaderboard) -> dict[str, Any]:
    """The leaderboard as JSON values, numbers rounded to 12 decimals."""
    return {
        "schema_version": LEADERBOARD_SCHEMA_VERSION,
        "boards": [_board_values(one) for one in board.boards],
        "reference": {
            "title": REFERENCE_TITLE,
            "provenances": dict(PROVENANCES),
            "rows": [asdict(row) for row in board.reference],
        },
    }


def _board_values(board: Board) -> dict[str, Any]:
    return {
        "suite": asdict(board.suite),
        "metrics": dict(board.metrics),
        "ranked": [_row_values(row) for row in board.ranked],
        "baselines": [_row_values(row) for row in board.baselines],
        "unranked": [_row_values(row) for row in board.unranked],
        "custom": [_row_values(row) for row in board.custom],
        "training_seeds": [plain(row) for row in board.seeds],
    }


def _row_values(row: Row) -> dict[str, Any]:
    run, against = row.candidate, row.against
    verification = run.verification
    return {
        "rank": row.rank,
        "label": row.label,
        "run": row.run_id,
        "agent": run.results.run.agent,
        "policy_version": run.results.run.policy_version,
        "config_digest": run.results.run.config_digest,
        "records_digest": row.episodes,
        "submission_type": run.submission_type,
        "status": run.results.status,
        "reasons": list(run.faults),
        "primary": plain(row.estimate),
        "environments": {
            env_id: {"metric": metric, **plain(interval)}
            for env_id, (metric, interval) in (row.envs or {}).items()
        },
        "against_best": None
        if against is None
        else {**plain(against), "indistinguishable": against.indistinguishable},
        "verdict": None if verification is None else verification.title,
        "declaration": plain(row.declaration),
    }


def _context(board: Leaderboard) -> dict[str, Any]:
    by_environment: dict[str, list[ReferenceRow]] = {}
    for row in board.reference:
        by_environment.setdefault(row.env or "several environments", []).append(row)
    return {
        "boards": board.boards,
        "reference": by_environment,
        "reference_title": REFERENCE_TITLE,
        "provenances": PROVENANCES,
    }

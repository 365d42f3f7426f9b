"""Reports of one run or of several: Markdown, and one self-contained HTML page.

The page needs no network and runs no script but its own: its policy allows the one script and
the one style sheet by their digests. Every text from the runs is escaped; the episodes stand in
a data block and are shown as text alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from agentgym_suite.evaluation.group_tables import group_tables
from agentgym_suite.evaluation.pages import render, render_page
from agentgym_suite.evaluation.run_directory import HTML, MARKDOWN, RESULTS, write_derived
from agentgym_suite.evaluation.scored_runs import ScoredRun, ranked
from agentgym_suite.evaluation.scoring import results_bytes
from agentgym_suite.evaluation.tables import EnvTable, env_tables, failure_rows, macro_rows
from agentgym_suite.evaluation.viewer import MAX_BYTES, viewer_data


def report_again(out: Path, runs: Sequence[ScoredRun]) -> Path:
    """Write everything that is made from the records: of each run, then of all together.

    Args:
        out: the folder that holds the runs, or is the only one.
        runs: as ``load_runs`` gives them.

    Returns:
        The path of the page that shows them all.
    """
    for run in runs:
        write_derived(run.folder / RESULTS, results_bytes(run.results))
        if run.folder != out:
            write_report(run.folder, ranked([run]))
    return write_report(out, runs)


def write_report(
    out: Path, runs: Sequence[ScoredRun], *, max_bytes: int = MAX_BYTES, seed: int = 0
) -> Path:
    """Write ``report.md`` and ``report.html``; the same bytes for the same runs.

    Args:
        out: the folder for both.
        runs: as ``load_runs`` gives them.
        max_bytes: most bytes of the episodes in the page.
        seed: of the sample that is taken above that.

    Returns:
        The path of the page.
    """
    write_derived(out / MARKDOWN, markdown_report(runs).encode("utf-8"))
    write_derived(out / HTML, html_report(runs, max_bytes=max_bytes, seed=seed).encode("utf-8"))
    return out / HTML


def html_report(runs: Sequence[ScoredRun], *, max_bytes: int = MAX_BYTES, seed: int = 0) -> str:
    """The page."""
    data = viewer_data([(run.label, run.folder) for run in runs], max_bytes=max_bytes, seed=seed)
    return render_page("report.html", script="report.js", **_context(runs), data=data)


def markdown_report(runs: Sequence[ScoredRun]) -> str:
    """The same tables as text."""
    return render("report.md", **_context(runs))


Tone = Literal["good", "bad", "open"]


class Standing(NamedTuple):
    """What a replay says of a run: in words, and whether they are good, bad or open."""

    tone: Tone
    words: str


def standing(run: ScoredRun) -> Standing:
    """The verdict that stands of a run."""
    verdict = run.results.verification
    if verdict is None:
        return Standing("open", "not verified")
    tones: dict[str, Tone] = {"verified": "good", "mismatch": "bad"}
    return Standing(tones.get(verdict.verdict, "open"), verdict.verdict)


def _context(runs: Sequence[ScoredRun]) -> dict[str, Any]:
    tables: list[EnvTable] = env_tables(runs)
    return {
        "suite": runs[0].results.suite,
        "runs": runs,
        "verdicts": {run.label: standing(run) for run in runs},
        "tables": tables,
        "groups": [group for table in tables for group in group_tables(table)],
        "macro": macro_rows(runs) if len(tables) > 1 else [],
        "failures": failure_rows(runs),
        "outcomes": sorted({name for table in tables for name in table.outcomes}),
        "format_errors": [
            (table.env_id, row.agent, reason, steps)
            for table in tables
            for row in table.rows
            for reason, steps in row.results.format_errors.items()
        ],
    }

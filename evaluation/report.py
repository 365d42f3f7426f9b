"""Reports of one run or of several: Markdown, and one self-contained HTML page.

The page needs no network and runs no script but its own: its policy allows the one script and
the one style sheet by their digests. Every text from the runs is escaped; the episodes stand in
a data block and are shown as text alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from agentgym_suite.evaluation.run_directory import HTML, MARKDOWN, write_derived
from agentgym_suite.evaluation.scored_runs import ScoredRun
from agentgym_suite.evaluation.tables import (
    EnvTable,
    env_tables,
    episodes,
    failure_rows,
    macro_rows,
    number,
    percent,
    span,
)
from agentgym_suite.evaluation.viewer import MAX_BYTES, viewer_data


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
    style, script = _resource("report.css"), _resource("report.js")
    data = viewer_data([(run.label, run.folder) for run in runs], max_bytes=max_bytes, seed=seed)
    return _template("report.html").render(
        **_context(runs),
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
        data=data,
    )


def markdown_report(runs: Sequence[ScoredRun]) -> str:
    """The same tables as text."""
    return _template("report.md").render(**_context(runs))


def _context(runs: Sequence[ScoredRun]) -> dict[str, Any]:
    tables: list[EnvTable] = env_tables(runs)
    return {
        "suite": runs[0].results.suite,
        "runs": runs,
        "tables": tables,
        "macro": macro_rows(runs) if len(tables) > 1 else [],
        "failures": failure_rows(runs),
    }


def _template(name: str) -> jinja2.Template:
    html = name.endswith(".html")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_resource),
        autoescape=html,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(percent=percent, number=number, span=span, episodes=episodes)
    if not html:
        environment.filters["cell"] = _markdown_cell
    return environment.get_template(name)


def _markdown_cell(value: object) -> str:
    """A text in a Markdown table: no line end, no column, no markup."""
    text = " ".join(str(value).split())
    for mark in "\\|`*_<>[]":
        text = text.replace(mark, "\\" + mark if mark != "<" else "&lt;")
    return text


def _resource(name: str) -> str:
    return files("agentgym_suite.evaluation").joinpath("templates", name).read_text("utf-8")


def _digest(text: str) -> str:
    """The source expression that allows exactly this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()

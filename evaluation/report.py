"""Reports of one run or of several: Markdown, and one self-contained HTML page.

The page needs no network and runs no script but its own: its policy allows the one script and
the one style sheet by their digests. Every text from the runs is escaped; the episodes stand in
a data block and are shown as text alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.results import RunResults
from agentgym_suite.evaluation.run_directory import RUN, read_run, write_derived
from agentgym_suite.evaluation.scoring import score_run
from agentgym_suite.evaluation.tables import (
    EnvTable,
    env_tables,
    failure_rows,
    macro_rows,
    number,
    percent,
    span,
)
from agentgym_suite.evaluation.viewer import MAX_BYTES, viewer_data

HTML = "report.html"
MARKDOWN = "report.md"


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run as a report needs it: its folder, header and results."""

    folder: Path
    header: dict[str, Any]
    results: RunResults

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.results.run.agent


def find_runs(folder: Path) -> list[Path]:
    """The run directories that a path names: itself, or those directly in it.

    Raises:
        RunError: there is none.
    """
    if (folder / RUN).is_file():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{RUN}"))
    if not found:
        raise RunError(f"{folder} holds no run; give a directory that `evaluate` wrote")
    return found


def load_runs(folders: Sequence[Path]) -> list[ScoredRun]:
    """The runs, scored from their records, best first.

    Raises:
        RunError: a folder holds no run, or the runs are of different suites.
    """
    return ranked([ScoredRun(path, read_run(path), score_run(path)) for path in folders])


def ranked(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """The runs of one suite, best first.

    Raises:
        RunError: the runs are of different suites.
    """
    suites = {run.results.suite.digest: run.results.suite for run in runs}
    if len(suites) > 1:
        names = ", ".join(sorted(f"{suite.id} v{suite.version}" for suite in suites.values()))
        raise RunError(f"these runs are of different suites ({names}); report them apart")
    return sorted(runs, key=_place)


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
    data = viewer_data([(run.agent, run.folder) for run in runs], max_bytes=max_bytes, seed=seed)
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
    tables: list[EnvTable] = env_tables([run.results for run in runs])
    return {
        "suite": runs[0].results.suite,
        "runs": runs,
        "tables": tables,
        "macro": macro_rows([run.results for run in runs]) if len(tables) > 1 else [],
        "failures": failure_rows([run.results for run in runs]),
    }


def _place(run: ScoredRun) -> tuple[bool, float, float, str]:
    macro = run.results.macro
    success, score = macro.success.estimate, macro.score.estimate
    return success is None, -(success or 0.0), -(score or 0.0), run.agent


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
    environment.filters.update(percent=percent, number=number, span=span)
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

"""A union's results as tables: in the terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.table import Table

from agentgym_suite.evaluation.tables import percent, span
from agentgym_suite.evaluation.union_results import Means, MemberResults, UnionResults, UnionRow

_HEADINGS = ("agent", "suite", "episodes", "primary", "value", "95 %", "success", "score")
_NUMBERS = ("episodes", "value", "95 %", "success", "score")


def union_table(results: UnionResults) -> Table:
    """The union for the terminal: each agent's suites, then their mean."""
    title = f"{results.title or results.id} (union {results.id}, version {results.version})"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    for name in _HEADINGS:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    for row in results.rows:
        for cells in _rows(row):
            table.add_row(*cells)
        table.add_section()
    return table


def union_markdown(results: UnionResults) -> str:
    """``union.md``: the same table, and what is absent with the command that gets it."""
    lines = [
        f"# {results.title or results.id}",
        "",
        f"Union `{results.id}`, version {results.version}, digest `{results.digest}`. In percent; "
        "a mean weighs every suite the same.",
        "",
        f"| {' | '.join(_HEADINGS)} |",
        "|" + "---|" * len(_HEADINGS),
    ]
    for row in results.rows:
        lines += [f"| {' | '.join(map(_cell, cells))} |" for cells in _rows(row)]
    for row in results.rows:
        if not row.rankable:
            reasons = "; ".join(map(_cell, row.not_rankable_reasons))
            lines += ["", f"{_cell(row.agent)} is not rankable: {reasons}."]
    lacking = {m.suite: m.reason for row in results.rows for m in row.members if m.reason}
    if lacking:
        lines += ["", *(f"- {suite}: {reason}" for suite, reason in lacking.items())]
    return "\n".join(lines) + "\n"


def _rows(row: UnionRow) -> Iterator[list[str]]:
    for member in row.members:
        yield _member_cells(row.agent, member)
    count = len(row.members)
    over = f"mean of {count}" if row.covered == count else f"mean of {row.covered} of {count}"
    yield [row.agent, over, "", "primary", *_values(row.means)]


def _member_cells(agent: str, member: MemberResults) -> list[str]:
    episodes = str(member.planned)
    if member.status != "complete":
        episodes = f"{member.status}, {member.finished} of {member.planned}"
    return [agent, member.suite, episodes, member.metric, *_values(member.means)]


def _values(means: Means) -> list[str]:
    rates = [percent(interval.estimate) for interval in means]
    return [rates[0], span(means.primary), *rates[1:]]


def _cell(text: str) -> str:
    """A text in a Markdown table: an agent's name can hold its marks."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

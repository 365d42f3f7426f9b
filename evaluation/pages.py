"""Pages and texts from templates: everything escaped, nothing from outside, stable bytes."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

import jinja2

from agentgym_suite.evaluation.tables import episodes, number, percent, span


def render(name: str, **context: Any) -> str:
    """A template of this package, filled.

    Args:
        name: its file; one that ends in ``.html`` escapes every value.
        context: the values.
    """
    html = name.endswith(".html")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(resource),
        autoescape=html,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(percent=percent, number=number, span=span, episodes=episodes)
    if not html:
        environment.filters["cell"] = markdown_cell
    return environment.get_template(name).render(**context)


def resource(name: str) -> str:
    """The text of a file of ``templates``."""
    return files("agentgym_suite.evaluation").joinpath("templates", name).read_text("utf-8")


def source_digest(text: str) -> str:
    """The expression of a page's policy that allows exactly this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()


def markdown_cell(value: object) -> str:
    """A text in a Markdown table: no line end, no column, no markup."""
    text = " ".join(str(value).split())
    for mark in "\\|`*_<>[]":
        text = text.replace(mark, "\\" + mark if mark != "<" else "&lt;")
    return text

"""Pages and texts from templates: everything escaped, nothing from outside, stable bytes."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

import jinja2

from agentgym_suite.evaluation.tables import episodes, number, percent, rate_interval, span

_STYLE = "report.css"


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
    for show in (percent, number, span, episodes, rate_interval):
        environment.filters[show.__name__] = show
    if not html:
        environment.filters["cell"] = markdown_cell
    return environment.get_template(name).render(**context)


def render_page(name: str, *, script: str = "", **context: Any) -> str:
    """A page, with the style and the one script that its policy allows by their digests.

    Args:
        name: the template.
        script: file of the script; "" for a page without.
        context: the values.
    """
    style = resource(_STYLE)
    allowed: dict[str, str] = {"style": style, "style_digest": source_digest(style)}
    if script:
        text = resource(script)
        allowed |= {"script": text, "script_digest": source_digest(text)}
    return render(name, **allowed, **context)


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

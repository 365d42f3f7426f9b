"""What an index says of a grammar that nobody has compiled: its goal sentence, its data version."""

from __future__ import annotations

import json
import re

from agentgym_suite.spaces import without_surrogates

_TASK_RULE = re.compile(r'"task"\s*:\s*\[\s*\{[^{}]*?"rhs"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)
# each pattern looks at a text once, whatever the text: a file must not hold up whoever lists it
_ACTION = r"(?im)^[ \t]*action\s+{}\s*\{{"
_PUT, _GO, _HELP = (re.compile(_ACTION.format(n)) for n in ("putobject", "gotolocation", "help"))
_TEMPLATE = re.compile(r'template\s*::\s*"([^"]*)"')
_FEEDBACK = re.compile(r'feedback\s*::\s*"(?:#([^"#]+)#"|[^"]*?\{(\w+)\.name\})')
_FIRST_NAME = re.compile(r'"rhs"\s*:\s*"[^"]*?\{(\w+)\.name\}')


def goal_sentence_of(grammar: str) -> str:
    """The sentence after the colon in the grammar's ``task`` rule, "" when there is none."""
    match = _TASK_RULE.search(grammar)
    if match is None:
        return ""
    try:
        text = without_surrogates(str(json.loads(match[1])))
    except ValueError:
        return ""
    return text.partition(": ")[2] or text


def data_version_of(grammar: str) -> str:
    """``old`` (put, no help, arrival at a location), ``move+help`` or ``custom``."""
    template = _TEMPLATE.search(_body(grammar, _PUT) or "")
    help_there = _body(grammar, _HELP) is not None
    traits = (template and template[1], _place_of_arrival(grammar), help_there)
    if traits == ("put {o} in/on {r}", "lend", False):
        return "old"
    return "move+help" if traits == ("move {o} to {r}", "r", True) else "custom"


def _body(grammar: str, action: re.Pattern[str]) -> str | None:
    """What an action's braces hold, up to the first that closes at the start of a line."""
    head = action.search(grammar)
    end = -1 if head is None else grammar.find("\n}", head.end())
    return None if head is None or end < 0 else grammar[head.end() : end + 1]


def _place_of_arrival(grammar: str) -> str:
    """The variable that the reply to going somewhere names first."""
    feedback = _FEEDBACK.search(_body(grammar, _GO) or "")
    if feedback is None:
        return ""
    if feedback[2]:
        return str(feedback[2])
    rule = re.search(rf'"{re.escape(feedback[1])}"\s*:', grammar)
    if rule is None:
        return ""
    end = grammar.find("]", rule.end())
    found = _FIRST_NAME.search(grammar, rule.end(), end if end >= 0 else len(grammar))
    return found[1] if found else ""

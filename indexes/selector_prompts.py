"""What a language model is asked when it judges a paper: the text that selectors were trained on.

The wording is an interface: pasa-7b-selector knows this prompt and no other. It is sent as it is,
without a chat template, and the token after it is the decision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from agentgym_suite.errors import UsageError

_FIELDS = re.compile(r"\{(user_query|title|abstract)\}")

_PASA = (
    "You are an elite researcher in the field of AI, conducting research on {user_query}. "
    "Evaluate whether the following paper fully satisfies the detailed requirements of the user "
    "query and provide your reasoning. Ensure that your decision and reasoning are consistent.\n\n"
    "Searched Paper:\nTitle: {title}\nAbstract: {abstract}\n\nUser Query: {user_query}\n\n"
    "Output format: Decision: True/False\nReason:... \nDecision:"
)

PROMPTS: Mapping[str, str] = MappingProxyType(
    {"pasa": _PASA, "steppo": _PASA.replace("Reason:... \n", "Reason:...\n")}
)
"""Name -> template: as PaSa publishes it, and StepPO's copy, which has lost a blank."""


def selector_prompt(name: str) -> str:
    """The template of a name.

    Raises:
        UsageError: there is no such prompt.
    """
    if name not in PROMPTS:
        raise UsageError(f"prompt is {name!r}; choose one of {', '.join(PROMPTS)}")
    return PROMPTS[name]


def fill_prompt(template: str, query: str, title: str, abstract: str) -> str:
    """The template with its fields filled in one pass: braces in what is filled in stay braces."""
    values = {"user_query": query, "title": title, "abstract": abstract}
    return _FIELDS.sub(lambda field: values[field[1]], template)

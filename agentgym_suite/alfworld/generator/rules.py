"""The rules of a generated household: its domain, and its grammar in the wording of a version."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from agentgym_suite.errors import UsageError

WORDINGS = ("move+help", "old")


@dataclass(frozen=True, slots=True)
class Rules:
    """Domain and grammar of one wording.

    Attributes:
        domain: the PDDL domain, the same in every game.
        grammar: the TWL2 grammar with ``@goal@`` where a game's goal sentence goes.
        put_command: the command for putting down, with the fields ``{o}`` and ``{r}``.
    """

    domain: str
    grammar: str
    put_command: str

    def grammar_for(self, goal: str) -> str:
        """The grammar of a game with this goal sentence."""
        return self.grammar.replace("@goal@", goal)


def load_rules(wording: str) -> Rules:
    """Read the rules that lie beside this module.

    Args:
        wording: one of ``WORDINGS``.

    Raises:
        UsageError: it is none of them.
    """
    if wording not in WORDINGS:
        raise UsageError(f"wording is {wording!r}: give one of {', '.join(WORDINGS)}")
    words: dict[str, str] = tomllib.loads(_read("wordings.toml"))[wording]
    texts = [_read("household.pddl"), _read("household.twl2")]
    for name, text in words.items():
        texts = [rules.replace(f"@{name}@", text) for rules in texts]
    return Rules(texts[0], texts[1], words["put_command"])


def _read(name: str) -> str:
    return files(__package__).joinpath("rules", name).read_text(encoding="utf-8")

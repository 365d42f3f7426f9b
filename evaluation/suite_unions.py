"""Unions of suites: the sets on which a paper reports, each member a suite of its own.

A member keeps its id, its seeds and its results, so that an episode of ``webshop-test500`` is
the same one whether it was played alone or as part of ``capo``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.suites import SUITES_FOLDER, Suite, load_suite
from agentgym_suite.evaluation.toml_fields import read_toml, refuse_unknown, text_of, typed
from agentgym_suite.files import json_digest

UNIONS_FOLDER = SUITES_FOLDER / "unions"
_UNION_KEYS = ("id", "version", "title", "members")


@dataclass(frozen=True, slots=True)
class SuiteUnion:
    """A named, versioned list of suites.

    Attributes:
        id: its name.
        version: raised with any change of the list.
        members: the suites, each once.
        title: one line for people.
    """

    id: str
    version: int
    members: tuple[Suite, ...]
    title: str = ""

    @property
    def planned(self) -> int:
        """Episodes of one run of every member."""
        return sum(member.planned for member in self.members)

    def content(self) -> dict[str, Any]:
        """Everything that defines the union, as JSON values; members stand as their digests."""
        members = [{"id": m.id, "version": m.version, "digest": m.digest} for m in self.members]
        return {"id": self.id, "version": self.version, "members": members}

    @property
    def digest(self) -> str:
        """``sha256:`` + hex of the canonical JSON of ``content()``."""
        return json_digest(self.content())

    def part(self, *, episodes: int | None = None, trials: int | None = None) -> SuiteUnion:
        """The same union with fewer tasks of each member or other trials, see ``Suite.part``."""
        members = tuple(m.part(episodes=episodes, trials=trials) for m in self.members)
        return replace(self, members=members)


def shipped_unions() -> tuple[str, ...]:
    """The ids of the unions that come with the package."""
    return tuple(sorted(path.stem for path in UNIONS_FOLDER.glob("*.toml")))


def load_union(name: str) -> SuiteUnion:
    """A union by its id.

    Raises:
        UsageError: there is no such union.
    """
    known = shipped_unions()
    if name not in known:
        raise UsageError(f"union {shown(name)} does not exist; use {', '.join(known)}")
    return parse_union(text_of(UNIONS_FOLDER / f"{name}.toml"), source=f"union {name}")


def parse_union(text: str, *, source: str) -> SuiteUnion:
    """A union of shipped suites from its TOML text.

    Raises:
        UsageError: naming what is wrong with it.
    """
    raw = read_toml(text, source)
    refuse_unknown(raw, _UNION_KEYS, source)
    names = typed(raw, "members", list, source)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong or not names:
        raise UsageError(f"{source} has members = {shown(names)}; name at least one suite")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(f"{source} has {twice[0]} more than once; name each suite once")
    return SuiteUnion(
        id=typed(raw, "id", str, source),
        version=typed(raw, "version", int, source),
        members=tuple(load_suite(name) for name in names),
        title=typed(raw, "title", str, source, ""),
    )

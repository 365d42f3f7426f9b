"""The data that the environments of a suite are played over, and what to do where they are absent.

A suite over official data names the data set as ``agentgym-suite data list`` does. It is found
in the data home, unless a path is given for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agentgym_suite.arguments import shown
from agentgym_suite.data import named_data
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.suites import EnvEntry, Suite
from agentgym_suite.registry import ENVIRONMENTS
from agentgym_suite.sources import load_sources


class AbsentData(NamedTuple):
    """Data that a suite needs and that are not here.

    Attributes:
        env_id: the environment.
        name: the data set.
        command: what gets it.
    """

    env_id: str
    name: str
    command: str

    @property
    def sentence(self) -> str:
        """What is absent and how to get it."""
        return f"data absent: {self.name} for {self.env_id}; get it with {self.command}"


def absence(absent: Iterable[AbsentData]) -> str:
    """What is absent and how to get it, in one sentence."""
    found = list(dict.fromkeys(absent))
    if len(found) == 1:
        return found[0].sentence
    names: dict[str, list[str]] = {}
    for one in found:
        names.setdefault(one.env_id, []).append(one.name)
    told = "; ".join(f"{', '.join(those)} for {env_id}" for env_id, those in names.items())
    sources = load_sources()
    own = ", ".join(one.name for one in found if one.name not in sources)
    ways = "`agentgym-suite data download NAME`, `agentgym-suite data import NAME …` or "
    apart = f" ({own} only so)" if own else ""
    return f"data absent: {told}; get each with {ways}`--data NAME=PATH`{apart}"


def data_of(entry: EnvEntry, given: Mapping[str, str]) -> str | None:
    """Where the data of an entry are, None for an embedded world and for data that are absent.

    Args:
        entry: an environment of a suite.
        given: data set or environment -> path of its official files.
    """
    for name in (entry.data, entry.id):
        if name and name in given:
            return given[name]
    found = named_data(entry.data, _home_folder(entry.id)) if entry.data else None
    return None if found is None else str(found)


def absent_data(suite: Suite, given: Mapping[str, str]) -> list[AbsentData]:
    """What a suite needs and has not; empty for suites over embedded worlds."""
    return [
        AbsentData(entry.id, entry.data, _how_to_get(entry))
        for entry in suite.envs
        if entry.data and data_of(entry, given) is None
    ]


def _how_to_get(entry: EnvEntry) -> str:
    name, path = entry.data, f"`--data {entry.id}=PATH`"
    if name not in load_sources():
        return path
    return f"`agentgym-suite data download {name}`, `agentgym-suite data import {name} …` or {path}"


def refuse_stray_data(suites: Iterable[Suite], given: Mapping[str, str], whose: str) -> None:
    """Refuse data for what no suite plays.

    Raises:
        UsageError: naming what they may be given for.
    """
    entries = [entry for suite in suites for entry in suite.envs]
    names = dict.fromkeys([entry.id for entry in entries])
    names |= dict.fromkeys([entry.data for entry in entries if entry.data])
    stray = sorted(set(given) - set(names))
    if stray:
        raise UsageError(f"data is given for {shown(stray[0])}; {whose} has {', '.join(names)}")


def _home_folder(env_id: str) -> str:
    """The folder of the data home in which the data sets of an environment lie."""
    return next((one.name for one in ENVIRONMENTS if one.id == env_id), env_id)

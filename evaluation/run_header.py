"""What ``run.json`` must hold for a run to be gone on with, scored and shown; and reading it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from agentgym_suite.arguments import shown
from agentgym_suite.errors import RunError, UsageError
from agentgym_suite.evaluation.records import SCHEMA_VERSION
from agentgym_suite.evaluation.schema import json_schema, misfit
from agentgym_suite.evaluation.suite_tasks import MOST_EPISODES
from agentgym_suite.files import irregular

RUN = "run.json"
DATA_DIGESTS, INDEX_DIGESTS = ("data_digest", "catalogue"), ("index_digest", "index")
"""Where environments tell the digests of their data and of their indexes."""


class _Entry(TypedDict):
    """An environment of the suite."""

    id: str
    split: str
    tasks: list[str]
    trials: int
    max_steps: int | None
    kwargs: dict[str, Any]


class _Metrics(TypedDict):
    primary: str


class _Content(TypedDict):
    """What defines the suite, as ``Suite.content()`` gives it."""

    env: list[_Entry]
    metrics: _Metrics


class _Suite(TypedDict):
    id: str
    version: int
    digest: str
    title: str
    departures: list[str]
    content: _Content


class _Config(TypedDict):
    """All that can change a result."""

    agent: dict[str, Any]
    environments: dict[str, Any]
    package_version: str


class _Options(TypedDict):
    runner: str
    data: dict[str, str | None]


class _Git(TypedDict):
    commit: str | None
    dirty: bool | None


class RunHeader(TypedDict):
    """The fields that are read again; a header holds more."""

    schema_version: int
    suite: _Suite
    agent: str
    policy_version: str | None
    config: _Config
    config_digest: str
    options: _Options
    packages: dict[str, str | None]
    git: _Git
    setup_s: dict[str, float]
    wall_s: float


_SCHEMA = json_schema(RunHeader, "agentgym_suite run header")


def run_folder(value: object) -> Path:
    """The folder of a run that a caller names.

    Raises:
        UsageError: it is no path.
    """
    if not isinstance(value, str | Path):
        raise UsageError(
            f"{shown(value)} ({type(value).__name__}) is no folder of a run; give a str or a Path"
        )
    return Path(value)


def read_run(folder: Path) -> dict[str, Any]:
    """The header of a run.

    Raises:
        RunError: the folder holds no run, a damaged one, or one of another schema version.
    """
    path = folder / RUN
    if irregular(path):
        raise RunError(f"{path} is no regular file; move that folder away")
    try:
        header = json.loads(path.read_bytes())
        fault = header_fault(header)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(f"{folder} holds no run ({RUN} is not there); check the path") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); make it readable") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not JSON") from error
    if isinstance(header, dict) and header.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise RunError(
            f"{path} has schema version {header['schema_version']!r}, this version of the suite "
            f"reads {SCHEMA_VERSION!r}; use the version of the suite that wrote it"
        )
    if fault:
        raise _damaged(path, fault)
    return dict(header)


def header_fault(header: Any) -> str:
    """What keeps a header from being used, such as a missing field; "" when nothing does."""
    fault = misfit(header, _SCHEMA)
    if fault:
        return fault
    entries = header["suite"]["content"]["env"]
    if not entries or not all(entry["tasks"] and entry["trials"] > 0 for entry in entries):
        return "its suite plans no episode of an environment"
    if any(len(entry["tasks"]) * entry["trials"] > MOST_EPISODES for entry in entries):
        return f"its suite plans more than {MOST_EPISODES:,} episodes of an environment"
    return ""


def provenance_of(environments: Mapping[str, Any], env_id: str) -> Mapping[str, Any]:
    """What a header says that an environment tells of itself; empty where it says nothing."""
    told = environments.get(env_id)
    found = told.get("provenance") if isinstance(told, dict) else None
    return found if isinstance(found, dict) else {}


def told_digest(provenance: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first of these fields that holds a text; "" if none does."""
    texts = (provenance.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")


def _damaged(path: Path, fault: str) -> RunError:
    return RunError(f"{path} is damaged ({fault}); move that folder away")

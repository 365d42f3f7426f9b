"""What of a run can be verified without a replay: its header, its records and its results.

The header must not contradict itself, the episodes must be those of the suite with the suite's
seeds, and the results must be what the records give, byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of, planned_keys
from agentgym_suite.evaluation.run_directory import (
    ATTEMPTS,
    EPISODES,
    RESULTS,
    OtherSchema,
    read_records,
)
from agentgym_suite.evaluation.scoring import score_run
from agentgym_suite.evaluation.suite_fit import fit
from agentgym_suite.evaluation.suites import EnvEntry, episode_seed, suite_digest
from agentgym_suite.evaluation.verdicts import (
    Mismatch,
    as_written,
    misstated_verdict,
    read_results,
    shown_difference,
)
from agentgym_suite.files import canonical_json, json_digest
from agentgym_suite.tasks import TaskSet

_ABSENT = "absent"
_NO_DIGEST = "none: it holds what JSON cannot"


def header_mismatches(header: Mapping[str, Any]) -> list[Mismatch]:
    """Where the header contradicts itself."""
    suite, config = header["suite"], header["config"]
    content = suite["content"]
    named = config.get("suite", {})
    pairs = [
        ("config_digest", header["config_digest"], _digest(config)),
        ("config.suite.digest", named.get("digest"), _suite_digest(content)),
        ("suite.id", suite["id"], content.get("id")),
        ("suite.version", suite["version"], content.get("version")),
        ("config.suite.id", named.get("id"), suite["id"]),
        ("config.suite.version", named.get("version"), suite["version"]),
        ("agent", header["agent"], config["agent"].get("name")),
        ("policy_version", header["policy_version"], config.get("policy_version")),
    ]
    if not suite["departures"]:
        pairs.append(("suite.digest", suite["digest"], _suite_digest(content)))
    return [
        _of_run(name, recorded, counted) for name, recorded, counted in pairs if recorded != counted
    ]


def task_mismatches(entry: EnvEntry, tasks: TaskSet, suite_id: str) -> list[Mismatch]:
    """Whether the tasks of a run are those that its suite means in the data.

    The digest of a suite covers the ids that it lists; of a split it covers the rule alone.

    Args:
        entry: an environment of the suite, with the tasks of the run.
        tasks: every task of the data.
        suite_id: the suite.
    """
    meant, faults = fit(entry, tasks, suite_id, allow_missing=True)
    name = f"suite.content.{entry.id}"
    told = [_of_run(f"{name}.expected", fault, "what the suite expects") for fault in faults]
    if meant.tasks != entry.tasks and not faults:
        told.append(_of_run(f"{name}.tasks", list(entry.tasks), list(meant.tasks)))
    return told


def inventory(folder: Path, header: Mapping[str, Any]) -> tuple[list[EpisodeKey], list[Mismatch]]:
    """The episodes of the run, and what is wrong with their keys, seeds and number."""
    entries = header["suite"]["content"]["env"]
    planned = {key: None for entry in entries for key in planned_keys(entry)}
    keys: dict[EpisodeKey, None] = {}
    faults: list[Mismatch] = []
    try:
        for record in read_records(folder / EPISODES):
            key = key_of(record)
            if key in keys:
                faults.append(_of_episode(key, "episode", "twice", "once"))
            keys[key] = None
            recorded, version = record["policy_version"], header["policy_version"]
            if recorded != version:
                faults.append(_of_episode(key, "policy_version", recorded, version))
            faults += _key_faults(record, header, planned)
        for record in read_records(folder / ATTEMPTS):
            faults += _key_faults(record, header, planned)
    except OtherSchema:
        raise
    except RunError as error:
        faults.append(Mismatch("", "", 0, None, "records", str(error), "records of the schema"))
    if not faults and (read_results(folder) or {}).get("status") != "incomplete":
        absent = [key for key in planned if key not in keys]
        faults += [_of_episode(key, "episode", "in the suite's plan", _ABSENT) for key in absent]
    return list(keys), faults


def _key_faults(
    record: Mapping[str, Any], header: Mapping[str, Any], planned: Collection[EpisodeKey]
) -> list[Mismatch]:
    """Whether an episode or attempt is one of the suite's, with the seed it must have."""
    suite, key, named = header["suite"], key_of(record), record["key"]
    if key not in planned:
        return [_of_episode(key, "episode", "played", "not in the suite's plan")]
    pairs = [
        ("key.suite", named["suite"], suite["id"]),
        ("key.version", named["version"], suite["version"]),
        ("seed", record["seed"], episode_seed(suite["id"], suite["version"], *key)),
    ]
    return [_of_episode(key, name, *values) for name, *values in pairs if values[0] != values[1]]


def result_mismatches(folder: Path) -> list[Mismatch]:
    """Where ``results.json`` differs from what the records give."""
    stored = read_results(folder)
    if stored is None:
        return [_of_run("results", "no JSON object", "canonical JSON")]
    try:
        counted = {**score_run(folder).as_dict(), "verification": None}
    except RunError as error:
        return [_of_run("records", str(error), "records that can be scored")]
    changed = _differing_leaves(stored, counted)
    changed |= misstated_verdict(folder) if not changed else {}
    text = (folder / RESULTS).read_bytes()
    if not changed and text != as_written(text):
        changed = {"bytes": ("another spelling of the same values", "canonical JSON")}
    return [_of_run(f"results.{name}".rstrip("."), *values) for name, values in changed.items()]


def _differing_leaves(stored: Any, counted: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """The dotted names of the values that differ, with both."""
    inner: Iterable[tuple[str, Any, Any]]
    if isinstance(stored, Mapping) and isinstance(counted, Mapping):
        names = dict.fromkeys((*stored, *counted))
        inner = [(name, stored.get(name, _ABSENT), counted.get(name, _ABSENT)) for name in names]
    elif isinstance(stored, list) and isinstance(counted, list) and len(stored) == len(counted):
        pairs = enumerate(zip(stored, counted, strict=True))
        inner = [(str(i), one, other) for i, (one, other) in pairs]
    else:
        same = canonical_json(stored) == canonical_json(counted)
        return {} if same else {path: (stored, counted)}
    found: dict[str, tuple[Any, Any]] = {}
    for name, one, other in inner:
        found.update(_differing_leaves(one, other, f"{path}.{name}" if path else name))
    return found


def _suite_digest(content: Mapping[str, Any]) -> str:
    try:
        return suite_digest(content)
    except ValueError:
        return _NO_DIGEST


def _digest(value: Any) -> str:
    try:
        return json_digest(value)
    except ValueError:
        return _NO_DIGEST


def _of_run(name: str, recorded: Any, counted: Any) -> Mismatch:
    return Mismatch("", "", 0, None, name, *shown_difference(recorded, counted))


def _of_episode(key: EpisodeKey, name: str, recorded: Any, counted: Any) -> Mismatch:
    return Mismatch(*key, None, name, *shown_difference(recorded, counted))

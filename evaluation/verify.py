"""Verifying a run: every episode replayed, every number counted again.

Nothing of the model is needed. The verdict is ``verified`` when all that the environments gave
is given again and all that was computed comes out again; ``mismatch`` names the first value that
does not; ``not-reproducible`` says that data or versions here are others, and claims nothing.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym_suite.arguments import shown
from agentgym_suite.errors import DataMissing, RunError, UsageError
from agentgym_suite.evaluation.configuration import differing_keys
from agentgym_suite.evaluation.episode_keys import EpisodeKey
from agentgym_suite.evaluation.open_suites import OpenEnvironment, open_environment
from agentgym_suite.evaluation.plan import timestamp
from agentgym_suite.evaluation.run_header import read_run, run_folder
from agentgym_suite.evaluation.suite_tasks import SplitTasks
from agentgym_suite.evaluation.suites import EnvEntry
from agentgym_suite.evaluation.verdicts import (
    Mismatch,
    Verdict,
    Verification,
    bound_files,
    write_verification,
)
from agentgym_suite.evaluation.verify_parallel import replay_parts
from agentgym_suite.evaluation.verify_records import (
    header_mismatches,
    inventory,
    result_mismatches,
    task_mismatches,
)
from agentgym_suite.evaluation.verify_steps import (
    Replayed,
    ReplayPart,
    replay_part,
)
from agentgym_suite.files import Progress
from agentgym_suite.versions import suite_version

_KEPT_MISMATCHES = 20


def verify_run(
    folder: str | Path,
    *,
    data: Mapping[str, str] | None = None,
    sample: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Verification:
    """Verify a run and store the verdict in its folder.

    Args:
        folder: the run.
        data: environment or data set -> path of its official files, where they lie elsewhere now
            than when the run was made.
        sample: replay only so many episodes; the rest is checked without a replay.
        seed: which ones.
        jobs: processes that replay.
        progress: called with the episodes replayed.

    Raises:
        RunError: the folder holds no run, or no results.
        UsageError: a wrong argument, or an environment that cannot be made or replayed.
        DataError: data that are absent or damaged.
    """
    _check_counts(sample, jobs)
    folder = run_folder(folder)
    header = read_run(folder)
    files = bound_files(folder)
    here = _opened(header, data or {})
    replayed: list[Replayed] = []
    keys: list[EpisodeKey] = []
    mismatches: list[Mismatch] = []
    if not here.differences:
        mismatches = header_mismatches(header) + here.mismatches
        keys, faults = inventory(folder, header)
        mismatches += faults
        if not faults:
            chosen = sorted(keys) if sample is None else _sampled(keys, sample, seed)
            parts = _parts(folder, header, here.environments, chosen, jobs)
            replayed = list(_followed(parts, len(chosen), progress))
            found = sorted((r for r in replayed if r.mismatch), key=lambda r: r.key)
            mismatches += [one.mismatch for one in found if one.mismatch is not None]
            mismatches += result_mismatches(folder)
    whole = len(replayed) == len(keys)
    verification = Verification(
        verdict=_verdict(here.differences, mismatches, whole),
        planned=sum(len(e["tasks"]) * e["trials"] for e in header["suite"]["content"]["env"]),
        finished=len(keys),
        replayed=len(replayed),
        mismatches=mismatches[:_KEPT_MISMATCHES],
        mismatch_count=len(mismatches),
        differences=here.differences,
        roundings=sum(one.roundings for one in replayed),
        seed=None if whole else seed,
        package_version=suite_version(),
        at=timestamp(),
        files=files,
    )
    if bound_files(folder) != files:
        raise RunError(f"{folder} changed while it was verified; verify it when it is finished")
    write_verification(folder, verification)
    return verification


def _verdict(
    differences: Mapping[str, Any], mismatches: Collection[Mismatch], whole: bool
) -> Verdict:
    if differences:
        return "not-reproducible"
    if mismatches:
        return "mismatch"
    return "verified" if whole else "verified-sample"


def _check_counts(sample: int | None, jobs: int) -> None:
    for name, value in (("sample", sample), ("jobs", jobs)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}; give at least 1")


# ------------------------------------------------------------------ data and versions


@dataclass(frozen=True, slots=True)
class _Here:
    """The environments of a run as they are here.

    Attributes:
        environments: what to replay in, with the paths of the official files.
        differences: data and versions that are others than in the run.
        mismatches: tasks that are not those of the suite.
    """

    environments: tuple[tuple[EnvEntry, str | None], ...]
    differences: dict[str, list[str]]
    mismatches: list[Mismatch]


def _opened(header: Mapping[str, Any], data: Mapping[str, str]) -> _Here:
    entries = [_entry(raw) for raw in header["suite"]["content"]["env"]]
    known = [name for entry in entries for name in (entry.id, entry.data) if name]
    stray = sorted(set(data) - set(known))
    if stray:
        raise UsageError(
            f"data is given for {shown(stray[0])}; the run has {', '.join(dict.fromkeys(known))}"
        )
    suite, config = header["suite"], header["config"]
    recorded: dict[str, Any] = {"package_version": config["package_version"]}
    here: dict[str, Any] = {"package_version": suite_version()}
    environments = []
    mismatches: list[Mismatch] = []
    for entry in entries:
        played_on = header["options"]["data"].get(entry.id)
        path = data.get(entry.data, data.get(entry.id, played_on))
        opened = _open(entry, path)
        recorded[entry.id] = config["environments"].get(entry.id)
        here[entry.id] = {"tasks": opened.tasks.digest, "provenance": dict(opened.provenance)}
        environments.append((entry, path))
        if not suite["departures"]:  # they say what does not fit
            mismatches += task_mismatches(entry, opened.tasks, suite["id"])
    changed = differing_keys(recorded, here)
    differences = {key: list(values) for key, values in changed.items()}
    return _Here(tuple(environments), differences, mismatches)


def _entry(raw: Mapping[str, Any]) -> EnvEntry:
    rule = raw.get("split_tasks")
    return EnvEntry(
        id=raw["id"],
        tasks=tuple(raw["tasks"]),
        split=raw["split"],
        trials=raw["trials"],
        max_steps=raw["max_steps"],
        kwargs=raw["kwargs"],
        expected=raw.get("expected", {}),
        data_digest=raw.get("data_digest", "any"),
        data=raw.get("data", ""),
        split_tasks=None if rule is None else SplitTasks(**rule),
    )


def _open(entry: EnvEntry, path: str | None) -> OpenEnvironment:
    try:
        opened = open_environment(entry, path)
    except DataMissing as error:
        raise DataMissing(
            f"{error}; --data {entry.id}=PATH says where the files of this run lie now"
        ) from error
    with closing(opened.make()) as env:
        if not getattr(env.unwrapped, "replayable", True):
            raise UsageError(
                f"{entry.id} asks a live service at every step, whose answers the run does not "
                "hold; only runs of environments that play alone can be verified"
            )
    return opened


# ------------------------------------------------------------------ the replay


def _sampled(keys: Iterable[EpisodeKey], sample: int, seed: int) -> list[EpisodeKey]:
    """A seeded sample that does not depend on the order in which episodes were finished."""
    ordered = sorted(keys)
    return random.Random(seed).sample(ordered, min(sample, len(ordered)))


def _parts(
    folder: Path,
    header: Mapping[str, Any],
    environments: tuple[tuple[EnvEntry, str | None], ...],
    keys: list[EpisodeKey],
    jobs: int,
) -> list[ReplayPart]:
    """The episodes in equal shares, so that each has some of every environment."""
    specs = tuple(gym.spec(entry.id) for entry, _ in environments)
    reply_format = header["config"].get("reply_format", "raw")
    shares = [frozenset(keys[job::jobs]) for job in range(jobs)]
    return [
        ReplayPart(folder, environments, specs, reply_format, share) for share in shares if share
    ]


def _followed(parts: list[ReplayPart], total: int, progress: Progress | None) -> Iterator[Replayed]:
    """The replayed episodes, counted as they come."""
    several = len(parts) > 1
    source = (
        replay_parts(parts) if several else (one for part in parts for one in replay_part(part))
    )
    for done, one in enumerate(source, 1):
        if progress is not None:
            progress("replay", done, total)
        yield one

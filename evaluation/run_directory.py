"""A run's directory: one writer, records appended and never rewritten, resumable.

run.json                what was run: suite, agent, configuration, versions, data
episodes.jsonl          one finished episode a line, each appended in one write and fsync
attempts.jsonl          attempts lost to the environment or the infrastructure
observations.jsonl.gz   texts above 64 KiB, referred to by the records
results.json, report.md, report.html    made from the files above, at any time again
run.lock                held by the process that writes
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from filelock import FileLock, Timeout

from agentgym_suite.arguments import shown
from agentgym_suite.episodes import Episode
from agentgym_suite.errors import RunError, UsageError
from agentgym_suite.evaluation.appending import append_whole
from agentgym_suite.evaluation.configuration import described_changes
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of
from agentgym_suite.evaluation.fitting import fitting
from agentgym_suite.evaluation.long_texts import LongTexts
from agentgym_suite.evaluation.records import (
    SCHEMA_VERSION,
    UNPRICED,
    AttemptRecord,
    Cost,
    EpisodeRecord,
    RecordKey,
    attempt_record,
    episode_record,
    json_line,
)
from agentgym_suite.evaluation.run_header import RUN, read_run
from agentgym_suite.evaluation.schema import json_schema, misfit
from agentgym_suite.files import (
    explain_full_disk,
    irregular,
    make_folder,
    write_atomic,
    write_json_atomic,
)

EPISODES = "episodes.jsonl"
ATTEMPTS = "attempts.jsonl"
OBSERVATIONS = "observations.jsonl.gz"
RESULTS = "results.json"
MARKDOWN = "report.md"
HTML = "report.html"
VERIFICATION = "verification.json"
DECLARATION = "declaration.toml"
_LOCK = "run.lock"
OWN_FILES = frozenset(
    {RUN, EPISODES, ATTEMPTS, OBSERVATIONS, RESULTS, MARKDOWN, HTML}
    | {VERIFICATION, DECLARATION, _LOCK}
)

_EPISODE_SCHEMA = json_schema(EpisodeRecord, "episode")
_ATTEMPT_SCHEMA = json_schema(AttemptRecord, "attempt")
_EPISODE_FITS, _ATTEMPT_FITS = fitting(_EPISODE_SCHEMA), fitting(_ATTEMPT_SCHEMA)

Resume = Literal["auto", "never"]


class OtherSchema(RunError):
    """Records of another version of the schema: whole, but for another version of the suite."""


def holds_records(folder: Path) -> bool:
    """Whether episodes were played in a folder; a header alone does not bind it."""
    paths = [folder / name for name in (EPISODES, ATTEMPTS)]
    return any(irregular(path) or (path.exists() and path.stat().st_size > 0) for path in paths)


def torn_files(folder: Path) -> list[str]:
    """The record files of a run whose last line a killed writer left unfinished."""
    return [name for name in (EPISODES, ATTEMPTS) if _is_torn(folder / name)]


def _is_torn(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) != b"\n"


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file, one at a time; a torn last line is left out.

    Raises:
        RunError: a line is damaged, the last one's torn end apart, or has another version.
    """
    for _, record in _read_with_ends(path):
        yield record


def check_suite(record: Mapping[str, Any], header: Mapping[str, Any], path: Path) -> None:
    """Check that a record of a file is of the suite that the run's header names.

    Raises:
        RunError: it is of another suite, or of another version of it.
    """
    suite, key = header["suite"], record["key"]
    if (key["suite"], key["version"]) != (suite["id"], suite["version"]):
        raise RunError(
            f"{path} has the episode {key_of(record)} of suite {shown(key['suite'])} version "
            f"{key['version']}, the run is of {suite['id']} version {suite['version']}; move that "
            "run away or remove the line to have its episode played again"
        )


class RunDirectory:
    """The open directory of a run; a context manager that holds its lock.

    Args:
        folder: the directory, made when absent.
        header: what ``run.json`` says of a new run; ``config`` in it decides about resuming.
        resume: "auto" goes on with a run of equal configuration; "never" refuses any run.

    Attributes:
        header: what ``run.json`` says.
        finished: whether each finished episode succeeded, those of earlier times included.
        score_sum: the sum of their scores.
        attempts: the numbers of the attempts that were lost, by episode.

    Raises:
        RunError: another process writes there, or a different run is there.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], *, resume: Resume) -> None:
        self.folder = folder
        self.header = dict(header)
        self.finished: dict[EpisodeKey, bool] = {}
        self.score_sum = 0.0
        self.attempts: dict[EpisodeKey, list[int]] = {}
        self._resume = resume
        self._made = False
        self._planned: dict[EpisodeKey, EpisodeKey] = {}
        self._lock = FileLock(str(folder / _LOCK))
        self._files: dict[str, int] = {}
        self._long_texts = LongTexts(folder / OBSERVATIONS)

    def __enter__(self) -> Self:
        self._made = not self.folder.exists()
        make_folder(self.folder)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise RunError(
                f"another process is writing the run in {self.folder}; wait for it, or choose "
                "another directory"
            ) from error
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
        self._lock.release()
        if isinstance(error, UsageError) and self._made and not holds_records(self.folder):
            self._take_back()

    def check_keys(self, planned: Iterable[EpisodeKey]) -> None:
        """Check that the directory holds episodes of this plan only.

        Raises:
            RunError: naming one that is not planned.
        """
        self._planned = {key: key for key in planned}
        stray = (set(self.finished) | set(self.attempts)) - set(self._planned)
        if stray:
            raise RunError(
                f"{self.folder} holds the episode {min(stray)}, which is none of this suite; "
                "choose another directory"
            )

    def finish(self, key: EpisodeKey, episode: Episode, cost: Cost = UNPRICED) -> EpisodeRecord:
        """Store a finished episode; when this returns it is on the disk."""
        record = episode_record(
            self._record_key(key),
            episode,
            attempts=len(self.attempts.get(key, ())) + 1,
            policy_version=self.header["policy_version"],
            keep=self._keep,
            cost=cost,
        )
        self._append(EPISODES, record)
        # The plan's own key: an equal one would keep a task id of its own for every episode.
        self._count(self._planned.get(key, key), record.score, record.success)
        return record

    def lose(self, key: EpisodeKey, episode: Episode, attempt: int) -> AttemptRecord:
        """Store an attempt that was lost; the episode stays unfinished."""
        record = attempt_record(self._record_key(key), episode, attempt)
        self._append(ATTEMPTS, record)
        self.attempts.setdefault(key, []).append(attempt)
        return record

    def update(self, **fields: Any) -> None:
        """Change fields of ``run.json`` that are no part of the configuration."""
        self.header.update(fields)
        self._write_header()

    def write(self, name: str, data: bytes) -> None:
        """Write a derived file whole or not at all."""
        write_derived(self.folder / name, data)

    def _write_header(self) -> None:
        with explain_full_disk(self.folder):
            write_json_atomic(self.folder / RUN, self.header)

    def _take_back(self) -> None:
        """Remove the folder that was made for a run that is refused."""
        for name in (RUN, _LOCK):
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else is in it
            self.folder.rmdir()

    def _open(self) -> None:
        if not holds_records(self.folder):
            self._write_header()
        elif (self.folder / RUN).exists():
            self._check_same_run(read_run(self.folder))
            self._read_back()
        else:
            raise RunError(
                f"{self.folder} has records but no {RUN}; choose another directory or move "
                "them away"
            )

    def _check_same_run(self, present: dict[str, Any]) -> None:
        if self._resume == "never":
            raise RunError(
                f"{self.folder} holds a run already and resuming is off; choose another directory"
            )
        changes = described_changes(present, self.header)
        if changes:
            raise RunError(
                f"{self.folder} holds a run of another configuration ({changes}); choose another "
                "directory or move that run away"
            )
        self.header = present

    def _read_back(self) -> None:
        for name in (EPISODES, ATTEMPTS):
            path = self.folder / name
            good = 0
            for end, record in _read_with_ends(path):
                good = end
                check_suite(record, self.header, path)
                key = key_of(record)
                if name == ATTEMPTS:
                    self.attempts.setdefault(key, []).append(record["attempt"])
                elif key in self.finished:
                    raise RunError(f"{path} has the episode {key} twice; move that run away")
                else:
                    self._count(key, record["score"], record["success"])
            # What a killed writer left of its last line is cut off and played again.
            if path.exists() and path.stat().st_size > good:
                os.truncate(path, good)
        self._long_texts.cut_torn_end()

    def _count(self, key: EpisodeKey, score: float | None, success: bool) -> None:
        self.finished[key] = success
        self.score_sum += score or 0.0

    def _record_key(self, key: EpisodeKey) -> RecordKey:
        suite = self.header["suite"]
        return RecordKey(suite["id"], suite["version"], key.env_id, key.task_id, key.trial)

    def _keep(self, text: str) -> Any:
        with explain_full_disk(self.folder):
            return self._long_texts.keep(text)

    def _append(self, name: str, record: EpisodeRecord | AttemptRecord) -> None:
        line = json_line(record)
        with explain_full_disk(self.folder):
            if name not in self._files:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                self._files[name] = os.open(self.folder / name, flags, 0o644)
            append_whole(self._files[name], line)


def write_derived(path: Path, data: bytes) -> None:
    """Write a file made from the records: whole or not at all, with one sentence on failure."""
    with explain_full_disk(path.parent):
        write_atomic(path, data)


def _read_with_ends(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each record with the offset behind its line."""
    if irregular(path):
        raise RunError(f"{path} is no regular file; move that run away")
    if not path.exists():
        return
    attempts = path.name == ATTEMPTS
    schema = _ATTEMPT_SCHEMA if attempts else _EPISODE_SCHEMA
    fits = _ATTEMPT_FITS if attempts else _EPISODE_FITS
    end = 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            end += len(line)
            if not line.endswith(b"\n"):  # what a killed writer left
                return
            record = _parsed(line)
            if record is None:
                if b"\0" in line and not stream.read(1):  # what a power cut left
                    return
                raise _damaged(path, number, "it is no record")
            version = record.get("schema_version", SCHEMA_VERSION)
            if version != SCHEMA_VERSION:
                raise OtherSchema(
                    f"{path} has schema version {version!r} in line {number}, this version of "
                    f"the suite reads {SCHEMA_VERSION!r}; use the version that wrote it"
                )
            try:
                fault = "" if fits(record) else misfit(record, schema)
            except RecursionError:
                fault = "it is nested too deeply"
            if fault:
                raise _damaged(path, number, fault)
            yield end, record


def _damaged(path: Path, number: int, fault: str) -> RunError:
    return RunError(
        f"{path} is damaged in line {number} ({fault}); move that run away or remove the line to "
        "have its episode played again"
    )


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None

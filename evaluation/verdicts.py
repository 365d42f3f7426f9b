"""The verdict on a run, kept as ``verification.json`` and bound to the files it was given for.

A verdict names the SHA-256 of the run's records and the digests of its configuration and its
results; it holds as long as they are what they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.episode_keys import EpisodeKey
from agentgym_suite.evaluation.results import (
    RESULTS_SCHEMA_VERSION,
    RunResults,
    StandingVerdict,
)
from agentgym_suite.evaluation.run_directory import (
    ATTEMPTS,
    EPISODES,
    OBSERVATIONS,
    RESULTS,
    VERIFICATION,
    write_derived,
)
from agentgym_suite.evaluation.run_header import RUN, read_run
from agentgym_suite.evaluation.schema import json_schema, misfit
from agentgym_suite.files import canonical_json, json_digest, sha256_file

VERIFICATION_SCHEMA_VERSION = 1
_SHOWN = 60  # characters of a long text, around its first difference

Verdict = Literal["verified", "verified-sample", "mismatch", "not-reproducible"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A value of the run that the replay or the recount contradicts.

    Attributes:
        env_id: environment of the episode, "" for what concerns the whole run.
        task_id: its task, "" likewise.
        trial: its trial, 0 likewise.
        step: number of the step, from 0; None for what concerns no single step.
        field: which value, such as "reward" or "results.macro.success.est".
        recorded: what the run says.
        replayed: what the replay or the recount gives.
    """

    env_id: str
    task_id: str
    trial: int
    step: int | None
    field: str
    recorded: str
    replayed: str

    @property
    def sentence(self) -> str:
        """The mismatch in words."""
        place = "the run"
        if self.env_id:
            place = f"episode {EpisodeKey(self.env_id, self.task_id, self.trial)}"
        if self.step is not None:
            place += f", step {self.step + 1}"  # as the report counts
        return f"{place}, {self.field}: recorded {self.recorded}, replayed {self.replayed}"


def shown_difference(value: Any, again: Any) -> tuple[str, str]:
    """Two different values as short texts; of long ones the place where they part."""
    texts = [one if isinstance(one, str) else canonical_json(one) for one in (value, again)]
    pairs = enumerate(zip(*texts, strict=False))
    parts = next((i for i, (a, b) in pairs if a != b), min(map(len, texts)))
    start = max(0, parts - _SHOWN // 3)
    return _window(texts[0], start), _window(texts[1], start)


def _window(text: str, start: int) -> str:
    if len(text) <= _SHOWN:
        return repr(text)
    end = start + _SHOWN
    return ("…" if start else "") + repr(text[start:end]) + ("…" if end < len(text) else "")


@dataclass(frozen=True, slots=True)
class Verification:
    """What became of verifying a run.

    Attributes:
        verdict: "verified"; "verified-sample" when only some episodes were replayed; "mismatch";
            "not-reproducible" when data or versions here are others, which claims nothing.
        planned: episodes of its suite.
        finished: episodes that the run holds.
        replayed: how many of them were replayed.
        mismatches: the first ones, one for each episode that has any.
        mismatch_count: how many there are.
        differences: of a run that cannot be reproduced here: what differs -> recorded, here.
        roundings: numbers that differ from the replay's by less than 1e-9.
        seed: of the sample; None when every episode was replayed.
        package_version: version of the suite that verified.
        at: when, ISO 8601 in UTC.
        files: what the verdict is bound to: name -> digest.
        schema_version: version of this schema.
    """

    verdict: Verdict
    planned: int
    finished: int
    replayed: int
    mismatches: list[Mismatch]
    mismatch_count: int
    differences: dict[str, list[str]]
    roundings: int
    seed: int | None
    package_version: str
    at: str
    files: dict[str, str] = field(default_factory=dict)
    schema_version: int = VERIFICATION_SCHEMA_VERSION

    @property
    def title(self) -> str:
        """The verdict as tables show it: "verified", "verified-sample 20 of 600"."""
        if self.verdict == "verified-sample":
            return f"verified-sample {self.replayed} of {self.finished}"
        return self.verdict

    def in_results(self) -> StandingVerdict:
        """What ``results.json`` says of it."""
        return StandingVerdict(self.title, json_digest(self.files), self.at)


_SCHEMA = json_schema(Verification, "agentgym_suite verification")
_STANDING_SCHEMA = json_schema(StandingVerdict, "standing verdict")


def bound_files(folder: Path) -> dict[str, str]:
    """The digests that a verdict on a run is bound to.

    Raises:
        RunError: the folder holds no run.
    """
    return {**_record_digests(folder), RESULTS: json_digest(read_results(folder))}


def _record_digests(folder: Path) -> dict[str, str]:
    header = read_run(folder)
    digests = {
        name: f"sha256:{sha256_file(folder / name)}"
        for name in (EPISODES, ATTEMPTS, OBSERVATIONS)
        if (folder / name).is_file()
    }
    digests[RUN] = json_digest({"suite": header["suite"], "config": header["config"]})
    return digests


def read_results(folder: Path) -> dict[str, Any] | None:
    """``results.json`` of a run, without the verdict that may stand in it; None if damaged.

    Raises:
        RunError: it is absent, or of an older schema version.
    """
    try:
        results = json.loads((folder / RESULTS).read_bytes())
        canonical_json(results).encode("utf-8")
    except FileNotFoundError as error:
        raise RunError(
            f"{folder} has no {RESULTS}; `agentgym-suite report` writes it from the records"
        ) from error
    except (ValueError, RecursionError):
        return None
    if not isinstance(results, dict):
        return None
    version = results.get("schema_version")
    if type(version) is int and version < RESULTS_SCHEMA_VERSION:
        raise RunError(
            f"{folder / RESULTS} has schema version {version}, this version of the suite writes "
            f"{RESULTS_SCHEMA_VERSION}; `agentgym-suite report {folder}` makes it anew from the "
            "records"
        )
    return {**results, "verification": None}


def write_verification(folder: Path, verification: Verification) -> None:
    """Store a verdict in the run's folder, and its title in ``results.json``.

    Results in another spelling than their own stay as they are: that is what the verdict tells.
    """
    text = json.dumps(asdict(verification), indent=1, sort_keys=True, ensure_ascii=False)
    write_derived(folder / VERIFICATION, (text + "\n").encode("utf-8", "replace"))
    data, results = (folder / RESULTS).read_bytes(), read_results(folder)
    if results is not None and data == as_written(data):
        told = {**results, "verification": asdict(verification.in_results())}
        write_derived(folder / RESULTS, (canonical_json(told) + "\n").encode("utf-8"))


def as_written(data: bytes) -> bytes:
    """The bytes that the harness would have written for the JSON value in ``data``; b"" for none.

    A value that is no strict JSON has none.
    """
    try:
        return (canonical_json(json.loads(data)) + "\n").encode("utf-8")
    except (ValueError, RecursionError):
        return b""


def misstated_verdict(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Where ``results.json`` states another verdict than ``verification.json`` gives.

    Returns:
        Field -> what it states and what was given; empty where they agree or one is silent.
    """
    stated = json.loads((folder / RESULTS).read_bytes()).get("verification", "absent")
    if stated is None:
        return {}
    if misfit(stated, _STANDING_SCHEMA):
        return {"verification": (stated, None)}
    try:
        verification = read_verification(folder)
    except RunError:
        verification = None
    given = stated if verification is None else asdict(verification.in_results())
    return {} if stated == given else {"verification": (stated, given)}


def with_verdict(folder: Path, results: RunResults) -> RunResults:
    """The results with the verdict on them, where one was given for them and these records.

    Args:
        folder: the run.
        results: as ``score_run`` gives them, whatever ``results.json`` says now.
    """
    try:
        verification = read_verification(folder)
    except RunError:  # a damaged verdict is none
        return results
    if verification is None:
        return results
    counted = json_digest({**results.as_dict(), "verification": None})
    if {**_record_digests(folder), RESULTS: counted} != verification.files:
        return results
    return replace(results, verification=verification.in_results())


def read_verification(folder: Path) -> Verification | None:
    """The verdict stored with a run, whether it still holds or not; None without one.

    Raises:
        RunError: the file is damaged.
    """
    path = folder / VERIFICATION
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not JSON") from error
    fault = misfit(stored, _SCHEMA)
    if fault:
        raise _damaged(path, fault)
    found: Mapping[str, Any] = stored
    mismatches = [Mismatch(**one) for one in found["mismatches"]]
    return Verification(**{**found, "mismatches": mismatches})


def standing_verification(folder: Path) -> tuple[Verification | None, str]:
    """The verdict on a run as long as it holds, and why there is none.

    Returns:
        The verdict and ""; or None and a reason, in words that follow "not ranked:".

    Raises:
        RunError: the folder holds no run, or its verdict is damaged.
    """
    verification = read_verification(folder)
    if verification is None:
        return None, "it has not been verified"
    now = bound_files(folder)
    changed = sorted(
        name
        for name in {*now, *verification.files}
        if now.get(name) != verification.files.get(name)
    )
    if changed:
        return None, f"{', '.join(changed)} changed after it was verified"
    return verification, ""


def _damaged(path: Path, fault: str) -> RunError:
    return RunError(f"{path} is damaged ({fault}); verify the run again")

"""The one data home, and the one rule by which anything is written into it.

Where things are:

    <home>/<environment>/<name>/      a finished data set, store, index or generated world
    <home>/<environment>/<name>.lock  held by the process that is building it
    <home>/<environment>/<name>.partial/   what an unfinished or killed build has done so far
    <home>/downloads/<name>/          files as their publishers deliver them

``<home>`` is ``AGENTGYM_SUITE_HOME``, else the platform's folder for user data.

A finished folder holds a ``manifest.json``, written last, that names its kind, its format
version, the inputs that its contents are a function of, and the size and SHA-256 of every
file; its ``seal`` is the digest of all that. ``publish`` is the only writer: one at a time for a
folder, in a ``.partial`` folder beside it, moved into place whole. A folder with a manifest is
therefore complete, and is never changed afterwards; a build that was killed goes on where it
stopped as long as its inputs are the same, and starts clean when they are not.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.data_home import (
    MANIFEST_NAME,
    data_folder,
    data_home,
    download_folder,
    find_data,
    made_folder,
    named_data,
)
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, DataVersion
from agentgym_suite.files import (
    TEMPORARY_PREFIX,
    FileEntry,
    Json,
    Progress,
    canonical_json,
    digest_files,
    explain_full_disk,
    explain_unreadable,
    free_bytes,
    json_digest,
    make_folder,
    only_writer,
    partial_folder,
    sha256_file,
    sync_folder,
    write_atomic,
    write_json_atomic,
)
from agentgym_suite.versions import suite_version

__all__ = [
    "MANIFEST_NAME",
    "Contents",
    "FileEntry",
    "Json",
    "Manifest",
    "Progress",
    "canonical_json",
    "data_folder",
    "data_home",
    "download_folder",
    "explain_full_disk",
    "find_data",
    "free_bytes",
    "json_digest",
    "load_manifest",
    "made_folder",
    "named_data",
    "publish",
    "read_manifest",
    "sha256_file",
    "verify_folder",
    "write_atomic",
    "write_json_atomic",
]

_INPUTS_NAME = "inputs.json"
_SEAL = "seal"


@dataclass(frozen=True, slots=True)
class Contents:
    """What a writer says about the folder it filled.

    Attributes:
        counts: how many of each thing the folder holds, such as ``{"products": 1000}``.
        notes: reports and labels worth keeping; not part of the digest.
    """

    counts: Mapping[str, int]
    notes: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a finished folder is.

    Attributes:
        kind: what is stored, such as ``webshop-store``.
        version: the format version of that kind.
        inputs: everything the contents are a function of: source digests, options.
        counts: how many of each thing the folder holds.
        notes: reports and labels; not part of the digest.
        files: every file by its path inside the folder, ``/`` between parts.
        suite_version: the version of agentgym_suite that wrote it.
    """

    kind: str
    version: int
    inputs: Mapping[str, Json]
    counts: Mapping[str, int]
    notes: Mapping[str, Json]
    files: Mapping[str, FileEntry]
    suite_version: str

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` over kind, version and the digests of the files."""
        files = {name: entry.sha256 for name, entry in self.files.items()}
        return json_digest({"kind": self.kind, "version": self.version, "files": files})


def read_manifest(
    folder: Path | str, *, kind: str, version: int, mend: str | None = None
) -> Manifest:
    """Read and check the manifest of a finished folder; cheap, no file is read through.

    Args:
        folder: the finished folder.
        kind: what the caller expects there.
        version: the format version that the caller can read.
        mend: the command that makes such a folder, named in the errors.

    Raises:
        DataMissing: nothing finished is there, or something of another kind.
        DataVersion: the folder has another format version.
        DataDamaged: the manifest cannot be read, or a file is absent or has another size.
    """
    folder = Path(folder)
    mend = mend or "see `agentgym-suite data list` for the command that makes it"
    manifest = load_manifest(folder, f"no {kind} at {folder}; {mend}")
    if manifest.kind != kind:
        raise DataMissing(f"{folder} holds {manifest.kind}, not {kind}; {mend}")
    if manifest.version != version:
        raise DataVersion(
            f"{folder} has format version {manifest.version} of {kind}, this version of the "
            f"suite reads {version}; remove that folder and make it again ({mend})"
        )
    _check_sizes(folder, manifest)
    return manifest


def load_manifest(folder: Path | str, missing: str | None = None) -> Manifest:
    """Parse the manifest of a finished folder of any kind, without a look at its files.

    Args:
        folder: the finished folder.
        missing: the sentence of the error when there is no manifest.

    Raises:
        DataMissing: nothing finished is there.
        DataDamaged: the manifest is not one of this suite, or not as it was written. One without
            a seal is of an older build, and is taken as it is.
        DataError: the manifest cannot be read.
    """
    path = Path(folder) / MANIFEST_NAME
    with explain_unreadable(path):
        text = path.read_bytes() if path.exists() else None
    if text is None:
        raise DataMissing(missing or f"{folder} has no {MANIFEST_NAME}: nothing finished is there")
    try:
        raw = json.loads(text)
        seal = raw.pop(_SEAL, None)
        manifest = Manifest(
            kind=str(raw["kind"]),
            version=int(raw["version"]),
            inputs=dict(raw["inputs"]),
            counts={name: int(count) for name, count in raw["counts"].items()},
            notes=dict(raw["notes"]),
            files={
                name: FileEntry(int(entry["size"]), str(entry["sha256"]))
                for name, entry in raw["files"].items()
            },
            suite_version=str(raw["suite_version"]),
        )
        sealed = seal is None or seal == json_digest(raw)
    except (
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise DataDamaged(
            f"{path} is not a manifest of this suite ({error!r}); remove {folder} and make it again"
        ) from error
    if not sealed:
        raise DataDamaged(
            f"{path} was changed after it was written (its seal is {seal!r:.80}); remove {folder} "
            "and make it again"
        )
    return manifest


def verify_folder(folder: Path | str, progress: Progress | None = None) -> Manifest:
    """Recompute the digest of every file of a finished folder.

    Raises:
        DataMissing: nothing finished is there.
        DataDamaged: a file is absent, is not in the manifest, or differs from it.
    """
    folder = Path(folder)
    manifest = load_manifest(folder)
    _check_sizes(folder, manifest)
    for path in sorted(folder.rglob("[!.]*")):  # without what file browsers leave behind
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != MANIFEST_NAME and name not in manifest.files:
            raise DataDamaged(
                f"{path} is not in the manifest beside it; remove that file, or remove {folder} "
                "and make it again"
            )
    for name, found in digest_files(folder, sorted(manifest.files), "verify", progress).items():
        if found != manifest.files[name]:
            raise DataDamaged(
                f"{folder / name} has SHA-256 {found.sha256}, its manifest says "
                f"{manifest.files[name].sha256}; remove {folder} and make it again"
            )
    return manifest


def publish(
    folder: Path | str,
    *,
    kind: str,
    version: int,
    inputs: Mapping[str, Json],
    write: Callable[[Path], Contents],
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Manifest:
    """Fill a folder by ``write``, or return it untouched when it is there already.

    Args:
        folder: where the finished folder shall be.
        kind: what is stored there.
        version: the format version of that kind.
        inputs: everything the contents are a function of; equal inputs, equal folder.
        write: fills the working folder it is given and says what is in it. Parts that a
            killed run left there are offered again, only when the inputs are equal;
            ``write`` decides which of them are finished.
        progress: called while the finished files are digested.
        on_wait: called once with a sentence when another process is building the folder.

    Raises:
        DataError: another folder is in that place already, or it cannot be written.
        DiskFull: no space was left; what was finished is kept.
    """
    # Resolved, because a link would be replaced by the folder instead of leading to it.
    folder = Path(os.path.realpath(folder))
    if os.path.islink(folder):
        raise DataError(f"{folder} is a link that leads to itself; choose another place")
    plan = {"kind": kind, "version": version, "inputs": inputs}
    # Before the lock, so that a finished folder can be used from a read-only disk.
    if (present := _finished(folder, plan)) is not None:
        return present
    partial = partial_folder(folder)
    with explain_full_disk(folder):
        make_folder(folder.parent)
        with only_writer(folder, on_wait):
            if (present := _finished(folder, plan)) is not None:
                return present
            if not _is_sealed(partial, plan):
                _open_partial(partial, plan)
                _seal(partial, plan, write(partial), progress)
            (partial / _INPUTS_NAME).unlink(missing_ok=True)
            if folder.is_dir():
                folder.rmdir()
            os.replace(partial, folder)
            sync_folder(folder.parent)
    return load_manifest(folder)


def _check_sizes(folder: Path, manifest: Manifest) -> None:
    for name, entry in manifest.files.items():
        path = folder / name
        found = path.stat().st_size if path.is_file() else None
        if found != entry.size:
            state = "is absent" if found is None else f"has {found} bytes, not {entry.size}"
            raise DataDamaged(f"{path} {state}; remove {folder} and make it again")


def _finished(folder: Path, plan: Mapping[str, Any]) -> Manifest | None:
    """The manifest of a folder built by the same plan; None when there is room for one."""
    with explain_unreadable(folder):
        empty = os.path.isdir(folder) and not any(folder.iterdir())
    if empty or not os.path.exists(folder):
        return None
    if not (folder / MANIFEST_NAME).is_file():
        raise DataError(
            f"{folder} exists and was not made by this suite; choose another place or move it away"
        )
    manifest = load_manifest(folder)
    found = {"kind": manifest.kind, "version": manifest.version, "inputs": manifest.inputs}
    for part, wanted in plan.items():
        if canonical_json(found[part]) != canonical_json(wanted):
            raise DataError(
                f"{folder} already holds {manifest.kind} with {part} "
                f"{canonical_json(found[part])}, not {canonical_json(wanted)}; choose another "
                "place or remove that folder"
            )
    _check_sizes(folder, manifest)
    return manifest


def _is_sealed(partial: Path, plan: Mapping[str, Any]) -> bool:
    """Whether a build was killed after its last file and before its move into place."""
    try:
        return _finished(partial, plan) is not None
    except DataError:
        return False


def _open_partial(partial: Path, plan: Mapping[str, Any]) -> None:
    """Make the working folder, with what an earlier run of the same plan left in it."""
    text = canonical_json(plan)
    try:
        leftovers_fit = (partial / _INPUTS_NAME).read_text("utf-8") == text
    except (OSError, UnicodeDecodeError):
        leftovers_fit = False
    if leftovers_fit:
        (partial / MANIFEST_NAME).unlink(missing_ok=True)
        for temporary in partial.rglob(TEMPORARY_PREFIX + "*"):
            temporary.unlink()
        return
    if partial.is_dir():
        shutil.rmtree(partial)
    make_folder(partial)
    write_atomic(partial / _INPUTS_NAME, text.encode("utf-8"))


def _seal(
    partial: Path, plan: Mapping[str, Any], contents: Contents, progress: Progress | None
) -> None:
    """Bring every file to the disk, digest it, and write the manifest last."""
    names = []
    for path in sorted(partial.rglob("*")):
        if path.is_dir():
            sync_folder(path)
        elif path.name != _INPUTS_NAME or path.parent != partial:
            names.append(path.relative_to(partial).as_posix())
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
    entries = digest_files(partial, names, "digest", progress)
    files = {name: {"size": entry.size, "sha256": entry.sha256} for name, entry in entries.items()}
    about: dict[str, Any] = {"counts": contents.counts, "notes": contents.notes}
    value = {**plan, **about, "files": files, "suite_version": suite_version()}
    # As it will be read: a key that is a number is written as text, and sorts differently.
    seal = json_digest(json.loads(canonical_json(value)))
    write_json_atomic(partial / MANIFEST_NAME, {**value, _SEAL: seal})

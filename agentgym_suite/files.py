"""Writing files whole or not at all, and telling what is in them.

Every file of the suite is written under a temporary name, brought to the disk and renamed,
so that a reader never meets half a file and a killed run leaves nothing that looks finished.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agentgym_suite.errors import (
    AgentGymSuiteError,
    DataDamaged,
    DataError,
    DataMissing,
    DiskFull,
    UsageError,
)
from agentgym_suite.literals import reread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Json: TypeAlias = "None | bool | int | float | str | Sequence[Json] | Mapping[str, Json]"
"""A value that JSON can hold."""

Progress: TypeAlias = Callable[[str, int, "int | None"], None]
"""Called with (phase, done, total or None) while something long is running."""

TEMPORARY_PREFIX = ".tmp-"
_BLOCK_BYTES = 1 << 20
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a finished folder: its size in bytes and its SHA-256 in hex."""

    size: int
    sha256: str


def write_atomic(path: Path | str, data: bytes) -> None:
    """Write a file whole or not at all: temporary name, fsync, rename.

    Raises:
        DiskFull: no space is left.
    """
    path = Path(path)
    temporary = path.with_name(TEMPORARY_PREFIX + uuid.uuid4().hex)
    with explain_full_disk(path):
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def write_json_atomic(path: Path | str, value: Json) -> None:
    """Write a JSON file, sorted and indented, whole or not at all.

    Raises:
        DiskFull: no space is left.
    """
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(path, (text + "\n").encode("utf-8"))


def write_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write a ``.npy`` file; one that does not fit on the disk raises, as other files do."""
    import numpy as np  # here: a process that only reads JSON does without it

    array = np.ascontiguousarray(array)
    with path.open("wb") as stream:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(stream, header)
        # numpy's own writing goes past the stream: it loses errno, or the last block in silence.
        stream.write(array.data)


def load_array(path: Path, *, mapped: bool = True) -> NDArray[Any]:
    """A ``.npy`` file, in any thread.

    Args:
        path: of the file.
        mapped: leave it on the disk until it is used. It is a plain array nevertheless: single
            numbers of a ``numpy.memmap`` come slowly.

    Raises:
        OSError: it is not there or cannot be read.
        ValueError: it is no array file.
    """
    import numpy as np

    mode: Literal["r"] | None = "r" if mapped else None
    array: NDArray[Any] = reread(lambda: np.load(path, mmap_mode=mode, allow_pickle=False))
    return array.view(np.ndarray)


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no blanks, non-ASCII kept, no NaN.

    Raises:
        ValueError: the value holds a NaN or an infinity.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def json_digest(value: Any) -> str:
    """What identifies a JSON value: ``sha256:`` and the hex digest of its canonical text.

    Raises:
        ValueError: the value holds a NaN, an infinity or a lone surrogate.
    """
    return "sha256:" + hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()


def sha256_file(path: Path | str, progress: Progress | None = None) -> str:
    """The SHA-256 of a file, in hex.

    Raises:
        DataMissing: there is no such file.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise DataMissing(f"there is no file {path}; check the path")
    name = path.name
    return digest_files(path.parent, [name], f"digest {name}", progress)[name].sha256


def digest_files(
    folder: Path, names: Sequence[str], phase: str, progress: Progress | None
) -> dict[str, FileEntry]:
    """Size and SHA-256 of the named files of a folder, reported as bytes done of all bytes.

    Raises:
        DataError: a file cannot be read.
    """
    with explain_unreadable(folder):
        total = sum((folder / name).stat().st_size for name in names)
    done = 0
    entries = {}
    for name in names:
        digest = hashlib.sha256()
        size = 0
        with explain_unreadable(folder / name):
            stream = (folder / name).open("rb")
        with stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
                size += len(block)
                done += len(block)
                if progress is not None:
                    progress(phase, done, total)
        entries[name] = FileEntry(size, digest.hexdigest())
    return entries


@contextmanager
def explain_unreadable(place: Path) -> Iterator[None]:
    """Turn what the system says of a file that it does not let us read into a ``DataError``."""
    try:
        yield
    except OSError as error:
        raise _unreadable(place, error) from error


def _unreadable(place: Path, error: OSError) -> DataError:
    return DataError(
        f"{error.filename or place} cannot be read ({error.strerror}); check its permissions"
    )


@contextmanager
def explain_damage(folder: Path) -> Iterator[None]:
    """Turn whatever reading a damaged finished folder raises into one ``DataDamaged`` sentence.

    Only sizes are checked when a folder is opened, so that changed bytes show in its readers.
    """
    try:
        yield
    except (AgentGymSuiteError, MemoryError):
        raise
    except OSError as error:
        raise _unreadable(folder, error) from error
    except Exception as error:  # what a reader makes of bytes that its writer did not write
        raise damaged(folder, error) from error


def damaged(folder: Path, error: Exception) -> DataDamaged:
    """The ``DataDamaged`` of a finished folder, for what a reader made of its bytes."""
    return DataDamaged(
        f"{folder} is damaged ({type(error).__name__}: {error}); `agentgym-suite data verify "
        f"{folder}` names the file, remove what holds it and make it again"
    )


@contextmanager
def explain_full_disk(place: Path) -> Iterator[None]:
    """Turn "no space left" (of the system, SQLite or a library) into one ``DiskFull`` sentence."""
    try:
        yield
    except DiskFull:
        raise
    except Exception as error:
        if not _says_full(error):
            raise
        raise DiskFull(
            f"no space left while writing {place} ({free_bytes(place) / 1e6:.1f} MB free); make "
            "room and run the same command again; finished parts are kept"
        ) from error


def _says_full(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _DISK_FULL
    words = {os.strerror(code) for code in _DISK_FULL}  # what libraries in Rust repeat
    return getattr(error, "sqlite_errorname", "") == "SQLITE_FULL" or any(
        word in str(error) for word in words
    )


def free_bytes(place: Path) -> int:
    """Free bytes on the disk that holds ``place``, which need not exist yet."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def make_folder(folder: Path) -> None:
    """Make a folder and those above it.

    Raises:
        DataError: the folder cannot be made or written.
    """
    with _explain_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def _explain_unwritable(place: Path) -> Iterator[None]:
    """Turn what the system says of a place where nothing can be made into a ``DataError``."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise
        raise DataError(
            f"{place} cannot be written ({error.strerror}); choose another place, or set "
            "AGENTGYM_SUITE_HOME to a folder of your own"
        ) from error


@contextmanager
def only_writer(place: Path, on_wait: Callable[[str], None] | None) -> Iterator[None]:
    """Hold ``<place>.lock``, so that one process or thread at a time writes there.

    Args:
        place: the file or folder that is going to be written.
        on_wait: called once with a sentence when another process holds the lock.

    Raises:
        DataError: the lock cannot be made there.
    """
    # Imported here: it takes 50 ms, and a process that only reads never needs it.
    from filelock import FileLock, Timeout

    place = named_place(place)
    path = place.with_name(place.name + ".lock")
    # Made here: where no file can be made, the library would wait for ever.
    with _explain_unwritable(path):
        path.touch()
    lock = FileLock(str(path))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if on_wait is not None:
            on_wait(f"another process is writing {place}; waiting for it to finish")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def remove_folder(folder: Path, on_wait: Callable[[str], None] | None = None) -> None:
    """Remove a folder that ``publish`` made, and what a killed build left beside it.

    The folder loses its name before its contents, so that a removal that is killed leaves
    nothing that looks finished. The empty lock file stays: others may be waiting for it.

    Raises:
        DataError: the folder cannot be removed.
    """
    partial = partial_folder(folder)
    try:
        with only_writer(folder, on_wait):
            if partial.is_dir():
                shutil.rmtree(partial)
            if folder.is_dir():
                os.replace(folder, partial)
                shutil.rmtree(partial)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be removed ({error.strerror}); remove it by hand"
        ) from error


def partial_folder(folder: Path) -> Path:
    """Where a folder is filled before it gets its name.

    Raises:
        UsageError: it is a root.
    """
    folder = named_place(folder)
    return folder.with_name(folder.name + ".partial")


def named_place(place: Path) -> Path:
    """A path that ends with a name, so that something can lie beside it; ``.`` has none.

    Raises:
        UsageError: it is a root.
    """
    if place.name in ("", ".."):
        place = Path(os.path.abspath(place))
    if not place.name:
        raise UsageError(f"{place} is a root, beside which nothing can be; give a folder in it")
    return place


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable, where the platform can open a folder at all."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def table_in(value: Json) -> Mapping[str, Json]:
    """A JSON object as it is, anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def list_in(value: Json) -> list[Json]:
    """A JSON list as it is, anything else as an empty one."""
    return list(value) if isinstance(value, list) else []


def irregular(path: Path) -> bool:
    """Whether a path is a pipe or a device: reading it may never end."""
    return path.exists() and not path.is_file() and not path.is_dir()

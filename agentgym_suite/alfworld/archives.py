"""Where official games come from: the publisher's zip files, or a folder that somebody unpacked."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from agentgym_suite.alfworld.game_layout import (
    GAME_NAME,
    LAYOUT_FOLDER,
    TRAJECTORY_NAME,
    excluding_word,
)
from agentgym_suite.data import Progress, sha256_file
from agentgym_suite.errors import DataDamaged, DataMissing
from agentgym_suite.files import TEMPORARY_PREFIX

_WANTED = (GAME_NAME, TRAJECTORY_NAME, "initial_state.pddl")


class GameSource(Protocol):
    """A folder or an archive of games."""

    path: Path

    def digest(self, progress: Progress | None) -> str:
        """What the contents are a function of."""
        ...

    def extract(self, root: Path, progress: Progress | None) -> list[str]:
        """Write the wanted files below ``root``; files that are there whole are kept.

        Returns:
            What was left out and why, one sentence each.
        """
        ...


def open_source(path: Path) -> GameSource:
    """The source at a path.

    Raises:
        DataMissing: nothing is there, or it is neither a folder nor a zip file.
        DataDamaged: the zip file is damaged.
    """
    path = path.expanduser().absolute()
    if path.is_dir():
        zips = sorted(path.glob("*.zip"))
        if zips and not any(path.rglob(GAME_NAME)):
            raise DataMissing(f"{path} holds only archives: give one of them, such as {zips[0]}")
        return FolderSource(path)
    if not path.is_file():
        raise DataMissing(f"there is no {path}: give a folder, or the official zip file")
    if not zipfile.is_zipfile(path):
        raise DataDamaged(
            f"{path} is no whole zip file ({path.stat().st_size:,} bytes): download it again"
        )
    return ZipSource(path)


class FolderSource:
    """An unpacked tree.

    Args:
        path: the folder of ``json_2.1.1``, or that folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        below = path / LAYOUT_FOLDER
        self._root = below if below.is_dir() else path

    def digest(self, progress: Progress | None) -> str:
        """Over paths and contents of the wanted files."""
        digest = hashlib.sha256()
        files = sorted(self._files())
        for done, path in enumerate(files, 1):
            name = path.relative_to(self._root).as_posix()
            digest.update(f"{sha256_file(path)}  {name}\n".encode())
            if progress is not None:
                progress("digest games", done, len(files))
        return f"sha256:{digest.hexdigest()}"

    def extract(self, root: Path, progress: Progress | None) -> list[str]:
        """Copy the wanted files below ``root``."""
        files = sorted(self._files())
        for done, path in enumerate(files, 1):
            target = root / path.relative_to(self._root)
            if not _is_whole(target, path.stat().st_size):
                with path.open("rb") as stream:
                    _write_whole(target, stream)
            if progress is not None:
                progress("copy games", done, len(files))
        return []

    def _files(self) -> Iterator[Path]:
        for folder, _, names in os.walk(self._root):
            below = Path(folder).relative_to(self._root).as_posix()
            if not excluding_word(below):
                yield from (Path(folder, name) for name in names if name in _WANTED)


class ZipSource:
    """One of the publisher's archives.

    Args:
        path: the zip file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def digest(self, progress: Progress | None) -> str:
        """Of the archive itself."""
        return f"sha256:{sha256_file(self.path, progress)}"

    def extract(self, root: Path, progress: Progress | None) -> list[str]:
        """Unpack the wanted files below ``root``.

        Raises:
            DataDamaged: the archive or a member of it is damaged.
        """
        left_out = []
        try:
            with zipfile.ZipFile(self.path) as archive:
                members = [m for m in archive.infolist() if not m.is_dir()]
                for done, member in enumerate(members, 1):
                    below = _below_layout(member.filename)
                    if below is None:
                        left_out.append(f"{self.path.name}: {member.filename!r} was left out")
                    elif below.name in _WANTED and not excluding_word(str(below)):
                        target = root.joinpath(*below.parts)
                        if not _is_whole(target, member.file_size):
                            with archive.open(member) as stream:
                                _write_whole(target, stream)
                    if progress is not None:
                        progress("unpack games", done, len(members))
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            RuntimeError,
            NotImplementedError,
        ) as error:
            raise DataDamaged(f"{self.path} is damaged ({error}): download it again") from error
        return left_out


def _below_layout(name: str) -> PurePosixPath | None:
    """Where a member lies below the layout's folder; None if it may not be unpacked."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or not parts or parts[0].endswith(("/", ":")):
        return None
    if LAYOUT_FOLDER in parts:
        parts = parts[parts.index(LAYOUT_FOLDER) + 1 :]
    return PurePosixPath(*parts) if parts else None


def _is_whole(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _write_whole(target: Path, stream: IO[bytes]) -> None:
    """Write a file under a temporary name first; the folder is brought to the disk at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(TEMPORARY_PREFIX + target.name)
    with temporary.open("wb") as out:
        shutil.copyfileobj(stream, out)
    os.replace(temporary, target)

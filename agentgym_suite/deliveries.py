"""Bringing the files of an official data set to this machine, however they are published."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx

from agentgym_suite.downloads import Patience, fetch
from agentgym_suite.errors import DiskFull, DownloadError, MissingExtra, reason_of
from agentgym_suite.files import Progress, explain_full_disk, free_bytes, make_folder
from agentgym_suite.sources import HubAddress, Source, SourceFile


def deliver(
    source: Source,
    folder: Path,
    *,
    with_optional: bool = False,
    progress: Progress | None = None,
    on_wait: Callable[[str], None] | None = None,
    patience: Patience | None = None,
) -> dict[str, Path]:
    """Fetch the files of a data set into ``folder``; those that are there already are kept.

    Args:
        source: the data set.
        folder: where the files shall lie, under their names in the table.
        with_optional: whether to fetch the optional files too.
        progress: called with the bytes that have arrived.
        on_wait: called with a sentence before each pause.
        patience: how long to keep trying.

    Returns:
        The path of each file by the import option that takes it.

    Raises:
        DownloadError: an address did not deliver; the sentence says the manual way.
        DataMissing: a ``file:///`` address names nothing.
        DiskFull: the files and what is unpacked from them do not fit.
        MissingExtra: a hub data set without the package that reads the hub.
    """
    files = [file for file in source.files if with_optional or not file.optional]
    fresh = sum(file.about_bytes for file in files if not (folder / file.name).exists())
    needed, free = fresh + source.unpacked_bytes, free_bytes(folder)
    if needed > free:
        raise DiskFull(
            f"{source.name} needs about {needed / 1e9:,.1f} GB where {free / 1e9:,.1f} GB are free "
            f"({folder}); make room or set AGENTGYM_SUITE_HOME to another disk"
        )
    delivered = {}
    for file in files:
        by_hand = (
            f"download it in a browser from {file.browser_page}, then "
            f"`agentgym-suite data import {source.name} {_import_options(source)}`"
        )
        hub = file.hub
        if hub is not None:
            path = _fetch_repository(hub, file, folder / file.name, by_hand)
        else:
            url = file.url or file.address
            path = _local_folder(url) or fetch(
                url,
                folder / _local_name(file, url),
                by_hand=by_hand,
                reserve_bytes=source.unpacked_bytes,
                progress=progress,
                on_wait=on_wait,
                patience=patience,
            )
        delivered[file.option] = path
    return delivered


def _import_options(source: Source) -> str:
    return " ".join(f"--{file.option} PATH" for file in source.files if not file.optional)


def _local_name(file: SourceFile, url: str) -> str:
    """The name on the disk; a mirror may keep a file packed, and readers go by the ending."""
    packing = Path(urlsplit(url).path).suffix
    packed = packing in (".xz", ".gz") and not file.name.endswith(packing)
    return file.name + packing if packed else file.name


def _local_folder(url: str) -> Path | None:
    """The folder that a ``file:///`` address names; it is used where it is, not copied."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    path = Path(url2pathname(parts.path))
    return path if path.is_dir() else None


def _fetch_repository(hub: HubAddress, file: SourceFile, folder: Path, by_hand: str) -> Path:
    """Fetch a repository of the model hub; its own library resumes and shows progress."""
    try:
        library = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise MissingExtra("retrieval", f"downloading {hub.repository} from the hub") from error
    make_folder(folder)
    try:
        with explain_full_disk(folder):
            library.snapshot_download(
                repo_id=hub.repository,
                repo_type=hub.kind,
                revision=hub.revision,
                allow_patterns=list(file.patterns) or None,
                local_dir=str(folder),
            )
    except (OSError, ValueError, RuntimeError, httpx.HTTPError) as error:
        reason = reason_of(error, 300) or type(error).__name__
        raise DownloadError(
            f"the hub did not deliver {hub.repository} ({reason}); run the same command again, "
            f"or {by_hand}"
        ) from error
    return folder

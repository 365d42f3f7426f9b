"""Where everything is kept, and how a data set is found by its name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs

from agentgym_suite.arguments import shown
from agentgym_suite.errors import DataMissing, UsageError

MANIFEST_NAME = "manifest.json"
_DATA_SET_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def data_home() -> Path:
    """The folder under which everything is kept; read from the environment at every call.

    ``AGENTGYM_SUITE_HOME`` when set and not empty, else the user's data folder as
    platformdirs gives it. The folder is not created here.
    """
    chosen = os.environ.get("AGENTGYM_SUITE_HOME")
    if chosen:
        return Path(os.path.expanduser(chosen)).absolute()
    return platformdirs.user_data_path("agentgym-suite")


def data_folder(environment: str, name: str) -> Path:
    """Where the data set, store or world ``name`` of an environment's folder lives."""
    return data_home() / environment / name


def made_folder(environment: str, what: str, digest: str) -> Path:
    """Where is kept, so that it is made once, what is a function of things with this digest.

    Args:
        environment: the folder of the data home.
        what: the first word of its name, such as ``cache``.
        digest: ``sha256:<hex>`` of everything it is made from.
    """
    return data_folder(environment, f"{what}-{digest.removeprefix('sha256:')[:16]}")


def download_folder(name: str) -> Path:
    """Where the files of the data set ``name`` lie as their publisher delivers them."""
    return data_home() / "downloads" / name


def named_data(data: Path | str, environment: str) -> Path | None:
    """The folder of a finished data set, named ``NAME`` or ``ENVIRONMENT/NAME``; None if none.

    Args:
        data: what may be a name.
        environment: the folder of the data home in which a bare name is looked up.
    """
    text = str(data)
    if _DATA_SET_NAME.fullmatch(text):
        for home in (data_home() / environment, data_home()):
            if os.path.isfile(home / text / MANIFEST_NAME):
                return home / text
    return None


def find_data(data: Path | str, environment: str) -> Path:
    """The folder that a user's ``data`` means: a data set of the data home, else a path.

    A data set is named as ``agentgym-suite data list`` names it, ``NAME`` or ``ENVIRONMENT/NAME``;
    it goes before a folder of that name in the current directory, which is written ``./NAME``.

    Args:
        data: the name or the path, absolute or from the current directory.
        environment: the folder of the data home in which a bare name is looked up.

    Raises:
        DataMissing: there is neither such a data set nor such a folder.
        UsageError: it is neither text nor a path.
    """
    if not isinstance(data, str | os.PathLike):
        raise UsageError(f"data is {shown(data)}; give a name or a path as text, or None")
    named = named_data(data, environment)
    if named is not None:
        return named
    text = str(data)
    folder = Path(os.path.expanduser(data)).absolute()
    if text and os.path.isdir(folder):
        return folder
    raise DataMissing(
        f"data is {shown(text)}, neither a folder nor a data set that is here; "
        "`agentgym-suite data list` shows what there is, `agentgym-suite data download NAME` "
        "fetches it, `agentgym-suite data path NAME` says where it lies"
    )

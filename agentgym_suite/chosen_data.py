"""What ``data`` means: the embedded world, a finished folder, or official files to be imported.

Environments whose official files are read once and kept say here only what is their own: what
their worlds are, and how files are imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.arguments import shown
from agentgym_suite.data import MANIFEST_NAME, load_manifest, named_data
from agentgym_suite.errors import DataMissing


@dataclass(frozen=True, slots=True)
class GivenPath:
    """A path that somebody gave: a file, a folder, or an archive where these are read.

    Attributes:
        path: where.
        split: what all its rows are, "" to go by the name of each file.
    """

    path: Path
    split: str = ""


def locate_data(
    data: str | tuple[str, ...] | None,
    environment: str,
    *,
    generated_kind: str,
    embedded: Callable[[], Path],
    import_generated: Callable[[Path], Path],
    import_given: Callable[[Sequence[GivenPath]], Path],
) -> Path:
    """The finished folder of ``data``, made now where it is new.

    Args:
        data: as ``arguments.check_data`` gives it.
        environment: its folder in the data home.
        generated_kind: what the manifest of a generated world says it is.
        embedded: makes the embedded world, or finds it.
        import_generated: makes the finished folder of a generated world.
        import_given: makes that of official files.

    Raises:
        DataMissing: nothing is there.
    """
    if data is None:
        return import_generated(embedded())
    if not isinstance(data, str):
        return import_given([GivenPath(Path(each)) for each in data])
    place = named_data(data, environment) or Path(data).absolute()
    if (place / MANIFEST_NAME).is_file():
        generated = load_manifest(place).kind == generated_kind
        return import_generated(place) if generated else place
    if not place.exists():
        raise DataMissing(
            f"data is {shown(data)}, neither a file or folder nor a data set here; "
            "`agentgym-suite data list` shows what there is"
        )
    return import_given([GivenPath(place)])

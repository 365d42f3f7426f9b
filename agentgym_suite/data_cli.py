"""The command `agentgym-suite data`: what official data there is, and how it gets here."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType

from agentgym_suite import data
from agentgym_suite.errors import DataDamaged, DataMissing, UsageError
from agentgym_suite.sources import Source, find_source, load_sources


@dataclass(frozen=True, slots=True)
class Importer:
    """Who turns the official files of a data set into what an environment plays.

    Attributes:
        module: offers `add_import_arguments(parser)`, an `--out` among them,
            `run_import(args, progress)`, which returns the one published folder, and
            `verify(path, progress)`; imported only when it is needed.
        generates: whether it also offers `add_generate_arguments(parser)` and
            `run_generate(args, progress) -> Path`.
    """

    module: str
    generates: bool = False

    def load(self) -> ModuleType:
        """Import the module."""
        return importlib.import_module(self.module)


# The one place where a data set meets its importer: later environments add rows.
IMPORTERS: Mapping[str, Importer] = MappingProxyType(
    {
        "webshop-small": Importer("agentgym_suite.webshop.importing"),
        "webshop": Importer("agentgym_suite.webshop.importing", generates=True),
    }
)


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `data` and its subcommands to the parser of the suite."""
    parser = commands.add_parser("data", help="official data: list, download, import, verify")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    listing = actions.add_parser("list", help="every data set: here or not, size, licence, where")
    listing.set_defaults(run=_run_list)

    download = actions.add_parser("download", help="fetch a data set and import it")
    download.add_argument("name", metavar="NAME", help="a data set of `data list`")
    download.add_argument("--yes", action="store_true", help="take the licence as read")
    download.add_argument(
        "--optional", action="store_true", help="fetch the optional files of the data set too"
    )
    download.set_defaults(run=_run_download)

    for action, run, words in (
        ("import", _run_import, "import official files that are on this machine"),
        ("generate", _run_generate, "generate data in the official formats"),
    ):
        made = actions.add_parser(action, help=words)
        made.add_argument("name", metavar="NAME", help="a data set; NAME --help has its options")
        # Parsed later, so that only the importer that is wanted is imported.
        made.add_argument("rest", metavar="…", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        made.set_defaults(run=run)

    verify = actions.add_parser("verify", help="recompute every digest of a data set")
    verify.add_argument("name", metavar="NAME", help="a data set, or a folder that was made")
    verify.set_defaults(run=_run_verify)

    path = actions.add_parser("path", help="print where a data set lies, and nothing else")
    path.add_argument("name", metavar="NAME", help="a data set of `data list`")
    path.set_defaults(run=_run_path)


def _run_list(args: argparse.Namespace) -> int:
    # rich is imported in the functions that draw, so that other commands start without it.
    from rich.console import Console
    from rich.table import Table

    sources = load_sources()
    table = Table(title=f"Data sets ({data.data_home()})", title_justify="left")
    for heading in ("name", "state", "size", "licence", "where"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("name", "state", "size"))
    homes = {_home_of(source): source for source in sources.values()}
    for folder, source in homes.items():
        state, size = _state(folder)
        about = f"~{_size(source.about_bytes)}" if source.about_bytes else "-"
        published = source.page or source.files[0].browser_page
        where = str(folder) if state == "present" else published
        table.add_row(source.name, state, size or about, source.licence, where)
    for folder in sorted({path.parent for path in data.data_home().glob("*/*/manifest.json")}):
        if folder not in homes:
            name = folder.relative_to(data.data_home()).as_posix()
            table.add_row(name, *_state(folder), "made on this machine", str(folder))
    table.caption = "agentgym-suite data download NAME fetches and imports one"
    Console().print(table)
    return 0


def _run_download(args: argparse.Namespace) -> int:
    from agentgym_suite.deliveries import deliver
    from agentgym_suite.progress_bars import progress_bars

    source = find_source(args.name, load_sources())
    if _manifest(_home_of(source)):
        _say(f"{source.name} is present already")
        return _print_path(_home_of(source))
    _say(f"{source.name}: {source.title}. Licence: {source.licence}. {source.note}".rstrip())
    if not args.yes:
        _ask(source)
    folder = data.download_folder(source.name)
    with progress_bars() as progress:
        delivered = deliver(
            source, folder, with_optional=args.optional, progress=progress, on_wait=_say
        )
    importer = IMPORTERS.get(source.name)
    if importer is None:
        _say(f"this version has no import for {source.name}: the files are in {folder}")
        return _print_path(folder)
    options = [word for option, path in delivered.items() for word in (f"--{option}", str(path))]
    return _import(source, importer, options)


def _run_import(args: argparse.Namespace) -> int:
    source = find_source(args.name, load_sources())
    return _import(source, _importer(args.name, "import", IMPORTERS), args.rest)


def _import(source: Source, importer: Importer, options: list[str]) -> int:
    """The import that a person with the files runs, and a download after its last byte."""
    from agentgym_suite.progress_bars import progress_bars

    module = importer.load()
    parser = argparse.ArgumentParser(prog=f"agentgym-suite data import {source.name}")
    module.add_import_arguments(parser)
    parser.set_defaults(out=_home_of(source), name=source.name)
    parsed = parser.parse_args(options)
    with progress_bars() as progress:
        folder = Path(module.run_import(parsed, progress))
    _report(source, folder)
    return _print_path(folder)


def _run_generate(args: argparse.Namespace) -> int:
    from agentgym_suite.progress_bars import progress_bars

    able = {name: importer for name, importer in IMPORTERS.items() if importer.generates}
    module = _importer(args.name, "generate", able).load()
    parser = argparse.ArgumentParser(prog=f"agentgym-suite data generate {args.name}")
    module.add_generate_arguments(parser)
    parsed = parser.parse_args(args.rest)
    with progress_bars() as progress:
        folder = Path(module.run_generate(parsed, progress))
    return _print_path(folder)


def _run_verify(args: argparse.Namespace) -> int:
    from agentgym_suite.progress_bars import progress_bars

    sources = load_sources()
    folder = _folder_of(args.name, sources)
    if _manifest(folder) is None:
        raise DataMissing(f"{args.name} is not here ({folder}): {_how_to_get(args.name)}")
    importer = IMPORTERS.get(args.name)
    check = importer.load().verify if importer else data.verify_folder
    with progress_bars() as progress:
        check(folder, progress)
    source = sources.get(args.name)
    differences = _report(source, folder)
    if source is not None and differences:
        raise DataDamaged(
            f"{folder} is whole but is not the published {source.name} ({'; '.join(differences)}): "
            "import the official files again"
        )
    return 0


def _run_path(args: argparse.Namespace) -> int:
    folder = _folder_of(args.name, load_sources())
    if _manifest(folder) is None:
        raise DataMissing(f"{args.name} is not here ({folder}): {_how_to_get(args.name)}")
    return _print_path(folder)


def _report(source: Source | None, folder: Path) -> list[str]:
    """Say what a folder holds beside what its publisher says; return the differences."""
    manifest = data.load_manifest(folder)
    published = source.counts if source else {}
    differences = []
    _say(f"{manifest.kind} {manifest.digest}")
    for key, count in manifest.counts.items():
        expected = published.get(key)
        _say(f"  {key}: {count:,}" + ("" if expected is None else f" (published {expected:,})"))
        if expected is not None and expected != count:
            differences.append(f"{key} {count:,} where {expected:,} are published")
    for key, digest in (source.digests if source else {}).items():
        found = manifest.notes.get(key)
        if found is not None and str(found).removeprefix("sha256:") != digest:
            differences.append(f"digest {key} is {found}, published {digest}")
    return differences


def _home_of(source: Source) -> Path:
    return data.data_folder(source.environment, source.name)


def _folder_of(name: str, sources: Mapping[str, Source]) -> Path:
    """The folder of a data set, of `<environment>/<name>` in the home, or of a path."""
    if name not in sources:
        for folder in (data.data_home() / name, Path(name).absolute()):
            if folder.is_dir():
                return folder
    return _home_of(find_source(name, sources))


def _manifest(folder: Path) -> data.Manifest | None:
    """The manifest of a data set, None when nothing finished is there."""
    return data.load_manifest(folder) if (folder / data.MANIFEST_NAME).is_file() else None


def _state(folder: Path) -> tuple[str, str]:
    """Whether a data set is present, and its size as text, "" when it is not."""
    try:
        manifest = _manifest(folder)
    except DataDamaged:
        return "damaged", ""
    if manifest is None:
        begun = folder.exists() or folder.with_name(folder.name + ".partial").exists()
        return "unfinished" if begun else "absent", ""
    return "present", _size(sum(entry.size for entry in manifest.files.values()))


def _how_to_get(name: str) -> str:
    return f"`agentgym-suite data download {name}` or `agentgym-suite data import {name} …`"


def _importer(name: str, action: str, table: Mapping[str, Importer]) -> Importer:
    if name not in table:
        known = ", ".join(table)
        raise UsageError(f"this version cannot {action} {name!r}: choose one of {known}")
    return table[name]


def _ask(source: Source) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"nobody can answer here: add --yes to download {source.name}")
    sys.stderr.write("Download it under this licence? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(f"{source.name} was not downloaded: answer y, or add --yes")


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")


def _print_path(path: Path) -> int:
    sys.stdout.write(f"{path}\n")
    return 0

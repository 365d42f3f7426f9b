"""The command ``agentgym-suite data``: what official data there is, and how it gets here."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym_suite import data
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, DataVersion, UsageError
from agentgym_suite.files import partial_folder, remove_folder
from agentgym_suite.importers import CHECKERS, IMPORTERS, Importer
from agentgym_suite.registry import ENVIRONMENTS
from agentgym_suite.sources import Source, find_source, load_sources

# What environments build for themselves at first use, and build again when it is gone.
_BUILT_ALONE = re.compile(r"(embedded|cache|lucene)-")


class _NameAnywhere(argparse.ArgumentParser):
    """Takes the options of a data set before its name, too."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse with the name in front, since the rest is for the data set's own parser."""
        words = list(args or ())
        takes_rest = any(action.nargs == argparse.REMAINDER for action in self._actions)
        name = next((word for word in words if word in IMPORTERS), None)
        if takes_rest and name is not None:
            words.remove(name)
            words = [name, *words]
        return super().parse_known_args(words, namespace)


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``data`` and its subcommands to the parser of the suite."""
    parser = commands.add_parser("data", help="official data: list, download, import, verify")
    actions = parser.add_subparsers(
        title="actions", metavar="ACTION", required=True, parser_class=_NameAnywhere
    )

    listing = actions.add_parser("list", help="every data set: here or not, size, licence")
    listing.add_argument(
        "--verbose",
        action="store_true",
        help="also where each one is, and what environments built for themselves",
    )
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
        able = " or ".join(_able(action))
        named = f"{able}; `data {action} NAME --help` has its options"
        made.add_argument("name", metavar="NAME", help=named)
        # Parsed later, so that only the importer that is wanted is imported.
        rest = made.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        rest.required = False  # argparse would ask for NAME and for this
        made.set_defaults(run=run)

    verify = actions.add_parser("verify", help="recompute every digest of a data set")
    verify.add_argument(
        "name",
        metavar="NAME",
        help="a data set, or a folder that was made; alfworld --against textworld plays it in both",
    )
    rest = verify.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    rest.required = False
    verify.set_defaults(run=_run_verify)

    path = actions.add_parser("path", help="print where a data set lies, and nothing else")
    path.add_argument("name", metavar="NAME", help="a data set of `data list`")
    path.set_defaults(run=_run_path)

    remove = actions.add_parser("remove", help="remove a data set from the data home")
    remove.add_argument("name", metavar="NAME", help="a data set of `data list`")
    remove.add_argument("--yes", action="store_true", help="do not ask first")
    remove.add_argument("--downloads", action="store_true", help="its downloaded files too")
    remove.set_defaults(run=_run_remove)


def _run_list(args: argparse.Namespace) -> int:
    # rich is imported in the functions that draw, so that other commands start without it.
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from agentgym_suite.console import console

    home, sources = data.data_home(), load_sources()
    headings = ("name", "environment", "state", "size", "licence")
    places = {}  # told below the table: a path as a column leaves no room for the others
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in headings[:-1])
    homes = {_home_of(source): source for source in sources.values()}
    for folder, source in homes.items():
        state, size = _state(folder)
        about = f"~{_size(source.about_bytes)}" if source.about_bytes else "-"
        plays = source.environment if source.name in IMPORTERS else "none yet"
        published = source.page or source.files[0].browser_page
        places[source.name] = str(folder) if state == "present" else published
        table.add_row(source.name, plays, state, size or about, source.licence)
    hidden = 0
    for folder in sorted({path.parent for path in home.glob("*/*/manifest.json")} - set(homes)):
        if _BUILT_ALONE.match(folder.name) and not args.verbose:
            hidden += 1
            continue
        name, plays = folder.relative_to(home).as_posix(), folder.parent.name
        places[name] = str(folder)
        table.add_row(name, plays, *_state(folder), "made on this machine")
    out = console(highlight=False)
    out.print(f"Data sets in {home}", soft_wrap=True)
    out.print(table)
    for name, place in places.items() if args.verbose else ():
        out.print(f"{name}: {place}", soft_wrap=True)
    if hidden:
        out.print(f"and {hidden} that environments built for themselves (--verbose)")
    out.print("agentgym-suite data download NAME fetches and imports one")
    return 0


def _run_download(args: argparse.Namespace) -> int:
    from agentgym_suite.deliveries import deliver
    from agentgym_suite.progress_bars import progress_bars

    source = find_source(args.name, load_sources())
    if _manifest(_home_of(source)):
        _say(f"{source.name} is present already")
        return _tell_made(source, _home_of(source))
    _say(f"{source.name}: {source.title}. Licence: {source.licence}. {source.note}".rstrip())
    if not args.yes:
        _ask("Download it under this licence?", f"{source.name} was not downloaded")
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
    return _import(source, _importer(args.name, "import"), args.rest)


def _import(source: Source, importer: Importer, options: list[str]) -> int:
    """The import that a person with the files runs, and a download after its last byte."""
    from agentgym_suite.progress_bars import progress_bars

    module = importer.load()
    parser = argparse.ArgumentParser(prog=f"agentgym-suite data import {source.name}")
    module.add_import_arguments(parser)
    parser.set_defaults(out=_home_of(source), name=source.name)
    parsed = parser.parse_args(options)
    with progress_bars() as progress:
        folder = Path(module.run_import(parsed, progress, _say))
    return _tell_made(source, folder)


def _run_generate(args: argparse.Namespace) -> int:
    from agentgym_suite.progress_bars import progress_bars

    module = _importer(args.name, "generate").load()
    parser = argparse.ArgumentParser(prog=f"agentgym-suite data generate {args.name}")
    module.add_generate_arguments(parser)
    parsed = parser.parse_args(args.rest)
    with progress_bars() as progress:
        folder = Path(module.run_generate(parsed, progress, _say))
    return _print_path(folder)


def _run_verify(args: argparse.Namespace) -> int:
    from agentgym_suite.progress_bars import progress_bars

    if args.rest:
        return _run_compare(args)
    sources = load_sources()
    folder = _finished(args.name, sources)
    kind = data.load_manifest(folder).kind
    if kind not in CHECKERS:
        known = ", ".join(CHECKERS)
        raise DataVersion(f"{folder} holds {kind!r}; this version of the suite verifies {known}")
    with progress_bars() as progress:
        importlib.import_module(CHECKERS[kind]).verify(folder, progress)
    source = sources.get(args.name)
    differences = _report(source, folder)
    _print(f"{folder} is as its manifest says")
    if source is not None and differences:
        raise DataDamaged(
            f"{folder} is whole but is not the published {source.name} ({'; '.join(differences)}); "
            "import the official files again"
        )
    return 0


def _run_compare(args: argparse.Namespace) -> int:
    from agentgym_suite.progress_bars import progress_bars

    module = _importer(args.name, "compare").load()
    parser = argparse.ArgumentParser(prog=f"agentgym-suite data verify {args.name}")
    module.add_compare_arguments(parser)
    parsed = parser.parse_args(args.rest)
    with progress_bars() as progress:
        return int(module.run_compare(parsed, progress))


def _run_path(args: argparse.Namespace) -> int:
    return _print_path(_finished(args.name, load_sources()))


def _run_remove(args: argparse.Namespace) -> int:
    sources = load_sources()
    folder = _folder_of(args.name, sources)
    fetched = data.download_folder(args.name) if args.name in sources else None
    # Resolved, because a/.. would be the home itself, and a link may lead anywhere.
    if folder.resolve().parent.parent != data.data_home().resolve():
        raise UsageError(f"{folder} is not in the data home; remove it by hand")
    doomed = [folder] if _state(folder)[0] != "absent" else []
    if args.downloads and fetched is not None and fetched.is_dir():
        doomed.append(fetched)
    if not doomed:
        raise DataMissing(f"{args.name} is not here ({folder}); there is nothing to remove")
    if not args.yes:
        _ask(f"Remove {' and '.join(map(str, doomed))}?", f"{args.name} was not removed")
    for place in doomed:
        remove_folder(place, _say)
        _print(f"removed {place}")
    if fetched is not None and fetched.is_dir():
        _say(f"its downloaded files stay in {fetched}; add --downloads to remove them")
    return 0


def _tell_made(source: Source, folder: Path) -> int:
    """What was made, where it is, and the command that uses it next."""
    _report(source, folder)
    importer = IMPORTERS.get(source.name)
    if importer is not None:
        for line in importer.load().describe(folder):
            _print(f"  {line}")
    _print(f"  where: {folder}")
    place = source.name if folder == _home_of(source) else shlex.quote(str(folder))
    manifest = data.load_manifest(folder)
    # questions alone are searched elsewhere, and passages alone are not played
    needs = manifest.kind == "qa-questions" and "passages" not in manifest.counts
    index = " --set index=DIR" if needs else ""
    for one in ENVIRONMENTS:
        if one.name == source.environment and manifest.kind != "qa-corpus":
            _print(f"  play it: agentgym-suite play {one.id} --data {place}{index}")
    return 0


def _report(source: Source | None, folder: Path) -> list[str]:
    """Print what a folder holds beside what its publisher says; return the differences."""
    manifest = data.load_manifest(folder)
    published = source.counts if source else {}
    differences = []
    _print(f"{manifest.kind} {manifest.digest}")
    for key, count in manifest.counts.items():
        expected = published.get(key)
        told = "" if expected is None else f" (published {expected:,})"
        _print(f"  {key.replace('_', ' ')}: {count:,}{told}")
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
    """The folder of a data set, of ``<environment>/<name>`` in the home, or of a path.

    Raises:
        DataMissing: a path leads to no folder.
        UsageError: the name is empty or unknown.
    """
    if not name.strip():
        raise UsageError(f"the name is {name!r}; give a data set of `agentgym-suite data list`")
    if name not in sources:
        for folder in (data.data_home() / name, Path(name).expanduser().absolute()):
            if os.path.isdir(folder):
                return folder
        if os.sep in name:
            raise DataMissing(f"there is no folder {name}; check the path")
    return _home_of(find_source(name, sources))


def _finished(name: str, sources: Mapping[str, Source]) -> Path:
    """The folder of a data set that is here.

    Raises:
        DataMissing: it is not, or the folder is not one that this suite made.
        UsageError: the name is empty or unknown.
    """
    folder = _folder_of(name, sources)
    if (folder / data.MANIFEST_NAME).is_file():
        return folder
    if name in sources:
        raise DataMissing(f"{name} is not here ({folder}); {_how_to_get(name)}")
    raise DataMissing(
        f"{folder} has no {data.MANIFEST_NAME}, so it is nothing that this suite finished; give a "
        "data set of `agentgym-suite data list`, or a folder that `data import` made"
    )


def _manifest(folder: Path) -> data.Manifest | None:
    """The manifest of a data set, None when nothing finished is there."""
    return data.load_manifest(folder) if (folder / data.MANIFEST_NAME).is_file() else None


def _state(folder: Path) -> tuple[str, str]:
    """Whether a data set is present, and its size as text, "" when it is not."""
    try:
        manifest = _manifest(folder)
    except (DataError, OSError):
        return "damaged", ""
    if manifest is None:
        begun = folder.exists() or partial_folder(folder).exists()
        return "unfinished" if begun else "absent", ""
    return "present", _size(sum(entry.size for entry in manifest.files.values()))


def _how_to_get(name: str) -> str:
    if name not in IMPORTERS:
        return "no environment of this version plays it; `agentgym-suite data download` fetches it"
    return f"`agentgym-suite data download {name}` or `agentgym-suite data import {name} …`"


def _able(action: str) -> dict[str, Importer]:
    """The data sets that a command can be used for."""
    if action == "import":
        return dict(IMPORTERS)
    if action == "generate":
        return {name: one for name, one in IMPORTERS.items() if one.generates}
    return {name: one for name, one in IMPORTERS.items() if one.compares}


def _importer(name: str, action: str) -> Importer:
    able = _able(action)
    if name not in able:
        known = ", ".join(able)
        raise UsageError(f"this version cannot {action} {name!r}; choose one of {known}")
    return able[name]


def _ask(question: str, otherwise: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(f"{otherwise}, nobody can answer here; add --yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(f"{otherwise}; answer y, or add --yes")


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def _print_path(path: Path) -> int:
    _print(str(path))
    return 0

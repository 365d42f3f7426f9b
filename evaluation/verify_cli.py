"""``agentgym-suite verify``: replay a run and say whether its numbers come out again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from agentgym_suite.arguments import key_value, shown
from agentgym_suite.console import console
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.scored_runs import find_runs
from agentgym_suite.evaluation.verdicts import Verification
from agentgym_suite.evaluation.verify import verify_run
from agentgym_suite.progress_bars import progress_bars
from agentgym_suite.spaces import without_surrogates

MISMATCH, NOT_REPRODUCIBLE, INCOMPLETE = 3, 2, 1


def register_verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``verify`` command."""
    parser = commands.add_parser(
        "verify",
        help="replay recorded runs and count their results again",
        description="Replay every recorded action in a fresh environment, compare each step, and "
        "count the results again. Needs no model. The verdict is stored beside the run; "
        "`agentgym-suite report` brings it into the pages.",
        epilog="exit code: 0 verified, 1 verified as far as an incomplete run goes, 2 not "
        "reproducible with the data and versions here, 3 mismatch",
    )
    parser.add_argument(
        "folder", metavar="DIR", help="a run, a folder of nothing but runs, or one of a union"
    )
    parser.add_argument(
        "--sample", metavar="N", type=int, help="replay only N episodes; such runs are not ranked"
    )
    parser.add_argument(
        "--seed", metavar="S", type=int, default=0, help="which ones --sample takes (default: 0)"
    )
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=1, help="processes that replay (default: 1)"
    )
    parser.add_argument(
        "--data",
        metavar="ENV=PATH",
        action="append",
        default=[],
        help="where the official files of an environment lie now, if not where the run says",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    parser.set_defaults(run=_verify)


def _verify(args: argparse.Namespace) -> int:
    if not args.folder:  # a variable of the shell that is not set
        raise UsageError("DIR is empty; give the path of a run")
    data = dict(key_value(text, "--data") for text in args.data)
    verdicts: list[tuple[Path, Verification]] = []
    for folder, own_data in _data_of_each(find_runs(Path(args.folder)), data).items():
        with progress_bars() as progress:
            verification = verify_run(
                folder,
                data=own_data,
                sample=args.sample,
                seed=args.seed,
                jobs=args.jobs,
                progress=progress,
            )
        verdicts.append((folder, verification))
    if args.json:
        _print_json(verdicts)
    else:
        for folder, verification in verdicts:
            _print_verdict(folder, verification)
        _print_stale(Path(args.folder))
    return max(exit_code(verification) for _, verification in verdicts)


def _data_of_each(
    folders: Sequence[Path], data: Mapping[str, str]
) -> dict[Path, Mapping[str, str]]:
    """The data that each run plays: the runs of a union need not play the same.

    Raises:
        UsageError: data that none of them plays.
    """
    if len(folders) == 1:
        return {folders[0]: data}
    names = {folder: _data_names(folder) for folder in folders}
    known = sorted(set().union(*names.values()))
    stray = sorted(set(data) - set(known))
    if stray:
        raise UsageError(f"data is given for {shown(stray[0])}; the runs have {', '.join(known)}")
    return {
        folder: {name: path for name, path in data.items() if name in own}
        for folder, own in names.items()
    }


def _data_names(folder: Path) -> set[str]:
    """What data may be given for: the environments and data sets of a run."""
    entries = read_run(folder)["suite"]["content"]["env"]
    return {name for entry in entries for name in (entry["id"], entry.get("data")) if name}


def exit_code(verification: Verification) -> int:
    """What the command ends with for one verdict."""
    if verification.verdict == "mismatch":
        return MISMATCH
    if verification.verdict == "not-reproducible":
        return NOT_REPRODUCIBLE
    return INCOMPLETE if verification.finished < verification.planned else 0


def _print_json(verdicts: Sequence[tuple[Path, Verification]]) -> None:
    rows = [{"folder": str(folder), **asdict(verification)} for folder, verification in verdicts]
    console().out(json.dumps({"runs": rows}, sort_keys=True), highlight=False)


def _print_verdict(folder: Path, verification: Verification) -> None:
    out = console(highlight=False)
    for sentence in sentences(verification):
        out.print(f"{without_surrogates(str(folder))}: {sentence}", soft_wrap=True)


def _print_stale(folder: Path) -> None:
    """The pages are made from the records and the verdict, but not by this command."""
    named = without_surrogates(str(folder))
    console(highlight=False).print(
        f"the reports show this after `agentgym-suite report {named}`", soft_wrap=True
    )


def sentences(verification: Verification) -> list[str]:
    """A verdict in words: the first sentence says it, the others tell why."""
    told = [
        f"{verification.title} ({verification.replayed} of {verification.planned} episodes "
        "replayed)"
    ]
    told += [mismatch.sentence for mismatch in verification.mismatches]
    more = verification.mismatch_count - len(verification.mismatches)
    if more > 0:
        told.append(f"and {more} more mismatches")
    told += [
        f"{name} is {here} here and was {recorded} in the run"
        for name, (recorded, here) in verification.differences.items()
    ]
    if verification.differences:
        told.append("nothing is claimed of this run; verify it with its own data and versions")
    if verification.roundings:
        told.append(f"{verification.roundings} numbers differ by less than 1e-9 from the replay's")
    if verification.finished < verification.planned:
        rest = verification.planned - verification.finished
        told.append(f"incomplete: {rest} episodes are missing; `evaluate` goes on with them")
    return told

"""Proof that answers are scored as veRL scores them, with its own module live.

    python benchmarks/parity_qa.py [--cases 20000] [--seed 0]

Compares normalisation, exact match, substring match and the score of whole transcripts on
random texts full of articles, punctuation and tags, and on every answer of the shared question
sets, when AGENTGYM_SUITE_SHARED names them. Prints the first difference of each kind and exits
with 1 when there is any. Needs `pip install --no-deps verl==0.9.1`: of it one file is loaded,
because the package itself imports Ray and torch.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from agentgym_suite.multihop_qa.row_formats import RowPlace, format_of
from agentgym_suite.multihop_qa.scorers import SCORERS, normalise, substring_match
from agentgym_suite.multihop_qa.transcripts import verl
from agentgym_suite.official_rows import BadRows, iter_rows
from agentgym_suite.source_texts import find_texts

_VERL = "0.9.1"
_SCORER = "utils/reward_score/search_r1_like_qa_em.py"
_PIECES = (
    *("the", "a", "an", "The", "A", "AN", "theatre", "yes", "no", "noanswer", "Odrin", "Vale"),
    *("1,000", "1000", "state-of-the-art", "it's", "“x”", "–", "’", "é", "e\u0301", "İ", "ß"),
    *("!", ".", "_", "$", "\\", "|", " ", "  ", "\t", "\n", "\u00a0", "\u2028", "中文", "😀", ""),
)
_TAGS = ("<answer>", "</answer>", "<Answer>", "<think>", "</think>", "<information>")

Pair = tuple[str, list[str]]


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=20_000, help="random cases of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the random cases")
    options = parser.parse_args()
    theirs = _live_scorer()
    dice = random.Random(options.seed)
    random_pairs = [_random_pair(dice) for _ in range(options.cases)]
    transcripts = [_random_transcript(dice) for _ in range(options.cases)]
    differing = _compare("random texts", theirs, random_pairs, transcripts)
    shared = os.environ.get("AGENTGYM_SUITE_SHARED")
    if shared:
        golds = _real_golds(Path(shared) / "data" / "qa")
        pairs = list(_real_pairs(golds, dice))
        wrapped = [(f"<think>x</think><answer> {told} </answer>", wanted) for told, wanted in pairs]
        differing += _compare(f"answers of {len(golds):,} real questions", theirs, pairs, wrapped)
    else:
        print("AGENTGYM_SUITE_SHARED is not set: no real answers to compare")
    return 1 if differing else 0


def _live_scorer() -> ModuleType:
    """The scorer module of veRL, without the package around it."""
    package = importlib.util.find_spec("verl")
    found = importlib.metadata.version("verl") if package is not None else None
    if package is None or package.submodule_search_locations is None or found != _VERL:
        raise SystemExit(f"verl is {found}; install it: pip install --no-deps verl=={_VERL}")
    path = Path(package.submodule_search_locations[0]) / _SCORER
    spec = importlib.util.spec_from_file_location("verl_qa_em", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded; install verl=={_VERL} again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compare(
    name: str, theirs: ModuleType, pairs: Sequence[Pair], transcripts: Sequence[Pair]
) -> int:
    """Print how many cases differ and the first of each kind; return how many."""
    started = time.perf_counter()
    first: dict[str, str] = {}
    counts = {"normalisation": 0, "exact match": 0, "substring": 0, "transcript": 0}
    matches = empty_golds = 0

    def check(kind: str, ours: object, live: object, case: object) -> None:
        if ours != live:
            counts[kind] += 1
            first.setdefault(kind, f"  {kind}: ours {ours!r}, veRL {live!r} for {case!r}")

    for told, golds in pairs:
        for text in (told, *golds):
            check("normalisation", normalise(text), theirs.normalize_answer(text), text)
        live = theirs.em_check(told, golds)
        matches += live
        for scorer in ("search_r1", "hotpot"):
            check("exact match", SCORERS[scorer].official(told, golds).em, live, (told, golds))
        # an empty gold is in every text there and in none here: the one difference wanted
        if all(map(normalise, golds)):
            live = theirs.subem_check(told, golds)
            check("substring", substring_match(told, golds), live, (told, golds))
        else:
            empty_golds += 1
    for text, golds in transcripts:
        with contextlib.redirect_stdout(io.StringIO()):  # theirs prints one case in 64
            live = theirs.compute_score(text, {"target": golds}, format_score=0.1)
        check("transcript", verl(text, golds, wrong=0.1), live, (text, golds))
    different = sum(counts.values())
    print(
        f"{name}: {len(pairs):,} answers ({matches:,} right; {empty_golds:,} with an empty gold "
        f"left out of substring) and {len(transcripts):,} transcripts: {different} differ "
        f"({time.perf_counter() - started:.1f} s)"
    )
    for line in first.values():
        print(line)
    return different


def _random_text(dice: random.Random, most: int) -> str:
    if dice.random() < 0.2:
        return "".join(chr(dice.randrange(1, 0x250)) for _ in range(dice.randrange(most)))
    glue = dice.choice((" ", "", "-", ", "))
    return glue.join(dice.choice(_PIECES) for _ in range(dice.randrange(most)))


def _random_pair(dice: random.Random) -> Pair:
    told = _random_text(dice, 6)
    golds = [_random_text(dice, 5) for _ in range(dice.randrange(1, 4))]
    if dice.random() < 0.4:  # the same answer in other clothes
        golds[-1] = f"The {told.upper() if dice.random() < 0.5 else told}."
    return told, golds


def _random_transcript(dice: random.Random) -> Pair:
    told, golds = _random_pair(dice)
    parts = [
        dice.choice((*_TAGS, told, " ", "\n", f"<answer>{told}</answer>"))
        for _ in range(dice.randrange(30 if dice.random() < 0.5 else 8))
    ]
    return "".join(parts), golds


def _real_golds(folder: Path) -> list[list[str]]:
    """The accepted answers of every question of the shared sets."""
    golds = []
    for text in find_texts(folder):
        for number, (_, row) in enumerate(iter_rows(text, BadRows(skip=True))):
            form = format_of(row)
            if form is not None:
                golds.append(list(form.question(row, RowPlace("x", "dev", number)).golds))
    return golds


def _real_pairs(golds: Sequence[list[str]], dice: random.Random) -> Iterator[Pair]:
    """Each answer as it is, changed a little, and against the golds of another question."""
    for wanted in golds:
        for answer in wanted:
            yield answer, wanted
            yield f"the {answer.upper()}!", wanted
            yield answer.replace(" ", "-", 1), wanted
            yield answer.rpartition(" ")[0], wanted
            yield answer, dice.choice(golds)


if __name__ == "__main__":
    sys.exit(main())

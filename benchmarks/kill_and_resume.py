"""Runs killed with SIGKILL at random moments and gone on with: nothing lost, nothing repeated.

    python benchmarks/kill_and_resume.py [--kills N] [--seed S] [-- MORE ARGUMENTS OF evaluate]

Each kill has a run of its own: ``agentgym-suite evaluate`` is started, killed after a seeded share
of the time that an uninterrupted run takes, start-up and scoring included, and the same command
goes on. Its results must be the uninterrupted run's, timing aside, every line that was whole must
still be there, and no episode may be missing or twice.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of
from agentgym_suite.evaluation.run_directory import EPISODES, RESULTS, read_records

USUAL = ["--env", "WebShop-v0", "--agent", "oracle", "--trials", "20", "--concurrency", "2"]
TIMING = ("latency",)


def evaluate(out: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """The command as a process of its own."""
    command = [sys.executable, "-m", "agentgym_suite", "evaluate", *arguments]
    return subprocess.Popen(
        [*command, "--out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def untimed(value: Any) -> Any:
    """Results without what is measured by the clock."""
    if isinstance(value, Mapping):
        return {key: untimed(inner) for key, inner in value.items() if key not in TIMING}
    return value


def results(out: Path) -> Any:
    """The results of a run, timing aside."""
    return untimed(json.loads((out / RESULTS).read_bytes()))


def episodes(out: Path) -> Counter[EpisodeKey]:
    """How often the records hold each episode."""
    return Counter(key_of(record) for record in read_records(out / EPISODES))


def whole_lines(out: Path) -> bytes:
    """The finished lines of the records, without a torn end."""
    path = out / EPISODES
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1]


def killed(out: Path, arguments: Sequence[str], after_s: float) -> bool:
    """Start a run and kill it; False when it had ended before."""
    process = evaluate(out, arguments)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def faults(out: Path, arguments: Sequence[str], before: bytes, expected: Any) -> list[str]:
    """What is wrong with a run after it was gone on with."""
    code = evaluate(out, arguments).wait()
    if code != 0:
        return [f"going on ended with {code}"]
    found = []
    if not (out / EPISODES).read_bytes().startswith(before):
        found.append("finished lines were changed")
    counts = episodes(out)
    if sum(counts.values()) != expected["planned"] or max(counts.values()) > 1:
        found.append(f"{sum(counts.values())} lines of {len(counts)} episodes")
    if results(out) != expected:
        found.append("the results are others")
    return found


def main() -> int:
    """Kill and go on; 1 if anything was lost, repeated or counted otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("arguments", nargs="*", default=USUAL, help="of evaluate, behind --")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        if evaluate(Path(folder) / "whole", args.arguments).wait() != 0:
            print("the uninterrupted run failed", file=sys.stderr)
            return 1
        whole_s = time.monotonic() - started
        expected = results(Path(folder) / "whole")
        print(f"uninterrupted: {expected['planned']} episodes in {whole_s:.1f} s")
        done = 0
        while done < args.kills:
            out = Path(folder) / f"run-{rng.getrandbits(32):08x}"
            after_s = rng.uniform(0.0, whole_s)
            if not killed(out, args.arguments, after_s):
                continue
            done += 1
            before = whole_lines(out)
            told = faults(out, args.arguments, before, expected)
            wrong += bool(told)
            finished = before.count(b"\n")
            verdict = "; ".join(told) or "equal"
            print(f"killed after {after_s:5.2f} s with {finished:4} finished: {verdict}")
    print(f"{args.kills} kills, {wrong} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

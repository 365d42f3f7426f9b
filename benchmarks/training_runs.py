"""Trainings of one plan, each in a folder of its own by the command that anybody would type.

What is finished is not done again, what broke is told and tried again by the next call, and the
others go on meanwhile. All runs of a plan begin with one policy.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentgym_suite.errors import AgentGymSuiteError, UsageError
from agentgym_suite.files import write_json_atomic
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.outcomes import Outcomes, read_outcomes, success_rate
from agentgym_suite.trainers.registry import algorithm_spec

PLAN_FILE = "plan.json"
TARGET = 0.9
"""The success that a training is to reach, sampled and greedy."""
SEEN, GREEDY = "seen/temperature_1", "seen/temperature_0"
UNSEEN, UNSEEN_GREEDY = "unseen/temperature_1", "unseen/temperature_0"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way of training.

    Attributes:
        algorithm: a name of the registry.
        settings: what differs from its preset, by name.
    """

    algorithm: str
    settings: tuple[tuple[str, str | float], ...] = ()

    @property
    def name(self) -> str:
        """One name for one way, which folders can bear."""
        parts = [self.algorithm, *(f"{key}-{value}" for key, value in self.settings)]
        return re.sub(r"[^\w.-]+", "_", "_".join(parts))

    def beside(self, preset: str) -> Variant:
        """The same way without settings that a preset has by itself."""
        usual = algorithm_spec(self.algorithm).config.preset(preset)
        differing = [(key, value) for key, value in self.settings if getattr(usual, key) != value]
        return Variant(self.algorithm, tuple(differing))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all runs have in common.

    Attributes:
        env: Gymnasium id; "" leaves it to the preset.
        preset: of settings.
        budget_steps: environment steps of training.
        budget_minutes: minutes that end it earlier; 0 for none.
        policy: folder of the policy that all begin with.
        threads: processor threads of each.
        settings: further ones, ``KEY=VALUE``, for all.
    """

    env: str
    preset: str
    budget_steps: int
    budget_minutes: float
    policy: str
    threads: int
    settings: tuple[str, ...] = ()

    def command(self, variant: Variant, seed: int, out: Path) -> list[str]:
        """The training of one variant with one seed."""
        command = [sys.executable, "-m", "agentgym_suite", "train", variant.algorithm]
        command += ["--preset", self.preset, "--policy", self.policy, "--seed", str(seed)]
        command += ["--threads", str(self.threads), "--budget-steps", str(self.budget_steps)]
        command += ["--out", str(out)]
        if self.env:
            command += ["--env", self.env]
        settings = [*self.settings, *(f"{key}={value}" for key, value in variant.settings)]
        if self.budget_minutes:
            settings.append(f"budget_minutes={self.budget_minutes}")
        return command + [part for one in settings for part in ("--set", one)]


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """What one variant with one seed left.

    Attributes:
        variant: how it was trained.
        seed: of the run.
        outcomes: of the last evaluation; empty unless it is finished.
        failure: why it is not finished; "" if it is.
        metrics: its iterations, in order, the last evaluation not among them.
        record: its ``run.json``; empty where it has not come so far.
    """

    variant: Variant
    seed: int
    outcomes: Outcomes
    failure: str
    metrics: Sequence[Mapping[str, float]] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    def last(self, name: str) -> float:
        """The newest value of a metric, 0 without one."""
        return next((line[name] for line in reversed(self.metrics) if name in line), 0.0)

    def total(self, name: str) -> float:
        """The sum of a metric over the iterations."""
        return sum(line.get(name, 0.0) for line in self.metrics)

    def mean(self, name: str) -> float | None:
        """The mean of a metric over the iterations that have it, None without any."""
        values = [line[name] for line in self.metrics if name in line]
        return sum(values) / len(values) if values else None

    def most(self, name: str) -> float:
        """The largest value of a metric, 0 without one."""
        return max((line[name] for line in self.metrics if name in line), default=0.0)

    def curve(self, evaluation: str) -> list[tuple[float, float]]:
        """(environment steps, success) of the evaluations along the way and of the last one."""
        name = f"evaluation/{evaluation}"
        points = [(line["env_steps"], line[name]) for line in self.metrics if name in line]
        if evaluation in self.outcomes:
            end = (self.last("env_steps"), success_rate(self.outcomes[evaluation]))
            points = [point for point in points if point[0] < end[0]] + [end]
        return points


def add_arguments(parser: argparse.ArgumentParser, *, seeds: str) -> None:
    """What every comparison of trainings is told.

    Args:
        parser: gets the options.
        seeds: the usual ones.
    """
    parser.add_argument("--out", type=Path, required=True, help="folder of all runs")
    parser.add_argument("--env", default="", help="environment; the preset's by default")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--seeds", default=seeds, help="of the runs, with commas between them")
    parser.add_argument("--budget-steps", type=int, default=60_000, help="of training, each run")
    parser.add_argument("--minutes", type=float, default=0.0, help="of training, if that is less")
    parser.add_argument("--policy", type=Path, help="a start; otherwise one is made for all")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="a setting of every run"
    )
    parser.add_argument(
        "--report-only",
        action="store_true",
        help="train nothing, write the tables of what is there",
    )


def seeds_of(args: argparse.Namespace) -> list[int]:
    """The seeds that were asked for."""
    try:
        return list(dict.fromkeys(int(seed) for seed in args.seeds.split(",")))
    except ValueError:
        raise UsageError(f"--seeds is {args.seeds!r}; give whole numbers such as 41,42") from None


def plan_of(args: argparse.Namespace) -> Plan:
    """The plan that was asked for; makes the common start, refuses a folder of another plan.

    Raises:
        UsageError: the folder holds runs of another plan.
    """
    start = args.policy or args.out / "start"
    plan = Plan(
        env=args.env,
        preset=args.preset,
        budget_steps=args.budget_steps,
        budget_minutes=args.minutes,
        policy=str(start),
        threads=args.threads,
        settings=tuple(args.set),
    )
    args.out.mkdir(parents=True, exist_ok=True)
    asked = json.loads(json.dumps(asdict(plan)))
    path = args.out / PLAN_FILE
    if path.is_file():
        found = json.loads(path.read_bytes())
        differing = [name for name in asked if found.get(name) != asked[name]]
        if differing:
            told = "; ".join(f"{name} was {found.get(name)!r}" for name in differing)
            raise UsageError(f"{args.out} holds runs of another plan ({told}); name another folder")
    if args.policy is None and not args.report_only:
        make_start(
            args.out,
            preset=args.preset,
            env=args.env,
            settings=args.set,
            threads=args.threads,
        )
    write_json_atomic(path, asked)
    return plan


def make_start(out: Path, *, preset: str, env: str, settings: Sequence[str], threads: int) -> Path:
    """A policy that several runs begin with, as a training of the preset makes its own.

    Args:
        out: gets a folder ``start``; one that is there stays.
        preset: of settings.
        env: Gymnasium id; "" leaves it to the preset.
        settings: further ones, ``KEY=VALUE``.
        threads: of this process, from now on.
    """
    # imported here: nothing else in this process needs torch
    from agentgym_suite.arguments import settings as typed
    from agentgym_suite.trainers.live_view import live_view
    from agentgym_suite.trainers.run_settings import resolve
    from agentgym_suite.trainers.running import Training, bound_threads

    bound_threads(threads)
    configuration = resolve("capo", preset, None, typed(settings) | ({"env": env} if env else {}))
    with live_view(configuration) as view:
        return Training(configuration, out, view).start()


def carry_out(
    args: argparse.Namespace,
    wanted: Sequence[tuple[Variant, int]],
    report: Callable[[Plan, Sequence[TrainedRun]], Sequence[str]],
) -> bool:
    """Train what is wanted, unless only the report is, and print that; True if all is finished.

    Args:
        args: of ``add_arguments``.
        wanted: variants with their seeds.
        report: writes what came out; returns the lines to print.

    Raises:
        UsageError: the folder holds runs of another plan, or fewer than 1 process.
    """
    plan = plan_of(args)
    if not args.report_only:
        train_all(plan, wanted, args.out, jobs=args.jobs, tell=print)
    runs = list(trained_runs(args.out, wanted))
    print("\n".join(report(plan, runs)))
    return all(run.outcomes for run in runs)


def exit_code(work: Callable[[], bool]) -> int:
    """What a script ends with.

    Args:
        work: True if everything was finished.

    Returns:
        0, or 1 if something is not finished, 2 on a usage or data error, 130 on Ctrl-C.
    """
    try:
        return 0 if work() else 1
    except AgentGymSuiteError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return 130


def train_all(
    plan: Plan,
    runs: Sequence[tuple[Variant, int]],
    out: Path,
    *,
    jobs: int,
    tell: Callable[[str], None],
) -> None:
    """Train what is not finished, so many processes at a time; one that breaks stops no other.

    Args:
        plan: what they have in common.
        runs: variants with their seeds, in this order.
        out: folder of all.
        jobs: processes at a time.
        tell: told what begins and ends.

    Raises:
        UsageError: fewer than 1 process.
    """
    if jobs < 1:
        raise UsageError(f"jobs is {jobs}; give at least 1")
    pool = ThreadPoolExecutor(jobs)
    try:
        list(pool.map(lambda run: _train(plan, *run, out, tell), runs))
    finally:
        pool.shutdown(cancel_futures=True)


def trained_runs(out: Path, runs: Sequence[tuple[Variant, int]]) -> Iterator[TrainedRun]:
    """What the runs of a folder left, whether they are finished or not."""
    for variant, seed in runs:
        folder = run_folder(out, variant, seed)
        outcomes = read_outcomes(folder)
        broken = _failure_file(folder)
        failure = "" if outcomes else "not run"
        if not outcomes and broken.is_file():
            failure = broken.read_text("utf-8").strip()
        record = folder / "run.json"
        yield TrainedRun(
            variant,
            seed,
            outcomes or {},
            failure,
            [line for line in read_metrics(folder / METRICS_FILE) if "env_steps" in line],
            json.loads(record.read_bytes()) if record.is_file() else {},
        )


def run_folder(out: Path, variant: Variant, seed: int) -> Path:
    """Where a run lies."""
    return out / variant.name / str(seed)


def _train(plan: Plan, variant: Variant, seed: int, out: Path, tell: Callable[[str], None]) -> None:
    folder = run_folder(out, variant, seed)
    label = f"{variant.name}, seed {seed}"
    if read_outcomes(folder) is not None:
        tell(f"{label}: finished before")
        return
    tell(f"{label}: training")
    folder.parent.mkdir(parents=True, exist_ok=True)
    broken = _failure_file(folder)
    broken.unlink(missing_ok=True)
    log = folder.with_name(f"{seed}.log")
    with log.open("wb") as stream:
        done = subprocess.run(
            plan.command(variant, seed, folder), stdout=stream, stderr=subprocess.STDOUT
        )
    if done.returncode == 0:
        tell(f"{label}: finished")
        return
    said = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    ended = f"ended with {done.returncode}"
    if done.returncode < 0:
        ended = f"killed by signal {-done.returncode}"
    reason = f"{ended}: {said[-1].strip()}" if said else ended
    broken.write_text(reason + "\n", "utf-8")
    tell(f"{label}: {reason}")


def _failure_file(folder: Path) -> Path:
    """Beside the run's folder, which belongs to the run alone."""
    return folder.with_name(f"{folder.name}.failed")

"""``agentgym-suite train``: learn in an environment, from the command line."""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import JustifyMethod
from rich.table import Table

from agentgym_suite.arguments import settings
from agentgym_suite.console import console
from agentgym_suite.errors import MissingExtra, UsageError
from agentgym_suite.own_modules import look_here

if TYPE_CHECKING:
    from agentgym_suite.trainers.run_settings import RunSettings


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``train`` command; torch is imported when it runs."""
    parser = commands.add_parser(
        "train",
        help="train a policy in an environment",
        description="Train a policy by a named algorithm. The same command in the same folder "
        "goes on where it was stopped. Without --policy, the preset tiny makes a small policy of "
        "its own and clones a noisy teacher first. Started by torchrun, processes share the work.",
    )
    parser.add_argument(
        "algorithm",
        metavar="ALGO",
        help="such as capo, sapo_ar, taspo, grpo, ppo; MODULE:CLASS for one of your own",
    )
    parser.add_argument(
        "--env",
        metavar="ID",
        help="environment, MODULE:ID for one of your own (default: ALFWorld-v0)",
    )
    parser.add_argument("--policy", metavar="DIR", help="weights and tokenizer to start from")
    parser.add_argument(
        "--preset", metavar="NAME", default="paper", help="paper, tiny, public_code"
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="settings in TOML: a path, or the name of a published comparison (docs/training.md)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting of the run or of the algorithm; an unknown one is an error",
    )
    parser.add_argument("--seed", metavar="N", type=int, help="of everything that is drawn")
    parser.add_argument("--budget-steps", metavar="N", type=int, help="environment steps to spend")
    parser.add_argument("--threads", metavar="N", type=int, help="processor threads of torch")
    parser.add_argument("--tensorboard", action="store_true", help="write TensorBoard files, too")
    parser.add_argument(
        "--force",
        action="store_true",
        help="go on with another configuration, other tasks or weights",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the run")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="train nothing, tell what memory and time it would take; --set states device, "
        "processes, mean_steps, mean_prompt, mean_reply and other assumptions, too",
    )
    parser.set_defaults(run=_train)


def _train(args: argparse.Namespace) -> int:
    for module in ("torch", "transformers"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtra("train", "training")
    # imported here: other commands need no torch
    from agentgym_suite.trainers.fsdp import open_ranks
    from agentgym_suite.trainers.live_view import live_view
    from agentgym_suite.trainers.run_settings import resolve
    from agentgym_suite.trainers.running import Training, bound_threads

    for option in ("env", "policy", "config", "out"):
        if getattr(args, option) == "":  # as of a shell's variable that is not set
            raise UsageError(f"--{option} is empty; give a value, or leave it out")
    look_here(args.algorithm)
    given = settings(args.set)
    named = {
        "env": args.env,
        "policy": args.policy,
        "seed": args.seed,
        "budget_steps": args.budget_steps,
    }
    given |= {name: value for name, value in named.items() if value is not None}
    if args.dry_run:
        return _estimate(args, given)
    if args.out is None:
        raise UsageError("no folder is given for the run; name it with --out")
    configuration = resolve(args.algorithm, args.preset, _path(args.config), given)
    if args.threads is not None:
        bound_threads(args.threads)
    run = configuration.run
    look_here(run.env)
    with (
        open_ranks(
            device=run.device, compute_dtype=run.compute_dtype, timeout_s=run.rank_timeout_s
        ) as ranks,
        live_view(configuration, shown=ranks.rank == 0) as view,
    ):
        training = Training(
            configuration, Path(args.out), view, ranks=ranks, tensorboard=args.tensorboard
        )
        try:
            training.run(force=args.force)
        except KeyboardInterrupt:
            view.stopped(Path(args.out))
            raise
    if ranks.rank == 0:
        command = evaluation_command(run, Path(args.out) / "policy")
        console(stderr=True, highlight=False).print(f"play it: {command}", soft_wrap=True)
    return 0


def _path(given: str | None) -> Path | None:
    return None if given is None else Path(given)


def evaluation_command(run: RunSettings, policy: Path) -> str:
    """The command that plays a trained policy in the environment that it was trained for.

    Args:
        run: the settings of its training.
        policy: its folder.
    """
    words = ["agentgym-suite", "evaluate", "--agent", "checkpoint", "--model", str(policy)]
    words += ["--max-tokens", str(run.max_new_tokens)]
    words += ["--env", run.env, "--split", run.unseen_split or run.split]
    if run.data:
        words += ["--data", f"{run.env}={run.data}"]
    horizon = {"max_episode_steps": run.horizon} if run.horizon else {}
    for name, value in {**run.kwargs, **horizon}.items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    return shlex.join(words)


def _estimate(args: argparse.Namespace, given: Mapping[str, Any]) -> int:
    from agentgym_suite.trainers.dry_run import estimate, lines, split_assumptions
    from agentgym_suite.trainers.run_settings import resolve

    assumed, given = split_assumptions(given)
    found = estimate(resolve(args.algorithm, args.preset, _path(args.config), given), assumed)
    table = Table(show_header=False, box=None)
    sides: tuple[JustifyMethod, ...] = ("left", "right", "left")
    for number, side in enumerate(sides):  # remarks give way, numbers never
        table.add_column(justify=side, no_wrap=number < 2)
    for line in lines(found):
        table.add_row(*line)
    out = console(highlight=False)
    out.print(found.title, soft_wrap=True)
    out.print(table)
    return 0

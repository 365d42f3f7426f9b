"""Write what is generated: the command line's page, references of environments and algorithms.

The published schemas, too.

An environment's page begins with what people wrote, up to ``## Reference``; that and all below it
is made here of the class's docstring.

A test compares the pages with what this writes, so they cannot go stale: run ``make docs``.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import gymnasium as gym

import agentgym_suite  # noqa: F401  (registers the environments)
from agentgym_suite.cli import build_parser
from agentgym_suite.evaluation.published_schemas import published_schemas
from agentgym_suite.importers import IMPORTERS
from agentgym_suite.registry import ENVIRONMENTS
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.devices import known_devices
from agentgym_suite.trainers.dry_run import Assumptions, estimate
from agentgym_suite.trainers.registry import ALGORITHMS, AlgoSpec
from agentgym_suite.trainers.run_settings import CONFIGS, RunSettings, resolve

DOCS = Path(__file__).parent
REFERENCE = "## Reference\n"


def pages() -> dict[Path, str]:
    """Every generated page: path -> text."""
    written = {DOCS / "command-line.md": command_line(), **published_schemas()}
    for environment in ENVIRONMENTS:
        page = DOCS / f"{environment.name}.md"
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        guide, mark, _ = text.partition(REFERENCE)
        guide = guide if mark else f"# {environment.id}\n\n"
        written[page] = guide + reference(environment.id)
    page = DOCS / "algorithms.md"
    guide, _, _ = page.read_text(encoding="utf-8").partition(REFERENCE)
    written[page] = guide + algorithms()
    page = DOCS / "training-at-scale.md"
    guide, _, _ = page.read_text(encoding="utf-8").partition(REFERENCE)
    written[page] = guide + scale()
    return written


def reference(env_id: str) -> str:
    """An environment's class docstring as the last part of its page."""
    game = gym.make(env_id).unwrapped
    documentation = inspect.cleandoc(type(game).__doc__ or "")
    origin = f"made by `make docs` from the docstring of {type(game).__name__}"
    return f"{REFERENCE}\n<!-- {origin} -->\n\n```text\n{documentation}\n```\n"


def algorithms() -> str:
    """Every algorithm with its source and its settings, as the last part of their page."""
    lines = [
        f"{REFERENCE}\n<!-- made by `make docs` from the registry of algorithms -->\n",
        "| name | | advantage | ratio | source |\n|---|---|---|---|---|",
    ]
    for spec in ALGORITHMS.values():
        cells = (f"`{spec.name}`", spec.title, spec.advantage, spec.ratio, spec.source)
        lines.append(f"| {' | '.join(cells)} |")
    for title, settings in (("a run", fields(RunSettings)), ("every algorithm", COMMON)):
        lines.append(f"\n### Settings of {title}\n\n| setting | default | |\n|---|---|---|")
        lines += [f"| `{f.name}` | {shown(default(f))} | {f.metadata['help']} |" for f in settings]
    return "\n".join([*lines, *(algorithm(spec) for spec in ALGORITHMS.values())]) + "\n"


COMMON = fields(AlgorithmConfig)


def algorithm(spec: AlgoSpec) -> str:
    """One algorithm: its file's words, and the settings in which it differs."""
    presets = {name: spec.config.preset(name) for name in spec.config.PRESETS}
    head = ["setting", *presets, ""]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for item in fields(spec.config):
        values = [getattr(preset, item.name) for preset in presets.values()]
        if not is_common(item, values):
            cells = [f"`{item.name}`", *map(shown, values), item.metadata["help"]]
            lines.append(f"| {' | '.join(cells)} |")
    words = inspect.cleandoc(sys.modules[spec.algorithm.__module__].__doc__ or "")
    table = "\n".join(lines)
    return f"\n### `{spec.name}`\n\n```text\n{words}\n```\n\n{table}"


def is_common(item: Field[Any], values: list[Any]) -> bool:
    """Whether every preset leaves a setting as every algorithm has it."""
    return any(item.name == f.name and {f.default} == set(values) for f in COMMON)


def default(setting: Field[Any]) -> Any:
    """What a setting is when nobody gives it."""
    factory = setting.default_factory
    return setting.default if factory is MISSING else factory()


def shown(value: Any) -> str:
    """A value as it is written in a settings file."""
    if value is None or isinstance(value, bool):
        return f"`{json.dumps(value)}`"
    return "none" if value in ("", {}) else f"`{value}`"


PUBLISHED = (
    ("capo", "capo", ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B-Instruct-2507")),
    ("sapo_ar", "sapo", ("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct")),
    (
        "taspo",
        "taspo",
        ("Qwen/Qwen2.5-3B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-1.7B"),
    ),
)
CARDS = 8
INDEXED = ("taspo-searchqa",)  # passages of its own are too many to come with its questions
INDEX = "http://127.0.0.1:8000"


def scale() -> str:
    """What a dry run assumes, and what it says of every published setting."""
    origin = f"{REFERENCE}\n<!-- made by `make docs` from the settings of published comparisons -->"
    settings = ["### Assumptions\n", "| `--set` | default | |", "|---|---|---|"]
    settings += [
        f"| `{f.name}` | {shown(f.default)} | {f.metadata['help']} |" for f in fields(Assumptions)
    ]
    devices = ["### Devices\n", "| name | | Tflop/s | TB/s | GB | source |", "|---" * 6 + "|"]
    for name, found in known_devices().items():
        rates = (found.operations / 1e12, found.bandwidth / 1e12, found.memory / 1e9)
        numbers = [f"{rate:g}" if rate else "" for rate in rates]
        devices.append(f"| {' | '.join((f'`{name}`', found.name, *numbers, found.source))} |")
    table = [f"### Published settings on {CARDS} H100\n", f"| {' | '.join(_COLUMNS)} |"]
    table.append("|---" * len(_COLUMNS) + "|")
    commands = []
    for algorithm, paper, models in PUBLISHED:
        for file in sorted(CONFIGS.glob(f"{paper}-*.toml")):
            for model in models:
                table.append(f"| {' | '.join(estimated(algorithm, file.stem, model))} |")
                commands.append(launch(algorithm, file.stem, model))
    parts = (settings, devices, table, ["### Commands\n", "```sh", *commands, "```"])
    return "\n\n".join([origin, *("\n".join(part) for part in parts)]) + "\n"


_COLUMNS = (
    "settings",
    "policy",
    "what lasts",
    "rollout",
    "backward",
    "peak, GB",
    "rows",
    "rollout, s",
    "passes, s",
    "updates, s",
)


def estimated(algorithm: str, config: str, model: str) -> list[str]:
    """One row: memory of a process in GB, and seconds of an iteration, all at the bounds."""
    run = resolve(algorithm, "paper", Path(config), {"policy": model})
    found = estimate(run, Assumptions(device="h100", processes=CARDS))
    assert found.durations is not None
    lasting = sum(found.memory.lasting.values())
    phases = {name: sum(parts.values()) for name, parts in found.memory.phases.items()}
    bytes_ = (lasting, phases["rollout"], phases["backward"], found.memory.peak)
    spent = found.durations
    seconds = (spent.prompts + spent.tokens, spent.passes, spent.policy + spent.critic)
    return [
        f"`{config}`",
        model.partition("/")[2],
        *(f"{size / 1e9:.1f}" for size in bytes_),
        f"{found.plan.trajectories * found.plan.steps:,.0f}",
        *(f"{duration:,.0f}" for duration in seconds),
    ]


def launch(algorithm: str, config: str, model: str) -> str:
    """The command that trains one setting on the devices of one machine."""
    out = f"runs/{config}-{model.partition('/')[2].lower()}"
    index = f' --set \'kwargs={{"index": "{INDEX}"}}\'' if config in INDEXED else ""
    return (
        f"torchrun --nproc-per-node {CARDS} -m agentgym_suite train {algorithm} --config {config} "
        f"--policy {model}{index} --out {out}"
    )


def command_line() -> str:
    """The help text of every command."""
    parts = ["# The command line\n\n<!-- made by `make docs` -->\n"]
    for parser in (*walk(build_parser()), *data_set_parsers()):
        parts.append(f"## {parser.prog}\n\n```text\n{help_text(parser)}\n```\n")
    return "\n".join(parts)


def data_set_parsers() -> Iterator[argparse.ArgumentParser]:
    """What ``data import``, ``generate`` and ``verify`` take after a data set's name."""
    for name in dict.fromkeys(spoken_for(each) for each in IMPORTERS):
        importer = IMPORTERS[name]
        module = importer.load()
        same = [each for each in IMPORTERS if each != name and spoken_for(each) == name]
        also = f"the same for {', '.join(same)}" if same else None
        for command, add_arguments, offered in (
            ("import", "add_import_arguments", True),
            ("generate", "add_generate_arguments", importer.generates),
            ("verify", "add_compare_arguments", importer.compares),
        ):
            if offered:
                prog = f"agentgym-suite data {command} {name}"
                epilog = also if command == "import" else None
                parser = argparse.ArgumentParser(prog=prog, epilog=epilog)
                getattr(module, add_arguments)(parser)
                yield parser


def spoken_for(name: str) -> str:
    """The data set whose options stand for those of a name: one that can do the most."""
    fellows = [n for n, other in IMPORTERS.items() if other.module == IMPORTERS[name].module]
    return next((n for n in fellows if IMPORTERS[n].generates), fellows[0])


def walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all its commands, depth first."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in dict.fromkeys(action.choices.values()):
                yield from walk(child)


def help_text(parser: argparse.ArgumentParser) -> str:
    """The help of one command at a fixed width."""
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=96)
    return parser.format_help().strip()


def main() -> None:
    """Write every page."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

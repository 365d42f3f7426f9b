"""What a run's folder says of it, and the refusal of a folder that holds another run.

A checkpoint holds what is trained. What stays still beside it (the base of an adapter, a reference,
a teacher) is read again from where it lies, and must be what the run began with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from agentgym_suite.arguments import shown
from agentgym_suite.engines.loading import weights_digest
from agentgym_suite.errors import TrainingError, UsageError
from agentgym_suite.files import json_digest, table_in
from agentgym_suite.machine import git_state, package_folder, package_versions
from agentgym_suite.trainers.run_settings import FREE, Configuration, RunSettings
from agentgym_suite.versions import suite_version

RUN_FILE = "run.json"
START_FILE = "start.json"
_PACKAGES = ("torch", "transformers", "numpy", "gymnasium")
_NETWORKS = {"start": "policy", "teacher": "teacher"}


def run_record(
    configuration: Configuration,
    tasks: Sequence[str],
    networks: Mapping[str, torch.nn.Module | None],
    *,
    processes: int,
) -> dict[str, Any]:
    """What ``run.json`` keeps: settings, tasks, weights, and what the run was made with.

    Args:
        configuration: of the run.
        tasks: on what it trains, in this order.
        networks: what it was given by name, before anything is added or trained; None for none.
        processes: that train.
    """
    return {
        "configuration": configuration.as_dict(),
        "config_digest": configuration.digest,
        "tasks": {"seen": json_digest(list(tasks)), "count": len(tasks)},
        "agentgym_suite": suite_version(),
        "packages": package_versions(_PACKAGES),
        "git": git_state(package_folder()),
        "threads": torch.get_num_threads(),
        "processes": processes,
        **{
            # in float32: half precision is loaded as it is on a card, and wider on a processor
            name: {"weights": weights_digest(network, torch.float32)}
            for name, network in networks.items()
            if network is not None
        },
    }


def refuse_other_run(
    out: Path, configuration: Configuration, tasks: Sequence[str], *, force: bool
) -> None:
    """See that a folder holds no run of other settings or tasks: nothing of it may be written over.

    Args:
        out: folder of the run.
        configuration: what is going to be trained there.
        tasks: on what, in this order.
        force: go on although they are others.

    Raises:
        UsageError: it does, naming a setting that differs.
        TrainingError: its record cannot be read.
    """
    path = out / RUN_FILE
    if force or not path.is_file():
        return
    try:
        record = json.loads(path.read_bytes())
        before, digest = record["configuration"], record["config_digest"]
        seen = record["tasks"]["seen"]
        of_run = {**asdict(RunSettings()), **before["run"]}  # an older one lacks younger settings
        there = {**of_run, **before["settings"], "algorithm": before["algorithm"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise TrainingError(
            f"{path} is no record of a training ({error}); remove it, or choose another --out"
        ) from error
    if digest == configuration.digest:
        if seen != json_digest(list(tasks)):
            raise UsageError(
                f"{out} holds a run on other tasks, or in another order; bring back the task list "
                "or the data that it had, or train into another --out, or with --force"
            )
        return
    now = configuration.as_dict()
    wanted = {**now["run"], **now["settings"], "algorithm": now["algorithm"]}
    changed = [
        f"{name} {shown(there.get(name))} instead of {shown(value)}"
        for name, value in wanted.items()
        if name not in FREE and there.get(name) != value
    ]
    raise UsageError(
        f"{out} holds a run of another configuration, with {', '.join(changed[-3:]) or 'others'}; "
        "train with the same settings, into another --out, or with --force"
    )


def refuse_other_start(folder: Path, record: Path, wanted: Mapping[str, Any]) -> None:
    """See that a start was made by the settings that want it; one without a record passes.

    Args:
        folder: of the start.
        record: the settings that it was made by.
        wanted: those of now.

    Raises:
        UsageError: they differ, naming one that does.
    """
    try:
        made = table_in(json.loads(record.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return
    for name, value in wanted.items():
        if name in made and made[name] != value:
            raise UsageError(
                f"{folder} is a start that was made with {name} {shown(made[name])} instead of "
                f"{shown(value)}; remove it, or choose another --out"
            )


def refuse_other_weights(out: Path, record: Mapping[str, Any], *, force: bool) -> None:
    """See that a run goes on beside the weights that it began with.

    What an older record does not name passes.

    Args:
        out: folder of the run, which ``refuse_other_run`` lets pass.
        record: of what is going to be trained there.
        force: go on although they are others.

    Raises:
        UsageError: they differ, naming which.
    """
    path = out / RUN_FILE
    if force or not path.is_file():
        return
    before = table_in(json.loads(path.read_bytes()))
    for name, what in _NETWORKS.items():
        if name in before and name in record and before[name] != record[name]:
            raise UsageError(
                f"{out} holds a run with other weights of the {what}, "
                f"{table_in(before[name]).get('weights')} instead of {record[name]['weights']}; "
                "give those that it began with, or train into another --out, or with --force"
            )

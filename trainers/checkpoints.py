"""Checkpoints: everything a training needs to go on as if it had not stopped.

A checkpoint is a folder named by its iteration, written under a partial name, its manifest last,
then renamed; what has no manifest is none. Tensors are stored by torch's distributed checkpoint,
so that another number of processes can read them.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from agentgym_suite.errors import TrainingError, UsageError
from agentgym_suite.files import make_folder, partial_folder, sync_folder, write_json_atomic
from agentgym_suite.trainers.update import Learner

SCHEMA = "training_checkpoint/2"
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a training stands; tasks, seeds and orders are functions of these and its settings.

    Attributes:
        iteration: iterations done.
        env_steps: environment steps consumed in training.
        episodes: trajectories played in training.
        tasks_drawn: where the order of tasks stands: groups drawn so far.
        wall_s: seconds spent, evaluation included.
        cpu_s: processor seconds of the process spent.
    """

    iteration: int = 0
    env_steps: int = 0
    episodes: int = 0
    tasks_drawn: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0


def save_checkpoint(
    folder: Path,
    learners: Mapping[str, Learner],
    progress: Progress,
    *,
    config_digest: str,
    keep: int,
) -> Path:
    """Write a checkpoint and remove the oldest beyond ``keep``.

    Args:
        folder: of all checkpoints of the run.
        learners: by name, such as "policy" and "critic".
        progress: where the training stands.
        config_digest: of the resolved configuration.
        keep: checkpoints that stay, at least one.
    """
    place = folder / f"{progress.iteration:06d}"
    make_folder(folder)
    if place.exists():
        shutil.rmtree(place)
    partial = partial_folder(place)
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir()
    with _quiet():
        dcp.save(_states(learners), checkpoint_id=partial / "tensors", no_dist=_alone())
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "config_digest": config_digest,
        "progress": asdict(progress),
        "optimizer_steps": {name: learner.steps for name, learner in learners.items()},
    }
    write_json_atomic(partial / _MANIFEST, manifest)
    sync_folder(partial)
    partial.rename(place)
    sync_folder(folder)
    for old in checkpoints(folder)[: -max(1, keep)]:
        shutil.rmtree(old)
    return place


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints of a run, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path.parent for path in folder.glob(f"[0-9]*/{_MANIFEST}"))


def load_checkpoint(
    place: Path, learners: Mapping[str, Learner], *, config_digest: str, force: bool = False
) -> Progress:
    """Put networks and optimizers back to a checkpoint.

    Args:
        place: the checkpoint's folder.
        learners: the same networks that were saved.
        config_digest: of the configuration that goes on.
        force: go on although the configuration is another one.

    Raises:
        TrainingError: it is damaged, of another version, or of other networks.
        UsageError: it was written with another configuration.
    """
    try:
        manifest = json.loads((place / _MANIFEST).read_text("utf-8"))
        schema, digest = manifest["schema"], manifest["config_digest"]
        progress = Progress(**manifest["progress"])
        steps = manifest["optimizer_steps"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TrainingError(
            f"checkpoint {place} is damaged ({error}); remove it to go on from the one before"
        ) from error
    if schema != SCHEMA:
        raise TrainingError(f"checkpoint {place} is of version {schema}; this one reads {SCHEMA}")
    if digest != config_digest and not force:
        raise UsageError(
            f"checkpoint {place} was written with another configuration; train with the same "
            "settings, into another --out, or with --force"
        )
    if sorted(steps) != sorted(learners):
        raise TrainingError(f"checkpoint {place} holds {', '.join(sorted(steps))}; not these")
    states = _states(learners)
    with _quiet():
        dcp.load(states, checkpoint_id=place / "tensors", no_dist=_alone())
        for name, learner in learners.items():
            set_state_dict(
                learner.model,
                learner.optimizer,
                model_state_dict=states[name]["model"],
                optim_state_dict=states[name]["optimizer"],
            )
    for name, learner in learners.items():
        learner.steps = int(steps[name])
    return progress


def _states(learners: Mapping[str, Learner]) -> dict[str, dict[str, Any]]:
    states = {}
    for name, learner in learners.items():
        model, optimizer = get_state_dict(learner.model, learner.optimizer)
        states[name] = {"model": model, "optimizer": optimizer}
    return states


def _alone() -> bool:
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch warns that a single process saves alone, which is what is wanted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

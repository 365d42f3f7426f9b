"""Checkpoints: everything a training needs to go on as if it had not stopped.

A checkpoint is a folder named by its iteration, written under a partial name, its manifest last,
then renamed; what has no manifest is none. Tensors are stored by torch's distributed checkpoint,
so that another number of processes can read them.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)

from agentgym_suite.errors import TrainingError, UsageError, reason_of
from agentgym_suite.files import (
    digest_files,
    explain_full_disk,
    make_folder,
    partial_folder,
    sync_folder,
    write_json_atomic,
)
from agentgym_suite.trainers.ranks import ONE_PROCESS, Ranks, is_lost_rank
from agentgym_suite.trainers.update import Learner
from agentgym_suite.trainers.weight_sync import Snapshot

SCHEMA = "training_checkpoint/2"
_MANIFEST = "manifest.json"
_HELD = "held.pt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a training stands; tasks, seeds and orders are functions of these and its settings.

    Attributes:
        iteration: iterations done.
        env_steps: environment steps consumed in training.
        episodes: trajectories played in training.
        tasks_drawn: where the order of tasks stands: groups drawn so far.
        wall_s: seconds of the iterations, evaluations and checkpoints aside.
        cpu_s: processor seconds of all processes in that time.
    """

    iteration: int = 0
    env_steps: int = 0
    episodes: int = 0
    tasks_drawn: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def metrics(self) -> dict[str, float]:
        """What an iteration's line says of it."""
        spent = ("env_steps", "episodes", "wall_s", "cpu_s")
        return {name: float(getattr(self, name)) for name in spent}


def save_checkpoint(
    folder: Path,
    learners: Mapping[str, Learner],
    progress: Progress,
    *,
    config_digest: str,
    keep: int,
    ranks: Ranks = ONE_PROCESS,
    held: Mapping[int, Snapshot] | None = None,
) -> Path:
    """Write a checkpoint and remove the oldest beyond ``keep``; every rank calls it.

    Args:
        folder: of all checkpoints of the run.
        learners: by name, such as "policy" and "critic".
        progress: where the training stands.
        config_digest: of the resolved configuration.
        keep: checkpoints that stay, at least one.
        ranks: each writes its share of the tensors, the first all else.
        held: older weights, by the iterations that made them, that rollouts under way sample with.

    Raises:
        DiskFull: no space is left; the checkpoints before are as they were.
        TrainingError: it could not be written for another reason.
    """
    place = folder / f"{progress.iteration:06d}"
    partial = partial_folder(place)
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "config_digest": config_digest,
        "progress": asdict(progress),
        "optimizer_steps": {name: learner.steps for name, learner in learners.items()},
    }
    with explain_full_disk(partial), _whole(partial):
        ranks.once(lambda: _begin(partial))
        with _quiet():
            dcp.save(_states(learners), checkpoint_id=partial / "tensors", no_dist=_alone())
        if held:
            ranks.once(lambda: _write_held(partial, held))
        ranks.once(lambda: _finish(partial, place, manifest))
    ranks.once(lambda: _remove_old(folder, keep))
    return place


def _write_held(partial: Path, held: Mapping[int, Snapshot]) -> None:
    plain = {done: (kept.version, kept.weights, kept.expected) for done, kept in held.items()}
    with (partial / _HELD).open("wb") as file:
        torch.save(plain, file)
        file.flush()
        os.fsync(file.fileno())


def load_held(place: Path, version: Callable[[int], str]) -> dict[int, Snapshot]:
    """The older weights that a checkpoint holds for rollouts that were under way.

    Args:
        place: the checkpoint's folder.
        version: what the weights are called that so many iterations have made.

    Raises:
        TrainingError: they are damaged.
    """
    file = place / _HELD
    if not file.is_file():
        return {}
    try:
        plain = torch.load(file, map_location="cpu", weights_only=True)
        return {done: Snapshot(version(done), *kept[1:]) for done, kept in plain.items()}
    except (OSError, RuntimeError, ValueError, TypeError, pickle.UnpicklingError) as error:
        raise TrainingError(
            f"{file} is damaged ({error}); remove {place} to go on from the one before"
        ) from error


def _begin(partial: Path) -> None:
    make_folder(partial.parent)
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir()


def _finish(partial: Path, place: Path, manifest: dict[str, Any]) -> None:
    names = _files(partial)
    found = digest_files(partial, names, "digest", None)
    digests = {name: found[name].sha256 for name in names}
    write_json_atomic(partial / _MANIFEST, {**manifest, "files": digests})
    sync_folder(partial)
    if place.exists():
        shutil.rmtree(place)
    partial.rename(place)
    sync_folder(place.parent)


def _remove_old(folder: Path, keep: int) -> None:
    for old in checkpoints(folder)[: -max(1, keep)]:
        old.rename(partial_folder(old))  # what is removed by halves must not look finished
    for left in folder.glob("*.partial"):
        shutil.rmtree(left)


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints of a run, oldest first."""
    if not folder.is_dir():
        return []
    places = (path.parent for path in folder.glob(f"*/{_MANIFEST}"))
    found = (place for place in places if place.name.isdecimal())  # a partial one has a suffix
    return sorted(found, key=lambda place: int(place.name))


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
        steps = {name: int(count) for name, count in manifest["optimizer_steps"].items()}
        files = dict(manifest["files"]) if schema == SCHEMA else {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise TrainingError(
            f"checkpoint {place} is damaged ({error}); remove it to go on from the one before"
        ) from error
    if schema != SCHEMA:
        raise TrainingError(
            f"checkpoint {place} is of version {schema}, and this one reads {SCHEMA}; go on with "
            "the suite that wrote it, or train into another --out"
        )
    if digest != config_digest and not force:
        raise UsageError(
            f"checkpoint {place} was written with another configuration; train with the same "
            "settings, into another --out, or with --force"
        )
    if sorted(steps) != sorted(learners):
        raise TrainingError(
            f"checkpoint {place} holds {' and '.join(sorted(steps))}, and this training has "
            f"{' and '.join(sorted(learners))}; go on with the algorithm that wrote it"
        )
    _check_files(place, files)
    states = _states(learners)
    with _quiet(), _explain_foreign(place):
        dcp.load(states, checkpoint_id=place / "tensors", no_dist=_alone())
    with _quiet():
        for name, learner in learners.items():
            set_state_dict(
                learner.model,
                learner.optimizer,
                model_state_dict=states[name]["model"],
                optim_state_dict=states[name]["optimizer"],
                options=StateDictOptions(strict=False),
            )
    for name, learner in learners.items():
        learner.steps = steps[name]
    return progress


def _files(folder: Path) -> list[str]:
    """The files of a checkpoint beside its manifest, by their paths in it, in order."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name != _MANIFEST)


def _check_files(place: Path, files: Mapping[str, str]) -> None:
    """See that nothing has changed since the manifest: torch reads flipped bits in silence."""
    here = _files(place)
    missing = sorted(files.keys() - set(here))
    found = {} if missing else digest_files(place, sorted(files), "digest", None)
    changed = [name for name, entry in found.items() if entry.sha256 != files[name]]
    if missing or changed:
        what = f"{missing[0]} is missing" if missing else f"{changed[0]} has changed"
        raise TrainingError(
            f"checkpoint {place} is damaged ({what}); remove it to go on from the one before"
        )


def _states(learners: Mapping[str, Learner]) -> dict[str, dict[str, Any]]:
    """What is trained of each network, and its optimizer; the base of an adapter lies elsewhere."""
    states = {}
    for name, learner in learners.items():
        weights, optimizer = get_state_dict(learner.model, learner.optimizer)
        frozen = {
            place
            for place, weight in learner.model.named_parameters(remove_duplicate=False)
            if not weight.requires_grad
        }
        kept = {place: tensor for place, tensor in weights.items() if place not in frozen}
        states[name] = {"model": kept, "optimizer": optimizer}
    return states


def _alone() -> bool:
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch warns that a single process saves alone, which is what is wanted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _whole(partial: Path) -> Iterator[None]:
    """Leave nothing of a checkpoint that could not be written; what torch wraps comes out bare."""
    try:
        yield
    except CheckpointException as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise next(iter(_failures(error)), error) from error
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not isinstance(error, RuntimeError) or is_lost_rank(error):
            raise
        reason = reason_of(error)  # torch's own words for a file that ends early
        raise TrainingError(
            f"checkpoint {partial.stem} cannot be written ({reason}); make room, and the same "
            "command goes on from the one before"
        ) from error


@contextmanager
def _explain_foreign(place: Path) -> Iterator[None]:
    """One sentence for tensors of another network; nothing has been put into one yet."""
    try:
        yield
    except (Exception, CheckpointException) as error:  # whatever torch makes of other shapes
        if is_lost_rank(error):
            raise
        first = next(iter(_failures(error)), error)
        if isinstance(first, KeyboardInterrupt):
            raise first from error
        reason = reason_of(first)
        raise TrainingError(
            f"checkpoint {place} is of other networks ({reason}); train the policy that wrote it, "
            "or into another --out"
        ) from error


def _failures(error: BaseException) -> list[BaseException]:
    """What went wrong in each process, of torch's collected exception; none for another one."""
    if not isinstance(error, CheckpointException):
        return []
    return [failure for failure, _ in error.failures.values()]

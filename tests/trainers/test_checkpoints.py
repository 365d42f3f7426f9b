"""Checkpoints: whole or absent, bound to their configuration, the oldest removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.errors import TrainingError, UsageError
from agentgym_suite.files import partial_folder
from agentgym_suite.trainers.checkpoints import (
    Progress,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from agentgym_suite.trainers.update import Learner
from tests.engines.small_policy import small_module


def learner(seed: int = 0) -> Learner:
    return Learner.make(small_module(seed), 1e-2, warmup=3, grad_clip=1.0, decay=0.01)


def learn(one: Learner, steps: int) -> None:
    for _ in range(steps):
        ids = torch.tensor([[5, 6, 7 + one.steps % 3, 9]])
        one.model(input_ids=ids, labels=ids).loss.backward()
        one.step()


def equal(one: Any, other: Any) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def save(folder: Path, one: Learner, iteration: int, keep: int = 2) -> Path:
    return save_checkpoint(
        folder, {"policy": one}, Progress(iteration=iteration), config_digest="d", keep=keep
    )


def test_learning_goes_on_to_the_bit(tmp_path: Path) -> None:
    whole = learner()
    learn(whole, 2)
    place = save(tmp_path, whole, 2)
    learn(whole, 3)
    other = learner(seed=9)
    progress = load_checkpoint(place, {"policy": other}, config_digest="d")
    assert progress.iteration == 2 and other.steps == 2
    learn(other, 3)
    assert equal(whole.model, other.model)


def test_the_newest_stay(tmp_path: Path) -> None:
    one = learner()
    for iteration in (1, 2, 10):
        save(tmp_path, one, iteration)
    assert [place.name for place in checkpoints(tmp_path)] == ["000002", "000010"]
    assert checkpoints(tmp_path / "nowhere") == []


def test_the_newest_is_that_of_most_iterations(tmp_path: Path) -> None:
    one = learner()
    for iteration in (999_999, 1_000_000):
        save(tmp_path, one, iteration, keep=1)
    assert [place.name for place in checkpoints(tmp_path)] == ["1000000"]


def test_what_a_kill_left_of_other_checkpoints_is_removed_with_the_oldest(tmp_path: Path) -> None:
    one = learner()
    save(tmp_path, one, 1)
    half = save(tmp_path, one, 2)
    (half / "manifest.json").unlink()
    half.rename(partial_folder(half))
    for iteration in (3, 4):
        save(tmp_path, one, iteration)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["000003", "000004"]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[" * 5_000,
        '{"schema": "training_checkpoint/2", "config_digest": "d", "progress": {}, '
        '"optimizer_steps": ["policy"], "files": {}}',
        '{"schema": "training_checkpoint/2", "config_digest": "d", "progress": {}, '
        '"optimizer_steps": {"policy": "many"}, "files": {}}',
    ],
    ids=["list", "deep", "steps", "step"],
)
def test_a_manifest_of_something_else_is_damaged(text: str, tmp_path: Path) -> None:
    place = save(tmp_path, learner(), 1)
    (place / "manifest.json").write_text(text, "utf-8")
    with pytest.raises(TrainingError, match="is damaged .*remove it to go on"):
        load_checkpoint(place, {"policy": learner()}, config_digest="d")


def test_what_has_no_manifest_is_no_checkpoint(tmp_path: Path) -> None:
    place = save(tmp_path, learner(), 4)
    (place / "manifest.json").unlink()
    assert checkpoints(tmp_path) == []
    place = save(tmp_path, learner(), 4)
    assert checkpoints(tmp_path) == [place]
    place.rename(partial_folder(place))  # a process that was killed before it gave the name
    assert checkpoints(tmp_path) == []


def test_another_configuration_is_refused_unless_forced(tmp_path: Path) -> None:
    place = save(tmp_path, learner(), 1)
    with pytest.raises(UsageError, match="another configuration"):
        load_checkpoint(place, {"policy": learner()}, config_digest="other")
    load_checkpoint(place, {"policy": learner()}, config_digest="other", force=True)


def test_other_networks_and_damage_are_told(tmp_path: Path) -> None:
    place = save(tmp_path, learner(), 1)
    both = {"policy": learner(), "critic": learner()}
    with pytest.raises(TrainingError, match="holds policy"):
        load_checkpoint(place, both, config_digest="d")
    (place / "manifest.json").write_text('{"schema": "training_checkpoint/0"', "utf-8")
    with pytest.raises(TrainingError, match="damaged"):
        load_checkpoint(place, {"policy": learner()}, config_digest="d")


def test_a_gradient_that_is_no_number_moves_nothing() -> None:
    one = learner()
    before = {name: weight.clone() for name, weight in one.model.state_dict().items()}
    next(one.model.parameters()).grad = torch.full_like(next(one.model.parameters()), float("inf"))
    with pytest.raises(TrainingError, match="optimizer step 1 .*the step is not taken"):
        one.step()
    assert all(torch.equal(before[name], w) for name, w in one.model.state_dict().items())
    assert one.steps == 0


def test_weights_that_are_no_numbers_end_the_training_before_a_checkpoint() -> None:
    one = learner()
    one.learning_rate = 1e29
    with pytest.raises(TrainingError, match="the weights have norm inf after optimizer step 1"):
        learn(one, 1)
    with pytest.raises(UsageError, match="a learning rate is 1e.308"):
        Learner.make(small_module(0), 1e308, warmup=0, grad_clip=1.0, decay=0.0)


def test_the_rate_rises_over_the_warm_up() -> None:
    one = learner()
    rates = []
    for _ in range(4):
        learn(one, 1)
        rates.append(one.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([1e-2 / 3, 2e-2 / 3, 1e-2, 1e-2])

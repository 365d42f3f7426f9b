"""Algorithms learn for three iterations in each embedded world; all of them by `make worlds`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from rich.console import Console

from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import PlaySettings
from agentgym_suite.prompts import prompt_template
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.cloning import CloningStep
from agentgym_suite.trainers.collector import Collector, RolloutSettings, plan_groups
from agentgym_suite.trainers.live_view import TrainingView
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.prompt_budget import fitting_prompt
from agentgym_suite.trainers.registry import ALGORITHMS
from agentgym_suite.trainers.run_settings import resolve
from agentgym_suite.trainers.running import Training
from agentgym_suite.trainers.task_lists import select_tasks
from tests.trainers.small_worlds import (
    TASKS,
    WORLDS,
    SmallWorld,
    make_other,
    make_small_start,
)

# one each with a critic, own values, guidance, groups, and another model as its teacher
FAMILIES = ("capo", "sapo_ar", "taspo", "grpo", "opd")
TRAINED = tuple(ALGORITHMS) if os.environ.get("ALL_ALGORITHMS") else FAMILIES
ITERATIONS = 3
SMALL = {
    "tasks": TASKS,
    "rollouts": 4,
    "minibatch_rows": 12,
    "learning_rate": 3e-4,
    "warmup_steps": 0,
    "evaluate_every": 0,
    "checkpoint_every": 100,
}
# what siblings show is seldom anything at this size; a fixed text always has something to say
OWN: Mapping[str, Mapping[str, Any]] = {
    "opsd": {"pi_source": "generic_skill", "pi_tokens": 48},
    "taspo": {"pi_source": "generic_skill", "pi_tokens": 48},
    "grpo_opsd": {"pi_tokens": 48},
}


class Enough(Exception):
    """The iterations that a test wants are done."""


class Watched(TrainingView):
    """Ends the training after its last iteration, before the evaluation of what it exports."""

    def cloned(self, step: CloningStep) -> None:
        raise AssertionError("the start is there already")

    def iterated(self, iteration: int, values: Mapping[str, float]) -> None:
        if iteration == ITERATIONS:
            raise Enough


@pytest.fixture(scope="session")
def starts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Environment -> folder of its start; made when it is first asked for."""

    class Starts(dict[str, Path]):
        def __missing__(self, env_id: str) -> Path:
            world = next(one for one in WORLDS if one.env_id == env_id)
            self[env_id] = make_small_start(world, tmp_path_factory.mktemp("start") / env_id)
            return self[env_id]

    return Starts()


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.env_id)
def test_a_start_plays_its_world_well_and_badly(
    world: SmallWorld, starts: Mapping[str, Path]
) -> None:
    engine = TransformersEngine.load(starts[world.env_id], device="cpu")
    play = PlaySettings(
        prompt=fitting_prompt(
            world.prompt,
            engine.tokenizer,
            most_tokens=world.prompt_tokens,
            window=engine.context_window,
            beside=world.max_new_tokens,
        ),
        reply_format=prompt_template(world.prompt).reply_format,
        max_steps=world.horizon,
    )
    sampling = Sampling(max_new_tokens=world.max_new_tokens, stop_ids=engine.tokenizer.stop_ids)
    settings = RolloutSettings(env_id=world.env_id, play=play, sampling=sampling)
    collector = Collector(world.make_env, engine, engine.tokenizer, settings)
    tasks = select_tasks(world.make_env, "train", most=TASKS)
    collection = collector.collect(plan_groups(tasks, 8, seed=1, iteration=1))
    collate(collection.rows)  # refuses a row that breaks an invariant
    steps = [step for episode in collection.episodes for step in episode.steps]
    assert {step.valid for step in steps} == {True, False}
    calls = [len(step.action.splitlines()) for step in steps if step.valid]
    assert max(calls) == world.calls
    assert max(len(row.prompt_ids) for row in collection.rows) <= world.prompt_tokens
    assert any(step.cut_characters for step in steps) == (world.prompt != "terse")


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.env_id)
@pytest.mark.parametrize("algorithm", TRAINED)
def test_three_iterations(
    algorithm: str, world: SmallWorld, starts: Mapping[str, Path], tmp_path: Path
) -> None:
    own = dict(OWN.get(algorithm, {}))
    if algorithm == "opd":  # a teacher that agrees would leave nothing to learn
        own["teacher_model"] = str(make_other(starts[world.env_id], tmp_path / "other"))
    given = {**SMALL, **world.settings, **own, "policy": str(starts[world.env_id])}
    configuration = resolve(algorithm, "tiny", None, given)
    view = Watched(configuration.run, algorithm, Console(quiet=True))
    training = Training(configuration, tmp_path / "run", view)
    with pytest.raises(Enough):
        training.run()
    lines = read_metrics(tmp_path / "run" / METRICS_FILE)
    assert [line["iteration"] for line in lines] == [*range(1, ITERATIONS + 1)]
    for line in lines:
        assert all(map(math.isfinite, line.values())), line
        assert line["grad/policy"] > 0, line
        assert line["rollout/failures"] == line["rollout/dropped"] == 0
        assert line["rollout/invalid"] < 1
        assert line["mismatch/max"] < 1e-3

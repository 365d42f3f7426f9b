"""Settings as they may come together: a run refuses them in a sentence, or trains and resumes.

With ``SETTINGS_EXAMPLES`` set, so many choices of them instead of a few.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.cli import main
from agentgym_suite.engines.loading import load_policy, save_policy, weights_digest
from agentgym_suite.trainers.cloning import CloningSettings
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.registry import ALGORITHMS
from agentgym_suite.trainers.run_settings import RunSettings
from agentgym_suite.trainers.setting_values import kinds
from agentgym_suite.trainers.starts import StartSettings, make_start
from agentgym_suite.trainers.task_lists import Played
from tests.trainers.tiny_training import SHAPE, TASKS, counting

ENV_ID = "CountingWithAnySettings-v0"
EXAMPLES = int(os.environ.get("SETTINGS_EXAMPLES", "6"))
SMALL = {
    "tasks": 3,
    "rollouts": 3,
    "minibatch_rows": 16,
    "micro_tokens": 256,
    "horizon": 8,
    "max_new_tokens": 6,
    "most_admissible": 0,
    "evaluate_tasks": 2,
    "evaluate_every": 2,
    "start_worlds": 0,
    "unseen_split": '""',
}
OF_RUN = {
    "reward": ["none", "verl_agent"],
    "prompt_tokens": [40],
    "temperature": [0.7, 1.3],
    "max_new_tokens": [3],
    "lora_rank": [2],
    "max_staleness": [1, 2],
    "concurrency": [3],
    "micro_tokens": [64, 100_000],
    "warmup_steps": [1, 3],
    "weight_decay": [0.0],
    "evaluate_every": [0, 1],
    "evaluate_rounds": [2],
    "checkpoint_every": [1],
    "keep_checkpoints": [1],
    "unseen_split": ["test"],
    "attempts": [1],
    "seed": [1, 2],
    "attention": ["eager", "sdpa"],
    "compute_dtype": ["bfloat16", "float32"],
    **dict.fromkeys(("share_prefix", "merge_append_only", "recompute"), [True]),
    "align_mode": ["per_target"],
}
OF_ALGORITHM: Mapping[str, list[Any]] = {
    "mismatch_cap": [2.0],
    "ratio_alpha": [0.3],
    "dual_clip": [3.0],
    "kl_coef": [0.05],
    "entropy_coef": [0.01],
    "invalid_penalty": [0.0, 0.1],
    "minibatch_rows": [3, 1000],
    "epochs": [2],
    "learning_rate": [1e-2],
    "grad_clip": [0.01],
    "gamma": [0.9, 1.0],
    "lam": [0.5, 1.0],
    "filter_rounds": [2],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A policy that wins sometimes, in ``start``, and another one in ``teacher``."""
    import torch

    made = tmp_path_factory.mktemp("any")
    gym.register(ENV_ID, entry_point="tests.counting:CountingEnv", max_episode_steps=8)
    cloning = CloningSettings(steps=600, batch=16, first_look=20, look_every=20, target=0.4)
    about = StartSettings(env_id=ENV_ID, horizon=8, max_new_tokens=6, shape=SHAPE, cloning=cloning)
    won = make_start(Played(counting, TASKS), made / "start", about, lambda step: None)
    assert 0.2 < won < 1.0
    other, chance = load_policy(made / "start"), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.module.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=chance)
    save_policy(other, made / "teacher")
    yield made
    del gym.registry[ENV_ID]


@st.composite
def choices(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An algorithm, and values for some of its settings and of the run's."""
    algorithm = draw(st.sampled_from(sorted(ALGORITHMS)))
    values: dict[str, list[Any]] = dict(OF_RUN)
    for name, kind in kinds(ALGORITHMS[algorithm].config).items():
        if name in OF_ALGORITHM:
            values[name] = OF_ALGORITHM[name]
        elif kind is bool:
            values[name] = [True, False]
        elif get_origin(kind) is Literal:
            values[name] = list(get_args(kind))
    names = draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=6, unique=True))
    found = {name: draw(st.sampled_from(values[name])) for name in names}
    if found.get("max_staleness"):
        found["mismatch_cap"] = 2.0
    return algorithm, found


def command(folder: Path, out: Path, algorithm: str, chosen: dict[str, Any]) -> list[str]:
    """The command without its number of iterations."""
    fields = {field.name for field in dataclasses.fields(ALGORITHMS[algorithm].config)}
    values: dict[str, Any] = dict(SMALL)
    if "pi_tokens" in fields:
        values["pi_tokens"] = 24
    if "teacher_model" in fields:
        values["teacher_model"] = folder / "teacher"
    words = ["train", algorithm, "--preset", "tiny", "--env", ENV_ID, "--out", str(out)]
    words += ["--policy", str(folder / "start"), "--budget-steps", "100000"]
    for name, value in {**values, **chosen}.items():
        words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return words


@settings(
    max_examples=EXAMPLES,
    derandomize="SETTINGS_EXAMPLES" not in os.environ,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink takes three trainings a try
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(choices())
def test_any_settings_are_refused_in_a_sentence_or_resume_to_the_bit(
    folder: Path, capsys: pytest.CaptureFixture[str], chosen: tuple[str, dict[str, Any]]
) -> None:
    algorithm, values = chosen
    whole, resumed = folder / "whole", folder / "resumed"
    for out in (whole, resumed):
        shutil.rmtree(out, ignore_errors=True)
    capsys.readouterr()
    status = main([*command(folder, whole, algorithm, values), "--set", "iterations=2"])
    said = capsys.readouterr().err
    if status:
        assert status == 2 and said.startswith("agentgym-suite: ") and said.count("\n") == 1, said
        assert not (whole / METRICS_FILE).exists()
        return
    lines = read_metrics(whole / METRICS_FILE)
    assert all(math.isfinite(value) for line in lines for value in line.values())
    for iterations in (1, 2):
        again = [*command(folder, resumed, algorithm, values), "--set", f"iterations={iterations}"]
        assert main(again) == 0
    one, other = (weights_digest(load_policy(out / "policy").module) for out in (whole, resumed))
    assert one == other


def test_the_settings_that_are_chosen_are_there() -> None:
    assert OF_RUN.keys() <= kinds(RunSettings).keys()
    of_algorithms = [kinds(spec.config).keys() for spec in ALGORITHMS.values()]
    assert OF_ALGORITHM.keys() <= set().union(*of_algorithms)

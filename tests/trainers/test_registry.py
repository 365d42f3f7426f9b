"""Algorithms by name, their settings and presets."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.grpo import GrpoConfig
from agentgym_suite.trainers.registry import ALGORITHMS, algorithm_spec, make_algorithm
from agentgym_suite.trainers.stats import OneRank
from tests.trainers.small_batches import mixed_batch, with_frozen_columns

NAMES = list(ALGORITHMS)


def test_the_names() -> None:
    assert set(NAMES) == {
        "capo", "sapo_ar", "taspo", "ppo", "reinforce_pp", "reinforce_pp_baseline", "grpo", "rloo",
        "gspo", "gigpo", "turn_ppo", "st_ppo", "dapo", "opsd", "opd", "grpo_opsd",
    }  # fmt: skip


def test_sapo_is_refused_with_the_name_that_is_meant() -> None:
    with pytest.raises(UsageError, match=r"Soft Adaptive Policy Optimization.*'sapo_ar'"):
        make_algorithm("sapo")


def test_an_unknown_name_tells_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'cappo' does not exist; use capo, sapo_ar"):
        algorithm_spec("cappo")


def test_an_algorithm_of_ones_own_has_the_settings_of_its_base() -> None:
    spec = algorithm_spec("tests.trainers.own_algorithm:Halved")
    assert (spec.config, spec.algorithm.name) == (GrpoConfig, "halved")
    made = make_algorithm("tests.trainers.own_algorithm:Halved", kl_coef=0.5)
    usual = make_algorithm("grpo", kl_coef=0.5)
    assert made.config == usual.config and made.needs == usual.needs
    halves, wholes = (
        one.prepare(with_frozen_columns(mixed_batch()), OneRank()).batch.targets
        for one in (made, usual)
    )
    assert halves is not None and wholes is not None and wholes.advantages.abs().max() > 0
    assert torch.allclose(halves.advantages, wholes.advantages / 2)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module_here:Halved", "cannot be imported"),
        (":Halved", "cannot be imported"),
        ("tests.trainers.own_algorithm:Thirds", "is no subclass of PolicyGradient"),
        ("tests.trainers.own_algorithm:something_else", "is no subclass of PolicyGradient"),
        ("tests.trainers.own_algorithm:Unsettled", "names no class of settings"),
    ],
)
def test_what_is_no_algorithm_is_refused(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        algorithm_spec(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["paper", "tiny", "public_code"])
def test_every_preset_can_be_made_and_is_itself(name: str, preset: str) -> None:
    algorithm = make_algorithm(name, preset)
    assert algorithm.name == name == ALGORITHMS[name].name
    for key, value in ALGORITHMS[name].config.PRESETS[preset].items():
        assert getattr(algorithm.config, key) == value


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("ppo", {"kl_estimator": "k1"}, "expected gradient as a term of the loss is 0"),
        ("opsd", {"kl_coef": 0.1, "kl_place": "reward"}, "distillation uses no rewards"),
        ("opsd", {"reward_scale": 2.0}, "reward_scale is 2.0, and distillation uses no rewards"),
        ("opd", {"invalid_penalty": 0.1}, "leave it at 0.0"),
        ("opd", {"aggregation": "traj-nested"}, "leave it at 'token-mean'"),
        ("opsd", {"mismatch_cap": 2.0}, "objective 'full' does not read"),
        ("opd", {"objective": "sampled", "divergence": "jsd"}, "'sampled' does not read"),
        ("gspo", {"ratio": "token"}, "set it to 'mean'"),
        ("gspo", {"aggregation": "token-mean"}, "set it to 'seq-mean-token-mean'"),
        ("gspo", {"minibatch_unit": "rows"}, "set it to 'trajectories'"),
        ("gspo", {"mismatch_cap": 2.0}, "set it to 0.0"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(
    name: str, settings: dict[str, Any], words: str
) -> None:
    scope = {"gspo_scope": "trajectory"} if name == "gspo" else {}
    with pytest.raises(UsageError, match=words):
        make_algorithm(name, **scope, **settings)


def test_tiny_presets_take_as_many_optimizer_steps_and_public_ones_share_a_code() -> None:
    assert {make_algorithm(name, "tiny").config.minibatch_rows for name in NAMES} == {256}
    for name in ("ppo", "grpo", "grpo_opsd", "gigpo", "rloo"):
        config = make_algorithm(name, "public_code").config
        found = (config.kl_coef, config.entropy_coef, config.dual_clip, config.minibatch_rows)
        assert found == (0.01, 1e-3, 3.0, 256) and config.minibatch_unit == "rows"


@pytest.mark.parametrize("name", NAMES)
def test_the_same_settings_are_equal_and_other_ones_are_not(name: str) -> None:
    assert make_algorithm(name).config == make_algorithm(name).config
    assert make_algorithm(name).config != make_algorithm(name, kl_coef=0.123).config


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_sentence_of_help(name: str) -> None:
    for item in fields(ALGORITHMS[name].config):
        assert len(item.metadata["help"]) > 10, item.name


@pytest.mark.parametrize("name", NAMES)
def test_unknown_presets_and_settings_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="preset 'best' does not exist; use paper"):
        make_algorithm(name, "best")
    with pytest.raises(UsageError, match="setting 'gama' does not exist; use"):
        make_algorithm(name, gama=1.0)


@pytest.mark.parametrize(
    ("name", "unread"),
    [
        ("rloo", "norm_by_std"),
        ("reinforce_pp_baseline", "norm_by_std"),
        ("capo", "norm_by_std"),
        ("grpo", "gamma"),
        ("opsd", "gamma"),
        ("reinforce_pp", "lam"),
        ("taspo", "lam"),
        ("gigpo", "value_clip"),
        ("sapo_ar", "critic_learning_rate"),
    ],
)
def test_what_an_algorithm_does_not_read_is_no_setting_of_it(name: str, unread: str) -> None:
    with pytest.raises(UsageError, match=f"setting '{unread}' does not exist"):
        make_algorithm(name, **{unread: 0.5})


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("capo", {"ratio": "geometric"}, "ratio is 'geometric'; use one of 'token', 'product'"),
        ("capo", {"credit": "gae"}, "credit is 'gae'; use one of 'action_gae'"),
        ("capo", {"gamma": 1.5}, "gamma is 1.5; give a number from 0 to 1"),
        ("capo", {"gamma": float("nan")}, "gamma is nan"),
        ("capo", {"clip_low": -0.1}, "clip_low is -0.1"),
        ("grpo", {"dual_clip": 0.5}, "dual_clip is 0.5; give a number above 1, or 0 for off"),
        ("grpo", {"aggregation": "mean"}, "aggregation is 'mean'; use one of 'token-mean'"),
        ("grpo", {"rollouts": 0}, "rollouts is 0"),
        ("taspo", {"weight_range": 1.0}, "weight_range is 1.0"),
        ("taspo", {"tau": 0.0}, "tau is 0.0"),
        ("taspo", {"pi_source": "oracle"}, "pi_source is 'oracle'"),
        ("sapo_ar", {"r_max": 0.0}, "r_max is 0.0"),
        ("sapo_ar", {"readout": "sigmoid"}, "readout is 'sigmoid'"),
        ("gspo", {"gspo_scope": "trajectory", "mismatch_cap": 2.0}, "mismatch_cap is 2.0"),
    ],
)
def test_values_that_cannot_be_are_refused(
    name: str, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        make_algorithm(name, **settings)


def test_what_algorithms_need() -> None:
    needs = {name: make_algorithm(name).needs for name in NAMES}
    assert {n for n, need in needs.items() if need.critic == "boundary"} == {"capo"}
    assert {n for n, need in needs.items() if need.critic == "token"} == {
        "ppo",
        "turn_ppo",
        "st_ppo",
    }
    assert {n for n, need in needs.items() if need.value_tokens} == {"sapo_ar"}
    assert {n for n, need in needs.items() if need.teacher == "privileged"} == {
        "taspo",
        "opsd",
        "grpo_opsd",
    }
    assert needs["opd"].teacher == "model"
    assert {n for n, need in needs.items() if need.log_ratio_pass} == {"capo"}
    assert {n for n, need in needs.items() if need.clip_bias_pass} == {"st_ppo"}
    assert not any(needs[n].group for n in ("capo", "sapo_ar", "ppo", "reinforce_pp", "opd"))
    assert all(needs[n].group for n in ("grpo", "rloo", "gspo", "gigpo", "dapo", "taspo"))


def test_switches_change_what_is_needed() -> None:
    assert make_algorithm("capo", credit="token_gae").needs.critic == "token"
    assert not make_algorithm("capo", mu_scope="microbatch").needs.log_ratio_pass
    assert not make_algorithm("capo", kl_coef=0.0).needs.reference
    assert make_algorithm("gspo", gspo_scope="trajectory").needs.log_ratio_pass
    assert make_algorithm("capo", bootstrap_truncated=True).needs.bootstrap
    assert make_algorithm("dapo", filter_groups=True).needs.resample_uniform_groups == 10
    assert make_algorithm("taspo", pi_source="none").needs.teacher == "none"
    assert not make_algorithm("st_ppo", clip_bias_correction=False).needs.clip_bias_pass
    assert make_algorithm("opsd", objective="sampled").needs.divergence == "none"
    assert not make_algorithm("opsd", pi_source="generic_skill").needs.group


def test_the_papers_numbers() -> None:
    capo: Any = make_algorithm("capo").config
    assert (capo.gamma, capo.lam, capo.clip_low, capo.clip_high) == (0.99, 1.0, 1e-3, 1e-3)
    assert (capo.kl_coef, capo.kl_estimator, capo.entropy_coef) == (1e-3, "k3", 0.0)
    assert (capo.learning_rate, capo.critic_learning_rate) == (1e-6, 1e-5)
    assert (capo.tasks, capo.rollouts, capo.minibatch_rows, capo.value_clip) == (128, 1, 128, 0.5)
    sapo: Any = make_algorithm("sapo_ar").config
    assert (sapo.gamma, sapo.lam, sapo.value_temperature, sapo.r_max) == (0.95, 0.95, 4.0, 10.0)
    assert (sapo.value_coef, sapo.q_coef, sapo.kl_coef, sapo.c_inv) == (0.5, 0.5, 0.01, 0.1)
    taspo: Any = make_algorithm("taspo").config
    assert (taspo.clip, taspo.tau, taspo.weight_range, taspo.dual_clip) == (2.0, 0.5, 0.4, 3.0)
    assert (taspo.tasks, taspo.rollouts, taspo.aggregation) == (16, 8, "traj-nested")
    gspo: Any = make_algorithm("gspo").config
    assert (gspo.clip_low, gspo.clip_high) == (3e-4, 4e-4)
    dapo: Any = make_algorithm("dapo").config
    assert (dapo.clip_low, dapo.clip_high, dapo.dual_clip, dapo.kl_coef) == (0.2, 0.28, 0.0, 0.0)
    gigpo: Any = make_algorithm("gigpo").config
    assert (gigpo.gamma, gigpo.step_weight, gigpo.episode_stat) == (0.95, 1.0, "trajectories")

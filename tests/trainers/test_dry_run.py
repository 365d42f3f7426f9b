"""The dry run: what it makes of a configuration, and how it is told on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.cli import main
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.dry_run import Assumptions, estimate, lines, plan_of, split_assumptions
from agentgym_suite.trainers.run_settings import Configuration, resolve


def configuration(algorithm: str = "capo", **given: Any) -> Configuration:
    return resolve(algorithm, "paper", None, {"policy": "qwen3-1.7b", "horizon": 15, **given})


def test_a_plan_is_the_settings() -> None:
    plan = plan_of(configuration(max_new_tokens=64), Assumptions(longest_prompt=500))
    assert plan.policy.name == "Qwen/Qwen3-1.7B"
    assert (plan.trajectories, plan.steps, plan.prompt, plan.reply) == (128, 15, 500, 64)
    assert plan.needs.critic == "boundary" and plan.needs.reference
    assert not plan.sharded and plan.element_size == 2
    assert plan.micro_rows == 16_384 // 564


def test_what_is_usual_moves_time_and_not_memory() -> None:
    bound = estimate(configuration(), Assumptions())
    usual = estimate(configuration(), Assumptions(mean_steps=5, mean_prompt=700, mean_reply=80))
    assert bound.memory == usual.memory
    assert bound.durations is not None and usual.durations is not None
    assert usual.durations.total < bound.durations.total / 3


def test_several_processes_keep_float32_in_shares() -> None:
    plan = plan_of(configuration(), Assumptions(processes=8))
    assert plan.sharded and plan.element_size == 4 and plan.kept_element_size == 4


def test_a_processor_computes_in_float32_and_states_its_rates() -> None:
    slow = estimate(configuration(), Assumptions(device="cpu"))
    assert slow.durations is None and slow.plan.element_size == 4 and slow.plan.host
    stated = Assumptions(device="cpu", device_operations=1e11, device_bandwidth=2e10)
    found = estimate(configuration(), stated)
    assert found.durations is not None
    assert found.durations.policy == found.operations.policy / (1e11 * 0.4)


def test_a_teacher_with_privileged_information_reads_longer_prompts() -> None:
    plan = plan_of(configuration("taspo"), Assumptions())
    assert plan.hint == 256 and plan.teacher is None


@pytest.mark.parametrize(
    ("given", "processes", "said"),
    [
        ({"engine_url": "http://a"}, 1, "set engine = vllm"),
        ({"engine": "vllm"}, 2, "engine is vllm, and in each of 2 processes"),
        ({"engine": "vllm", "engine_url": "http://a,http://b"}, 1, "names 2 servers"),
        ({"max_staleness": 1}, 1, "set mismatch_cap"),
        ({"tasks": 4}, 5, "tasks is 4, and 5 processes"),
        ({"share_prefix": True}, 2, "share_prefix"),
    ],
)
def test_what_no_training_takes_is_refused(
    given: dict[str, Any], processes: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        plan_of(configuration(**given), Assumptions(processes=processes))


def test_an_engine_with_weights_of_its_own_is_counted() -> None:
    shared, ahead = (
        estimate(configuration(**given), Assumptions(device="cpu")).memory.lasting
        for given in ({}, {"max_staleness": 2, "mismatch_cap": 2.0})
    )
    policy = shared["policy"]
    assert ahead == {
        **shared,
        "engine's own copy": policy,
        "weights on their way to the engine": 3 * policy,
    }


def test_what_servers_keep_is_not_in_the_process() -> None:
    served = configuration(engine="vllm", engine_url="http://a,http://b")
    phases = estimate(served, Assumptions(processes=6)).memory.phases
    assert phases == {
        name: parts
        for name, parts in estimate(configuration(), Assumptions(processes=6)).memory.phases.items()
        if name != "rollout"
    }


def test_every_part_is_told() -> None:
    found = estimate(configuration(), Assumptions())
    told = {name.strip() for name, _, _ in lines(found)}
    assert told >= {
        *found.memory.lasting,
        *(p for part in found.memory.phases.values() for p in part),
    }


def test_settings_are_told_from_assumptions() -> None:
    assumed, rest = split_assumptions({"device": "a40", "gamma": 0.9, "processes": 2})
    assert assumed == Assumptions(device="a40", processes=2)
    assert rest == {"gamma": 0.9}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"processes": 0}, "processes is 0"),
        ({"processes": True}, "processes is True"),
        ({"training_share": 2}, "training_share is 2"),
        ({"mean_reply": -1}, "mean_reply is -1"),
        ({"mean_steps": math.inf}, "mean_steps is inf"),
        ({"mean_prompt": 1e308}, "mean_prompt is 1e"),
        ({"device": 5}, "device is 5, which is not known"),
        ({"mean_reply": "long"}, "mean_reply is 'long'"),
    ],
)
def test_assumptions_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Assumptions(**given)


SIZES = {
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "intermediate_size": 16,
    "vocab_size": 100,
}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "config.json cannot be read"),
        ("[" * 5_000, "config.json cannot be read"),
        ("[]", "config.json holds a list instead of an object"),
        (json.dumps({**SIZES, "num_attention_heads": 0}), "num_attention_heads of .* is None"),
        (json.dumps({**SIZES, "hidden_size": "wide"}), "hidden_size of .* is 'wide'"),
        (json.dumps({**SIZES, "num_hidden_layers": -1}), "num_hidden_layers of .* is -1"),
        (json.dumps({**SIZES, "vocab_size": None}), "vocab_size of .* is None"),
    ],
    ids=["cut", "deep", "list", "no heads", "text", "below zero", "missing"],
)
def test_a_folder_without_sizes_is_told(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, "utf-8")
    with pytest.raises(UsageError, match=said):
        estimate(configuration(policy=str(tmp_path)), Assumptions())
    (tmp_path / "config.json").write_text(json.dumps(SIZES), "utf-8")
    assert estimate(configuration(policy=str(tmp_path)), Assumptions()).plan.policy.heads == 4


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "grpo", "--policy", "Qwen/Qwen2.5-7B-Instruct", "--dry-run"]
    assert main([*words, "--set", "processes=8", "--set", "device=h100"]) == 0
    said = capsys.readouterr().out
    assert "GRPO in ALFWorld-v0, Qwen/Qwen2.5-7B-Instruct, 8 x NVIDIA H100" in said
    assert "7,615,616,512" in said and "peak" in said


def test_a_tiny_policy_needs_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "capo", "--preset", "tiny", "--dry-run", "--set", "device=cpu"]) == 0
    assert "a policy made here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dry-run"], "no policy is given"),
        (["--dry-run", "--policy", "gpt-9"], "'gpt-9' is not known"),
        (["--dry-run", "--policy", "qwen3-1.7b", "--set", "device=h300"], "not known"),
        (["--dry-run", "--policy", "qwen3-1.7b", "--set", "procesess=8"], "procesess"),
        (["--policy", "qwen3-1.7b"], "--out"),
    ],
)
def test_what_is_missing_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["train", "capo", *words]) == 2
    complaint = capsys.readouterr().err
    assert said in complaint and complaint.count("\n") == 1

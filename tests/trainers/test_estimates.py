"""Sizes, memory and operations by arithmetic, against real modules and what autograd keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoModelForCausalLM,
    AutoModelForTokenClassification,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.architectures import Architecture, architecture, known_architectures
from agentgym_suite.trainers.devices import device, device_of_card
from agentgym_suite.trainers.durations import Rates, durations, operations, trunk_operations
from agentgym_suite.trainers.memory import kept_of_trunk, memory
from agentgym_suite.trainers.plans import Plan

KNOWN = known_architectures()
SMALL = Architecture(
    name="small",
    hidden=64,
    layers=3,
    heads=4,
    kv_heads=2,
    head_width=16,
    mlp=160,
    vocabulary=97,
    tied=True,
    query_key_norm=True,
)
PLAIN = replace(SMALL, query_key_norm=False, query_key_value_bias=True, tied=False)


def config_of(model: Architecture, **more: Any) -> PretrainedConfig:
    """What transformers calls these sizes."""
    sizes = {
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "intermediate_size": model.mlp,
        "vocab_size": model.vocabulary,
        "tie_word_embeddings": model.tied,
        **more,
    }
    if model.query_key_norm:
        return Qwen3Config(head_dim=model.head_width, **sizes)
    return Qwen2Config(**sizes)


def counted(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize("model", [*KNOWN.values(), SMALL, PLAIN], ids=lambda model: model.name)
def test_weights_are_those_of_the_real_model(model: Architecture) -> None:
    with torch.device("meta"):
        policy = AutoModelForCausalLM.from_config(config_of(model))
        critic = AutoModelForTokenClassification.from_config(config_of(model, num_labels=1))
    assert counted(policy) == model.parameters
    assert counted(critic) == model.critic_parameters
    assert counted(policy.base_model) == model.trunk_parameters
    assert counted(policy.base_model.layers[0]) == model.layer_parameters


@pytest.mark.parametrize("targets", ["all-linear", "q_proj, mlp.down_proj"])
def test_weights_of_an_adapter_are_those_of_the_real_one(targets: str) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed: no adapter to compare with")
    with torch.device("meta"):
        policy = AutoModelForCausalLM.from_config(config_of(SMALL))
        names = [name.strip() for name in targets.split(",")]
        chosen = targets if targets == "all-linear" else names
        settings = peft.LoraConfig(r=8, target_modules=chosen)
        peft.inject_adapter_in_model(settings, policy)
    trained = sum(weight.numel() for weight in policy.parameters() if weight.requires_grad)
    assert trained == plan(adapter_rank=8, adapter_targets=targets).adapter_parameters


def test_an_adapter_beside_no_linear_layer_is_refused() -> None:
    for name in ("embed_tokens", "v_prj", "proj", ""):
        with pytest.raises(UsageError, match=f"lora_targets has '{name}'"):
            SMALL.adapter_shapes(f"q_proj,{name}")


@pytest.mark.parametrize("model", [SMALL, PLAIN], ids=["qwen3", "qwen2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_a_forward_keeps_is_counted_to_the_byte(
    model: Architecture, dtype: torch.dtype
) -> None:
    policy = AutoModelForCausalLM.from_config(config_of(model)).to(dtype)
    weights = {weight.untyped_storage().data_ptr() for weight in policy.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in weights:
            kept[place] = tensor
        return tensor

    rows, columns = 3, 32
    ids = torch.randint(0, model.vocabulary, (rows, columns))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        policy.base_model(input_ids=ids, use_cache=False)
    number = dtype.itemsize
    rotations = 2 * columns * model.head_width * number
    found = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    expected = rows * columns * kept_of_trunk(model, number)
    assert found == expected + rotations + ids.untyped_storage().nbytes()


def test_operations_are_those_that_torch_counts() -> None:
    policy = AutoModelForCausalLM.from_config(config_of(SMALL), attn_implementation="eager")
    tokens = 24
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        policy.base_model(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=False)
    # torch computes all tokens by all tokens, of which half is masked
    masked = 2 * SMALL.layers * SMALL.query_width * tokens**2
    assert counter.get_total_flops() == trunk_operations(SMALL, tokens) + masked


def plan(**given: Any) -> Plan:
    values = {
        "policy": SMALL,
        "needs": Needs(),
        "trajectories": 8,
        "steps": 2,
        "prompt": 24,
        "reply": 8,
        "longest_prompt": 24,
        "longest_reply": 8,
        "minibatch_rows": 8,
        "micro_tokens": 64,
    }
    return Plan(**{**values, **given})


def test_lasting_parts_are_weights_times_bytes() -> None:
    whole = memory(plan(needs=Needs(critic="token", reference=True), element_size=2)).lasting
    weights, valued = SMALL.parameters, SMALL.critic_parameters
    assert whole == {
        "policy": 2 * weights,
        "optimizer of the policy": 4 * weights,
        "reference": 2 * weights,
        "critic": 2 * valued,
        "optimizer of the critic": 4 * valued,
    }


def test_processes_share_weights_and_keep_one_copy_each() -> None:
    shared = memory(
        plan(needs=Needs(reference=True), processes=4, sharded=True, element_size=2)
    ).lasting
    weights = SMALL.parameters
    assert shared == {
        "policy": weights,
        "optimizer of the policy": 2 * weights,
        "copy that samples": 2 * weights,
        "reference": weights,
    }


def test_an_adapter_needs_no_reference_and_trains_little() -> None:
    small = memory(plan(needs=Needs(reference=True), adapter_rank=8))
    trained = plan(adapter_rank=8).adapter_parameters
    assert small.lasting == {
        "policy": 4 * (SMALL.parameters + trained),
        "optimizer of the policy": 8 * trained,
    }
    assert small.phases["backward"]["gradients"] == 4 * trained


def test_an_adapter_is_exported_beside_its_policy_on_the_host_alone() -> None:
    kept = memory(plan(host=True, adapter_rank=8)).phases["export"]
    assert sum(kept.values()) == 4 * SMALL.layers * SMALL.layer_matrices
    for other in (plan(host=True), plan(adapter_rank=8)):
        assert "export" not in memory(other).phases


def test_recomputed_layers_keep_their_input_and_one_layer() -> None:
    kept = memory(plan(recompute=True)).phases["backward"]["activations"]
    tokens, sampled = 2 * 32, 2 * 8
    last_norm = 4 * 64 + 4 * 64 + 4
    layer = (kept_of_trunk(SMALL, 4) - last_norm) // SMALL.layers
    inputs = SMALL.layers * 4 * 64
    states = 4 * 64
    assert kept == tokens * (inputs + last_norm + layer + states) + 2 * sampled * 4 * 64


def test_the_peak_is_what_lasts_and_the_largest_phase() -> None:
    found = memory(plan(needs=Needs(critic="boundary")))
    phases = {name: sum(parts.values()) for name, parts in found.phases.items()}
    assert found.peak == sum(found.lasting.values()) + max(phases.values())
    assert phases[found.largest] == max(phases.values())


def test_one_micro_batch_has_gradients_where_activations_were() -> None:
    several = memory(plan()).phases["backward"]
    alone = memory(plan(minibatch_rows=2)).phases["backward"]
    assert several["gradients"] == 4 * SMALL.parameters
    assert alone["gradients"] == max(0, 4 * SMALL.parameters - alone["activations"])


def test_a_critic_of_boundaries_reads_prompts_alone() -> None:
    by_token = operations(plan(needs=Needs(critic="token")))
    at_boundary = operations(plan(needs=Needs(critic="boundary")))
    assert at_boundary.critic == 16 * 3 * trunk_operations(SMALL, 24)
    assert by_token.critic == 16 * 3 * trunk_operations(SMALL, 32)
    assert at_boundary.policy == by_token.policy


def test_passes_and_updates_are_forwards() -> None:
    forward = trunk_operations(SMALL, 32) + 2 * 97 * 64 * 8
    learned = 3 * trunk_operations(SMALL, 32) + 4 * 2 * 97 * 64 * 8
    plain = operations(plan(needs=Needs(reference=True)))
    assert plain.passes == 16 * 2 * forward
    assert plain.policy == 16 * learned
    assert operations(plan(needs=Needs(log_ratio_pass=True))).policy == 16 * (learned + forward)
    again = operations(plan(recompute=True, epochs=2)).policy
    assert again == 2 * 16 * (learned + trunk_operations(SMALL, 32))


def test_decoding_takes_the_longest_of_bytes_operations_and_kernels() -> None:
    rates = Rates(training=1e9, reading=1e9, bandwidth=1e9, layer_latency=1.0)
    steps = 2 * 8
    assert durations(plan(), rates).tokens == steps * SMALL.layers
    fast = replace(rates, layer_latency=0.0, reading=1e18)
    weights = SMALL.layers * SMALL.layer_matrices + SMALL.embedding
    cached = 8 * (24 + 4) * SMALL.cached_elements
    assert durations(plan(), fast).tokens == pytest.approx(steps * 4 * (weights + cached) / 1e9)
    assert durations(plan(concurrency=4), rates).tokens == 2 * steps * SMALL.layers


@pytest.mark.parametrize("name", ["Qwen/Qwen3-1.7B", "qwen3-1.7b", "QWEN/QWEN3-1.7B"])
def test_a_model_is_found_by_its_name(name: str) -> None:
    assert architecture(name).parameters == 1_720_574_976


@pytest.mark.parametrize("model", [SMALL, PLAIN], ids=["qwen3", "qwen2"])
def test_a_folder_says_what_its_model_is(model: Architecture, tmp_path: Path) -> None:
    config_of(model).save_pretrained(tmp_path)
    assert architecture(str(tmp_path)) == replace(model, name=str(tmp_path))


def test_models_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}', "utf-8")
    with pytest.raises(UsageError, match="is a mamba model"):
        architecture(str(tmp_path))
    with pytest.raises(UsageError, match="'gpt-9' is not known"):
        architecture("gpt-9")


@pytest.mark.parametrize(
    ("card", "memory_bytes"),
    [
        ("NVIDIA H100 80GB HBM3", 80e9),
        ("NVIDIA H200", 141e9),
        ("NVIDIA A100-SXM4-40GB", 40e9),
        ("NVIDIA A100-SXM4-80GB", 80e9),
        ("NVIDIA A40", 48e9),
        ("NVIDIA GeForce RTX 4090", 24e9),
    ],
)
def test_cards_are_known_by_what_a_driver_calls_them(card: str, memory_bytes: float) -> None:
    found = device_of_card(card)
    assert found is not None and found.memory == memory_bytes


def test_other_cards_are_not_known() -> None:
    assert device_of_card("NVIDIA H100 PCIe") == device("h100-pcie")
    assert device_of_card("Tesla V100-SXM2-16GB") is None
    with pytest.raises(UsageError, match="'h300', which is not known"):
        device("h300")

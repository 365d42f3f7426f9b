"""Adapters: the base stays, the adapter merged computes the same, and it alone is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
import peft
import torch

from agentgym_suite.engines.loading import load_policy
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.checkpoints import checkpoints
from agentgym_suite.trainers.logprobs import Forward, policy_outputs
from agentgym_suite.trainers.lora import (
    LoraSettings,
    adapter_off,
    add_adapter,
    merged,
    merged_weights,
)
from agentgym_suite.trainers.models import frozen_copy, make_critic
from agentgym_suite.trainers.value_basis import reserve_value_rows
from tests.engines.small_policy import small_module
from tests.trainers.small_batches import mixed_rows
from tests.trainers.tiny_training import trainer

SETTINGS = LoraSettings(rank=3, alpha=6.0)


def logprobs(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return policy_outputs(model, collate(mixed_rows()), Forward()).logprobs


def learned() -> tuple[Any, Any]:
    """A base, and the same with an adapter that has learned something."""
    base = small_module().double()
    model = add_adapter(frozen_copy(base), SETTINGS)
    chance = torch.Generator().manual_seed(1)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.2, generator=chance)
    return base, model


def test_an_adapter_starts_as_its_base_and_is_alone_trained() -> None:
    base = small_module().double()
    model = add_adapter(frozen_copy(base), SETTINGS)
    assert torch.equal(logprobs(model), logprobs(base))
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert trained and all("lora_" in name for name in trained)
    assert not any("lm_head" in name for name in trained)


def test_the_base_is_back_while_the_adapter_is_off() -> None:
    base, model = learned()
    before = logprobs(model)
    with adapter_off(model) as reference:
        assert torch.equal(logprobs(reference), logprobs(base))
    assert torch.equal(logprobs(model), before)
    assert not torch.allclose(before, logprobs(base), atol=1e-3)
    trained = [weight for name, weight in model.named_parameters() if "lora_" in name]
    assert all(weight.requires_grad for weight in trained)


def test_merged_and_adapter_give_equal_logprobs() -> None:
    base, model = learned()
    before = logprobs(model)
    plain = merged(model)
    assert set(plain.state_dict()) == set(base.state_dict()) == {*dict(merged_weights(model))}
    torch.testing.assert_close(logprobs(plain), before, rtol=0, atol=1e-6)
    assert torch.equal(logprobs(model), before), "merging changed the model itself"
    assert merged(base) is base


def test_what_has_no_adapter_is_not_copied_to_be_merged() -> None:
    _, model = learned()
    own = {weight.data_ptr() for weight in model.state_dict().values()}
    added = [
        name for name, weight in merged(model).state_dict().items() if weight.data_ptr() not in own
    ]
    assert added and all(name.endswith("_proj.weight") for name in added)


def test_a_critic_trains_its_head_beside_its_adapter() -> None:
    critic = add_adapter(make_critic(small_module()), SETTINGS, heads=("score",))
    trained = {name for name, weight in critic.named_parameters() if weight.requires_grad}
    assert {"score.weight", "score.bias"} < trained
    assert all("lora_" in name or name.startswith("score") for name in trained)


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        ("nothing,else", r"lora_targets is 'nothing,else'.*all-linear"),
        ("q_proj,v_prj", r"lora_targets is 'q_proj,v_prj', and \w+ has no 'v_prj'"),
        ("q_proj,", "has no '' among its linear layers"),
        ("norm", "has none of these among its linear layers"),
        (
            "embed_tokens",
            "lora_targets has 'embed_tokens', and embeddings and head have no adapter",
        ),
        ("lm_head", "lora_targets has 'lm_head', and embeddings and head have no adapter"),
    ],
)
def test_layers_that_are_not_there_are_named(targets: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        add_adapter(small_module(), LoraSettings(rank=2, alpha=2.0, targets=targets))


def test_names_of_layers_may_have_blanks_between() -> None:
    settings = LoraSettings(rank=2, alpha=2.0, targets="q_proj, v_proj")
    trained = {
        name.split(".")[-4]
        for name, weight in add_adapter(small_module(), settings).named_parameters()
        if weight.requires_grad
    }
    assert trained == {"q_proj", "v_proj"}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft's own
def test_a_training_keeps_its_adapter_alone_and_exports_both_forms(tmp_path: Path) -> None:
    given = {"lora_rank": 2, "lora_alpha": 4.0, "kl_coef": 0.1, "learning_rate": 1e-2}
    whole = trainer("capo", tmp_path / "whole", budget_steps=40, **given)
    base = frozen_copy(trainer("capo", tmp_path / "base").policy)
    base.save_pretrained(tmp_path / "base" / "weights")
    whole.run()
    weights = dict(whole.policy.named_parameters())
    for name, tensor in base.named_parameters():
        held = weights.get(name)
        held = weights[f"{name[:-7]}.base_layer.weight"] if held is None else held
        assert torch.equal(held, tensor), name

    before = logprobs(whole.sampled)
    assert not torch.allclose(before, logprobs(base), atol=1e-4)
    exported = load_policy(tmp_path / "whole" / "policy", device="cpu").module
    torch.testing.assert_close(logprobs(exported), before, rtol=0, atol=1e-5)
    over = load_policy(tmp_path / "base" / "weights", device="cpu").module
    over = peft.PeftModel.from_pretrained(over, str(tmp_path / "whole" / "adapter"))
    torch.testing.assert_close(logprobs(over.base_model.model), before, rtol=0, atol=1e-5)

    place = checkpoints(tmp_path / "whole" / "checkpoints")[-1]
    stored = torch.distributed.checkpoint.FileSystemReader(place / "tensors").read_metadata()
    kept = [name for name in stored.state_dict_metadata if ".model." in name]
    assert kept and all("lora_" in name or ".score." in name for name in kept)

    trainer("capo", tmp_path / "parts", budget_steps=1, **given).run()
    resumed = trainer("capo", tmp_path / "parts", budget_steps=40, **given)
    resumed.run()
    for name, weight in resumed.policy.named_parameters():
        assert torch.equal(weight, weights[name]), name


def test_values_are_not_read_from_equal_rows_that_no_adapter_parts() -> None:
    head = small_module().get_output_embeddings()
    words = head.weight.shape[0] - 2
    ids = reserve_value_rows(head, words, equal=False, frozen=True)
    assert ids == (words, words + 1)
    assert reserve_value_rows(head, words, equal=True, frozen=False) == ids
    assert torch.equal(head.weight[ids[0]], head.weight[ids[1]])
    with pytest.raises(UsageError, match="are equal and an adapter does not part them"):
        reserve_value_rows(head, words, equal=False, frozen=True)

"""LoRA through peft: few weights are trained beside those of the policy, which stay as they were.

Source: arXiv 2106.09685. A linear layer W gets (alpha / rank)·B·A added; B starts at 0, so that
a policy starts as its base. With the adapter off it is the base again: the reference costs no
second copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from agentgym_suite.errors import MissingExtra, UsageError
from agentgym_suite.trainers.architectures import ALL_LINEAR
from agentgym_suite.trainers.exports import replaced_folder

NAME = "default"
"""What peft calls the one adapter of a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraSettings:
    """What an adapter is made of.

    Attributes:
        rank: of A and B.
        alpha: the adapter weighs alpha / rank.
        targets: names of linear layers with commas between, or ``all-linear``: all but the head.
        seed: of A.
    """

    rank: int
    alpha: float
    targets: str = ALL_LINEAR
    seed: int = 0


def add_adapter(model: Any, settings: LoraSettings, *, heads: tuple[str, ...] = ()) -> Any:
    """Freeze a network and put an adapter beside its layers, in place.

    Args:
        model: of transformers.
        settings: of the adapter.
        heads: modules of the network that are trained themselves.

    Raises:
        MissingExtra: peft is not installed.
        UsageError: the network has no layer of these names.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise MissingExtra("train", "LoRA") from error
    names = _targets(model, settings.targets)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=names,
        exclude_modules=list(heads) or None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        try:
            inject_adapter_in_model(config, model, NAME)
        except ValueError as error:
            raise _no_layers(settings.targets, model) from error
    for head in heads:
        model.get_submodule(head).requires_grad_(True)
    return model


def _targets(model: Any, targets: str) -> str | list[str]:
    """The names of layers as peft takes them: it would pass over those that there are none of."""
    if targets == ALL_LINEAR:
        return targets
    places = dict(model.named_modules())
    names = [name.strip() for name in targets.split(",")]
    for name in names:
        found = [part for place, part in places.items() if f".{place}".endswith(f".{name}")]
        if not name or not found:
            raise _no_layers(targets, model, name)
        # the trainer reads both as plain matrices, which may be one and the same
        if any(part is model.get_output_embeddings() for part in found) or any(
            isinstance(part, torch.nn.Embedding) for part in found
        ):
            raise UsageError(
                f"lora_targets has {name!r}, and embeddings and head have no adapter; leave it out"
            )
    return names


def _no_layers(targets: str, model: Any, name: str | None = None) -> UsageError:
    which = "none of these" if name is None else f"no {name!r}"
    return UsageError(
        f"lora_targets is {targets!r}, and {type(model).__name__} has {which} among its linear "
        f"layers; use {ALL_LINEAR}, or names of its linear layers"
    )


@contextmanager
def adapter_off(model: Any) -> Iterator[Any]:
    """The network without its adapter, while the block runs."""
    layers = list(_tuned(model).values())
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield model
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def merged_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights of a network of the same architecture without adapter, that computes the same.

    Those with an adapter are made one after the other, the others are the model's own.

    Args:
        model: with or without an adapter; it stays as it is.
    """
    tuned = _tuned(model)
    for name, tensor in model.state_dict().items():
        layer, _, kind = name.rpartition(".base_layer.")
        if layer in tuned:
            delta = tuned[layer].get_delta_weight(NAME).detach() if kind == "weight" else 0.0
            yield f"{layer}.{kind}", tensor + delta
        elif not any(name.startswith(f"{place}.") for place in tuned):
            yield name, tensor


def merged(model: Any) -> Any:
    """A policy that others can load: the model itself, or one on the host with its adapter added.

    What has no adapter is not copied where the model lies on the host: the two share it.

    Args:
        model: a causal model whose weights are whole.
    """
    if not _tuned(model):
        return model
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(model.config, dtype=model.dtype)
    weights = {name: tensor.cpu() for name, tensor in merged_weights(model)}
    plain.load_state_dict(weights, assign=True)
    plain.tie_weights()
    for name, buffer in model.named_buffers():
        if name not in weights:  # computed from the configuration, so that no file holds it
            place, _, leaf = name.rpartition(".")
            plain.get_submodule(place).register_buffer(leaf, buffer.cpu(), persistent=False)
    plain.generation_config = model.generation_config
    return plain.eval()


def save_adapter(model: Any, folder: Path, *, base: str) -> None:
    """Write the adapter alone, as ``peft.PeftModel.from_pretrained`` loads it over its base.

    Args:
        model: with an adapter, whose weights are whole.
        folder: whole or not there; one of the same name gives way.
        base: where the weights lie that it belongs to.

    Raises:
        DataError: the folder cannot be made.
        DiskFull: no space is left.
    """
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    config = model.peft_config[NAME]
    config.base_model_name_or_path, config.task_type = base, "CAUSAL_LM"
    found = get_peft_model_state_dict(model, adapter_name=NAME, save_embedding_layers=False)
    weights = {
        f"base_model.model.{name}": tensor.detach().cpu().contiguous()
        for name, tensor in found.items()
    }
    with replaced_folder(folder) as partial:
        config.save_pretrained(str(partial))
        save_file(weights, partial / "adapter_model.safetensors", metadata={"format": "pt"})


def has_adapter(model: Any) -> bool:
    """Whether an adapter lies beside the network's layers."""
    return bool(_tuned(model))


def _tuned(model: Any) -> dict[str, Any]:
    """The layers that have an adapter, by name."""
    return {name: part for name, part in model.named_modules() if hasattr(part, "get_delta_weight")}

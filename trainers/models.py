"""Networks beside the policy: frozen copies, references, critics, and values that critics give."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForTokenClassification

from agentgym_suite.errors import UsageError, reason_of
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.hidden_states import Ids, boundary_states
from agentgym_suite.trainers.lora import adapter_off, has_adapter
from agentgym_suite.trainers.ranks import Ranks
from agentgym_suite.trainers.reading import reads_weights

Reference = Callable[[], AbstractContextManager[Any]]
"""Opens the reference policy for a pass over an iteration's rows."""


def frozen_copy(model: Any) -> Any:
    """The same weights, never trained: a reference or a teacher."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def make_reference(policy: Any, ranks: Ranks) -> Reference:
    """The policy as it is now: a frozen copy, or the policy itself with its adapter off."""
    if has_adapter(policy):
        return partial(adapter_off, policy)
    return partial(nullcontext, ranks.placed(frozen_copy(policy)))


def make_critic(policy: Any) -> Any:
    """A value network of the policy's size and weights, with one output that starts at 0.

    Args:
        policy: a causal model; it shares nothing with its critic.

    Raises:
        UsageError: transformers has no value network of its kind.
    """
    config = copy.deepcopy(policy.config)
    config.num_labels = 1
    try:
        with torch.random.fork_rng(devices=[]):
            critic = AutoModelForTokenClassification.from_config(config, dtype=policy.dtype)
        critic.score.bias  # noqa: B018  (looked at, whether it is there)
    except (ValueError, AttributeError) as error:  # there is none of its kind, or another head
        raise UsageError(
            f"no critic can be made of a {type(policy).__name__}; train a model such as Qwen or "
            "Llama, or by an algorithm without critic, such as sapo_ar or grpo"
        ) from error
    critic.base_model.load_state_dict(policy.base_model.state_dict())
    torch.nn.init.zeros_(critic.score.weight)
    torch.nn.init.zeros_(critic.score.bias)
    return critic.to(policy.device).eval()


def choose_attention(wanted: str, device: str, dtype: torch.dtype) -> str:
    """The kernel of attention: what is wanted, or for "auto" the fastest that is there.

    Flash attention computes in half precision on CUDA alone; all else is torch's own.
    """
    if wanted != "auto":
        return wanted
    fits = device.startswith("cuda") and dtype in (torch.bfloat16, torch.float16)
    return "flash_attention_2" if fits and find_spec("flash_attn") is not None else "sdpa"


def set_attention(model: Any, kernel: str) -> None:
    """Let a model compute attention with a kernel, as ``choose_attention`` names it.

    Raises:
        UsageError: the kernel is not installed, or the model has no way to it.
    """
    try:
        model.set_attn_implementation(kernel)
    except (ImportError, ValueError) as error:
        reason = reason_of(error)
        raise UsageError(
            f"attention is {kernel!r}, which {type(model).__name__} cannot compute with here "
            f"({reason}); set attention = auto"
        ) from error


def decoder_layers(model: Any) -> list[Any]:
    """The layers that a transformers model repeats, in their order.

    Raises:
        UsageError: the model does not say which of its modules they are.
    """
    names = set(getattr(model, "_no_split_modules", None) or ())
    found = [part for part in model.modules() if type(part).__name__ in names]
    if not found:
        raise UsageError(
            f"{type(model).__name__} does not name its layers (_no_split_modules), which are "
            "spread over processes and recomputed; train it in one process without recompute"
        )
    return found


def recompute_layers(model: Any) -> Any:
    """The same model, whose layers keep their inputs alone and compute again in the backward."""
    for layer in decoder_layers(model):
        layer.forward = partial(
            checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False
        )
    return model


@reads_weights
def boundary_values(
    critic: Any, prompts: Sequence[Ids], *, merge_append_only: bool = False
) -> Tensor:
    """V at the last token of each prompt ``[n]``, in float32 or wider."""
    nothing: list[Ids] = [()] * len(prompts)
    states = boundary_states(
        critic.base_model, prompts, nothing, merge_append_only=merge_append_only
    )
    return _values(critic, states[:, 0])


@reads_weights
def token_values(critic: Any, micro: StepBatch, *, merge_append_only: bool = False) -> Tensor:
    """V before each response token ``[n, R]``, in float32 or wider; 0 outside the mask.

    Raises:
        UsageError: left padding.
    """
    if micro.side == "left":
        raise UsageError("the response columns are padded on the left; collate with side='right'")
    states = boundary_states(
        critic.base_model,
        [row.prompt_ids for row in micro.rows],
        [row.response_ids for row in micro.rows],
        merge_append_only=merge_append_only,
    )
    values = _values(critic, states[:, : micro.response_mask.shape[1]])
    return values * micro.response_mask.to(values.device)


def _values(critic: Any, states: Tensor) -> Tensor:
    values: Tensor = critic.score(states).sum(-1)  # of one column; no view, which FSDP warns of
    return values if values.dtype == torch.float64 else values.float()

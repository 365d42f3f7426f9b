"""How much memory a training takes, by arithmetic: weights, what backward keeps, the rollout.

A part is bytes in one process. Parts that are there all the time are added to the largest of the
phases, which follow each other: rollout, backward pass, optimizer step, export. What libraries and
a driver take for themselves is none of them, nor are gaps between blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_suite.engines.cached_rows import ROOM, ROOM_SHARE
from agentgym_suite.engines.decoding import PREFILL_TOKENS
from agentgym_suite.trainers.architectures import Architecture
from agentgym_suite.trainers.plans import Plan

NORM = 4
"""Bytes of a number in norms and losses, which are computed in float32."""
MOMENTS = 2
"""Numbers that AdamW keeps of each weight."""
_LOGIT_COPIES = 7  # float32 tensors as large as a chunk's logits, in its backward pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes in one process.

    Attributes:
        lasting: parts that are there all the time, by name.
        phases: parts of each phase, by name of the phase and of the part.
    """

    lasting: Mapping[str, float]
    phases: Mapping[str, Mapping[str, float]]

    @property
    def largest(self) -> str:
        """The phase that takes the most."""
        return max(self.phases, key=lambda name: sum(self.phases[name].values()))

    @property
    def peak(self) -> float:
        """The most that is there at once."""
        return sum(self.lasting.values()) + sum(self.phases[self.largest].values())


def memory(plan: Plan) -> Memory:
    """The memory of a training.

    Args:
        plan: the training.
    """
    phases = {"backward": _backward(plan), "optimizer step": _step(plan)}
    if not plan.served:
        phases["rollout"] = _rollout(plan)
    if plan.host and plan.adapter_rank:
        phases["export"] = _export(plan)
    return Memory(lasting=_lasting(plan), phases=phases)


def kept_of_layer(model: Architecture, element_size: int) -> int:
    """Bytes that a layer keeps of one token for its backward pass.

    Source: the inputs that derivatives are made of: both norms in float32 and normalised, what
    the linear maps read, rotated queries and keys, values, attention with its normaliser, and
    four tensors of the gated feed-forward.

    Args:
        model: its sizes.
        element_size: bytes of a number that is computed with.
    """
    hidden, query, key = model.hidden, model.query_width, model.key_width
    norms = 2 * _kept_of_norm(hidden, element_size)
    if model.query_key_norm:
        norms += (NORM + element_size) * (query + key) + NORM * (model.heads + model.kv_heads)
    attention = element_size * (hidden + 2 * query + 2 * key) + NORM * model.heads
    return norms + attention + element_size * (hidden + 4 * model.mlp)


def kept_of_trunk(model: Architecture, element_size: int, *, recompute: bool = False) -> int:
    """Bytes that all layers and the last norm keep of one token, before the backward pass.

    Args:
        model: its sizes.
        element_size: bytes of a number that is computed with.
        recompute: each layer keeps its input alone.
    """
    layer = element_size * model.hidden if recompute else kept_of_layer(model, element_size)
    return model.layers * layer + _kept_of_norm(model.hidden, element_size)


def _kept_of_norm(width: int, element_size: int) -> int:
    return NORM * width + element_size * width + NORM


def _lasting(plan: Plan) -> dict[str, float]:
    model, kept = plan.policy, plan.kept_element_size
    copied = plan.element_size * _whole(plan, model.parameters)
    parts: dict[str, float] = {
        "policy": kept * _whole(plan, model.parameters) / plan.processes,
        "optimizer of the policy": kept * MOMENTS * _trained(plan, model.parameters),
    }
    if plan.sharded:
        parts["copy that samples"] = copied
    if plan.own_engine:
        parts["engine's own copy"] = copied
    if plan.host and (plan.own_engine or plan.served):
        parts["weights on their way to the engine"] = (plan.ahead + 1) * copied
    if plan.needs.reference and not plan.adapter_rank:
        parts["reference"] = kept * model.parameters / plan.processes
    if plan.needs.critic != "none":
        parts["critic"] = kept * _whole(plan, model.critic_parameters) / plan.processes
        parts["optimizer of the critic"] = kept * MOMENTS * _trained(plan, model.critic_parameters)
    if plan.teacher is not None:
        parts["teacher"] = kept * plan.teacher.parameters / plan.processes
    return parts


def _rollout(plan: Plan) -> dict[str, float]:
    model = plan.policy
    row = plan.longest_prompt + plan.longest_reply
    room = max(ROOM, row / ROOM_SHARE)
    read = min(max(PREFILL_TOKENS, plan.longest_prompt), plan.running * plan.longest_prompt)
    return {
        "keys and values": plan.running * (row + room) * plan.element_size * model.cached_elements,
        "prompts being read": read * _working(plan),
    }


def _backward(plan: Plan) -> dict[str, float]:
    model, size = plan.policy, plan.element_size
    tokens = plan.micro_rows * (plan.longest_prompt + plan.longest_reply)
    sampled = plan.micro_rows * plan.longest_reply
    kept = kept_of_trunk(model, size, recompute=plan.recompute)
    if plan.recompute:
        kept += kept_of_layer(model, size)
    activations = tokens * (kept + size * model.hidden) + 2 * sampled * size * model.hidden
    gradients = _gradients(plan)
    if plan.micro_batches == 1:  # they grow as activations go
        gradients = max(0.0, gradients - activations)
    logits = min(sampled * model.vocabulary, max(plan.most_logits, model.vocabulary))
    parts = {
        "gradients": gradients,
        "activations": activations,
        "a layer's backward": tokens * _working(plan),
        "logits": logits * (size + _LOGIT_COPIES * NORM),
    }
    if not plan.adapter_rank:
        parts["gradient of the head"] = 2.0 * size * model.embedding
    if plan.sharded:
        parts["gathered weights"] = _gathered(plan)
    return parts


def _step(plan: Plan) -> dict[str, float]:
    """The square roots of second moments: of all weights at once on a device, else of one."""
    model = plan.policy
    trained = _trained(plan, model.parameters)
    largest = max(model.embedding, *(wide * narrow for wide, narrow in model.linear_shapes))
    roots = 2 * min(trained, largest / plan.processes) if plan.host else trained
    return {"gradients": _gradients(plan), "square roots": plan.kept_element_size * roots}


def _export(plan: Plan) -> dict[str, float]:
    """An adapter is added to its layers beside the policy, in the memory of the host."""
    shapes = plan.policy.adapter_shapes(plan.adapter_targets)
    weights = plan.policy.layers * sum(wide * narrow for wide, narrow in shapes)
    return {"layers with their adapters": plan.element_size * weights}


def _gradients(plan: Plan) -> float:
    """Policy and critic learn one after the other."""
    model = plan.policy
    most = (
        model.parameters
        if plan.needs.critic == "none"
        else max(model.parameters, model.critic_parameters)
    )
    return plan.kept_element_size * _trained(plan, most)


def _gathered(plan: Plan) -> float:
    """Weights and gradients as a process needs them whole, for a short while.

    What lies outside of layers stays gathered in every network from its forward on; of layers two
    are, the one that computes and the next. Gradients are added over processes in float32.
    """
    model = plan.policy
    root = model.parameters - model.layers * model.layer_parameters
    networks = 1 + plan.needs.reference + (plan.needs.critic != "none")
    weights = plan.element_size * (networks * root + 2 * model.layer_parameters)
    if plan.adapter_rank:
        return weights
    return weights + plan.element_size * (root + model.layer_parameters) + NORM * root


def _working(plan: Plan) -> float:
    """Bytes of one token that a layer needs beside what is kept, gone when it is done."""
    model = plan.policy
    return plan.element_size * (3 * model.mlp + 2 * model.hidden) + NORM * 2 * model.hidden


def _whole(plan: Plan, parameters: int) -> int:
    """Weights of a network, its adapter among them."""
    return parameters + plan.adapter_parameters


def _trained(plan: Plan, parameters: int) -> float:
    """Weights of a network that one process trains."""
    trained = plan.adapter_parameters or parameters
    return trained / plan.processes

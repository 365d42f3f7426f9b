"""How long an iteration takes, by arithmetic: floating-point operations and bytes over rates.

Environments, the exchange of weights between processes and padding are left out. A rate is what
the device reaches at most times a share of it that is assumed; the measured shares of a machine
of one's own go in their place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentgym_suite.trainers.architectures import Architecture
from agentgym_suite.trainers.plans import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a device reaches in this work.

    Attributes:
        training: operations a second, forward and backward.
        reading: operations a second while prompts are read.
        bandwidth: bytes a second while tokens are decoded.
        layer_latency: seconds that a layer takes at least in a decoding step: its kernels are
            started one by one.
    """

    training: float
    reading: float
    bandwidth: float
    layer_latency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What an iteration takes in one process, by what it is taken for.

    Attributes:
        prompts: reading every prompt.
        tokens: decoding every token.
        passes: without gradient: old policy, reference, critic, teacher.
        policy: its update.
        critic: its update.
    """

    prompts: float
    tokens: float
    passes: float
    policy: float
    critic: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.prompts + self.tokens + self.passes + self.policy + self.critic


class Operations(Spent):
    """Floating-point operations."""

    __slots__ = ()


class Durations(Spent):
    """Seconds."""

    __slots__ = ()


def trunk_operations(model: Architecture, tokens: float) -> float:
    """Operations of one forward of a row without its head: 2 a weight, and causal attention."""
    attention = 2.0 * model.layers * model.query_width * tokens * tokens
    return 2.0 * model.layers * model.layer_matrices * tokens + attention


def operations(plan: Plan) -> Operations:
    """The operations of an iteration in one process.

    A backward pass costs two forwards, recomputed layers one more, logits too: they are made
    again. Logits are made of sampled tokens alone.
    """
    model, needs = plan.policy, plan.needs
    row = plan.prompt + plan.reply
    head = 2.0 * model.embedding * plan.reply
    forward = trunk_operations(model, row) + head
    state = trunk_operations(model, plan.prompt)
    valued = {"none": 0.0, "boundary": state, "token": trunk_operations(model, row)}[needs.critic]
    passes = forward * (1 + needs.reference) + valued
    if needs.teacher != "none":
        teacher = plan.teacher or model
        passes += trunk_operations(teacher, row + plan.hint) + 2.0 * teacher.embedding * plan.reply
    times = 4.0 if plan.recompute else 3.0
    learned = times * trunk_operations(model, row) + 4.0 * head
    measured = needs.log_ratio_pass and plan.micro_batches > 1
    extra = forward * measured + learned * needs.clip_bias_pass
    return Operations(
        prompts=plan.rows * (state + 2.0 * model.embedding),
        tokens=plan.rows * (forward - state),
        passes=plan.rows * passes,
        policy=plan.rows * plan.epochs * (learned + extra),
        critic=plan.rows * plan.epochs * times * valued,
    )


def durations(plan: Plan, rates: Rates) -> Durations:
    """The seconds of an iteration.

    Args:
        plan: the training.
        rates: of the device.
    """
    work = operations(plan)
    return Durations(
        prompts=work.prompts / rates.reading,
        tokens=_decoding(plan, rates),
        passes=work.passes / rates.training,
        policy=work.policy / rates.training,
        critic=work.critic / rates.training,
    )


def _decoding(plan: Plan, rates: Rates) -> float:
    """Each step of decoding reads all weights, and the keys and values of every running row."""
    model = plan.policy
    rounds = math.ceil(plan.trajectories / plan.processes / plan.running)
    steps = rounds * plan.steps * plan.reply
    cached = plan.running * (plan.prompt + plan.reply / 2) * model.cached_elements
    read = plan.element_size * (model.layers * model.layer_matrices + model.embedding + cached)
    computed = 2.0 * plan.running * (model.layers * model.layer_matrices + model.embedding)
    latency = rates.layer_latency * model.layers
    return steps * max(read / rates.bandwidth, computed / rates.reading, latency)

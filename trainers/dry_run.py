"""``train --dry-run``: the memory and the time that a configuration will take, without weights.

Sizes come from the configuration and the model's, lengths from the bounds that the settings give,
or from what is stated as usual; the rest are assumptions, all of which can be stated, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from agentgym_suite.arguments import check_count, check_number
from agentgym_suite.errors import UsageError
from agentgym_suite.registry import ENVIRONMENTS
from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.architectures import Architecture, architecture
from agentgym_suite.trainers.config import PrivilegedConfig, setting
from agentgym_suite.trainers.devices import HOST, Device, device
from agentgym_suite.trainers.durations import Durations, Operations, Rates, durations, operations
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.memory import Memory, memory
from agentgym_suite.trainers.opd import OpdConfig
from agentgym_suite.trainers.plans import Plan
from agentgym_suite.trainers.registry import algorithm_spec
from agentgym_suite.trainers.run_checks import check_ranks, shares_weights
from agentgym_suite.trainers.run_settings import Configuration
from agentgym_suite.trainers.tiny_policy import TinyShape

_HORIZONS = {environment.id: environment.max_episode_steps for environment in ENVIRONMENTS}
_TINY_WORDS = 1_000


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What a dry run is told beside the settings of the training.

    Raises:
        UsageError: a number out of its range.
    """

    device: str = setting("h100", "what it runs on: a name of the table of devices, or cpu")
    processes: int = setting(1, "processes that share the training, each with a device")
    device_operations: float = setting(0.0, "operations a second; 0 takes the table's")
    device_bandwidth: float = setting(0.0, "bytes a second to its memory; 0 takes the table's")
    device_memory: float = setting(0.0, "bytes of its memory; 0 takes the table's")
    training_share: float = setting(0.4, "of these operations, reached in training")
    reading_share: float = setting(0.4, "of these operations, reached while prompts are read")
    bandwidth_share: float = setting(0.6, "of this bandwidth, reached while tokens are decoded")
    layer_latency: float = setting(4e-4, "seconds of a layer in one step of decoding, at least")
    mean_steps: float = setting(0.0, "steps of an episode; 0 takes the horizon")
    mean_prompt: float = setting(0.0, "tokens of a prompt; 0 takes the longest")
    mean_reply: float = setting(0.0, "tokens of a reply; 0 takes the longest")
    longest_prompt: int = setting(2_048, "tokens of a prompt, where the settings give no bound")

    def __post_init__(self) -> None:
        for name in ("processes", "longest_prompt"):
            check_count(name, getattr(self, name), 1)
        for name in ("training_share", "reading_share", "bandwidth_share"):
            check_number(name, getattr(self, name), 1e-6, 1.0)
        for name in _FROM_ZERO:
            check_number(name, getattr(self, name), 0.0, _MOST)
        device(self.device)


_MOST = 1e18
"""More than any of these numbers is, and little enough to be multiplied with the others."""


_FROM_ZERO = (
    "device_operations",
    "device_bandwidth",
    "device_memory",
    "layer_latency",
    "mean_steps",
    "mean_prompt",
    "mean_reply",
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a training will take.

    Attributes:
        title: what is trained, and where.
        plan: what it was made from.
        device: what it runs on, as stated.
        memory: of one process.
        operations: of an iteration in one process.
        durations: of an iteration; None where the device's rates are not stated.
    """

    title: str
    plan: Plan
    device: Device
    memory: Memory
    operations: Operations
    durations: Durations | None


def split_assumptions(given: Mapping[str, Any]) -> tuple[Assumptions, dict[str, Any]]:
    """The assumptions among settings, and the other settings.

    Raises:
        UsageError: an assumption that cannot be.
    """
    names = {item.name for item in fields(Assumptions)}
    stated = {name: value for name, value in given.items() if name in names}
    return Assumptions(**stated), {n: value for n, value in given.items() if n not in names}


def estimate(configuration: Configuration, assumed: Assumptions) -> Estimate:
    """What a training of these settings will take.

    Args:
        configuration: every setting, resolved; its policy may be a name instead of a folder.
        assumed: everything else.

    Raises:
        UsageError: no policy, or one whose sizes are not known; an unknown device.
    """
    found = device(assumed.device)
    found = Device(
        name=found.name,
        operations=assumed.device_operations or found.operations,
        bandwidth=assumed.device_bandwidth or found.bandwidth,
        memory=assumed.device_memory or found.memory,
        source=found.source,
    )
    plan = plan_of(configuration, assumed)
    timed = None
    if found.operations and found.bandwidth:
        rates = Rates(
            training=found.operations * assumed.training_share,
            reading=found.operations * assumed.reading_share,
            bandwidth=found.bandwidth * assumed.bandwidth_share,
            layer_latency=assumed.layer_latency,
        )
        timed = durations(plan, rates)
    title = (
        f"{algorithm_spec(configuration.algorithm).title} in {configuration.run.env}, "
        f"{plan.policy.name}, {plan.processes} x {found.name}"
    )
    return Estimate(title, plan, found, memory(plan), operations(plan), timed)


def plan_of(configuration: Configuration, assumed: Assumptions) -> Plan:
    """What an iteration of these settings computes and keeps.

    Raises:
        UsageError: no policy, or one whose sizes are not known, or what no training would take.
    """
    run, settings = configuration.run, configuration.settings
    check_ranks(configuration, assumed.processes)
    needs = configuration.make_algorithm().needs
    longest = run.prompt_tokens or assumed.longest_prompt
    sharded = assumed.processes > 1 or bool(run.compute_dtype)
    host = assumed.device.lower() == HOST
    narrow = run.compute_dtype == "bfloat16" or not (sharded or host)
    horizon = run.horizon or _HORIZONS.get(run.env, 0)
    if not (assumed.mean_steps or horizon):
        raise UsageError(f"the horizon of {run.env} is not known; give --set horizon=N")
    policy = _policy(configuration)
    return Plan(
        policy=policy,
        teacher=_teacher(configuration, needs, policy),
        needs=needs,
        processes=assumed.processes,
        sharded=sharded,
        element_size=2 if narrow else 4,
        recompute=run.recompute,
        adapter_rank=run.lora_rank,
        adapter_targets=run.lora_targets,
        trajectories=settings.tasks * settings.rollouts,
        steps=assumed.mean_steps or horizon,
        prompt=assumed.mean_prompt or longest,
        reply=assumed.mean_reply or run.max_new_tokens,
        longest_prompt=longest,
        longest_reply=run.max_new_tokens,
        hint=settings.pi_tokens if isinstance(settings, PrivilegedConfig) else 0,
        concurrency=run.concurrency,
        minibatch_rows=settings.minibatch_rows,
        epochs=settings.epochs,
        micro_tokens=run.micro_tokens,
        most_logits=Forward().most_logits,
        host=host,
        own_engine=not (run.servers or shares_weights(run)),
        served=bool(run.servers),
        ahead=run.max_staleness,
    )


def _teacher(
    configuration: Configuration, needs: Needs, policy: Architecture
) -> Architecture | None:
    """A model that lies beside the policy: another one, or the weights that sampled."""
    if needs.teacher == "model":
        settings = configuration.settings
        if not (isinstance(settings, OpdConfig) and settings.teacher_model):
            raise UsageError("the teacher is another model; name it with --set teacher_model=NAME")
        return architecture(settings.teacher_model)
    return policy if needs.divergence != "none" else None


def _policy(configuration: Configuration) -> Architecture:
    if configuration.run.policy:
        return architecture(configuration.run.policy)
    if configuration.preset != "tiny":
        raise UsageError("no policy is given; name its folder or its model with --policy")
    shape = TinyShape()
    return Architecture(
        name="a policy made here",
        hidden=shape.hidden,
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_width=shape.head_width,
        mlp=shape.mlp,
        vocabulary=_TINY_WORDS,
        tied=True,
        query_key_norm=True,
    )


def lines(found: Estimate) -> Iterator[tuple[str, str, str]]:
    """What is told of an estimate: a heading or part, its number, and when or of what it is."""
    plan, kept, device = found.plan, found.memory, found.device
    yield "weights of the policy", f"{plan.policy.parameters:,}", ""
    yield "rows of an iteration", f"{plan.trajectories * plan.steps:,.0f}", ""
    yield (
        "tokens of a row",
        f"{plan.prompt + plan.reply:,.0f}",
        f"{plan.reply:,.0f} of them sampled",
    )
    yield "optimizer steps of an iteration", f"{plan.optimizer_steps:,}", ""
    yield "rows of a micro-batch", f"{plan.micro_rows:,}", ""
    yield "memory of a process", "", ""
    for name, size in kept.lasting.items():
        yield f"  {name}", size_of(size), "all the time"
    for phase, parts in kept.phases.items():
        for name, size in parts.items():
            yield f"  {name}", size_of(size), phase
    share = f", {kept.peak / device.memory:.0%} of the device" if device.memory else ""
    yield "  peak", size_of(kept.peak), f"{kept.largest}{share}"
    yield "operations of a process", f"{found.operations.total:.2e}", ""
    if found.durations is None:
        yield "seconds of an iteration", "", "give device_operations and device_bandwidth"
        return
    yield "seconds of an iteration", "", "without environments"
    for item in fields(found.durations):
        yield f"  {_PHASES[item.name]}", f"{getattr(found.durations, item.name):.1f} s", ""
    yield "  together", f"{found.durations.total:.1f} s", ""


def size_of(count: float) -> str:
    """Bytes as they are read."""
    return f"{count / 1e9:,.2f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


_PHASES = {
    "prompts": "rollout: reading prompts",
    "tokens": "rollout: decoding",
    "passes": "passes without gradient",
    "policy": "update of the policy",
    "critic": "update of the critic",
}

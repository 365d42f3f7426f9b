"""Agents with a model, as a run knows them: where the model is, what it is told, how it is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym_suite.arguments import shown
from agentgym_suite.cassettes import Cassette, RecordedModel
from agentgym_suite.chat import ConnectsModel
from agentgym_suite.decoding import Decoding
from agentgym_suite.endpoints import DEFAULT_REQUEST_TIMEOUT_S, OPENAI_URL, Endpoint
from agentgym_suite.engine_chat import EngineName, LocalModel
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.prices import SHIPPED_PRICES, PriceTable, Pricing
from agentgym_suite.evaluation.settings import AgentSpec
from agentgym_suite.files import sha256_file
from agentgym_suite.model_agents import DEFAULT_MAX_TOKENS, ModelAgents
from agentgym_suite.model_files import find_model
from agentgym_suite.prompts import StepPrompt, prompt_template
from agentgym_suite.renderers import Renderer
from agentgym_suite.retries import DEFAULT_TRIES, RetryPolicy

Prompting = Literal["plain", "react", "reflexion"]
DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"
DEFAULT_REFLEXION_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What may be said of any agent with a model.

    Attributes:
        model: the model's name at an endpoint, or the path of what the agent plays from.
        prompting: "plain", "react" (a thought before each action), or "reflexion" (that, and
            after a failed round a reflection and another round).
        template: a name of ``prompts.PROMPT_TEMPLATES``; "" leaves it to suite and prompting.
        reply_format: a name of ``replies.REPLY_FORMATS``; "" leaves it to the template.
        history_length: earlier steps that prompts show; None leaves it to the template.
        token_budget: most tokens of a prompt, at four characters each; None for no bound.
        decoding: what of "temperature", "top_p", "max_tokens" differs from the suite's.
        reflexion_rounds: most rounds of a task in one episode, the first included.
        record: cassette that keeps the model's replies; None keeps none.

    Raises:
        UsageError: there is no such prompting, or too few rounds for a reflection.
    """

    model: str = ""
    _: KW_ONLY
    prompting: Prompting = "plain"
    template: str = ""
    reply_format: str = ""
    history_length: int | None = None
    token_budget: int | None = None
    decoding: Mapping[str, Any] = field(default_factory=dict)
    reflexion_rounds: int = DEFAULT_REFLEXION_ROUNDS
    record: Path | None = None

    def __post_init__(self) -> None:
        if self.prompting not in get_args(Prompting):
            known = ", ".join(get_args(Prompting))
            raise UsageError(f"prompting is {shown(self.prompting)}; use {known}")
        if self.reflexion_rounds < 2:
            raise UsageError(f"reflexion_rounds is {self.reflexion_rounds}; give at least 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions(ModelOptions):
    """What may be said of a model behind an endpoint.

    Attributes:
        endpoint: base address of the endpoint.
        key_variable: environment variable that holds the endpoint's key; None takes
            ``OPENAI_API_KEY`` where it is set.
        fields: further fields of each request.
        request_timeout_s: seconds for one request.
        tries: most times a request is sent.
        price_table: file of prices; None takes the one that comes with the package.
    """

    endpoint: str = OPENAI_URL
    key_variable: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S
    tries: int = DEFAULT_TRIES
    price_table: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsOptions(ModelOptions):
    """What may be said of weights on this machine.

    Attributes:
        dtype: of the weights; "auto" leaves it to the engine.
    """

    dtype: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformersOptions(WeightsOptions):
    """What may be said of weights from which transformers samples.

    Attributes:
        device: as torch names it; "auto" is CUDA where there is one.
    """

    device: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions(TransformersOptions):
    """What may be said of a trained policy.

    Attributes:
        engine: what samples.
    """

    engine: EngineName = "transformers"


@dataclass(frozen=True, slots=True)
class _Source:
    """A model, before it is said how it is talked to."""

    name: str
    model: str
    connect: ConnectsModel
    config: Mapping[str, Any]
    pricing: Pricing | None = None
    policy_version: str | None = None
    renderer: Renderer | None = None


def model_agent(kind: str, options: ModelOptions) -> AgentSpec:
    """An agent with a model.

    Args:
        kind: a name of ``MODEL_AGENTS``.
        options: what is said of it, in the class that the kind takes.

    Raises:
        UsageError: an option is wrong or missing.
        DataError: a file cannot be used.
    """
    made = MODEL_AGENTS[kind]
    if not isinstance(options, made.options):
        raise UsageError(
            f"agent {kind} is given {type(options).__name__}; give {made.options.__name__}"
        )
    source = made.source(options)
    connect = source.connect
    if options.record is not None:
        connect = RecordedModel(connect, source.model, options.record).connect
    if source.renderer is not None:
        options = _as_trained(options, source.renderer)
    prompt = _prompt(options)
    written_for = prompt_template(prompt.template).reply_format
    decoding = Decoding(**{"max_tokens": DEFAULT_MAX_TOKENS, **options.decoding})
    config = {"kind": kind, **source.config, "prompting": options.prompting}
    reflects = options.prompting == "reflexion"
    plain = options.prompting == "plain"
    return AgentSpec(
        source.name if plain else f"{source.name}+{options.prompting}",
        ModelAgents(connect, decoding),
        config=config,
        prompt=prompt,
        reply_format=options.reply_format or written_for,
        policy_version=source.policy_version,
        chosen=_chosen(options),
        max_rounds=options.reflexion_rounds if reflects else 1,
        pricing=source.pricing,
    )


def _as_trained(options: ModelOptions, renderer: Renderer) -> ModelOptions:
    """The options with the prompt that a policy was trained with, where none was chosen."""
    if options.template or options.prompting != "plain":
        return options
    length = renderer.history_length if options.history_length is None else options.history_length
    return replace(
        options,
        template=renderer.prompt,
        reply_format=options.reply_format or renderer.reply_format,
        history_length=length,
    )


def _prompt(options: ModelOptions) -> StepPrompt:
    """The prompt where no suite says another one."""
    template = options.template
    if not template and options.prompting != "plain":
        template = "react"
    if not template:
        template = "tools" if options.reply_format == "openai" else "capo"
    return StepPrompt(template, options.history_length, options.token_budget)


def _chosen(options: ModelOptions) -> frozenset[str]:
    """What a suite does not replace; tool calls need a prompt that asks for none in words."""
    chosen = set(options.decoding)
    if options.reply_format:
        chosen.add("reply_format")
    if options.template or options.prompting != "plain" or options.reply_format == "openai":
        chosen.add("prompt")
    return frozenset(chosen)


def _named_model(options: ModelOptions, kind: str, what: str) -> str:
    if not options.model:
        raise UsageError(f"agent {kind} has no model; give {what} by --model")
    return options.model


def _openai(options: EndpointOptions) -> _Source:
    model = _named_model(options, "openai", "its name at the endpoint")
    endpoint = Endpoint(
        options.endpoint,
        model,
        _key(options.key_variable),
        options.request_timeout_s,
        RetryPolicy(tries=options.tries),
        options.fields,
    )
    config = {"model": model, "endpoint": options.endpoint, "request": dict(options.fields)}
    table = PriceTable.read(options.price_table or SHIPPED_PRICES)
    return _Source(model, model, endpoint.connect, config, table.pricing(model))


def _key(variable: str | None) -> str:
    """The key; read here, once, and kept nowhere but in the endpoint."""
    key = os.environ.get(variable or DEFAULT_KEY_VARIABLE, "")
    if variable is not None and not key:
        raise UsageError(f"the variable {shown(variable)} holds no key; set it, or name another")
    return key


def _cassette(options: ModelOptions) -> _Source:
    path = Path(_named_model(options, "cassette", "the file of the recording"))
    cassette = Cassette.read(path)
    config = {"model": cassette.model, "cassette": f"sha256:{sha256_file(path)}"}
    return _Source(f"cassette:{cassette.model}", cassette.model, cassette.connect, config)


def _transformers(options: TransformersOptions) -> _Source:
    return _local("transformers", options, "transformers", options.device)


def _vllm(options: WeightsOptions) -> _Source:
    return _local("vllm", options, "vllm")


def _checkpoint(options: CheckpointOptions) -> _Source:
    """A policy with the prompt it was trained with."""
    folder = Path(_named_model(options, "checkpoint", "its folder"))
    renderer = Renderer.read(folder)
    source = _local("checkpoint", options, options.engine, options.device)
    return replace(source, renderer=renderer)


def _local(kind: str, options: WeightsOptions, engine: EngineName, device: str = "auto") -> _Source:
    model = _named_model(options, kind, "a folder, a GGUF file or a name on the hub")
    version = find_model(model).digest
    local = LocalModel(model, version, engine, device, options.dtype)
    name = Path(model).name
    config = {"model": name, "engine": engine, "dtype": options.dtype}
    return _Source(name, name, local.connect, config, policy_version=version)


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A kind of agents with a model.

    Attributes:
        options: the class of its options; their names are what the kind takes.
        names: what ``model`` names; agents with the same word can share it.
        source: finds the model.
    """

    options: type[ModelOptions]
    names: str
    source: Callable[[Any], _Source]

    @property
    def takes(self) -> frozenset[str]:
        """The names of its options."""
        return frozenset(one.name for one in dataclass_fields(self.options))


MODEL_AGENTS: Mapping[str, ModelKind] = {
    "openai": ModelKind(EndpointOptions, "a model of an endpoint", _openai),
    "cassette": ModelKind(ModelOptions, "a recording", _cassette),
    "transformers": ModelKind(TransformersOptions, "weights", _transformers),
    "vllm": ModelKind(WeightsOptions, "weights", _vllm),
    "checkpoint": ModelKind(CheckpointOptions, "weights", _checkpoint),
}
"""The kinds of model agents by name."""

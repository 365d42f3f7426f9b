"""The options of ``evaluate`` that say which agents play, and how a model is asked."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from agentgym_suite.agents import AGENTS
from agentgym_suite.arguments import settings, shown
from agentgym_suite.endpoints import DEFAULT_REQUEST_TIMEOUT_S, OPENAI_URL
from agentgym_suite.engine_chat import EngineName
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.model_specs import (
    DEFAULT_KEY_VARIABLE,
    DEFAULT_REFLEXION_ROUNDS,
    MODEL_AGENTS,
    ModelKind,
    ModelOptions,
    Prompting,
    model_agent,
)
from agentgym_suite.evaluation.replayed_runs import replayed_run
from agentgym_suite.evaluation.settings import AgentSpec, named_agent
from agentgym_suite.own_modules import look_here
from agentgym_suite.prompts import PROMPT_TEMPLATES
from agentgym_suite.replies import REPLY_FORMATS
from agentgym_suite.retries import DEFAULT_TRIES

REPLAY = "replay"
_NAMES = (*AGENTS, REPLAY, *MODEL_AGENTS)


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--agent",
        metavar="A[,B…]",
        default="random,oracle",
        help=f"agents: {', '.join(_NAMES)}, or your own as MODULE:CLASS, a class in the current "
        "directory that is made with (env, seed) for each episode (default: random,oracle)",
    )
    group = parser.add_argument_group("agents with a model")
    group.add_argument(
        "--model",
        metavar="NAME|PATH",
        help="openai: the model's name; transformers, vllm: a folder of weights, a GGUF file or "
        "OWNER/NAME on the hub; checkpoint: the folder of a trained policy; cassette: the file of "
        "a recording; replay: the folder of a run",
    )
    group.add_argument(
        "--endpoint",
        metavar="URL",
        help=f"base address of an OpenAI-compatible server (default: {OPENAI_URL})",
    )
    group.add_argument(
        "--api-key-env",
        metavar="NAME",
        help="environment variable that holds the server's key, which is written nowhere (default: "
        f"{DEFAULT_KEY_VARIABLE}, where it is set)",
    )
    group.add_argument(
        "--prompting",
        choices=get_args(Prompting),
        help="react asks for a thought before each action; reflexion also plays a task that failed "
        "again, with the model's own reflection, which uses success at test (default: plain)",
    )
    group.add_argument(
        "--reflexion-rounds",
        metavar="N",
        type=int,
        help="most rounds of a task in one episode, the first included; the last one counts "
        f"(default: {DEFAULT_REFLEXION_ROUNDS})",
    )
    group.add_argument(
        "--prompt",
        choices=sorted(PROMPT_TEMPLATES),
        help="prompt template (default: the suite's, else react or capo by --prompting)",
    )
    group.add_argument(
        "--reply-format",
        choices=list(REPLY_FORMATS),
        help="how replies are read; openai sends the environment's tools and reads tool calls "
        "(default: the prompt template's)",
    )
    group.add_argument(
        "--history-length",
        metavar="N",
        type=int,
        help="earlier steps that a prompt shows, -1 for all (default: the prompt template's)",
    )
    group.add_argument(
        "--token-budget",
        metavar="N",
        type=int,
        help="most tokens of a prompt, counted as characters / 4; the oldest steps give way "
        "(default: no bound)",
    )
    group.add_argument(
        "--temperature", metavar="T", type=float, help="other than the suite's; not rankable"
    )
    group.add_argument("--top-p", metavar="P", type=float, help="other than the suite's; likewise")
    group.add_argument(
        "--max-tokens",
        metavar="N",
        type=int,
        help="most tokens of a reply, other than the suite's; likewise",
    )
    group.add_argument(
        "--request",
        metavar="KEY=VALUE",
        action="append",
        help="a further field of each request, a JSON value or a text; max_tokens=null removes "
        "that field; may be given several times",
    )
    group.add_argument(
        "--request-timeout",
        metavar="SECONDS",
        type=float,
        help=f"bound of one request to the server (default: {DEFAULT_REQUEST_TIMEOUT_S:g})",
    )
    group.add_argument(
        "--request-tries",
        metavar="N",
        type=int,
        help=f"most times a request is sent before it counts as failed (default: {DEFAULT_TRIES})",
    )
    group.add_argument(
        "--engine",
        choices=get_args(EngineName),
        help="what samples from a checkpoint (default: transformers)",
    )
    group.add_argument(
        "--device",
        metavar="NAME",
        help="for transformers, as torch names it (default: auto, CUDA where there is one)",
    )
    group.add_argument(
        "--dtype", metavar="NAME", help="of local weights, as torch names it (default: auto)"
    )
    group.add_argument(
        "--record",
        metavar="FILE",
        help="keep every reply of the model in this cassette; agent cassette plays from it",
    )
    group.add_argument(
        "--price-table",
        metavar="FILE",
        help="TOML file of prices (default: the dated table that comes with the package)",
    )


def agents_of(args: argparse.Namespace) -> list[AgentSpec]:
    """The agents that were asked for.

    Raises:
        UsageError: an option is wrong, missing or without effect.
        DataError: a file that an agent needs cannot be used.
        RunError: the run to be replayed cannot.
    """
    names = [name.strip() for name in args.agent.split(",") if name.strip()]
    for name in names:
        if name not in _NAMES and ":" not in name:
            known = ", ".join(_NAMES)
            raise UsageError(f"agent {shown(name)} does not exist; use {known}, or MODULE:CLASS")
    look_here(args.agent)
    values = {option: getattr(args, _destination(option)) for option in OPTION_FIELDS}
    given = {option: value for option, value in values.items() if value is not None}
    _refuse_stray(given, names)
    return [_agent(name, given) for name in names]


def _agent(name: str, given: Mapping[str, Any]) -> AgentSpec:
    if name == REPLAY:
        if not given.get("--model"):
            raise UsageError("agent replay has no run; give its folder by --model")
        return replayed_run(Path(given["--model"]))
    if name in MODEL_AGENTS:
        return model_agent(name, _model_options(MODEL_AGENTS[name], given))
    return named_agent(name)


def _model_options(kind: ModelKind, given: Mapping[str, Any]) -> ModelOptions:
    """What was given of the options that a kind of agents takes."""
    options: dict[str, Any] = {}
    for option, value in given.items():
        field = OPTION_FIELDS[option]
        if field == "decoding":
            options.setdefault(field, {})[_destination(option)] = value
        elif field in kind.takes:
            read = _READ.get(option)
            options[field] = read(value, option) if read else value
    return kind.options(**options)


def _path(text: str, option: str) -> Path:
    if not text:  # a variable of the shell that is not set
        raise UsageError(f"{option} is empty; give the path of a file")
    return Path(text)


OPTION_FIELDS: Mapping[str, str] = {
    "--model": "model",
    "--endpoint": "endpoint",
    "--api-key-env": "key_variable",
    "--prompting": "prompting",
    "--reflexion-rounds": "reflexion_rounds",
    "--prompt": "template",
    "--reply-format": "reply_format",
    "--history-length": "history_length",
    "--token-budget": "token_budget",
    "--temperature": "decoding",
    "--top-p": "decoding",
    "--max-tokens": "decoding",
    "--request": "fields",
    "--request-timeout": "request_timeout_s",
    "--request-tries": "tries",
    "--engine": "engine",
    "--device": "device",
    "--dtype": "dtype",
    "--record": "record",
    "--price-table": "price_table",
}
"""What each option says of an agent, by the name in the options of its kind."""

_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "--request": settings,
    "--record": _path,
    "--price-table": _path,
}
"""How the texts of some options are read."""


def _destination(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _refuse_stray(given: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse options that no agent of the command takes: they would be passed over in silence."""
    for option in given:
        field = OPTION_FIELDS[option]
        takers = [name for name, kind in MODEL_AGENTS.items() if field in kind.takes]
        takers += [REPLAY] if option == "--model" else []
        if not set(takers) & set(names):
            raise UsageError(f"{option} goes with an agent that has a model: {', '.join(takers)}")
    if "--reflexion-rounds" in given and given.get("--prompting") != "reflexion":
        raise UsageError("--reflexion-rounds goes with --prompting reflexion")
    if "--device" in given and given.get("--engine") == "vllm" and "transformers" not in names:
        raise UsageError("--device goes with --engine transformers; vLLM chooses its own")
    named = {MODEL_AGENTS[name].names: name for name in names if name in MODEL_AGENTS}
    named |= {"a run": REPLAY} if REPLAY in names else {}
    if "--model" in given and len(named) > 1:
        told = ", ".join(f"{what} for {name}" for what, name in named.items())
        raise UsageError(f"--model would name {told}; start a command for each")

"""The options of ``evaluate`` that say which agents play, and how a model is asked."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

from agentgym_suite.agents import AGENTS
from agentgym_suite.arguments import settings, shown
from agentgym_suite.endpoints import OPENAI_URL
from agentgym_suite.engine_chat import EngineName
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.model_specs import (
    DEFAULT_KEY_VARIABLE,
    DEFAULT_REFLEXION_ROUNDS,
    MODEL_AGENTS,
    ModelOptions,
    Prompting,
    model_agent,
)
from agentgym_suite.evaluation.replayed_runs import replayed_run
from agentgym_suite.evaluation.settings import AgentSpec, named_agent
from agentgym_suite.prompts import PROMPT_TEMPLATES
from agentgym_suite.replies import REPLY_FORMATS

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
        default="",
        help="openai: the model's name; transformers, vllm: a folder of weights, a GGUF file or "
        "OWNER/NAME on the hub; checkpoint: the folder of a trained policy; cassette: the file of "
        "a recording; replay: the folder of a run",
    )
    group.add_argument(
        "--endpoint",
        metavar="URL",
        default=OPENAI_URL,
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
        default="plain",
        help="react asks for a thought before each action; reflexion also plays a task that failed "
        "again, with the model's own reflection, which uses success at test (default: plain)",
    )
    group.add_argument(
        "--reflexion-rounds",
        metavar="N",
        type=int,
        default=DEFAULT_REFLEXION_ROUNDS,
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
        default=[],
        help="a further field of each request, a JSON value or a text; max_tokens=null removes "
        "that field; may be given several times",
    )
    group.add_argument(
        "--request-timeout",
        metavar="SECONDS",
        type=float,
        default=120.0,
        help="bound of one request to the server (default: 120)",
    )
    group.add_argument(
        "--request-tries",
        metavar="N",
        type=int,
        default=6,
        help="most times a request is sent before it counts as failed (default: 6)",
    )
    group.add_argument(
        "--engine",
        choices=get_args(EngineName),
        default="transformers",
        help="what samples from a checkpoint (default: transformers)",
    )
    group.add_argument(
        "--device", default="auto", help="of local weights, as torch names it (default: auto)"
    )
    group.add_argument(
        "--dtype", default="auto", help="of local weights, as torch names it (default: auto)"
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
    if ":" in args.agent and "" not in sys.path:
        sys.path.insert(0, "")  # an installed command does not look in the current directory
    takers = [name for name in names if name in MODEL_AGENTS]
    _refuse_stray(args, takers, REPLAY in names)
    return [_agent(name, args) for name in names]


def _agent(name: str, args: argparse.Namespace) -> AgentSpec:
    if name == REPLAY:
        if not args.model:
            raise UsageError("agent replay has no run; give its folder by --model")
        return replayed_run(Path(args.model))
    if name in MODEL_AGENTS:
        return model_agent(name, _model_options(args))
    if name not in AGENTS and ":" not in name:
        known = ", ".join(_NAMES)
        raise UsageError(f"agent {shown(name)} does not exist; use {known}, or MODULE:CLASS")
    return named_agent(name)


def _model_options(args: argparse.Namespace) -> ModelOptions:
    decoding = {name: getattr(args, name) for name in ("temperature", "top_p", "max_tokens")}
    return ModelOptions(
        model=args.model,
        endpoint=args.endpoint,
        key_variable=args.api_key_env,
        prompting=args.prompting,
        template=args.prompt or "",
        reply_format=args.reply_format or "",
        history_length=args.history_length,
        token_budget=args.token_budget,
        decoding={name: value for name, value in decoding.items() if value is not None},
        fields=settings(args.request, "--request"),
        request_timeout_s=args.request_timeout,
        tries=args.request_tries,
        reflexion_rounds=args.reflexion_rounds,
        record=_path(args.record, "--record"),
        price_table=_path(args.price_table, "--price-table"),
        engine=args.engine,
        device=args.device,
        dtype=args.dtype,
    )


def _path(text: str | None, option: str) -> Path | None:
    if text == "":  # a variable of the shell that is not set
        raise UsageError(f"{option} is empty; give the path of a file")
    return None if text is None else Path(text)


_FOR_MODELS = (
    "api_key_env",
    "prompt",
    "reply_format",
    "history_length",
    "token_budget",
    "temperature",
    "top_p",
    "max_tokens",
    "record",
    "price_table",
)


def _refuse_stray(args: argparse.Namespace, takers: list[str], replays: bool) -> None:
    """Refuse options that no agent of the command takes: they would be passed over in silence."""
    if takers:
        return
    given = [name for name in _FOR_MODELS if getattr(args, name) is not None]
    given += ["model"] if args.model and not replays else []
    given += ["prompting"] if args.prompting != "plain" else []
    if given:
        option = given[0].replace("_", "-")
        raise UsageError(
            f"--{option} goes with an agent that has a model: {', '.join(MODEL_AGENTS)}"
        )

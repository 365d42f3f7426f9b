"""The options of agents: each is taken by an agent of the command, or refused."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import pytest

from agentgym_suite import evaluation
from agentgym_suite.agents import MODEL_AGENT_NAMES, agent_factory
from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.agent_options import OPTION_FIELDS, add_agent_options
from agentgym_suite.evaluation.model_specs import MODEL_AGENTS, ModelOptions, model_agent
from tests.evaluation.model_runs import ENV

Command = Callable[[Sequence[str]], int]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--agent", "openai"], "agent openai has no model; give its name"),
        (["--agent", "cassette"], "agent cassette has no model"),
        (["--agent", "random", "--model", "x"], "--model goes with an agent that has a model"),
        (["--agent", "random", "--record", "x"], "--record goes with an agent"),
        (["--agent", "random", "--prompting", "react"], "--prompting goes with an agent"),
        (["--agent", "openai", "--model", "m", "--record", ""], "--record is empty"),
        (["--agent", "openai", "--model", "m", "--api-key-env", "NONE_SUCH"], "holds no key"),
        (["--agent", "openai", "--model", "m", "--request", "seed=1"], "field seed"),
        (["--agent", "openai", "--model", "m", "--endpoint", "ftp://h"], "no http://"),
        (["--agent", "openai", "--model", "m", "--temperature", "-1"], "temperature is -1"),
        (
            ["--agent", "openai", "--model", "m", "--prompting", "reflexion"]
            + ["--reflexion-rounds", "1"],
            "give at least 2",
        ),
        (["--agent", "openai", "--model", "m", "--request-tries", "0"], "tries is 0"),
        (["--agent", "random", "--index", f"{ENV}=x"], "--index goes with --suite"),
    ],
)
def test_wrong_options_are_one_sentence(
    command: Command, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert command(["evaluate", "--env", ENV, *options]) == 2
    told = capsys.readouterr().err.strip()
    assert said in told and "\n" not in told


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--agent", "random", *option],
            f"{option[0]} goes with an agent that has a model: {kinds}",
        )
        for option, kinds in [
            (["--endpoint", "http://h"], "openai"),
            (["--request", "top_k=1"], "openai"),
            (["--request-tries", "0"], "openai"),
            (["--request-timeout", "1"], "openai"),
            (["--device", "cpu"], "transformers, checkpoint"),
            (["--dtype", "float32"], "transformers, vllm, checkpoint"),
            (["--engine", "vllm"], "checkpoint"),
            (["--reflexion-rounds", "5"], ", ".join(MODEL_AGENTS)),
            (["--prompting", "plain"], ", ".join(MODEL_AGENTS)),
            (["--model", "x"], ", ".join([*MODEL_AGENTS, "replay"])),
        ]
    ]
    + [
        (["--agent", "openai,random", "--model", "m", *option], f"{option[0]} goes with")
        for option in (
            ["--device", "cpu"],
            ["--dtype", "float32"],
            ["--engine", "vllm"],
            ["--reflexion-rounds", "5"],
        )
    ]
    + [
        (["--agent", "vllm", "--model", "m", "--device", "cpu"], "--device goes with"),
        (["--agent", "cassette", "--model", "m", "--price-table", "f"], "--price-table goes with"),
        (["--agent", "replay", "--model", "m", "--temperature", "1"], "--temperature goes with"),
        (
            ["--agent", "checkpoint", "--model", "m", "--engine", "vllm", "--device", "cpu"],
            "--device goes with --engine transformers",
        ),
        (
            ["--agent", "openai,cassette", "--model", "m"],
            "--model would name a model of an endpoint for openai, a recording for cassette",
        ),
        (["--agent", "opnai", "--model", "m"], "agent 'opnai' does not exist; use random"),
    ],
)
def test_an_option_without_effect_is_refused(
    command: Command, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert command(["evaluate", "--env", ENV, *options]) == 2
    assert said in capsys.readouterr().err


def test_every_option_of_a_kind_is_one_of_the_command() -> None:
    parser = argparse.ArgumentParser()
    add_agent_options(parser)
    args = parser.parse_args([])
    assert args.agent == "random,oracle"
    assert {value for name, value in vars(args).items() if name != "agent"} == {None}
    for kind in MODEL_AGENTS.values():
        assert kind.takes <= set(OPTION_FIELDS.values())


def test_options_of_another_kind_are_refused() -> None:
    with pytest.raises(UsageError, match="agent openai is given ModelOptions; give EndpointOpt"):
        model_agent("openai", ModelOptions("m"))


@pytest.mark.parametrize("name", MODEL_AGENTS)
def test_an_agent_with_a_model_is_made_with_its_options(name: str) -> None:
    assert name in MODEL_AGENT_NAMES
    with pytest.raises(UsageError, match=f"agent '{name}' has a model; make it with its options"):
        evaluation.run("smoke", name, out="nowhere")


def test_an_agent_that_there_is_not_is_told_of_all_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"use random, oracle, .*model_agent .*\(openai, cassette"):
        agent_factory("opnai")

"""Weights on this machine in whole runs: a random policy, saved as a trainer would save it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.chat import ChatReply, ChatRequest
from agentgym_suite.decoding import Decoding
from agentgym_suite.engine_chat import LocalModel
from agentgym_suite.errors import DataMissing, MissingExtra
from agentgym_suite.evaluation.model_specs import (
    CheckpointOptions,
    ModelOptions,
    TransformersOptions,
    WeightsOptions,
    model_agent,
)
from agentgym_suite.evaluation.open_suites import open_suite
from agentgym_suite.evaluation.run_directory import EPISODES, read_records
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions
from agentgym_suite.evaluation.suites import EnvEntry, Suite
from agentgym_suite.evaluation.verify import verify_run
from agentgym_suite.prompts import Message
from agentgym_suite.renderers import RENDERER_FILE, Renderer
from tests.engines.small_policy import small_module, small_tokenizer

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

ENV = "Counting-v0"
SUITE = Suite(
    "counting",
    1,
    (EnvEntry(ENV, tuple(f"count-{i}" for i in range(6)), "test", max_steps=4),),
    decoding=Decoding(0.0, 1.0, 6),
)
REQUEST = ChatRequest((Message("user", "w7 w8 w9"),), Decoding(1.0, 1.0, 40), seed=3)
BANNED = tuple(range(5, 33))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def saved(folder: Path, seed: int = 0, banned: Sequence[int] = ()) -> Path:
    module = small_module(seed, max_position_embeddings=2048)
    if banned:
        module.generation_config.suppress_tokens = list(banned)
    from agentgym_suite.engines.loading import LoadedPolicy, save_policy

    save_policy(LoadedPolicy(module, small_tokenizer()), folder)
    return folder


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = saved(tmp_path_factory.mktemp("policy") / "tiny")
    Renderer("compact", "raw", 1).write(folder)
    return folder


def run(agent: AgentSpec, out: Path, concurrency: int = 4) -> evaluation.RunResults:
    opened = open_suite(SUITE, {}, allow_missing=False)
    return evaluation.run(opened, agent, out=out, options=RunOptions(concurrency))


def replies(folder: Path) -> dict[str, Any]:
    return {
        record["key"]["task_id"]: (
            [step["reply"] for step in record["steps"]],
            record["failure"] and record["failure"]["kind"],
        )
        for record in read_records(folder / EPISODES)
    }


def complete(folder: Path) -> ChatReply:
    async def ask() -> ChatReply:
        async with LocalModel(str(folder), "v1", device="cpu").connect() as model:
            return await model.complete(REQUEST)

    return asyncio.run(ask())


def test_a_checkpoint_is_played_with_the_prompt_it_was_trained_with(
    counting_env: str, policy: Path, tmp_path: Path
) -> None:
    spec = model_agent("checkpoint", CheckpointOptions(str(policy)))
    results = run(spec, tmp_path)
    assert results.status == "complete"
    header = read_run(tmp_path)
    assert header["config"]["prompt"]["template"] == "compact"
    assert header["config"]["prompt"]["history_length"] == 1
    assert header["config"]["reply_format"] == "raw"
    assert header["policy_version"].startswith("sha256:")
    assert header["config"]["agent"]["model"] == "tiny"
    for record in read_records(tmp_path / EPISODES):
        assert record["policy_version"] == header["policy_version"]
        assert all(0 < step["tokens"]["completion"] <= 6 for step in record["steps"])
    assert verify_run(tmp_path).verdict == "verified"


def test_concurrency_changes_nothing_and_other_weights_are_another_policy(
    counting_env: str, policy: Path, tmp_path: Path
) -> None:
    options = TransformersOptions(str(policy), template="compact")
    for concurrency in (1, 4):
        run(model_agent("transformers", options), tmp_path / str(concurrency), concurrency)
    assert replies(tmp_path / "1") == replies(tmp_path / "4")
    other = saved(tmp_path / "other", seed=1)
    one, two = (model_agent("transformers", TransformersOptions(str(f))) for f in (policy, other))
    assert one.policy_version != two.policy_version
    again = saved(tmp_path / "again")
    same = model_agent("transformers", TransformersOptions(str(again)))
    assert same.policy_version == one.policy_version


def test_what_local_weights_say_can_be_recorded(
    counting_env: str, policy: Path, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    live = TransformersOptions(str(policy), template="compact", record=tape)
    run(model_agent("transformers", live), tmp_path / "live")
    offline = ModelOptions(str(tape), template="compact")
    run(model_agent("cassette", offline), tmp_path / "offline")
    assert replies(tmp_path / "live") == replies(tmp_path / "offline")


def test_suppressed_tokens_are_never_sampled(tmp_path: Path) -> None:
    free = complete(saved(tmp_path / "free")).tokens
    bound = complete(saved(tmp_path / "bound", banned=BANNED)).tokens
    assert free is not None and bound is not None
    assert set(free.response_ids) & set(BANNED)
    assert not set(bound.response_ids) & set(BANNED)
    assert bound.policy_version == "v1" and len(bound.logprobs) == len(bound.response_ids)


def test_a_chosen_prompt_goes_before_the_one_of_training(policy: Path) -> None:
    spec = model_agent("checkpoint", CheckpointOptions(str(policy), prompting="react"))
    assert spec.prompt is not None and spec.prompt.template == "react"
    spec = model_agent("checkpoint", CheckpointOptions(str(policy)))
    suited = spec.suited(Suite("s", 1, SUITE.envs, prompt_format="verl_agent"))
    assert suited.prompt is not None and suited.prompt.template == "compact"


def test_a_folder_that_is_no_checkpoint_is_told(
    command: Callable[[Sequence[str]], int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = saved(tmp_path / "plain")
    with pytest.raises(DataMissing, match=RENDERER_FILE):
        model_agent("checkpoint", CheckpointOptions(str(plain)))
    for arguments in (["checkpoint"], ["transformers", "--model", str(tmp_path / "none")]):
        assert command(["evaluate", "--env", ENV, "--agent", *arguments]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_vllm_that_is_not_installed_is_told(
    counting_env: str, policy: Path, tmp_path: Path
) -> None:

    if find_spec("vllm") is not None:
        pytest.skip("vLLM is installed")
    with pytest.raises(MissingExtra, match=r"pip install 'agentgym-suite\[vllm\]'"):
        run(model_agent("vllm", WeightsOptions(str(policy))), tmp_path / "run")

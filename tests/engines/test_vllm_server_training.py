"""A vLLM server as the engine of a training: weights are pushed to it, and its rows are theirs.

``make test-vllm`` runs these in an environment of their own; elsewhere they skip.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed: make test-vllm", allow_module_level=True)

import torch

from agentgym_suite.engines.loading import LoadedPolicy, save_policy
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.vllm_server import FLAGS
from agentgym_suite.errors import ContextTooLong, EngineError
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.ranks import ONE_PROCESS, Ranks
from agentgym_suite.trainers.rollout_engine import make_rollout_engine
from agentgym_suite.trainers.run_settings import RunSettings
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.tiny_policy import build_policy, build_tokenizer
from agentgym_suite.trainers.trainer import Trainer
from agentgym_suite.trainers.weight_sync import Snapshot, WeightSync
from tests.engines.pushed_weights import SHAPE, furthest
from tests.engines.vllm_process import vllm_server
from tests.trainers.tiny_training import TASKS, configuration, counting, words
from tests.trainers.two_processes import State, in_two_processes, weights

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, and those of what it imports

PUSHES = 3


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer(words())


@pytest.fixture(scope="module")
def server(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Started with weights that nobody trains."""
    folder = tmp_path_factory.mktemp("served")
    save_policy(LoadedPolicy(build_policy(tokenizer, shape=SHAPE, seed=9), tokenizer), folder)
    flags = [*FLAGS.split(), "--no-enable-chunked-prefill", "--max-model-len", "128"]
    flags += ["--max-num-seqs", "16"]
    log = tmp_path_factory.mktemp("log") / "server.log"
    with vllm_server(folder, log, *flags, variables={"VLLM_SERVER_DEV_MODE": "1"}) as address:
        yield address


def test_pushed_weights_sample_on_the_server(server: str, tokenizer: Any, tmp_path: Path) -> None:
    model = build_policy(tokenizer, shape=SHAPE, seed=0)
    banned = tuple(model.generation_config.suppress_tokens or ())
    run = RunSettings(engine="vllm", engine_url=server)
    engine = make_rollout_engine(run, model, tokenizer, banned, tmp_path)
    sampling = Sampling(temperature=0.8, max_new_tokens=12, banned_ids=banned)
    sync = WeightSync(engine, sampling, banned, merged=True)
    chance, dice = torch.Generator().manual_seed(7), Random(3)
    known = sorted(set(range(model.config.vocab_size)) - set(banned))
    prompts = [[dice.choice(known) for _ in range(dice.randint(1, 40))] for _ in range(24)]
    assert engine.context_window == 128
    before: list[tuple[float, ...]] = []
    for number in range(PUSHES):
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn(weight.shape, generator=chance), alpha=0.02)
        sync.load(sync.snapshot(model, f"weights {number}"))
        replies = engine.generate(prompts, sampling, range(24))
        assert {reply.policy_version for reply in replies} == {f"weights {number}"}
        assert furthest(model, prompts, replies, sampling) < 1e-5
        assert [reply.logprobs for reply in replies] != before
        before = [reply.logprobs for reply in replies]
    again = engine.generate(prompts[3:4], sampling, [3])[0]
    assert again.ids == replies[3].ids
    assert not list((tmp_path / "engine" / "weights").iterdir())  # nothing is left behind

    old = sync.snapshot(model, "old")
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    new = sync.snapshot(model, "new")
    with pytest.raises(EngineError, match="log-probabilities lie .* after new was loaded"):
        sync.load(Snapshot("new", old.weights, new.expected))
    with pytest.raises(ContextTooLong, match="128"):
        engine.generate([[5] * 120], sampling, [0])
    engine.close()
    with pytest.raises(EngineError, match="the engine is closed"):
        engine.generate(prompts[:1], sampling, [0])


def on_the_server(server: str, ranks: Ranks, out: Path) -> State:
    """The weights that a training in this rank comes to."""
    tokenizer = build_tokenizer(words())
    training = Trainer(
        configuration("grpo", engine="vllm", engine_url=server, iterations=3, budget_steps=10**6),
        build_policy(tokenizer, shape=SHAPE, seed=0),
        tokenizer,
        Played(counting, TASKS),
        out,
        ranks=ranks,
    )
    try:
        assert training.run().iteration == 3
    finally:
        training.engine.close()
    return weights(training)


@pytest.mark.parametrize("servers", [1, 2], ids=["one", "two names of one"])
def test_two_processes_train_with_servers(servers: int, server: str, tmp_path: Path) -> None:
    addresses = (server, server.replace("127.0.0.1", "localhost"))[:servers]
    one, other = in_two_processes(partial(on_the_server, ",".join(addresses)), tmp_path)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], weight) for name, weight in other.items())
    lines = read_metrics(tmp_path / METRICS_FILE)[:-1]
    assert len(lines) == 3
    assert all(line["mismatch/max"] < 1e-4 for line in lines)


def test_a_training_samples_on_the_server(server: str, tmp_path: Path) -> None:
    on_the_server(server, ONE_PROCESS, tmp_path)
    lines = read_metrics(tmp_path / METRICS_FILE)[:-1]
    assert all(line["mismatch/max"] < 1e-4 for line in lines)

"""Which server a process asks, who pushes to it, and that all meet around a push."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.engines import vllm_server
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.trainers.ranks import OneProcess
from agentgym_suite.trainers.rollout_engine import make_rollout_engine, make_sync
from agentgym_suite.trainers.run_settings import RunSettings
from tests.trainers.tiny_training import policy

RUN = RunSettings(engine="vllm", engine_url="http://a, http://b/")


class OneOfThree(OneProcess):
    """Does what the first does alone, too, and counts how often all meet."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank, self.size, self.met = rank, 3, 0

    def meet(self) -> None:
        self.met += 1


def test_processes_are_dealt_to_servers_and_the_first_of_each_pushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def opened(url: str, *rest: Any, pushes: bool, **more: Any) -> None:
        asked.append((url, pushes))

    monkeypatch.setattr(vllm_server, "VllmServerEngine", opened)
    model, tokenizer = policy(0)
    left = tmp_path / "engine" / "weights" / "weights-of-a-run-that-was-killed"
    left.mkdir(parents=True)
    for number in range(3):
        make_rollout_engine(RUN, model, tokenizer, (), tmp_path, OneOfThree(number))
    assert asked == [("http://a", True), ("http://b", True), ("http://a", False)]
    assert not left.exists() and (tmp_path / "engine" / "config.json").is_file()


@pytest.mark.parametrize("number", [0, 2])
def test_all_meet_before_and_after_a_push(number: int) -> None:
    order: list[tuple[str, int]] = []
    ranks = OneOfThree(number)
    model, _ = policy(0)

    def load_weights(weights: Any, version: str) -> None:
        assert all(tensor.is_meta == (number == 2) for tensor in weights.values())
        order.append((version, ranks.met))

    rollouts = SimpleNamespace(
        engine=SimpleNamespace(load_weights=load_weights), sampling=Sampling(), ranks=ranks
    )
    sync = make_sync(RUN, rollouts, ())  # type: ignore[arg-type]
    snapshot = sync.snapshot(model, "newest")
    object.__setattr__(snapshot, "expected", None)
    sync.load(snapshot)
    assert order == [("newest", 1)] and ranks.met == 2

"""Shares of ranks, and a group of one process whose layers compute in another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
import torch.multiprocessing as multiprocessing
from rich.console import Console

from agentgym_suite.errors import TrainingError, UsageError
from agentgym_suite.trainers.collector import plan_groups
from agentgym_suite.trainers.fsdp import open_ranks
from agentgym_suite.trainers.live_view import TrainingView
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.models import choose_attention, decoder_layers
from agentgym_suite.trainers.ranks import OneProcess, share_of_groups
from agentgym_suite.trainers.reading import full
from agentgym_suite.trainers.run_checks import check_together
from agentgym_suite.trainers.running import Training
from agentgym_suite.trainers.stats import OneRank
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.trainer import Trainer
from tests.engines.small_policy import small_module
from tests.trainers.tiny_training import TASKS, configuration, counting, policy


@given(groups=st.integers(1, 9), rollouts=st.integers(1, 4), size=st.integers(1, 5))
def test_groups_are_dealt_out_whole(groups: int, rollouts: int, size: int) -> None:
    requests = plan_groups([f"count-{n}" for n in range(groups)], rollouts, seed=1, iteration=2)
    shares = [share_of_groups(requests, rank, size) for rank in range(size)]
    dealt = [request for share in shares for request in share]
    assert sorted(dealt, key=requests.index) == requests
    homes = [{request.group_id for request in share} for share in shares]
    assert sum(map(len, homes)) == groups
    assert max(map(len, homes)) - min(map(len, homes)) <= 1


def test_one_process_keeps_everything() -> None:
    ranks = OneProcess()
    model = small_module()
    done: list[int] = []
    ranks.once(lambda: done.append(1))
    assert ranks.placed(model) is ranks.whole(model) is model and done == [1]
    with open_ranks() as opened:
        assert isinstance(opened, OneProcess)


def test_processes_that_stand_behind_different_iterations_are_refused(tmp_path: Path) -> None:
    class Others(OneRank):
        def gather(self, values: Sequence[Any]) -> tuple[Any, ...]:
            return (*values, 4)

    check_together(4, tmp_path, Others())
    with pytest.raises(TrainingError, match="go on from iterations 3, 4 of"):
        check_together(3, tmp_path, Others())


def test_a_later_process_reads_no_folder_before_the_first_has_it(tmp_path: Path) -> None:
    class Later(OneProcess):
        def meet(self) -> None:
            raise RuntimeError("waits")

    later = Later()
    later.rank, later.size = 1, 2
    chosen = configuration("grpo")
    view = TrainingView(chosen.run, "grpo", Console(quiet=True))
    with pytest.raises(RuntimeError, match="waits"):
        Training(chosen, tmp_path / "run", view, ranks=later).run()
    assert not (tmp_path / "run").exists()


def test_layers_are_told_by_the_model() -> None:
    assert len(decoder_layers(small_module())) == 2
    with pytest.raises(UsageError, match="does not name its layers"):
        decoder_layers(torch.nn.Module())


def test_flash_attention_needs_cuda_and_half_precision() -> None:
    assert choose_attention("auto", "cpu", torch.bfloat16) == "sdpa"
    assert choose_attention("auto", "cuda:0", torch.float32) == "sdpa"
    assert choose_attention("eager", "cuda:0", torch.bfloat16) == "eager"


def half(_: int, out: str) -> None:
    """A training whose layers compute in bfloat16."""
    torch.set_num_threads(1)
    model, tokenizer = policy(0)
    with open_ranks(compute_dtype="bfloat16") as ranks:
        settings = configuration("capo", budget_steps=1)
        played = Played(counting, TASKS)
        training = Trainer(settings, model, tokenizer, played, Path(out), ranks=ranks)
        training.run()
        found = {name: full(weight.detach()).clone() for name, weight in model.named_parameters()}
        seen = {name: weight.dtype for name, weight in training.sampled.named_parameters()}
        for name, buffer in training.sampled.named_buffers():  # rotary angles among them
            assert torch.equal(buffer, model.get_buffer(name)) and buffer.dtype == torch.float32
    torch.save((found, seen), Path(out) / "half.pt")


def test_what_breaks_in_one_process_leaves_no_group_of_processes() -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match="refused"), open_ranks(compute_dtype="bfloat16"):
            raise UsageError("refused")
    with open_ranks(compute_dtype="bfloat16") as ranks:
        assert ranks.size == 1


def test_layers_compute_in_another_dtype_beside_whole_weights(tmp_path: Path) -> None:
    multiprocessing.spawn(half, args=(str(tmp_path),), nprocs=1)
    found, seen = torch.load(tmp_path / "half.pt")
    assert {weight.dtype for weight in found.values()} == {torch.float32}
    assert set(seen.values()) == {torch.bfloat16}
    start = dict(policy(0)[0].named_parameters())
    assert max(float((found[name] - start[name]).detach().abs().max()) for name in start) > 1e-4
    assert any(not torch.equal(w, w.bfloat16().float()) for w in found.values())
    first = read_metrics(tmp_path / METRICS_FILE)[0]
    assert 1e-4 < first["mismatch/max"] < 0.5, "engine and trainer round apart, but little"

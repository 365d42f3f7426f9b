"""Two processes over gloo take the same step as one, though groups and lengths lie unevenly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as multiprocessing

from agentgym_suite.trainers.algorithm import Sums
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.stats import AllRanks, OneRank, mean_and_spread
from tests.trainers.small_batches import mixed_batch
from tests.trainers.toy_policy import update
from tests.trainers.variants import VARIANTS

LABELS = [label for label, _, _ in VARIANTS]
Result = dict[str, list[torch.Tensor]]


def share(rank: int, folder: str) -> None:
    """One rank's part: whole trajectories, a group on both ranks, more rows here than there."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    reducer = AllRanks()
    batch = mixed_batch()
    chains = batch.trajectories()
    mine = [
        number
        for place, chain in enumerate(chains)
        if (place in (1, 4)) == rank
        for number in chain
    ]
    local = batch.select(mine)
    result: Result = {}
    for label, name, settings in VARIANTS:
        algorithm = make_algorithm(name, **settings)
        ready = algorithm.prepare(local, reducer).batch
        half = len(mine) // 2
        step = update(algorithm, ready, [range(half), range(half, len(mine))], reducer=reducer)
        result[label] = [step.loss, step.gradient, step.critic_loss, step.critic_gradient]
    mean, spread, count = mean_and_spread(local.rewards, reducer)
    result["statistics"] = [torch.tensor([mean, spread, float(count)], dtype=torch.float64)]
    sums = Sums(rows=1.0 + rank, by_trajectory={"a": (1.0, 2.0), f"only {rank}": (3.0, 4.0)})
    whole = sums.reduced(reducer)
    assert whole.rows == 3.0
    assert whole.by_trajectory == {"a": (2.0, 4.0), "only 0": (3.0, 4.0), "only 1": (3.0, 4.0)}
    torch.save(result, Path(folder) / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Result]]:
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(share, args=(str(folder),), nprocs=2)
    yield [torch.load(folder / f"rank{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("label", LABELS)
def test_two_ranks_take_the_step_of_one(label: str, two_ranks: list[Result]) -> None:
    _, name, settings = VARIANTS[LABELS.index(label)]
    algorithm = make_algorithm(name, **settings)
    batch = algorithm.prepare(mixed_batch(), OneRank()).batch
    step = update(algorithm, batch, [range(len(batch))])
    for rank in two_ranks:
        wanted = [step.loss, step.gradient, step.critic_loss, step.critic_gradient]
        for mine, theirs in zip(rank[label], wanted, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def test_statistics_are_of_both_ranks(two_ranks: list[Result]) -> None:
    batch = mixed_batch()
    wanted = [float(batch.rewards.mean()), float(batch.rewards.std()), float(len(batch))]
    for rank in two_ranks:
        assert rank["statistics"][0].tolist() == pytest.approx(wanted, rel=1e-12)

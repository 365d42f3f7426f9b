"""Rollouts beside the update: which weights play what, and what a kill costs."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.errors import EngineError, EnvError, UsageError
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.checkpoints import checkpoints, load_held
from agentgym_suite.trainers.collector import Collection
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from agentgym_suite.trainers.policy_rollouts import PolicyRollouts
from agentgym_suite.trainers.ranks import OneProcess
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.rollout_schedules import Ahead, staleness
from agentgym_suite.trainers.stats import ALONE, Reducer
from agentgym_suite.trainers.weight_sync import Snapshot, WeightSync
from tests.trainers.small_batches import row
from tests.trainers.tiny_training import stopped, trainer

AHEAD = {"max_staleness": 1, "mismatch_cap": 2.0, "budget_steps": 10_000}


class Recorded:
    """Engine and rollouts at once: notes which weights play what, in which thread."""

    def __init__(self, groups: int = 3) -> None:
        self.version = ""
        self.groups = groups
        self.played: list[tuple[int, int, str]] = []
        self.threads: set[str] = set()
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Event()
        self.broken = -1
        self.engine = self
        self.closed = False

    def close(self) -> None:
        self.closed = True
        self.go.set()

    def load(self, snapshot: Snapshot) -> None:
        self.version = snapshot.version

    def iteration(self, number: int, tasks_drawn: int) -> Collection:
        self.begun.set()
        self.go.wait(60)
        self.threads.add(threading.current_thread().name)
        if number == self.broken:
            raise EnvError("the machine broke")
        self.played.append((number, tasks_drawn, self.version))
        return Collection((), (), groups=self.groups)

    def evaluation(self, *, final: bool) -> dict[str, float]:
        self.played.append((-1, -1, self.version))
        return {"final": float(final)}


def ahead(recorded: Recorded, bound: int, last: float = 100, reducer: Reducer = ALONE) -> Ahead:
    rollouts, sync = cast(PolicyRollouts, recorded), cast(WeightSync, recorded)
    return Ahead(rollouts, sync, bound, last=last, reducer=reducer)


def weights(done: int) -> Snapshot:
    return Snapshot(f"v{done}", {})


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_an_iteration_is_played_with_the_weights_of_the_bound_and_tasks_in_order(
    bound: int,
) -> None:
    recorded = Recorded()
    schedule = ahead(recorded, bound)
    schedule.start(0, 0, {})
    for number in range(1, 8):
        schedule.offer(number - 1, weights(number - 1))
        assert schedule.take(number).groups == 3
        held = schedule.held(number)
        assert list(held) == sorted(
            {max(0, m - 1 - bound) for m in range(number + 1, number + 1 + bound)}
        )
        assert all(kept.version == f"v{done}" for done, kept in held.items())
    assert schedule.evaluation(weights(7), final=True) == {"final": 1.0}
    schedule.close()
    played = [(n, (n - 1) * 3, f"v{max(0, n - 1 - bound)}") for n in range(1, 8)]
    assert recorded.played[:7] == played
    assert recorded.played[-1] == (-1, -1, "v7")
    assert recorded.threads == {"rollouts ahead"}


def test_the_next_iteration_is_played_while_this_one_is_learned_from() -> None:
    recorded = Recorded()
    schedule = ahead(recorded, 1)
    schedule.start(0, 0, {})
    schedule.offer(0, weights(0))
    schedule.take(1)
    deadline = time.monotonic() + 60
    while len(recorded.played) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)  # nobody asked for iteration 2
    assert [number for number, _, _ in recorded.played] == [1, 2]
    schedule.close()


@pytest.mark.parametrize("bound", [1, 3])
def test_what_was_under_way_is_played_again_with_the_weights_it_had(bound: int) -> None:
    def run(schedule: Ahead, numbers: range) -> None:
        for number in numbers:
            schedule.offer(number - 1, weights(number - 1))
            schedule.take(number)

    whole, first, second = Recorded(), Recorded(), Recorded()
    schedule = ahead(whole, bound, last=8)
    schedule.start(0, 0, {})
    run(schedule, range(1, 9))
    schedule.close()
    stopped = ahead(first, bound)
    stopped.start(0, 0, {})
    run(stopped, range(1, 5))
    held = stopped.held(4)
    stopped.close()
    resumed = ahead(second, bound, last=8)
    resumed.start(4, 12, held)
    run(resumed, range(5, 9))
    resumed.close()
    assert first.played[:4] + second.played == whole.played


def test_a_checkpoint_without_older_weights_goes_on_with_the_newest() -> None:
    recorded = Recorded()
    schedule = ahead(recorded, 2, last=6)
    schedule.start(3, 9, {})
    for number in (4, 5, 6):
        schedule.offer(number - 1, weights(number - 1))
        schedule.take(number)
    schedule.close()
    assert recorded.played == [(4, 9, "v3"), (5, 12, "v3"), (6, 15, "v3")]


def test_what_breaks_in_the_thread_is_raised_where_it_is_waited_for() -> None:
    recorded = Recorded()
    recorded.broken = 2
    schedule = ahead(recorded, 1, last=2)
    schedule.start(0, 0, {})
    schedule.offer(0, weights(0))
    schedule.take(1)
    schedule.offer(1, weights(1))
    with pytest.raises(EnvError, match="the machine broke"):
        schedule.take(2)
    schedule.close()


def test_at_the_end_only_what_is_under_way_is_waited_for() -> None:
    recorded = Recorded()
    recorded.go.clear()
    schedule = ahead(recorded, 3)
    schedule.start(0, 0, {})
    schedule.offer(0, weights(0))
    threading.Timer(0.05, recorded.go.set).start()
    schedule.evaluation(weights(0), final=True)
    schedule.close()
    assert len(recorded.played) <= 2
    assert recorded.played[-1] == (-1, -1, "v0")


class Others:
    """The reducer of a rank whose others have begun iterations up to this one."""

    def __init__(self, begun: int) -> None:
        self.begun = begun

    def most(self, count: int) -> int:
        return max(count, self.begun)


@pytest.mark.parametrize("begun", [0, 3])
def test_what_another_process_has_begun_is_played_here_too(begun: int) -> None:
    recorded = Recorded()
    recorded.go.clear()
    schedule = ahead(recorded, 3, reducer=cast(Any, Others(begun)))
    schedule.start(0, 0, {})
    schedule.offer(0, weights(0))
    threading.Timer(0.05, recorded.go.set).start()
    schedule.evaluation(weights(0), final=True)
    schedule.close()
    last = max(number for number, _, _ in recorded.played)
    assert last == begun or (begun == 0 and last <= 1)
    assert [number for number, _, _ in recorded.played] == [*range(1, last + 1), -1]


def test_where_one_has_failed_nothing_more_is_played_in_several_processes() -> None:
    for reducer, after in ((ALONE, [1, -1]), (cast(Any, Others(0)), [1])):
        recorded = Recorded()
        recorded.broken = 2
        schedule = ahead(recorded, 1, reducer=reducer)
        schedule.start(0, 0, {})
        schedule.offer(0, weights(0))
        schedule.take(1)
        with pytest.raises(EnvError, match="the machine broke"):
            schedule.take(2)
        with nullcontext() if reducer is ALONE else pytest.raises(EnvError, match="broke"):
            schedule.evaluation(weights(0), final=True)
        assert [number for number, _, _ in recorded.played] == after
        schedule.close()


def test_nothing_computes_any_more_when_a_schedule_is_closed() -> None:
    recorded = Recorded()
    recorded.go.clear()
    schedule = ahead(recorded, 1)
    schedule.start(0, 0, {})
    schedule.offer(0, weights(0))
    assert recorded.begun.wait(60)  # what it plays now is broken off by the engine alone
    schedule.close()
    assert not schedule._thread.is_alive() and recorded.closed


def test_an_engine_stays_open_where_all_has_been_played() -> None:
    recorded = Recorded()
    schedule = ahead(recorded, 1)
    schedule.start(0, 0, {})
    schedule.offer(0, weights(0))
    schedule.evaluation(weights(1), final=True)
    schedule.close()
    assert not schedule._thread.is_alive() and not recorded.closed


def test_rows_of_weights_beyond_the_bound_are_refused() -> None:
    rows = [row("a/0", 0, 1, 2, policy_version="x:4"), row("a/1", 0, 1, 2, policy_version="x:3")]
    assert staleness(rows, ["x:4", "x:3"]) == {"staleness/mean": 0.5, "staleness/max": 1.0}
    with pytest.raises(UsageError, match="sampled by x:3, not by x:4"):
        staleness(rows, ["x:4"])
    with pytest.raises(UsageError, match="sampled by x:3, not by x:5"):
        staleness(rows, ["x:5", "x:4"])


def test_older_rows_need_a_correction(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="max_staleness is 1.*mismatch_cap"):
        trainer("grpo", tmp_path, max_staleness=1)
    with pytest.raises(UsageError, match="max_staleness is -1"):
        trainer("grpo", tmp_path, max_staleness=-1)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"engine": "vllm"}, "engine is vllm.*2 processes.*give servers in engine_url"),
        (
            {"engine": "vllm", "engine_url": "http://a, http://b, http://c"},
            "names 3 servers.*there are 2",
        ),
    ],
)
def test_several_processes_need_servers_and_no_more_than_they_are(
    given: dict[str, Any], told: str, tmp_path: Path
) -> None:
    two = OneProcess()
    two.size = 2
    with pytest.raises(UsageError, match=told):
        trainer("grpo", tmp_path, more={"ranks": two}, **given)


def test_the_correction_is_the_truncated_weight_of_each_token() -> None:
    rows = [row("a/0", 0, 1, 3, reward=1.0), row("a/1", 0, 1, 3)]
    rows = [replace(one, rollout_logprobs=(-1.0, -2.0, -3.0)) for one in rows]
    old = torch.tensor([[-0.5, -2.0, -3.5], [0.5, -1.0, -3.0]], dtype=torch.float64)
    batch = collate(rows).with_columns(old_logprobs=old)
    algorithm = make_algorithm("grpo", "paper", mismatch_cap=2.0)
    told = algorithm.prepare(batch, ALONE).metrics
    expected = torch.tensor([0.5, 0.0, -0.5, 1.5, 1.0, 0.0]).double().exp()
    assert told["mismatch/weight"] == pytest.approx(
        float(expected.clamp(max=2.0).mean()), abs=1e-12
    )
    assert told["mismatch/truncated"] == pytest.approx(2 / 6)


def tensors(training: Any) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in training.policy.state_dict().values()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_a_run_ahead_is_the_same_to_the_bit_though_it_was_killed(tmp_path: Path) -> None:
    out = tmp_path / "killed"
    stopped(signal.SIGKILL, "grpo", out, iterations=60, **AHEAD)
    found = checkpoints(out / "checkpoints")
    last = int(found[-1].name) + 2
    assert list(load_held(found[-1], str)) == [last - 3]
    whole = trainer("grpo", tmp_path / "whole", iterations=last, **AHEAD)
    whole.run()
    resumed = trainer("grpo", out, iterations=last, **AHEAD)
    resumed.run()
    assert same(tensors(whole), tensors(resumed))
    lines = read_metrics(out / METRICS_FILE)[:-1]
    other = read_metrics(tmp_path / "whole" / METRICS_FILE)[:-1]
    assert [line["rollout/success"] for line in lines] == [
        line["rollout/success"] for line in other
    ]
    assert [line.get("staleness/max", 0.0) for line in lines] == [0.0] + [1.0] * (last - 1)
    assert all(line["mismatch/weight"] > 0 for line in lines)
    assert other[0]["mismatch/max"] < 1e-4 < other[-1]["mismatch/max"]


def test_a_push_that_is_lost_is_noticed(tmp_path: Path) -> None:
    training = trainer("grpo", tmp_path, **AHEAD)
    engine, sync = training.engine, training._sync
    first = sync.snapshot(training.sampled, "first")
    sync.load(first)
    with torch.no_grad():
        for weight in training.policy.parameters():
            weight.mul_(1.01)
    second = sync.snapshot(training.sampled, "second")
    sync.load(second)
    with pytest.raises(EngineError, match="after lost was loaded, and 1e-05 is allowed"):
        sync.load(Snapshot("lost", first.weights, second.expected))

    class Forgetful:
        """Says nothing of what it was given."""

        policy_version = "first"

        def load_weights(self, weights: Any, version: str) -> None:
            engine.load_weights(weights, "first")

        def generate(self, *asked: Any) -> Any:
            return engine.generate(*asked)

    sync._engine = cast(Any, Forgetful())
    with pytest.raises(EngineError, match="samples with first after it was given second"):
        sync.load(second)


def test_who_pushes_nothing_keeps_shapes_alone_and_waits_for_who_does(tmp_path: Path) -> None:
    training = trainer("grpo", tmp_path, **AHEAD)
    order: list[str] = []

    class Told:
        def load_weights(self, weights: Any, version: str) -> None:
            order.append(f"loaded {version}")

        def generate(self, *asked: Any) -> Any:
            order.append("sampled")
            return training.engine.generate(*asked)

    sampling, banned = training.rollouts.sampling, training.forward.banned_ids
    sync = WeightSync(
        cast(Any, Told()), sampling, banned, pushes=False, meet=lambda: order.append("met")
    )
    kept = sync.snapshot(training.sampled, "new")
    assert all(weight.is_meta for weight in kept.weights.values())
    training.engine.load_weights(training.sampled.state_dict(), "new")
    sync.load(kept)
    assert order == ["met", "loaded new", "met", "sampled"]


def test_a_run_ahead_goes_on_with_other_settings_where_it_is_forced(tmp_path: Path) -> None:
    trainer("grpo", tmp_path, iterations=2, **AHEAD).run()
    other = trainer("grpo", tmp_path, iterations=4, learning_rate=2e-3, **AHEAD)
    assert other.run(force=True).iteration == 4

"""Rows, their invariants, collation, selection and files."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from agentgym_suite.episodes import Episode, Failure, Reply, Step, TokenTrace
from agentgym_suite.errors import DataDamaged, DataMissing, DataVersion, UsageError
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.batch_files import load_batch, save_batch
from agentgym_suite.trainers.rows import episode_rows, pad_row
from tests.trainers.small_batches import mixed_batch, mixed_rows, row


def step(
    trace: TokenTrace | None, reward: float, terminated: bool = False, truncated: bool = False
) -> Step:
    return Step(
        observation="you see  a mug",
        next_observation="",
        messages=(),
        reply=Reply("take mug", tokens=trace),
        action="take mug",
        parsed_action="take mug",
        valid=True,
        error="",
        span=(0, 8),
        env_reward=reward,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        admissible=(),
        state_hash="",
    )


def episode(*steps: Step, failure: Failure | None = None, group: str = "g") -> Episode:
    return Episode(
        task_id="t",
        trial=4,
        seed=9,
        group_id=group,
        task_family="",
        split="train",
        steps=steps,
        score=1.0,
        success=True,
        outcome="success",
        failure=failure,
        metrics={},
        provenance="",
    )


TRACE = TokenTrace((1, 2, 3), (7, 8), (-0.5, -0.25), (1, 0), "stop", "v0")


def test_rows_keep_the_sampled_ids_of_an_episode() -> None:
    first, last = episode_rows(
        episode(step(TRACE, 0.0), step(TRACE, 1.0, terminated=True)), env_id="E-v0"
    )
    assert (first.prompt_ids, first.response_ids) == ((1, 2, 3), (7, 8))
    assert (first.response_mask, first.length) == ((1, 0), 1)
    assert (first.b_v, first.b_q) == (2, 4)
    assert (first.trajectory_id, first.group_id, first.env_seed) == ("g/4", "g", 9)
    assert first.anchor == "you see  a mug"
    assert (first.terminated, last.terminated, last.is_last, last.reward) == (False, True, True, 1)


def test_success_stays_on_the_last_real_step_and_no_row_is_added() -> None:
    rows = episode_rows(episode(step(TRACE, 0.0), step(TRACE, 1.0, terminated=True)), env_id="E")
    assert [r.reward for r in rows] == [0.0, 1.0]


def test_an_episode_that_the_player_stopped_is_truncated() -> None:
    (only,) = episode_rows(episode(step(TRACE, 0.0)), env_id="E", next_prompt_ids=(1, 2))
    assert only.truncated and not only.terminated and only.next_prompt_ids == (1, 2)


def test_an_episode_without_a_group_is_grouped_by_task_and_seed() -> None:
    (only,) = episode_rows(episode(step(TRACE, 0.0, True), group=""), env_id="E")
    assert (only.group_id, only.trajectory_id) == ("t@9", "t@9/4")


@pytest.mark.parametrize(
    ("played", "sentence"),
    [
        (episode(step(None, 0.0)), "no token ids at step 0"),
        (episode(), "has no step"),
        (episode(step(TRACE, 0.0), failure=Failure("timeout", "infra", "")), "failed with"),
    ],
)
def test_what_is_no_trajectory_is_refused(played: Episode, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        episode_rows(played, env_id="E")


NAN = float("nan")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"response_mask": (1,)}, "step 0.*response_mask has 1 values for 2"),
        ({"rollout_logprobs": (0.0,)}, "rollout_logprobs has 1 values for 2"),
        ({"action_mask": (1,)}, "action_mask has 1 values for 2"),
        ({"response_mask": (1, 2)}, "response_mask holds 2"),
        ({"rollout_logprobs": (-1.0, NAN)}, "rollout_logprobs is nan at sampled token 1"),
        ({"reward": NAN}, "reward is nan"),
        ({"reward": float("inf")}, "reward is inf"),
        ({"prompt_ids": ()}, "prompt_ids is empty"),
        ({"group_id": ""}, "group_id is empty"),
        ({"terminated": True}, "before the last step"),
        ({"finish_reason": "eos"}, "finish_reason is 'eos'"),
        ({"step_index": 2}, "step_index lies outside"),
        ({"step_index": 1, "terminated": True}, r"step_index holds \[1, 1\] for 2 steps"),
        ({"n_steps": 3}, "n_steps is 2 and 3"),
        ({"group_id": "other"}, "group_id is 'g' and 'other'"),
        ({"prompt_ids": (1, 99)}, "id 99 is a reserved value token"),
        ({"response_ids": (99, 1)}, "id 99 is a reserved value token"),
    ],
)
def test_a_broken_invariant_names_row_and_field(changes: dict[str, object], sentence: str) -> None:
    rows = [row("g/0", 0, 2, 2), row("g/0", 1, 2, 3)]
    rows[0] = replace(rows[0], **changes)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=sentence):
        collate(rows, reserved_ids=(99,))


def test_forced_tokens_may_have_no_logprob_and_never_reach_the_columns() -> None:
    forced = row("g/0", 0, 1, 2, mask=(1, 0), rollout_logprobs=(-1.0, NAN))
    batch = collate([forced])
    assert batch.rollout_logprobs.tolist() == [[-1.0, 0.0]]
    assert batch.lengths.tolist() == [1]


def test_no_rows_are_refused() -> None:
    with pytest.raises(UsageError, match="at least one row"):
        collate([])


def test_trajectories_follow_ids_and_steps_not_the_order_of_rows() -> None:
    rows = [row("b/0", 1, 2, 1), row("a/0", 0, 1, 1), row("b/0", 0, 2, 1), pad_row()]
    assert collate(rows).trajectories() == ((1,), (2, 0))


@pytest.mark.parametrize("side", ["right", "left"])
def test_selecting_cuts_unused_columns_and_carries_every_column(side: str) -> None:
    batch = mixed_batch(width=9, side=side)  # type: ignore[arg-type]
    numbers = [4, 0, 2]
    chosen = batch.select(numbers)
    longest = max(len(batch.rows[n].response_ids) for n in numbers)
    assert chosen.response_mask.shape == (3, longest)
    assert [r.step_index for r in chosen.rows] == [batch.rows[n].step_index for n in numbers]
    for place, number in enumerate(numbers):
        for name in ("old_logprobs", "teacher_logprobs", "response_ids"):
            mine = getattr(chosen, name)[place][chosen.response_mask[place]]
            theirs = getattr(batch, name)[number][batch.response_mask[number]]
            assert torch.equal(mine, theirs)
        assert chosen.v_old is not None and batch.v_old is not None
        assert chosen.v_old[place] == batch.v_old[number]


def test_an_empty_row_keeps_its_place_but_is_no_action() -> None:
    batch = mixed_batch()
    assert not batch.is_action[1] and not batch.is_pad[1]
    assert sum(len(t) for t in batch.trajectories()) == len(batch)


def test_pads_have_no_length_and_belong_to_no_trajectory() -> None:
    batch = mixed_batch()
    padded = batch.with_pads(3)
    assert padded.is_pad.tolist()[-3:] == [True] * 3
    assert padded.trajectories() == batch.trajectories()
    assert padded.is_action.sum() == batch.is_action.sum()


def test_a_column_of_another_shape_or_name_is_refused() -> None:
    batch = mixed_batch()
    with pytest.raises(UsageError, match=r"v_old has shape \(2,\)"):
        batch.with_columns(v_old=torch.zeros(2))
    with pytest.raises(UsageError, match="column 'vold' does not exist"):
        batch.with_columns(vold=torch.zeros(2))
    with pytest.raises(UsageError, match="width is 1"):
        collate(mixed_rows(), width=1)


def same(one: StepBatch, other: StepBatch) -> None:
    for field in fields(StepBatch):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, torch.Tensor):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
        else:
            assert mine == theirs, field.name


def test_a_batch_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    batch = mixed_batch().with_pads(2)
    save_batch(batch, tmp_path / "b.npz")
    same(load_batch(tmp_path / "b.npz"), batch)


def test_padding_is_not_stored(tmp_path: Path) -> None:
    batch, wide = mixed_batch(), mixed_batch(width=40, side="left")
    save_batch(batch, tmp_path / "b.npz")
    save_batch(wide, tmp_path / "wide.npz")
    same(load_batch(tmp_path / "wide.npz"), load_batch(tmp_path / "b.npz"))


def test_files_that_are_no_batch_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataMissing):
        load_batch(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(DataDamaged, match="is no batch"):
        load_batch(tmp_path / "text.npz")
    header = np.frombuffer(b'{"schema": "step_batch/0", "rows": []}', dtype=np.uint8)
    np.savez(tmp_path / "old.npz", header=header)
    with pytest.raises(DataVersion, match="step_batch/0"):
        load_batch(tmp_path / "old.npz")
    save_batch(mixed_batch(), tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as archive:
        arrays = dict(archive.items())
    arrays["column.old_logprobs"] = arrays["column.old_logprobs"][:-1]
    np.savez(tmp_path / "short.npz", **arrays)
    with pytest.raises(DataDamaged, match="is damaged"):
        load_batch(tmp_path / "short.npz")

"""The agent loop plays an embedded world through the suite's episodes; ``make test-verl``."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace
from typing import Any

import pytest

import tests.trainers.verl_play as play  # isort: skip  # skips without veRL

from verl.experimental.agent_loop.agent_loop import _agent_loop_registry

from agentgym_suite.engines.tokens import Generated, Sampling
from agentgym_suite.errors import EnvError, UsageError
from agentgym_suite.trainers.collector import Collector, RolloutSettings
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.run_settings import RunSettings
from agentgym_suite.trainers.verl_loop import _request
from agentgym_suite.trainers.verl_rows import EPISODE, FIELD
from agentgym_suite.trainers.verl_settings import LOOP, play_settings, task_rows, verl_configuration
from tests.counting import CountingEnv
from tests.trainers.tiny_training import TASKS, policy

pytestmark = pytest.mark.filterwarnings("ignore")  # veRL's own, and those of what it imports


def rows_of(outputs: Any) -> list[StepRow]:
    return [
        StepRow(
            prompt_ids=tuple(output.prompt_ids),
            response_ids=tuple(output.response_ids),
            response_mask=tuple(output.response_mask),
            rollout_logprobs=tuple(output.response_logprobs),
            **output.extra_fields[FIELD],
        )
        for output in outputs
    ]


class Replayed:
    """An engine that says to the same prompts what the server said, in its order."""

    policy_version = "7"

    def __init__(self, rows: list[StepRow]) -> None:
        self._rows = iter(rows)

    def generate(self, prompts: Any, sampling: Any, seeds: Any) -> list[Generated]:
        row = next(self._rows)
        assert [tuple(prompt) for prompt in prompts] == [row.prompt_ids]
        reason: Any = row.finish_reason
        return [Generated(row.response_ids, row.rollout_logprobs, reason, "7")]

    def load_weights(self, weights: Any, version: str) -> None: ...

    def close(self) -> None: ...


def test_the_loop_is_verls_by_name() -> None:
    assert _agent_loop_registry[LOOP]["_target_"].endswith("verl_loop.EpisodeLoop")


def test_its_outputs_are_the_rows_of_the_collector() -> None:
    config = play.verl_config("grpo")
    found, server, tokenizer = play.played(config, TASKS[:3], sessions=1)
    run = verl_configuration(config.algorithm).run
    for row, outputs in found:
        rows = rows_of(outputs)
        collector = Collector(
            CountingEnv,
            Replayed(rows),
            server.engine.tokenizer,
            RolloutSettings(
                env_id=run.env,
                play=play_settings(run, tokenizer),
                sampling=Sampling(),
            ),
        )
        expected = collector.collect([_request(row, run.seed)]).rows
        assert tuple(rows) == expected
        assert len(rows) > 1


def test_every_output_carries_the_trajectorys_score_and_its_own_reward() -> None:
    found, _, _ = play.played(play.verl_config("grpo"), TASKS, sessions=3)
    rewards = set()
    for row, outputs in found:
        rows = rows_of(outputs)
        assert {output.reward_score for output in outputs} == {sum(r.reward for r in rows)}
        assert [r.step_index for r in rows] == list(range(len(rows)))
        assert {r.group_id for r in rows} == {row["uid"]}
        assert {r.trajectory_id for r in rows} == {f"{row['uid']}/{row['session_id']}"}
        assert {r.policy_version for r in rows} == {"7"}
        for output in outputs:
            assert output.extra_fields["min_global_steps"] == 7
            assert output.extra_fields[EPISODE] is None
        rewards |= {row.reward for row in rows}
    assert len(rewards) > 1


def test_a_trajectory_asks_one_server_and_a_group_starts_alike() -> None:
    found, server, _ = play.played(play.verl_config("grpo"), TASKS[:1], sessions=2)
    names = [asked["request_id"] for asked in server.asked]
    steps = [len(outputs) for _, outputs in found]
    assert names == [names[0]] * steps[0] + [names[-1]] * steps[1] and names[0] != names[-1]
    first, second = (rows_of(outputs) for _, outputs in found)
    assert first[0].prompt_ids == second[0].prompt_ids
    assert first[0].env_seed == second[0].env_seed


def test_what_is_analyzed_carries_its_episode_and_the_mask_of_its_action() -> None:
    found, _, _ = play.played(play.verl_config("taspo"), TASKS[:1])
    for _, outputs in found:
        episodes = [output.extra_fields[EPISODE] for output in outputs]
        assert episodes[:-1] == [None] * (len(outputs) - 1)
        assert len(pickle.loads(episodes[-1]).steps) == len(outputs)
        assert all(len(row.action_mask) == len(row.response_ids) for row in rows_of(outputs))


def test_a_server_without_logprobs_is_an_error() -> None:
    with pytest.raises((UsageError, EnvError), match="calculate_log_probs"):
        play.played(play.verl_config("grpo"), TASKS[:1], sampling={"logprobs": False})


def test_a_task_that_does_not_exist_and_a_row_without_one_are_errors() -> None:
    config = play.verl_config("grpo")
    with pytest.raises(UsageError, match="count-99"):
        play.played(config, ["count-99"])
    module, tokenizer = policy()
    server = play.Server(module, tokenizer)
    with pytest.raises(UsageError, match="task_id"):
        asyncio.run(play.one(config, server, tokenizer, {"uid": "u", "extra_info": {}}))


def test_a_trajectory_that_breaks_every_time_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: CountingEnv, action: str) -> Any:
        raise RuntimeError("the machine broke")

    module, tokenizer = policy()
    server = play.Server(module, tokenizer)
    monkeypatch.setattr(CountingEnv, "_play", broken)
    row = {"uid": "u", "extra_info": {"task_id": TASKS[0]}}
    with pytest.raises(EnvError, match="broke 3 times.*the machine broke"):
        asyncio.run(play.one(play.verl_config("grpo"), server, tokenizer, row))


def test_tasks_become_rows_of_a_data_set() -> None:
    run = replace(RunSettings(), env=play.registered())
    rows = task_rows(run, "train")
    assert [row["extra_info"]["task_id"] for row in rows][:2] == ["count-10", "count-11"]
    assert {row["agent_name"] for row in rows} == {LOOP}
    assert [row["extra_info"]["index"] for row in rows] == list(range(10))


@pytest.mark.parametrize(
    ("section", "match"),
    [
        ({"adv_estimator": "grpo"}, "agentgym_capo"),
        ({"adv_estimator": "agentgym_grpo", "agentgym": {"clip_lo": 1}}, "clip_lo"),
        ({"adv_estimator": "agentgym_sapo"}, "sapo_ar"),
    ],
)
def test_a_wrong_section_is_one_sentence(section: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        verl_configuration(section)

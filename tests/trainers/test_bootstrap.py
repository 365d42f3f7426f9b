"""The value behind a trajectory that was cut: played, read and used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from agentgym_suite.agents import agent_factory
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import Episode, EpisodeRequest
from agentgym_suite.errors import UsageError
from agentgym_suite.playing import run_episode
from agentgym_suite.trainers.batch import StepBatch, collate
from agentgym_suite.trainers.collector import Collector, RolloutSettings, plan_groups
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.models import make_critic
from agentgym_suite.trainers.passes import bootstrap_pass
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.returns import step_gae, token_gae
from agentgym_suite.trainers.stats import OneRank
from tests.counting import CountingEnv
from tests.engines.small_policy import VOCABULARY, small_module
from tests.trainers.small_batches import mixed_rows, row
from tests.trainers.tiny_training import PLAY, TASKS, counting, policy, trainer

VALUE_IDS = (VOCABULARY - 2, VOCABULARY - 1)
FORWARD = Forward(banned_ids=VALUE_IDS, value_ids=VALUE_IDS)


def played(steps: int, **changes: Any) -> Episode:
    settings = replace(PLAY, max_steps=steps, **changes)
    return run_episode(
        CountingEnv(), agent_factory("oracle"), EpisodeRequest(TASKS[0], 3), settings
    )


def test_the_next_turn_is_what_the_agent_is_asked_if_the_episode_goes_on() -> None:
    cut, longer = played(2, keep_next_turn=True), played(3)
    after = cut.next_turn
    assert after is not None
    assert after.messages == longer.steps[2].messages
    assert (after.step_index, after.observation) == (2, longer.steps[2].observation)


def test_an_episode_that_ended_by_itself_has_none_and_others_only_where_it_is_wanted() -> None:
    ended = played(8, keep_next_turn=True)
    assert ended.steps[-1].terminated and ended.next_turn is None
    assert played(2).next_turn is None


def test_rows_carry_the_prompt_behind_the_cut() -> None:
    model, tokenizer = policy()
    engine = TransformersEngine(model, tokenizer, policy_version="1")
    sampling = Sampling(max_new_tokens=5, stop_ids=engine.tokenizer.stop_ids)
    play = replace(PLAY, max_steps=2, keep_next_turn=True)
    settings = RolloutSettings(env_id="Counting-v0", play=play, sampling=sampling)
    collector = Collector(counting, engine, engine.tokenizer, settings)
    found = collector.collect(plan_groups(TASKS[:2], 3, seed=3, iteration=1))
    assert any(row.next_prompt_ids for row in found.rows)
    for one in found.episodes:
        name = f"{one.group_id}/{one.trial}"
        first, last = (row for row in found.rows if row.trajectory_id == name)
        assert not first.next_prompt_ids
        if one.next_turn is None:
            assert last.terminated and not last.next_prompt_ids
        else:
            wanted = engine.tokenizer.chat_ids(one.next_turn.messages, one.next_turn.tools)
            assert list(last.next_prompt_ids) == wanted


def chain(rewards: list[float], lengths: list[int], **columns: Any) -> StepBatch:
    steps = len(rewards)
    rows = [
        row(
            "a/0", step, steps, length, reward=reward, terminated=False, truncated=step == steps - 1
        )
        for step, (reward, length) in enumerate(zip(rewards, lengths, strict=True))
    ]
    given = {name: torch.tensor(value, dtype=torch.float64) for name, value in columns.items()}
    return collate(rows).with_columns(**given)


def test_gae_over_actions_by_hand() -> None:
    # d = (-.14, -.13, 1.42) with d_2 = 1 + .9 * .8 - .3, then A_t = d_t + .45 * A_{t+1}
    batch = chain([0, 0, 1], [1, 1, 1], v_old=[0.5, 0.4, 0.3], bootstrap=[0, 0, 0.8])
    found = step_gae(batch, batch.rewards, 0.9, 0.5)
    assert found.tolist() == pytest.approx([0.08905, 0.509, 1.42], abs=1e-12)


def test_gae_over_tokens_by_hand() -> None:
    # d = (.07, .15, 1.04) with d_2 = 1 + .9 * .6 - .5, then A_k = d_k + .72 * A_{k+1}
    batch = chain([0, 1], [2, 1], token_values=[[0.2, 0.3], [0.5, 0.0]], bootstrap=[0, 0.6])
    rewards = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    found = token_gae(batch, rewards, 0.9, 0.8)
    assert found.flatten().tolist() == pytest.approx([0.717136, 0.8988, 1.04, 0.0], abs=1e-12)


def test_targets_of_v_and_q_by_hand() -> None:
    sapo = make_algorithm("sapo_ar", r_max=2.0, gamma=0.9, lam=0.5, bootstrap_truncated=True)
    batch = chain(
        [0, 1],
        [1, 1],
        v_old=[0.4, 0.3],
        q_old=[0.5, 0.2],
        bootstrap=[0, 0.8],
        old_logprobs=[[-1.0], [-1.0]],
    )
    targets = sapo.prepare(batch, OneRank()).batch.targets
    assert targets is not None and targets.values is not None and targets.q_values is not None
    # A = (-.13 + .45 * 1.42, 1.42); y_V = V + A; y_Q = (.9 * .2, 1 + .9 * .8); both over r_max
    assert targets.values.tolist() == pytest.approx([0.909 / 2, 1.72 / 2], abs=1e-12)
    assert targets.q_values.tolist() == pytest.approx([0.18 / 2, 1.72 / 2], abs=1e-12)


def cut_rows() -> list[Any]:
    """``mixed_rows`` with every other trajectory cut, its next prompt told apart by its length."""
    rows = mixed_rows()
    names = sorted({one.trajectory_id for one in rows})
    cut = {name: tuple(range(20, 25 + place)) for place, name in enumerate(names) if place % 2}
    return [
        replace(one, terminated=False, truncated=True, next_prompt_ids=cut[one.trajectory_id])
        if one.is_last and one.trajectory_id in cut
        else one
        for one in rows
    ]


@pytest.mark.parametrize("name", ["capo", "ppo", "sapo_ar"])
@pytest.mark.parametrize("most_tokens", [12, 4000])
def test_the_value_is_read_at_the_last_token_of_the_next_prompt(
    name: str, most_tokens: int
) -> None:
    algorithm = make_algorithm(name, bootstrap_truncated=True)
    model = small_module().double()
    critic: Any = None
    if name != "sapo_ar":
        critic = make_critic(model)
        torch.nn.init.normal_(critic.score.weight, generator=torch.Generator().manual_seed(0))
    batch = collate(cut_rows(), reserved_ids=VALUE_IDS).with_pads(2)
    found = bootstrap_pass(batch, algorithm, model, critic, FORWARD, most_tokens).bootstrap
    assert found is not None
    for number, one in enumerate(batch.rows):
        if not one.next_prompt_ids:
            assert found[number] == 0.0
            continue
        ids = torch.tensor([one.next_prompt_ids])
        with torch.no_grad():
            if critic is not None:
                wanted = critic(input_ids=ids).logits[0, -1, 0]
            else:
                logits = model(input_ids=ids).logits[0, -1]
                margin = logits[VALUE_IDS[0]] - logits[VALUE_IDS[1]]
                wanted = 10.0 * (margin / 4.0).clamp(-1, 1)
        assert float(found[number]) == pytest.approx(float(wanted), abs=1e-12)
    assert int((found != 0).sum()) == sum(bool(one.next_prompt_ids) for one in batch.rows) > 1


def test_a_cut_trajectory_without_a_prompt_behind_it_is_refused() -> None:
    rows = [replace(one, next_prompt_ids=()) for one in cut_rows()]
    capo = make_algorithm("capo", bootstrap_truncated=True)
    model = small_module().double()
    with pytest.raises(UsageError, match=r"'a/1' was cut and has no next_prompt_ids"):
        bootstrap_pass(collate(rows), capo, model, make_critic(model), FORWARD, 400)


def test_a_value_token_may_not_stand_in_the_next_prompt() -> None:
    rows = [replace(one, next_prompt_ids=(VALUE_IDS[0],)) for one in cut_rows()]
    with pytest.raises(UsageError, match="reserved value token"):
        collate(rows, reserved_ids=VALUE_IDS)


def test_an_algorithm_without_a_value_has_none_to_take() -> None:
    with pytest.raises(UsageError, match="grpo has no value to take.*bootstrap_truncated"):
        make_algorithm("grpo", bootstrap_truncated=True)


@pytest.mark.parametrize("algorithm", ["capo", "ppo", "sapo_ar"])
def test_the_loop_trains_with_it(algorithm: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"budget_steps": 30, "horizon": 3}
    if algorithm == "sapo_ar":  # with equal rows its V is 0 until something is won
        given["init_value_rows"] = False
    else:
        given["critic_learning_rate"] = 1e-2
    ends = []
    for bootstrap in (True, False):
        training = trainer(
            algorithm, tmp_path / str(bootstrap), bootstrap_truncated=bootstrap, **given
        )
        training.run()
        ends.append([weight.clone() for weight in training.policy.parameters()])
    assert not all(torch.equal(one, other) for one, other in zip(*ends, strict=True))

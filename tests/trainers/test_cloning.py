"""The noisy teacher, and a policy that imitates it."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from agentgym_suite.episodes import EpisodeRequest
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.cloning import CloningSettings, clone, encoded, imitation_loss
from agentgym_suite.trainers.demonstrations import (
    Demonstration,
    demonstrate,
    noisy_teacher,
    play_all,
)
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from tests.trainers.tiny_training import PLAY, TASKS, counting, policy

REQUESTS = [EpisodeRequest(task, seed) for seed in range(6) for task in TASKS]


def test_without_noise_the_teacher_is_the_oracle() -> None:
    played = play_all(counting, noisy_teacher(0.0), REQUESTS[:4], PLAY)
    assert [episode.task_id for episode in played] == list(TASKS)
    assert all(episode.success for episode in played)
    assert all(set(s.action for s in e.steps[:-1]) == {"add[3]"} for e in played)


def test_with_noise_it_errs_about_as_often_as_it_should() -> None:
    errors: set[tuple[str, int, int]] = set()
    played = play_all(counting, noisy_teacher(0.5, errors=errors), REQUESTS, PLAY)
    steps = sum(len(episode.steps) for episode in played)
    assert 0.3 < len(errors) / steps < 0.7
    assert errors < {(e.task_id, e.seed, i) for e in played for i in range(len(e.steps))}


def test_the_same_seed_shows_the_same(tmp_path: object) -> None:
    one, other, third = (
        demonstrate(counting, TASKS, PLAY, rounds=3, seed=seed) for seed in (1, 1, 2)
    )
    assert one == other != third


def test_only_what_the_oracle_planned_is_imitated_where_it_is_wanted() -> None:
    everything = demonstrate(counting, TASKS, PLAY, rounds=4, noise=0.5)
    planned = demonstrate(counting, TASKS, PLAY, rounds=4, noise=0.5, targets="oracle")
    assert 0 < len(planned) < len(everything)

    def share(shown: list[Demonstration]) -> float:
        return sum(one.action == "add[3]" for one in shown) / len(shown)

    assert share(planned) > share(everything)


def test_what_is_skipped_is_never_played_by_chance() -> None:
    shown = demonstrate(
        counting, TASKS, PLAY, rounds=6, noise=0.6, skipped=frozenset(("add[1]", "add[2]"))
    )
    plain = demonstrate(counting, TASKS, PLAY, rounds=6, noise=0.6)
    assert sum(one.action == "add[3]" for one in shown) / len(shown) > 0.75
    assert sum(one.action == "add[3]" for one in plain) / len(plain) < 0.75


def test_a_probability_of_noise_is_asked_for() -> None:
    with pytest.raises(UsageError, match="noise is 1"):
        noisy_teacher(1.0)


def test_cloning_lowers_the_loss_and_stops_at_its_target() -> None:
    model, tokenizer = policy()
    shown = demonstrate(counting, TASKS, PLAY, rounds=4, noise=0.2)
    looks = iter([0.1, 0.5, 0.9])
    settings = CloningSettings(
        steps=200, batch=16, learning_rate=1e-2, target=0.5, first_look=30, look_every=10
    )
    steps = list(clone(model, tokenizer, shown, settings, lambda: next(looks)))
    assert [step.step for step in steps] == list(range(1, 41))
    assert [step.success for step in steps if step.success is not None] == [0.1, 0.5]
    assert steps[-1].loss < 0.5 * steps[0].loss


def test_the_rate_rises_and_falls_again() -> None:
    settings = CloningSettings(steps=100, warmup=10, decay=0.2)
    rates = [settings.schedule(step) for step in (1, 5, 10, 50, 81, 91, 100)]
    assert rates == pytest.approx([0.1, 0.5, 1.0, 1.0, 1.0, 0.5, 0.05])


def test_the_prompts_own_tokens_weigh_what_they_are_told() -> None:
    model, tokenizer = policy()
    shown = demonstrate(counting, TASKS, PLAY, rounds=1, noise=0.0)
    pairs = [encoded(tokenizer, one) for one in shown]
    assert len({len(prompt) for prompt, _ in pairs}) > 1
    for weight in (0.0, 0.3, 1.0):
        expected = 0.0
        for prompt, response in pairs:
            ids = torch.tensor([prompt + response])
            scores = model(ids).logits[0].log_softmax(-1)[:-1].gather(1, ids[0, 1:, None])[:, 0]
            cut = len(prompt) - 1
            expected -= (weight * scores[:cut].sum() + scores[cut:].sum()).item()
        assert imitation_loss(model, pairs, weight).item() == pytest.approx(expected, rel=1e-5)


def test_a_share_of_the_demonstrations_is_told_what_successes_did() -> None:
    hinting = Hinting(RuleAnalyzer())
    shown = demonstrate(counting, TASKS, PLAY, rounds=6, noise=0.4, hinting=hinting, told=0.3)
    assert 0.15 < sum(bool(one.pi) for one in shown) / len(shown) < 0.45
    everything = demonstrate(counting, TASKS, PLAY, rounds=6, noise=0.4, hinting=hinting, told=1.0)
    assert {one.pi for one in shown} - {""} <= {one.pi for one in everything}
    told = next(one for one in shown if one.pi)
    assert "In a success this action had an effect: add[" in told.pi
    _, tokenizer = policy()
    bare, _ = encoded(tokenizer, replace(told, pi=""))
    prompt, _ = encoded(tokenizer, told)
    assert prompt[-len(bare) :] == bare and len(prompt) > len(bare)


def test_nothing_to_imitate_is_an_error() -> None:
    model, tokenizer = policy()
    with pytest.raises(UsageError, match="no demonstration"):
        next(clone(model, tokenizer, [], replace(CloningSettings()), lambda: 0.0))

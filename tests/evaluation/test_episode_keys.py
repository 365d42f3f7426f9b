from __future__ import annotations

from agentgym_suite.evaluation.episode_keys import EpisodeKey


def test_keys_sort_by_environment_task_and_trial() -> None:
    assert EpisodeKey("a", "t", 0) < EpisodeKey("a", "t", 1) < EpisodeKey("b", "a", 0)


def test_a_key_reads_as_words() -> None:
    assert f"{EpisodeKey('Shop-v0', 'goal-7', 2)}" == "goal-7 of Shop-v0 (trial 2)"

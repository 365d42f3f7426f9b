from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest

from agentgym_suite.errors import UnknownSplit, UnknownTask, UsageError
from agentgym_suite.evaluation.open_suites import ad_hoc_suite, measuring_split, open_suite
from agentgym_suite.evaluation.suites import EnvEntry, Suite
from agentgym_suite.registry import ENV_IDS
from agentgym_suite.tasks import TaskSet

ENV = "Counting-v0"
pytestmark = pytest.mark.usefixtures("counting_env")


def suite(*tasks: str, **changes: Any) -> Suite:
    return Suite("tiny", 1, (EnvEntry(ENV, tasks or ("count-0", "count-1"), **changes),))


def test_a_fitting_suite_opens() -> None:
    opened = open_suite(suite(expected={"tasks": 2}), {}, allow_missing=False)
    assert opened.suite.departures == ()
    assert opened.digest == opened.suite.digest
    assert opened.setup_s[ENV] >= 0
    assert opened.environments[0].make().unwrapped.spec is not None


def test_missing_tasks_are_listed_by_id() -> None:
    with pytest.raises(UsageError, match=r"2 of 3 tasks .* count-60, other-1"):
        open_suite(suite("count-60", "count-1", "other-1"), {}, allow_missing=False)


def test_numbers_are_no_task_ids_of_a_suite() -> None:
    with pytest.raises(UsageError, match="1 of 1 tasks"):
        open_suite(suite("7"), {}, allow_missing=False)


def test_what_is_there_can_be_played_but_not_ranked() -> None:
    given = suite("count-60", "count-1")
    opened = open_suite(given, {}, allow_missing=True)
    assert opened.environments[0].entry.tasks == opened.suite.envs[0].tasks == ("count-1",)
    assert opened.digest == given.digest != opened.suite.digest
    assert "count-60" in opened.suite.departures[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expected": {"tasks": 3}}, "expects 3"),
        ({"expected": {"families": {"even": 2}}}, "families"),
        ({"data_digest": "sha256:00"}, "digest"),
    ],
)
def test_data_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_suite(suite(**changes), {}, allow_missing=False)


def test_an_environment_of_somebody_else_is_named() -> None:
    with pytest.raises(UsageError, match="CartPole-v1 is not an environment of this suite"):
        ad_hoc_suite("CartPole-v1")


def test_an_environment_that_cannot_be_made_is_named() -> None:
    def fails() -> None:
        raise gym.error.DependencyNotInstalled("pip install the-physics")

    gym.register("Physics-v0", entry_point=fails)
    try:
        with pytest.raises(UsageError, match="Physics-v0 cannot be made: pip install the-physics"):
            ad_hoc_suite("Physics-v0")
    finally:
        gym.registry.pop("Physics-v0")


def test_an_environment_that_is_not_installed_is_reported() -> None:
    both = replace(suite(), envs=(*suite().envs, EnvEntry("Nowhere-v0", ("a",))))
    opened = open_suite(both, {}, allow_missing=False)
    assert [environment.entry.id for environment in opened.environments] == [ENV]
    assert opened.suite.departures == ("Nowhere-v0 is not installed",)
    alone = Suite("tiny", 1, (EnvEntry("Nowhere-v0", ("a",)),))
    with pytest.raises(UsageError, match="Nowhere-v0 is not installed"):
        open_suite(alone, {}, allow_missing=False)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"hostil": True}, "Counting-v0 has no argument 'hostil'; did you mean 'hostile'"),
        ({"zzz": 1}, "no argument 'zzz'; use .*hostile.*render_mode"),
        ({"breaks": 3}, "cannot be made with breaks=3, split='test': .*not iterable"),
    ],
)
def test_a_wrong_argument_is_one_sentence(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_suite(suite(kwargs=kwargs, split="test"), {}, allow_missing=False)


def test_the_primary_metric_is_one_that_is_measured() -> None:
    open_suite(replace(suite(), primary="count"), {}, allow_missing=False)
    with pytest.raises(UsageError, match=r"'f1', which Counting-v0 .* success, score, count"):
        open_suite(replace(suite(), primary="f1"), {}, allow_missing=False)


def test_data_for_a_stranger_are_refused() -> None:
    with pytest.raises(UsageError, match="Other-v0"):
        open_suite(suite(), {"Other-v0": "x"}, allow_missing=False)


def test_an_ad_hoc_suite_takes_the_test_split() -> None:
    opened = ad_hoc_suite(ENV)
    assert opened.suite.id == "Counting-v0-test"
    assert opened.suite.envs[0].tasks == tuple(f"count-{i}" for i in range(30))
    assert opened.suite.departures
    assert ad_hoc_suite(ENV, split="train").suite.envs[0].tasks[0] == "count-30"
    assert len(ad_hoc_suite(ENV, episodes=4).suite.envs[0].tasks) == 4


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ({"train": 2, "test": 1}, "test"),
        ({"train": 2, "valid_seen": 1, "valid_unseen": 1, "other": 1}, "valid_unseen"),
        ({"train": 2, "valid_unseen": 0, "valid_seen": 1}, "valid_seen"),
        ({"train": 2, "named": 2}, "named"),
        ({"train": 2, "dev": 1}, "dev"),
        ({"train": 2, "dev": 0}, "train"),
    ],
)
def test_the_split_that_measures_agents(sizes: dict[str, int], taken: str) -> None:
    splits = {name: range(count) for name, count in sizes.items()}
    assert measuring_split(TaskSet(["a", "b"], splits)) == taken


def test_data_without_a_task_measure_nobody() -> None:
    with pytest.raises(UsageError, match="no split of the data has a task"):
        measuring_split(TaskSet([], {"train": []}))


def test_every_environment_is_evaluated_without_a_split() -> None:
    taken = {name: ad_hoc_suite(name, episodes=1).suite.envs[0].split for name in ENV_IDS}
    assert taken["WebShop-v0"] == "test" and taken["ALFWorld-v0"] == "valid_unseen"


def test_an_ad_hoc_suite_takes_chosen_tasks() -> None:
    assert ad_hoc_suite(ENV, tasks=["5", "count-40"]).suite.envs[0].tasks == ("count-5", "count-40")
    with pytest.raises(UnknownTask):
        ad_hoc_suite(ENV, tasks=["count-60"])
    with pytest.raises(UnknownSplit, match="train"):
        ad_hoc_suite(ENV, split="night")
    with pytest.raises(UsageError, match="more than once"):
        ad_hoc_suite(ENV, tasks=["5", "count-5"])
    with pytest.raises(UsageError, match="not registered"):
        ad_hoc_suite("Nowhere-v0")

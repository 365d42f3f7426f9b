from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from agentgym_suite.errors import DataMissing, UnknownSplit, UnknownTask, UsageError
from agentgym_suite.evaluation.missing_data import AbsentData, absence
from agentgym_suite.evaluation.open_suites import ad_hoc_suite, measuring_split, open_suite
from agentgym_suite.evaluation.suite_tasks import SplitTasks
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
        ({"expected": {"prefixes": {"count-": 3}}}, "has 2 tasks count-…, expected 3"),
        ({"expected": {"ids": "sha256:00"}}, "tasks of the digest sha256:.*, expected sha256:00"),
        ({"split": "train"}, "2 of 2 tasks .* of another split than train: count-0, count-1"),
        ({"data_digest": "sha256:00"}, "digest"),
    ],
)
def test_data_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_suite(suite(**changes), {}, allow_missing=False)


def split_suite(expected: int, prefix: str = "count-1", split: str = "test") -> Suite:
    rule, counts = SplitTasks(prefix), {"tasks": expected}
    return Suite("tiny", 1, (EnvEntry(ENV, (), split, expected=counts, split_tasks=rule),))


def test_a_split_gives_its_tasks_in_the_order_of_the_data() -> None:
    given = split_suite(11)
    opened = open_suite(given, {}, allow_missing=False)
    assert opened.suite.envs[0].tasks == ("count-1", *(f"count-{n}" for n in range(10, 20)))
    assert opened.suite.digest == opened.digest == given.digest
    assert opened.suite.departures == ()
    assert opened.suite.planned == given.planned == 11


def test_a_split_that_is_not_what_was_stated_is_refused() -> None:
    with pytest.raises(UsageError, match="lists 11 tasks and expects 12"):
        open_suite(split_suite(12), {}, allow_missing=False)
    opened = open_suite(split_suite(12), {}, allow_missing=True)
    assert opened.suite.planned == 11 and opened.suite.departures
    with pytest.raises(UnknownSplit, match="night"):
        open_suite(split_suite(11, split="night"), {}, allow_missing=False)
    with pytest.raises(UsageError, match="has no task"):
        open_suite(split_suite(11, prefix="other"), {}, allow_missing=True)


def test_a_part_of_a_split_is_its_first_tasks_or_named_ones() -> None:
    first = open_suite(split_suite(11).part(episodes=2), {}, allow_missing=False).suite
    assert first.envs[0].tasks == ("count-1", "count-10") and first.departures
    named = open_suite(split_suite(11).part(tasks=["count-12"]), {}, allow_missing=False).suite
    assert named.envs[0].tasks == ("count-12",) and named.departures
    with pytest.raises(UsageError, match="missing in the data: count-99"):
        open_suite(split_suite(11).part(tasks=["count-99"]), {}, allow_missing=False)


@pytest.mark.usefixtures("fresh_home")
def test_absent_data_are_told_with_the_command_that_gets_them() -> None:
    known = "musique for Counting-v0; get it with `agentgym-suite data download musique`"
    with pytest.raises(DataMissing, match=f"data absent: {known}"):
        open_suite(suite(data="musique"), {}, allow_missing=True)
    with pytest.raises(DataMissing, match="get it with `--data Counting-v0=PATH`"):
        open_suite(suite(data="abacus"), {}, allow_missing=False)


def test_data_that_several_environments_lack_are_told_in_one_sentence() -> None:
    lacking = [
        AbsentData("MultiHopQA-v0", "musique", "one way"),
        AbsentData("WebShop-v0", "webshop", "another"),
        AbsentData("MultiHopQA-v0", "abacus", "a third"),
    ]
    assert absence(lacking[:1]) == lacking[0].sentence
    assert absence([*lacking, lacking[0]]) == (
        "data absent: musique, abacus for MultiHopQA-v0; webshop for WebShop-v0; get each with "
        "`agentgym-suite data download NAME`, `agentgym-suite data import NAME …` or "
        "`--data NAME=PATH` (abacus only so)"
    )


def test_data_are_given_for_the_data_set_or_for_the_environment() -> None:
    for name in (ENV, "abacus"):
        opened = open_suite(suite(data="abacus"), {name: "x"}, allow_missing=False)
        assert opened.environments[0].data == "x"
    both = open_suite(suite(data="abacus"), {ENV: "x", "abacus": "y"}, allow_missing=False)
    assert both.environments[0].data == "y"
    with pytest.raises(UsageError, match="'beads'; suite tiny has Counting-v0, abacus"):
        open_suite(suite(data="abacus"), {"beads": "x"}, allow_missing=False)


def test_a_data_set_of_the_data_home_needs_no_path(fresh_home: Path) -> None:
    folder = fresh_home / ENV / "abacus"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    opened = open_suite(suite(data="abacus"), {}, allow_missing=False)
    assert opened.environments[0].data == str(folder)


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

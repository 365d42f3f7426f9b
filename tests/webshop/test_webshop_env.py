"""``WebShopEnv``: the environment contract on the game's own cases."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_suite.errors import (
    AgentGymSuiteError,
    DataMissing,
    EpisodeNotRunning,
    UnknownTask,
    UsageError,
)
from agentgym_suite.webshop import WebShopEnv, make
from agentgym_suite.webshop.official_files import find_official_files
from agentgym_suite.webshop.policies import oracle_action, rule_action, wanted_options
from agentgym_suite.webshop.store_build import BuildOptions, build_store, plan_store
from tests.webshop.catalogues import GOALS, PRODUCTS, SHIRT, MemoryCatalogue, goal, odd_catalogue
from tests.webshop.official_folders import shirts, write_folder

CATALOGUE = odd_catalogue()


def shop(**arguments: object) -> WebShopEnv:
    return WebShopEnv(catalogue=CATALOGUE, **arguments)  # type: ignore[arg-type]


def test_a_purchase_from_reset_to_the_end() -> None:
    env = shop()
    observation, info = env.reset(options={"task_id": "human-0"})
    assert observation == f"WebShop [SEP] Instruction: [SEP] {info['instruction']} [SEP] Search"
    assert (info["task_id"], info["goal_index"], info["task_family"]) == ("human-0", 0, "fashion")
    assert (info["page"], info["reward_parts"], info["target"]) == ("index", "{}", "")
    provenance = json.loads(info["provenance"])
    assert provenance["catalogue"] == "sha256:memory" and provenance["strict"] is True
    rewards = []
    for action in ("search[red]", "click[b000000001]", "click[red]", "click[small]"):
        _, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        assert not terminated and not truncated and info["score"] == 0.0
    _, reward, terminated, _, info = env.step("click[Buy Now]")
    assert (rewards, reward, terminated) == ([0.0] * 4, 1.0, True)
    assert info["success"] and info["score"] == 1.0 and info["parsed_action"] == "click[buy now]"
    parts = json.loads(info["reward_parts"])
    assert parts["r_option"] == parts["r_option_exact"] == 1.0 and parts["r_price"] is True
    assert info["metrics"]["r_price"] == info["metrics"]["purchases"] == 1.0
    with pytest.raises(EpisodeNotRunning):
        env.step("click[buy now]")


def test_the_same_info_keys_and_types_at_every_step() -> None:
    env = shop()
    infos = [env.reset(options={"task_id": 0})[1]]
    for action in ("look", "search[red]", "click[b000000001]", "click[blue]", "click[buy now]"):
        infos.append(env.step(action)[4])
    for info in infos:
        assert tuple(info) == env.info_keys
        assert {k: type(v) for k, v in info.items()} == {k: type(v) for k, v in infos[0].items()}
        assert info["metrics"].keys() == infos[0]["metrics"].keys()
        assert all(type(value) is float for value in info["metrics"].values())
    assert len({id(info["metrics"]) for info in infos}) == len(infos)


@pytest.mark.parametrize("mode", ["text", "text_rich", "html", "url"])
def test_gymnasium_accepts_every_mode(mode: str) -> None:
    check_env(shop(observation_mode=mode), skip_render_check=True)


@pytest.mark.parametrize("strict", [True, False])
@settings(deadline=None)
@given(data=st.data())
def test_the_parsed_action_has_exactly_the_effect_of_the_raw_one(
    strict: bool, data: st.DataObject
) -> None:
    first, second = shop(strict=strict), shop(strict=strict)
    page = first.reset(options={"task_id": 1})[1]
    second.reset(options={"task_id": 1})
    for _ in range(6):
        wild = st.text(alphabet="search[]click buy\nNOW", max_size=16)
        known = st.sampled_from((*page["admissible_actions"], "Search[Puzzle] x", "click[RED]"))
        action = data.draw(st.one_of(known, known, wild))
        one = first.step(action)
        two = second.step(one[4]["parsed_action"])
        assert one[:4] == two[:4]
        page = one[4]
        ours, theirs = dict(page), dict(two[4])
        del ours["raw_action"], theirs["raw_action"], ours["action_error"], theirs["action_error"]
        assert ours == theirs
        if one[2]:
            break


@pytest.mark.parametrize(
    "action", ["", "\n\n", "x" * 20_000, "[" * 1_000_000, "\ud800", "click[\x00]"]
)
def test_bad_actions_are_answered_and_change_nothing(action: str) -> None:
    env = shop()
    observation, info = env.reset(options={"task_id": 0})
    again, reward, terminated, _, after = env.step(action)
    assert (again, reward, terminated) == (observation, 0.0, False)
    assert after["action_valid"] is False and after["action_error"]
    assert after["state_hash"] == info["state_hash"] and after["step"] == 1
    assert after["metrics"]["invalid_actions"] == 1.0


def test_state_hashes_are_equal_exactly_for_equal_states() -> None:
    env = shop()
    hashes = [env.reset(options={"task_id": 0})[1]["state_hash"]]
    for action in (
        *("search[red]", "click[b000000001]", "click[blue]", "click[red]", "click[features]"),
        *("click[< prev]", "click[< prev]", "click[back to search]", "search[red]"),
    ):
        hashes.append(env.step(action)[4]["state_hash"])
    assert hashes[6] == hashes[4] and hashes[8] == hashes[0] and hashes[9] == hashes[1]
    assert hashes[7] != hashes[1]  # a visited product shows in text_rich
    assert len(set(hashes)) == len(hashes) - 3


def test_snapshot_and_restore() -> None:
    env = shop(num_prev_obs=2, num_prev_actions=2, observation_mode="text_rich")
    env.reset(seed=3, options={"task_id": 0})
    env.step("search[red]")
    env.step("nonsense")
    point = pickle.loads(pickle.dumps(env.snapshot()))
    first = [env.step(action) for action in ("click[b000000001]", "click[buy now]")]
    env.restore(point)
    assert env.render() is None
    assert [env.step(action) for action in ("click[b000000001]", "click[buy now]")] == first
    other = shop(num_prev_obs=2, num_prev_actions=2, observation_mode="text_rich")
    other.restore(point)
    assert [other.step(action) for action in ("click[b000000001]", "click[buy now]")] == first


def test_history_is_chronological_and_bounded() -> None:
    env = shop(num_prev_obs=1, num_prev_actions=2, observation_mode="url")
    start, _ = env.reset(options={"task_id": 0})
    results, item = f"{start}".replace("/0", "/search_results/0/red/1"), "/item_page/"
    first = env.step("search[red]")[0]
    assert first == f"{start} [SEP] search[red] [SEP] {results}"
    second = env.step("click[B000000001]")[0].split(" [SEP] ")
    assert second[:3] == ["search[red]", results, "click[B000000001]"] and item in second[3]
    third = env.step("look around")
    assert third[0].split(" [SEP] ")[0] == "click[B000000001]"
    assert third[4]["parsed_action"] == third[4]["raw_action"] == "look around"


def test_goals_are_revealed_only_on_request() -> None:
    _, info = shop(reveal_goal=True).reset(options={"task_id": 0})
    target = json.loads(info["target"])
    assert target["asin"] == SHIRT.asin and target["options"] == ["red", "small"]


def test_seeds_choose_tasks_and_leave_global_generators_alone() -> None:
    np.random.seed(1)
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    first, second = shop(), shop()
    ids = [first.reset(seed=seed)[1]["task_id"] for seed in range(12)]
    assert ids == [second.reset(seed=seed)[1]["task_id"] for seed in range(12)]
    assert len(set(ids)) > 1
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


def test_two_environments_never_meet() -> None:
    paths = (
        ("search[red]", "click[b000000001]", "click[red]", "click[buy now]"),
        ("search[puzzle]", "click[b000000002]", "click[green]", "click[buy now]"),
    )
    alone = []
    for task, path in enumerate(paths):
        env = shop()
        alone.append([env.reset(options={"task_id": task}), *map(env.step, path)])
    first, second = shop(), shop()
    mixed: list[list[object]] = [
        [first.reset(options={"task_id": 0})],
        [second.reset(options={"task_id": 1})],
    ]
    for one, two in zip(*paths, strict=True):
        mixed[1].append(second.step(two))
        mixed[0].append(first.step(one))
    assert mixed == alone


def test_integers_of_any_kind_name_tasks() -> None:
    env = shop()
    for task in (2, np.int64(2), "2", "human-2"):
        assert env.reset(options={"task_id": task})[1]["task_id"] == "human-2"
    with pytest.raises(UnknownTask, match="4 tasks"):
        env.reset(options={"task_id": -1})


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="num_prev_obs is -1"):
        shop(num_prev_obs=-1)
    with pytest.raises(UsageError, match="observation_mode is 'image'"):
        shop(observation_mode="image")
    with pytest.raises(UsageError, match="before the first reset"):
        _ = shop().session


@pytest.mark.parametrize("strict", [True, False])
def test_the_oracle_buys_the_right_thing(strict: bool) -> None:
    env = shop(strict=strict)
    for task in (0, 2, 3):
        observation, info = env.reset(options={"task_id": task})
        policy, done = env.policy("oracle"), False
        while not done:
            observation, reward, done, _, info = env.step(policy(observation, info))
            assert info["action_valid"], info["action_error"]
        assert reward == 1.0 and info["step"] <= 15


def test_the_oracle_finds_its_way_from_anywhere() -> None:
    env = shop()
    env.reset(options={"task_id": 0})
    for action in ("search[plain]", "click[b000000100]", "click[features]"):
        env.step(action)
    done = False
    for _ in range(12):
        *_, done, _, info = env.step(oracle_action(env.session))
        if done:
            break
    assert done and info["success"]


def test_the_oracle_tries_other_searches_until_one_finds_the_target() -> None:
    hidden = MemoryCatalogue(PRODUCTS, (goal(0, SHIRT, instruction="find me the hidden one"),))
    hidden.answers = lambda words: (SHIRT.asin,) if "hidden" in words else ()
    env = WebShopEnv(catalogue=hidden)  # type: ignore[arg-type]
    observation, info = env.reset(options={"task_id": 0})
    policy, done = env.policy("oracle"), False
    while not done and info["step"] < 10:
        observation, _, done, _, info = env.step(policy(observation, info))
    assert info["success"]


def test_the_rule_policy_buys_the_first_hit() -> None:
    env = shop()
    observation, info = env.reset(options={"task_id": 3})
    actions, done = [], False
    while not done:
        actions.append(rule_action(info))
        observation, _, done, _, info = env.step(actions[-1])
    assert actions[0].startswith("search[i want red shirt, and price")
    assert actions[1:] == ["click[b000000001]", "click[buy now]"]


def test_wanted_options_prefer_equal_values() -> None:
    assert wanted_options(GOALS[0], SHIRT) == {"color": "red", "size": "small"}
    pairs = goal(0, SHIRT, kind="synthetic", options=(("size", "large"),))
    assert wanted_options(pairs, SHIRT) == {"size": "large"}
    fuzzy = goal(0, SHIRT, options=("x-large",))
    assert wanted_options(fuzzy, SHIRT) == {"size": "large"}


def test_random_actions_are_always_accepted() -> None:
    env, rng = shop(), np.random.default_rng(0)
    for task in range(4):
        env.reset(options={"task_id": task})
        for _ in range(15):
            _, _, done, _, info = env.step(env.random_action(rng))
            assert info["action_valid"], info["raw_action"]
            if done:
                break


def test_the_factory_makes_the_local_environment() -> None:
    env = make(catalogue=CATALOGUE, strict=False)
    assert isinstance(env, WebShopEnv)


def test_a_server_is_asked_only_for_what_it_can_give() -> None:
    env = make(server_url="http://127.0.0.1:9", timeout_s=1.0, strict=False)
    assert not isinstance(env, WebShopEnv)
    env.close()
    with pytest.raises(UsageError, match="a server plays its own"):
        make("somewhere", server_url="http://127.0.0.1:9")


def test_it_pickles_before_reset_and_after_close() -> None:
    env = WebShopEnv(strict=False, observation_mode="html")
    assert pickle.loads(pickle.dumps(env)).observation_space == env.observation_space


def test_the_page_of_documentation_has_its_sections() -> None:
    for section in (
        *("Description:", "Action Space:", "Observation Space:", "Rewards:", "Starting State:"),
        *("Episode End:", "Arguments:", "Information:", "Data:", "Version History:"),
    ):
        assert section in (WebShopEnv.__doc__ or "")


def test_steps_left_follow_the_horizon_given() -> None:
    import agentgym_suite  # noqa: F401

    env = gym.make("WebShop-v0", catalogue=CATALOGUE, max_episode_steps=2)
    _, info = env.reset(options={"task_id": 0})
    assert info["steps_left"] == 2
    env.step("x")
    *_, truncated, info = env.step("x")
    assert truncated and info["steps_left"] == 0


@pytest.mark.parametrize("factory", [WebShopEnv, make, partial(gym.make, "WebShop-v0")])
def test_wrong_arguments_are_named_when_they_are_given(factory: Callable[..., object]) -> None:
    for arguments, sentence in (
        ({"gaols": "human"}, "no argument 'gaols'; did you mean 'goals'"),
        ({"goal": "x"}, "no argument 'goal'; did you mean 'goals'"),
        ({"zzz": 1}, "no argument 'zzz'; choose .*data, .*render_mode"),
        ({"goals": "foo"}, "goals is 'foo'; choose one of None, 'human', 'synthetic'"),
        ({"search": "google"}, "search is 'google'; choose"),
        ({"split": "foo"}, "split 'foo' does not exist; choose train, eval, test, train500"),
        ({"num_products": "many"}, "num_products is 'many'; give 1 or more"),
        ({"limit_goals": 0}, "limit_goals is 0; give 1 or more"),
        ({"num_prev_obs": 1.5}, "num_prev_obs is 1.5; give 0 or more"),
        ({"legacy_price_seed": "a"}, "legacy_price_seed is 'a'; give an integer"),
        ({"filter_goals": "a"}, "filter_goals is 'a'; give a function"),
    ):
        with pytest.raises(UsageError, match=sentence):
            factory(**arguments)
    for flag in ("strict", "show_attrs", "special_queries", "reveal_goal"):
        for value in ("no", "false", 0, None):
            with pytest.raises(UsageError, match=f"{flag} is {value!r}; give True or False"):
                factory(**{flag: value})
    for name in ("data", "split", "goals", "observation_mode", "search", "nouns", "catalogue"):
        for odd in (5, 1.5, b"abc", object(), ["x" * 10_000], {"a": 1}, 10**5_000, "\0"):
            with pytest.raises(AgentGymSuiteError) as refused:
                factory(**{name: odd})
            assert len(str(refused.value)) < 400 and "\n" not in str(refused.value)
    for arguments in ({"data": "nowhere"}, {"data": ""}, {"nouns": "nowhere.jsonl"}):
        with pytest.raises(DataMissing):
            factory(**arguments)


def test_arguments_of_a_subclass_are_known() -> None:
    class Tipping(WebShopEnv):
        def __init__(self, *, tip: float, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.tip = tip

    assert Tipping(tip=1.0, catalogue=CATALOGUE, strict=False).tip == 1.0
    with pytest.raises(UsageError, match="did you mean 'tip'"):
        Tipping(tips=1.0)


def test_a_data_set_of_the_data_home_is_played_by_its_name(
    fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = find_official_files(write_folder(tmp_path / "official", *shirts(12)))
    store = fresh_home / "webshop" / "shirts"
    build_store(store, plan_store(files, BuildOptions(), files.digests()))
    monkeypatch.chdir(tmp_path)
    for data in ("shirts", "webshop/shirts", str(store), "official", Path("official")):
        env = gym.make("WebShop-v0", data=data)
        assert json.loads(env.reset(seed=1)[1]["provenance"])["products"] == 12
        env.close()


def test_the_documentation_names_what_was_kept_of_the_original_and_the_data_home() -> None:
    text = " ".join((WebShopEnv.__doc__ or "").split())
    assert "kept: it defines the score" in text and "``r_option_exact``" in text
    assert "data list" in text and "None takes human ones where there are 100" in text

"""What ``ALFWorldEnv`` may be given: anything else is one short sentence."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.alfworld.arguments import check_families, check_places
from agentgym_suite.alfworld.game_layout import FAMILY_NAMES
from agentgym_suite.errors import AgentGymSuiteError, UsageError
from tests.alfworld.small_world import game_of, make

pytestmark = [
    pytest.mark.usefixtures("fresh_home"),
    pytest.mark.filterwarnings("ignore:.*is not the complete official data"),
]

FLAGS = ("accept_put_alias", "normalise", "shuffle_numbers", "walkthrough", "facts")
ODD_VALUES: tuple[Any, ...] = (
    object(), 1.5, b"abc", {"a": 1}, [object()], np.zeros(2), 10**5_000, "\0", "\ud800", "",
)  # fmt: skip


def refusal(**arguments: Any) -> str:
    data = arguments.pop("data", None)
    with pytest.raises(AgentGymSuiteError) as refused:
        make(data, **arguments)
    message = str(refused.value)
    assert "\n" not in message and len(message) < 400
    return message


def test_unknown_arguments_and_impossible_wishes_are_refused(world: Path) -> None:
    for arguments, sentence in (
        ({"task_type": "Pick"}, "no argument 'task_type'; did you mean 'task_types'"),
        ({"zzz": 1}, "no argument 'zzz'; choose data, "),
        ({"backend": "inform"}, "backend is 'inform'; use 'native' or 'textworld'"),
        ({"backend": "textworld", "facts": True}, "cannot shuffle numbers or show facts"),
    ):
        assert sentence in refusal(data=world, **arguments)


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_is_no_text_and_no_number(world: Path, flag: str) -> None:
    for value in ("no", "false", 0, 1, None, [True]):
        assert refusal(data=world, **{flag: value}).startswith(f"{flag} is ")
    for value in (True, False, np.True_):
        make(world, **{flag: value})


@pytest.mark.parametrize("name", ["data", "split", "task_types", "backend", "library"])
def test_values_of_another_kind_are_one_short_sentence(name: str) -> None:
    for value in ODD_VALUES:
        if name == "split" and isinstance(value, str) and value:
            continue  # a text may name a split; the data say whether it does
        assert name.removesuffix("s").replace("_", " ") in refusal(**{name: value}).replace(
            "_", " "
        )


@pytest.mark.parametrize("data", ["", "~nobody-here/x", "x" * 100_000, os.devnull, [""], 5, True])
def test_what_is_no_place_is_refused_before_it_is_opened(data: Any) -> None:
    assert refusal(data=data).startswith("data is ")


def test_places_are_texts_paths_and_lists_of_these(tmp_path: Path) -> None:
    assert check_places("households") == ("households",)
    assert check_places([tmp_path, "b"]) == (str(tmp_path), "b")
    assert check_places("~") == (os.path.expanduser("~"),)


@pytest.mark.parametrize("split", [0, False, "", [], b"train"])
def test_a_split_is_a_text_or_none(world: Path, split: Any) -> None:
    assert refusal(data=world, split=split).startswith("split is ")


def test_families_are_numbers_names_and_labels() -> None:
    assert check_families(None) == FAMILY_NAMES
    for keys in (1, "Pick", "pick", np.int64(1), [1, "Pick"], {"pick_and_place_simple"}):
        assert check_families(keys) == FAMILY_NAMES[:1]
    for wrong in (True, 0, 7, -1, 1.5, 10**5_000, "Bake", "x" * 10_000, [None], b"1", {1: 2}, []):
        with pytest.raises(UsageError) as refused:
            check_families(wrong)
        assert len(str(refused.value)) < 400


def test_pickles_keep_what_was_given(world: Path) -> None:
    env = make([str(world)], task_types=["Pick"], normalise=np.True_)
    twin = pickle.loads(pickle.dumps(env))
    assert game_of(twin).tasks.ids == game_of(env).tasks.ids

"""Matching of commands: literal, in other wordings, normalised; and the codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym_suite  # noqa: F401
from agentgym_suite.alfworld.commands import CODEC, find_command, normalise
from tests.alfworld.small_world import make

pytestmark = [
    pytest.mark.usefixtures("fresh_home"),
    pytest.mark.filterwarnings("ignore:.*is not the complete official data"),
]


def test_commands_match_letter_by_letter_but_for_outer_white_space(world: Path) -> None:
    env = make(world)
    _, info = env.reset(options={"task_id": 0})
    for wrong in ("LOOK", "Look", "look.", "l", "", "  ", "go  to drawer 1", "examine", "\x00"):
        before = info["state_hash"]
        observation, reward, terminated, _, info = env.step(wrong)
        assert (observation, reward, terminated) == ("Nothing happens.", 0.0, False)
        assert not info["action_valid"] and info["action_error"]
        assert info["parsed_action"] == info["raw_action"] == wrong
        assert info["state_hash"] == before
    *_, info = env.step(" \u3000look\n")
    assert info["action_valid"] and info["parsed_action"] == "look"
    assert info["metrics"]["invalid_actions"] == 9.0


def test_a_command_of_a_megabyte_is_nothing(world: Path) -> None:
    env = make(world)
    env.reset(seed=0)
    observation, *_, info = env.step("x" * 1_000_000)
    assert observation == "Nothing happens." and "1,000,000 characters" in info["action_error"]


def _carry(env: gym.Env[str, str], info: dict[str, Any]) -> tuple[str, str]:
    """Play a walkthrough up to its last command, which puts something down."""
    for command in info["walkthrough"][:-1]:
        env.step(command)
    thing, _, place = str(info["walkthrough"][-1]).removeprefix("move ").partition(" to ")
    return thing, place


@pytest.mark.parametrize("wording", ["put {} in/on {}", "put {} in {}", "put {} on {}"])
def test_other_wordings_of_putting_down_are_an_option(world: Path, wording: str) -> None:
    for accept in (False, True):
        env = make(world, task_types="Pick", accept_put_alias=accept, walkthrough=True)
        _, info = env.reset(options={"task_id": 0})
        thing, place = _carry(env, info)
        _, reward, terminated, _, info = env.step(wording.format(thing, place))
        assert (reward, terminated, info["action_valid"]) == (float(accept), accept, accept)
        if accept:
            assert info["parsed_action"] == f"move {thing} to {place}"


def test_normalising_is_an_option_and_is_recorded(world: Path) -> None:
    for accept in (False, True):
        env = make(world, normalise=accept)
        env.reset(options={"task_id": 0})
        *_, info = env.step("  Look ! ")
        assert info["action_valid"] is accept
        assert info["parsed_action"] == ("look" if accept else "  Look ! ")
    env = make(world, task_types=1, normalise=True, accept_put_alias=True, walkthrough=True)
    _, info = env.reset(options={"task_id": 0})
    thing, place = _carry(env, info)
    assert env.step(f"Put {thing.upper()}  in {place}.")[1] == 1.0


def test_literal_commands_win_over_other_readings() -> None:
    admissible = ("move a 1 to b 1", "put a 1 in b 1")
    found = find_command("put a 1 in b 1", admissible, normalised=True, put_alias=True)
    assert found == "put a 1 in b 1"
    assert find_command("PUT", admissible, normalised=True, put_alias=True) == "PUT"


@given(st.text())
def test_normalising_twice_changes_nothing_but_final_marks(text: str) -> None:
    once = normalise(text)
    assert once == once.lower().strip() or once != once.lower()
    assert "  " not in once


@given(st.text())
def test_the_codec_keeps_every_command(action: str) -> None:
    calls = CODEC.to_calls(action)
    rejoined = "\n".join(CODEC.to_action(call.name, call.arguments) for call in calls)
    assert rejoined == action.replace("\r\n", "\n").replace("\r", "\n")


def test_the_codec_refuses_what_is_no_command() -> None:
    for name, arguments in (("look", {}), ("command", {}), ("command", {"text": 3})):
        with pytest.raises(ValueError, match=r"use command|give"):
            CODEC.to_action(name, arguments)
    assert CODEC.to_action("command", {"text": "go to\ndesk 1"}) == "go to desk 1"
    assert CODEC.tools[0] == CODEC.tools[0] and CODEC.tools[0] is not CODEC.tools[0]

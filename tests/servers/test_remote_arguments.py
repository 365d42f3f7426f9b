"""Arguments of an environment on their way to a server: plain values and lists of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym_suite.env import TextEnv
from agentgym_suite.errors import UsageError
from agentgym_suite.remote import RemoteEnv
from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from tests.servers.in_process import LoopTransport, running
from tests.servers.protocol_calls import wait_until

URL = "http://localhost"


@pytest.fixture(scope="module")
def households(home: Path) -> Iterator[LoopTransport]:
    gym.make("ALFWorld-v0").reset(seed=0)  # built before the server waits for it
    host = EnvHost([Served("ALFWorld-v0")], Limits())
    with running(env_app(host)) as transport:
        wait_until(lambda: host.status[0] != "starting")
        yield transport


@pytest.mark.parametrize("task_types", ["Pick", 4, ["Pick", 4], ("Heat",), [np.int64(2), "Clean"]])
def test_lists_reach_the_environment(households: LoopTransport, task_types: Any) -> None:
    local = gym.make("ALFWorld-v0", task_types=task_types).unwrapped
    remote = gym.make(
        "ALFWorld-v0", server_url=URL, transport=households, task_types=task_types
    ).unwrapped
    assert isinstance(local, TextEnv)
    assert isinstance(remote, RemoteEnv)
    assert remote.tasks.digest == local.tasks.digest
    assert remote.reset(seed=1)[0] == local.reset(seed=1)[0]
    remote.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task_types": [["Pick"]]}, "no plain value; give text, number or flag, or a list"),
        ({"normalise": "no"}, "normalise is 'no'; give True or False"),
        ({"task_types": ["Bake"]}, "task type 'Bake' does not exist"),
        ({"data": "x"}, "a server plays its own"),
        ({"facts": True}, "cannot be set by a client"),
    ],
)
def test_wrong_ones_are_refused_in_one_sentence(
    households: LoopTransport, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        gym.make("ALFWorld-v0", server_url=URL, transport=households, **arguments).reset(seed=0)
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"server_url": 5},
        {"server_url": []},
        {"server_url": ["http://localhost", 5]},
        {"server_url": "x" * 10_000},
        {"server_url": "http://\ud800"},
        {"server_url": URL, "token": 5},
        {"server_url": URL, "timeout_s": "soon"},
        {"server_url": URL, "lease_s": None},
        {"server_url": URL, "task_types": {"Pick"}},
        {"server_url": URL, "split": "\ud800"},
        {"server_url": URL, "render_mode": ["ansi"]},
    ],
    ids=lambda arguments: str(arguments)[:60].encode("ascii", "replace").decode(),
)
def test_what_no_server_can_be_asked_for_is_refused_here(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        gym.make("ALFWorld-v0", **arguments)
    assert len(str(refused.value)) < 400

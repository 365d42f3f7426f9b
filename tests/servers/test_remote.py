from __future__ import annotations

import gc
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import httpx
import numpy as np
import pytest
import uvicorn
from gymnasium.utils.env_checker import check_env

from agentgym_suite.env import TextEnv
from agentgym_suite.errors import (
    EpisodeNotRunning,
    RemoteEnvError,
    ServerUnreachable,
    SessionExpired,
    SessionLost,
    StepTimeout,
    UnknownSplit,
    UnknownTask,
    UsageError,
)
from agentgym_suite.registry import ENV_IDS, TELL_HORIZON
from agentgym_suite.remote import RemoteEnv, make_remote
from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.http_server import open_socket
from tests.servers.counting_server import ENV_ID, HORIZON, Hold, register
from tests.servers.in_process import LoopTransport, running

register()
REMOTE_ID = "RemoteCounting-v0"
URL = "http://localhost"

if REMOTE_ID not in gym.registry:
    gym.register(
        REMOTE_ID,
        entry_point="agentgym_suite.remote:RemoteEnv",
        max_episode_steps=HORIZON,
        additional_wrappers=(TELL_HORIZON,),
        kwargs={"env_id": ENV_ID, "server_url": URL},
    )


@contextmanager
def serving(
    limits: Limits | None = None, token: str | None = None, **kwargs: Any
) -> Iterator[tuple[EnvHost, LoopTransport]]:
    host = EnvHost([Served(ENV_ID, kwargs)], limits or Limits())
    with running(env_app(host, token=token)) as transport:
        wait_until(lambda: host.status[0] != "starting")
        yield host, transport


def wait_until(condition: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def make(transport: LoopTransport, **kwargs: Any) -> gym.Env[str, str]:
    return gym.make(REMOTE_ID, transport=transport, **kwargs)


def play(env: gym.Env[str, str], seed: int, actions: list[str]) -> list[Any]:
    transcript: list[Any] = [env.reset(seed=seed, options={"split": "test"})]
    for action in actions:
        transcript.append(env.step(action))
        if transcript[-1][2] or transcript[-1][3]:
            break
    return transcript


ACTIONS = ["add[1]", "héllo 😀", "add[2]", "say[你好]", "add[3]", "add[3]"]


def test_remote_equals_local() -> None:
    local = gym.make(ENV_ID)
    with serving() as (_, transport):
        remote = make(transport)
        assert remote.observation_space == local.observation_space
        assert remote.action_space == local.action_space
        game, inner = local.unwrapped, remote.unwrapped
        assert isinstance(game, TextEnv)
        assert isinstance(inner, RemoteEnv)
        assert inner.tools == game.tools
        assert inner.info_keys == game.info_keys
        assert inner.goal_key == game.goal_key
        assert inner.horizon == HORIZON
        for seed in range(20):
            assert play(remote, seed, ACTIONS) == play(local, seed, ACTIONS)
        assert isinstance(remote.step, object)
        remote.close()


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_every_environment_is_the_same_from_a_server(env_id: str, fresh_home: Path) -> None:
    host = EnvHost([Served(env_id)], Limits())
    with running(env_app(host)) as transport:
        wait_until(lambda: host.status[0] != "starting", 120)
        local = gym.make(env_id)
        remote = gym.make(env_id, server_url=URL, transport=transport)
        game, inner = local.unwrapped, remote.unwrapped
        assert isinstance(game, TextEnv)
        assert isinstance(inner, RemoteEnv)
        assert (inner.tools, inner.info_keys) == (game.tools, game.info_keys)
        assert inner.tasks.digest == game.tasks.digest
        rng = np.random.default_rng(0)
        for task_id in list(game.tasks)[:20]:
            asked = {"task_id": task_id}
            assert remote.reset(seed=3, options=asked) == local.reset(seed=3, options=asked)
            for _ in range(10):
                action = game.random_action(rng)
                step = local.step(action)
                assert remote.step(action) == step
                if step[2] or step[3]:
                    break
        remote.close()
        local.close()


def test_types_survive_the_way() -> None:
    with serving() as (_, transport):
        env = make(transport)
        env.reset(seed=1)
        _, reward, _, _, info = env.step("say[x]")
        assert type(reward) is float
        assert type(info["metrics"]["total"]) is float
        assert info["history"] == ("say[x]",)
        assert info["admissible_actions"] == ("add[1]", "add[2]", "add[3]")
        env.close()


def test_check_env_is_content() -> None:
    with serving() as (_, transport):
        env = make(transport)
        check_env(env.unwrapped, skip_render_check=True)
        env.close()


@pytest.mark.parametrize("named_ids", [False, True])
def test_tasks_come_over(named_ids: bool) -> None:
    local = gym.make(ENV_ID, named_ids=named_ids).unwrapped
    assert isinstance(local, TextEnv)
    with serving(named_ids=named_ids) as (_, transport):
        env = make_remote(ENV_ID, URL, transport=transport)
        assert list(env.tasks.ids) == list(local.tasks.ids)
        assert env.tasks.digest == local.tasks.digest
        assert {n: list(m) for n, m in env.tasks.splits.items()} == {
            n: list(m) for n, m in local.tasks.splits.items()
        }
        env.close()


def test_every_second_answer_lost_changes_nothing() -> None:
    local = gym.make(ENV_ID)
    with serving() as (host, transport):
        env = make(transport)
        for seed in range(5):
            expected = play(local, seed, ACTIONS)
            transport.lose_answers = 1
            got: list[Any] = [env.reset(seed=seed, options={"split": "test"})]
            for action in ACTIONS:
                transport.lose_answers = 1
                got.append(env.step(action))
                if got[-1][2] or got[-1][3]:
                    break
            assert got == expected
        assert len(host.table) == 1
        (place,) = host.table.live()
        assert place.value.episode == 5  # nothing was begun twice
        env.close()
        wait_until(lambda: len(host.table) == 0)


def test_an_explicit_horizon_reaches_the_server() -> None:
    with serving() as (_, transport):
        env = make(transport, max_episode_steps=2)
        _, info = env.reset(seed=1)
        assert info["steps_left"] == 2
        env.step("say[a]")
        *_, truncated, _ = env.step("say[b]")
        assert truncated
        env.close()
        endless = make(transport, max_episode_steps=-1)
        _, info = endless.reset(seed=1)
        assert info["steps_left"] == -1
        endless.close()


def test_errors_have_types() -> None:
    with serving() as (_, transport):
        env = make_remote(ENV_ID, URL, transport=transport)
        with pytest.raises(EpisodeNotRunning):
            env.step("add[1]")
        with pytest.raises(UnknownTask, match="count-19"):
            env.reset(options={"task_id": "count-99"})
        with pytest.raises(UnknownSplit, match="train, test"):
            env.reset(options={"split": "dev"})
        with pytest.raises(UsageError, match="colour"):
            env.reset(options={"colour": 1})
        with pytest.raises(TypeError):
            env.step(3)  # type: ignore[arg-type]
        env.reset(options={"task_id": 3})
        with pytest.raises(RemoteEnvError):
            env.step("add[boom]")
        with pytest.raises(EpisodeNotRunning):
            env.step("add[1]")
        env.reset(options={"task_id": 0})  # a new session
        assert env.step("add[1]")[2]
        with pytest.raises(EpisodeNotRunning):
            env.step("add[1]")
        with pytest.raises(UsageError, match="cannot play over a server"):
            env.policy("oracle")
        env.close()


def test_lost_and_expired_sessions() -> None:
    with serving() as (host, transport):
        env = make_remote(ENV_ID, URL, transport=transport)
        env.reset(seed=1)
        (place,) = host.table.live()
        host.table.remove(place.id, "expired")
        with pytest.raises(SessionExpired):
            env.step("add[1]")
        env.reset(seed=1)
        host.table.drain()
        host.table._ended.clear()
        with pytest.raises(SessionLost):
            env.step("add[1]")
        env.close()


def test_a_hanging_step_is_a_step_timeout() -> None:
    hold = Hold()
    with serving(Limits(step_timeout_s=0.2), hold=hold) as (_, transport):
        env = make_remote(ENV_ID, URL, transport=transport)
        env.reset(seed=1)
        with pytest.raises(StepTimeout):
            env.step("say[wait]")
        hold.release.set()
        env.close()


def test_the_lease_is_renewed_while_the_environment_is_open() -> None:
    with serving() as (host, transport):
        env = make_remote(ENV_ID, URL, transport=transport, lease_s=1)
        env.reset(seed=1)
        wait_until(lambda: sum(r.endswith("/renew") for r in transport.requests) >= 4)
        env.step("say[a]")
        assert len(host.table) == 1
        env.close()


def test_a_forgotten_environment_ends_its_session() -> None:
    with serving() as (host, transport):
        env = make_remote(ENV_ID, URL, transport=transport)
        env.reset(seed=1)
        del env
        gc.collect()
        wait_until(lambda: len(host.table) == 0)


def test_sessions_go_to_a_server_with_a_free_place() -> None:
    with serving(Limits(max_sessions=1)) as (_, full), serving() as (free_host, free):

        class Both(httpx.BaseTransport):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                return (full if request.url.host == "full" else free).handle_request(request)

        urls = ["http://full", "http://free"]
        envs = [make_remote(ENV_ID, urls, transport=Both()) for _ in range(4)]
        for env in envs:
            env.reset(seed=1)
        assert len(free_host.table) >= 3
        for env in envs:
            env.close()


def test_what_cannot_work_is_said_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="http://host:port"):
        make_remote(ENV_ID, "localhost:80")
    with pytest.raises(UsageError, match="plays its own"):
        make_remote(ENV_ID, URL, data="/some/where")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    env = make_remote(ENV_ID, f"http://127.0.0.1:{port}", timeout_s=0.3)
    with pytest.raises(ServerUnreachable, match="see that it runs"):
        env.reset()
    with serving(token="right") as (_, transport):
        stranger = make_remote(ENV_ID, URL, token="wrong", transport=transport)
        with pytest.raises(UsageError, match="Authorization: Bearer .* token= in Python"):
            stranger.reset()
        friend = make_remote(ENV_ID, URL, token="right", transport=transport)
        friend.reset()
        friend.close()
        other = make_remote("Chess-v0", URL, token="right", transport=transport)
        with pytest.raises(UsageError, match="not served there"):
            other.reset()
        picky = make_remote(
            ENV_ID, URL, token="right", tasks_digest="sha256:0", transport=transport
        )
        with pytest.raises(UsageError, match="digest"):
            picky.reset()
        daring = make_remote(ENV_ID, URL, token="right", transport=transport, named_ids=True)
        with pytest.raises(UsageError, match="cannot be set by a client"):
            daring.reset()


def test_over_a_real_socket_and_through_pickle() -> None:
    host = EnvHost([Served(ENV_ID)], Limits())
    with open_socket("127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(env_app(host), log_level="warning", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: host.status[0] == "ready")
            made = gym.make(REMOTE_ID, server_url=url)
            env = pickle.loads(pickle.dumps(made.unwrapped))
            local = gym.make(ENV_ID)
            assert play(env, 5, ACTIONS) == play(local, 5, ACTIONS)
            env.close()
            wait_until(lambda: len(host.table) == 0)
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, text="<h1>not found</h1>"),
        httpx.Response(200, text="<h1>welcome</h1>"),
        httpx.Response(200, json=["something", "else"]),
        httpx.Response(200, json={"hello": "world"}),
        httpx.Response(404, json={"type": "about:blank", "detail": "no"}),
        httpx.Response(302, headers={"Location": "/login"}),
        httpx.Response(204),
    ],
)
def test_another_kind_of_server_is_told_apart(answer: httpx.Response) -> None:
    env = RemoteEnv(ENV_ID, URL, transport=httpx.MockTransport(lambda request: answer))
    with pytest.raises((RemoteEnvError, UsageError), match="is it `agentgym-suite serve env`"):
        env.reset()


def test_a_damaged_answer_is_asked_for_again() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.DecodingError("bad gzip", request=request)

    env = RemoteEnv(ENV_ID, URL, timeout_s=0.2, transport=httpx.MockTransport(answer))
    with pytest.raises(ServerUnreachable, match="bad gzip"):
        env.reset()


@pytest.mark.parametrize("url", ["http://", "http://host:port", "localhost:8100", ""])
def test_a_wrong_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(UsageError, match="give http://host:port"):
        RemoteEnv(ENV_ID, url)


@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800", {1, 2}])
def test_an_option_that_cannot_travel_is_a_usage_error(value: object) -> None:
    with serving() as (_, transport):
        env = RemoteEnv(ENV_ID, URL, transport=transport)
        with pytest.raises(UsageError, match="cannot be sent"):
            env.reset(options={"task_id": value})
        env.reset(options={"task_id": np.int64(3)})
        env.close()

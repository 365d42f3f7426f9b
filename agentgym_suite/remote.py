"""The same environment from a server that speaks ``agentgym-suite/1``.

    env = gym.make("WebShop-v0", server_url="http://127.0.0.1:8100")

Spaces, infos, rewards and state hashes equal those of the local environment. Every request may be
repeated safely, because it says which step it means, so lost answers cost nothing.
"""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import gymnasium as gym
import httpx
import numpy as np

from agentgym_suite.arguments import check_seconds, shown
from agentgym_suite.calls import ActionCodec
from agentgym_suite.errors import (
    EnvError,
    EpisodeNotRunning,
    ServerFull,
    ServerUnreachable,
    SessionExpired,
    SessionLost,
    UsageError,
)
from agentgym_suite.game import Policy
from agentgym_suite.remote_client import ServerClient, SessionHandle
from agentgym_suite.remote_values import (
    check_digests,
    codec_of,
    fetch_tasks,
    sendable,
    served_env,
    space_of,
    tuples,
)
from agentgym_suite.spaces import UnicodeText, without_surrogates
from agentgym_suite.tasks import TaskSet

NO_HORIZON = -1  # gymnasium's word for it, too


class RemoteEnv(gym.Env[str, str]):
    """An environment that runs in a server, seen as if it were here.

    The session is made at the first need of one (a reset, or ``tasks``), ended by ``close`` or
    with the object, and kept alive by a thread while the environment is open.

    Args:
        env_id: the environment's id at the server.
        server_url: the server's address, or several; an instance stays with the one it found.
        token: the server's bearer token.
        timeout_s: longest time for one call, retries included.
        lease_s: seconds that the server keeps the session without hearing from us.
        env_kwargs: arguments of the environment that the server lets clients choose.
        tasks_digest: the digest that the server's task set must have; None for any.
        data_digest: the digest that the server's data must have; None for any.
        render_mode: None or "ansi".
        codec: the environment's codec; read from the server's tools when not given.
        transport: how requests travel (tests pass an application in this process).

    Raises:
        UsageError: the address, timeout, lease or render mode is wrong.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
    policies: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        env_id: str,
        server_url: str | Sequence[str],
        *,
        token: str | None = None,
        timeout_s: float = 90.0,
        lease_s: float = 600.0,
        env_kwargs: Mapping[str, Any] | None = None,
        tasks_digest: str | None = None,
        data_digest: str | None = None,
        render_mode: str | None = None,
        codec: ActionCodec | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not isinstance(render_mode, str | None) or render_mode not in (None, "ansi"):
            raise UsageError(f"render_mode is {shown(render_mode)}; use None or 'ansi'")
        urls = _addresses(server_url)
        check_seconds(timeout_s=timeout_s, lease_s=lease_s)
        if not isinstance(token, str | None):
            raise UsageError(f"token is {type(token).__name__}; give text, or None")
        self.env_id = env_id
        self.render_mode = render_mode
        self._client = ServerClient(
            urls, token=token, timeout_s=timeout_s, lease_s=lease_s, transport=transport
        )
        weakref.finalize(self, ServerClient.close, self._client)
        self._env_kwargs = sendable(env_kwargs or {}, "arguments")
        self._tasks_digest = tasks_digest
        self._data_digest = data_digest
        self._codec = codec
        self._arguments: dict[str, Any] = {
            "token": token,
            "timeout_s": timeout_s,
            "lease_s": lease_s,
            "env_kwargs": self._env_kwargs,
            "tasks_digest": tasks_digest,
            "data_digest": data_digest,
            "render_mode": render_mode,
            "codec": codec,
        }
        self._urls = urls
        self._info: dict[str, Any] | None = None
        self._tasks: TaskSet | None = None
        self._horizon: int | None = None
        self._handle: SessionHandle | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._episode = 0
        self._step_index = 0
        self._playing = False
        self._observation = ""
        self._admissible: tuple[str, ...] = ()

    # ------------------------------------------------------------------------ what it is

    @cached_property
    def observation_space(self) -> UnicodeText:  # type: ignore[override]
        """The space of observations, as the server declares it."""
        return space_of(self._env_info()["observation_space"])

    @cached_property
    def action_space(self) -> UnicodeText:  # type: ignore[override]
        """The space of actions, as the server declares it."""
        return space_of(self._env_info()["action_space"])

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """OpenAI-style schemas of the grammar's calls, fresh copies."""
        return self.codec.tools

    @property
    def codec(self) -> ActionCodec:
        """The map between tool calls and actions."""
        if self._codec is None:
            self._codec = codec_of(self._env_info()["tools"])
        return self._codec

    @property
    def info_keys(self) -> tuple[str, ...]:
        """Every key of ``info``."""
        return tuple(self._env_info()["info_keys"])

    @property
    def goal_key(self) -> str:
        """The info key that says the goal in words; "" where the observation does."""
        return str(self._env_info()["goal_key"])

    @property
    def version(self) -> str:
        """The environment's version at the server."""
        return str(self._env_info()["version"])

    @property
    def horizon(self) -> int | None:
        """The step limit, None if there is none; the wrapper of ``horizon.py`` sets it."""
        if self._horizon is not None:
            return None if self._horizon == NO_HORIZON else self._horizon
        asked = self._env_kwargs.get("max_episode_steps")
        limit = self._env_info()["max_episode_steps"] if asked is None else asked
        return None if limit is None else int(limit)

    @horizon.setter
    def horizon(self, steps: int | None) -> None:
        self._horizon = NO_HORIZON if steps is None else steps

    @property
    def tasks(self) -> TaskSet:
        """The ordered tasks at the server, with splits and digest, fetched at first use."""
        if self._tasks is None:
            self._tasks = fetch_tasks(self._session().get)
        return self._tasks

    def policy(self, name: str) -> Policy:
        """None: policies that read an environment's inside play where it runs.

        Raises:
            UsageError: it is called.
        """
        raise UsageError(f"policy {shown(name)} cannot play over a server; make {self.env_id} here")

    def random_action(self, rng: np.random.Generator) -> str:
        """A uniform draw from the admissible actions, or an example of the action space."""
        actions = self._admissible or self.action_space.examples
        if not actions:
            return self.action_space.sample()
        return actions[int(rng.integers(len(actions)))]

    # ---------------------------------------------------------------------------- playing

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; the arguments are those of the local environment.

        A session that is gone is replaced, and one whose server does not answer by one elsewhere.

        Raises:
            UnknownTask, UnknownSplit, UsageError: an option is wrong.
            ServerFull: it has no place for another session; says when to come again.
            RemoteEnvError: the server cannot play it.
        """
        super().reset(seed=seed)
        body: dict[str, Any] = {}
        if seed is not None:
            body["seed"] = int(seed)
        if options:
            body["options"] = sendable(options, "options")
        before = self._handle
        handle = self._session()
        key = secrets.token_hex(16)
        try:
            answer = self._ask(handle, "reset", body, key)
        except (SessionLost, SessionExpired, ServerFull, ServerUnreachable):
            alone = handle.usable and len(self._urls) == 1
            if handle is not before or alone:
                raise
            answer = self._ask(self._session(anew=True), "reset", body, key)
        self._episode = answer["episode"]
        self._playing = True
        return self._heard(answer)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Raises:
            TypeError: the action is not a str.
            UsageError: it is longer than the server takes.
            EpisodeNotRunning: before reset, or after the episode ended.
            ServerUnreachable, ServerFull: no answer came; the same step may be tried again.
            RemoteEnvError: the server failed; the next reset makes a new session.
        """
        if not isinstance(action, str):
            raise TypeError(f"the action is {type(action).__name__}; give a str")
        handle = self._handle
        if not self._playing or handle is None or not handle.usable:
            raise EpisodeNotRunning(
                f"{self.env_id} has no running episode; call reset() before step()"
            )
        body = {
            "episode": self._episode,
            "step_index": self._step_index,
            "action": without_surrogates(action),
        }
        answer = self._ask(handle, "step", body)
        terminated, truncated = bool(answer["terminated"]), bool(answer["truncated"])
        self._playing = not (terminated or truncated)
        observation, info = self._heard(answer)
        return observation, float(answer["reward"]), terminated, truncated, info

    def render(self) -> str | None:
        """The current observation in render mode "ansi", else None."""
        return self._observation if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the session at the server; may be called any number of times."""
        self._playing = False
        if self._finalizer is not None:
            self._finalizer()
        self._handle = None
        self._client.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._playing:
            raise EnvError(
                f"{self.env_id} is in the middle of an episode; "
                "pickle it before reset() or after close()"
            )
        return _rebuild, (self.env_id, self._urls, self._arguments, self.spec, self._horizon)

    # ---------------------------------------------------------------------------- inside

    def _session(self, *, anew: bool = False) -> SessionHandle:
        handle = self._handle
        # a forked child leaves the parent's session alone and makes its own
        if handle is not None and handle.usable and handle.process == os.getpid() and not anew:
            return handle
        if self._finalizer is not None:
            self._finalizer()
        kwargs = dict(self._env_kwargs)
        if self._horizon is not None:
            kwargs["max_episode_steps"] = self._horizon
        self._env_info()
        handle = self._client.open_session(self.env_id, kwargs)
        self._handle = handle
        self._finalizer = weakref.finalize(self, SessionHandle.end, handle)
        return handle

    def _ask(
        self, handle: SessionHandle, call: str, body: Mapping[str, Any], key: str = ""
    ) -> dict[str, Any]:
        try:
            return handle.post(call, body, key)
        finally:
            if not handle.usable:
                self._playing = False

    def _heard(self, answer: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        self._step_index = answer["step_index"]
        self._observation = str(answer["observation"])
        info: dict[str, Any] = {key: tuples(value) for key, value in answer["info"].items()}
        self._admissible = info.get("admissible_actions", ())
        return self._observation, info

    def _env_info(self) -> dict[str, Any]:
        if self._info is None:
            info = served_env(self._client.get("/v1/info"), self.env_id, self._urls)
            check_digests(info, tasks=self._tasks_digest, data=self._data_digest)
            self._info = info
        return self._info


def make_remote(
    env_id: str,
    server_url: str | Sequence[str],
    *,
    data: object = None,
    codec: ActionCodec | None = None,
    token: str | None = None,
    timeout_s: float = 90.0,
    lease_s: float = 600.0,
    tasks_digest: str | None = None,
    data_digest: str | None = None,
    render_mode: str | None = None,
    transport: httpx.BaseTransport | None = None,
    **env_kwargs: Any,
) -> RemoteEnv:
    """What an environment's factory returns when it is given ``server_url``.

    Takes ``RemoteEnv``'s arguments, and the environment's own in ``env_kwargs``, as far as the
    server lets clients choose them. ``data`` must be None, since a server has its own.

    Raises:
        UsageError: ``data`` is given, or another argument is wrong.
    """
    if data is not None:
        raise UsageError(
            f"data is {shown(data)}, but a server plays its own; name it where that starts"
        )
    return RemoteEnv(
        env_id,
        server_url,
        codec=codec,
        token=token,
        timeout_s=timeout_s,
        lease_s=lease_s,
        tasks_digest=tasks_digest,
        data_digest=data_digest,
        render_mode=render_mode,
        transport=transport,
        env_kwargs=env_kwargs,
    )


def _addresses(server_url: object) -> tuple[str, ...]:
    urls = (server_url,) if isinstance(server_url, str) else server_url
    if not isinstance(urls, list | tuple) or not all(isinstance(url, str) for url in urls):
        raise UsageError(f"server_url is {shown(server_url)}; give http://host:port, or a list")
    return tuple(urls)


def _rebuild(
    env_id: str,
    urls: tuple[str, ...],
    arguments: Mapping[str, Any],
    spec: Any,
    horizon: int | None,
) -> RemoteEnv:
    env = RemoteEnv(env_id, urls, **arguments)
    env.spec = spec
    env._horizon = horizon
    return env

"""Episodes over a Ray cluster: environments there, agents and their model here.

    with RayEnvPool("ALFWorld-v0", num_actors=64, address="auto") as pool:
        async for episode in run_episodes(pool, make_agent, requests, concurrency=64):
            ...

Evaluation and training both play this way. A task is sent out when an actor is free for it.
Whatever ends an actor costs its running episode alone: that is a failure ``worker_lost`` of the
infrastructure, and another actor takes the place of the lost one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Self
from urllib.parse import urlsplit

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agentgym_suite.arguments import check_count, check_number, check_seconds, shown
from agentgym_suite.errors import MissingExtra, UsageError, WorkerLost
from agentgym_suite.ray_env import RayEnv, Stage
from agentgym_suite.rollouts import MakeEnv
from agentgym_suite.versions import suite_version

_CLOSE_S = 5.0  # what the environments of a pool that ends have to close
_CONNECT_S = 10.0
_TOLD_CHARACTERS = 200  # of either end of what Ray says


class RayEnvPool:
    """Makes environments in Ray actors; ``run_episodes`` takes it as its ``make_env``.

    An actor holds one environment. Closing the environment frees the actor for another one; a
    lost actor is replaced when it is next needed.

    Args:
        env_id: Gymnasium id. An environment of your own must be importable on every node.
        kwargs: arguments of the environment or of ``gym.make``; paths as every node has them.
        num_actors: most environments at a time; ``run_episodes`` may have no more concurrency.
        cpus: what each actor reserves of a node; ten by default share a processor.
        address: the cluster, see ``connected``.
        start_timeout_s: seconds an actor may take to start, for a place in the cluster too.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: an argument is wrong or cannot be sent, or there is no cluster.
    """

    def __init__(
        self,
        env_id: str,
        kwargs: Mapping[str, Any] | None = None,
        num_actors: int = 4,
        *,
        cpus: float = 0.1,
        address: str | None = None,
        start_timeout_s: float = 300.0,
    ) -> None:
        if env_id not in gym.registry:
            raise UsageError(
                f"environment {shown(env_id)} is not registered; see `agentgym-suite list`"
            )
        self.env_id = env_id
        self.num_actors = check_count("num_actors", num_actors, 1)
        cpus = check_number("cpus", cpus, 0.0, 1024.0)
        check_seconds(start_timeout_s=start_timeout_s)
        ray = _ray()
        self._arguments = gym.registry[env_id], dict(kwargs or {})
        _check_sendable(ray, *self._arguments)
        self._start_timeout_s = start_timeout_s
        self._lock = threading.Lock()
        self._free: list[_Actor] = []
        self._actors: set[_Actor] = set()
        self._connection = contextlib.ExitStack()
        self._connection.enter_context(connected(address))
        # Ray's own restarts would hide that an episode's environment is a new one
        self._stage = ray.remote(num_cpus=cpus, max_restarts=0, max_task_retries=0)(Stage)
        self._closed = False

    @classmethod
    def like(cls, make_env: MakeEnv, num_actors: int, *, address: str | None = None) -> Self:
        """A pool of the environments that are made here, with all their arguments.

        Args:
            make_env: makes one, which is looked at and closed.
            num_actors: most environments at a time.
            address: the cluster, see ``connected``.

        Raises:
            MissingExtra: Ray is not installed.
            UsageError: the environment has no registration, or as for the class.
        """
        with contextlib.closing(make_env()) as env:  # its spec holds every argument
            spec, name = env.spec, type(env.unwrapped).__name__
        if spec is None:
            raise UsageError(f"{name} has no registration; play it with runner local")
        kwargs = {**spec.kwargs, "max_episode_steps": spec.max_episode_steps}
        return cls(spec.id, kwargs, num_actors, address=address)

    def __call__(self) -> RayEnv:
        """An environment in an actor of its own; never waits.

        Raises:
            UsageError: all actors are in use, or the pool is closed.
        """
        with self._lock:
            if self._closed:
                raise UsageError(f"the Ray pool of {self.env_id} is closed; make another")
            if self._free:
                return RayEnv(self.env_id, self._free.pop())
            if len(self._actors) == self.num_actors:
                raise UsageError(
                    f"all {self.num_actors} Ray actors of {self.env_id} are in use; give "
                    "run_episodes that concurrency at most, or the pool more actors"
                )
            actor = _Actor(self, self._stage.remote(*self._arguments), self._start_timeout_s)
            self._actors.add(actor)
            return RayEnv(self.env_id, actor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End every actor, and Ray if the pool started it; calls still running there raise."""
        with self._lock:
            self._closed = True
            actors = list(self._actors)
            self._actors.clear()
            self._free.clear()
        closing = [actor.closing for actor in actors if actor.closing is not None]
        if closing:
            _ray().wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
        for actor in actors:
            actor.kill()
        self._connection.close()

    def free(self, actor: _Actor) -> None:
        """Have an actor ready for another environment."""
        with self._lock:
            if actor in self._actors:
                self._free.append(actor)

    def forget(self, actor: _Actor) -> None:
        """Leave the place of an actor to a new one."""
        with self._lock:
            self._actors.discard(actor)


class _Actor:
    """A ``ray_env.Worker``: a ``Stage`` in an actor."""

    def __init__(self, pool: RayEnvPool, handle: Any, start_timeout_s: float) -> None:
        self.closing: Any = None
        self._pool = pool
        self._handle = handle
        self._start_timeout_s = start_timeout_s
        self._started = False

    def ask(self, call: str, *args: Any) -> Any:
        """What the stage answers, however long it takes once the actor runs."""
        ray = _ray()
        try:
            if not self._started:
                self._start(ray)
            return ray.get(self._handle.ask.remote(call, *args))
        except ray.exceptions.RayError as error:
            text = " ".join(str(error).split())
            if len(text) > 2 * _TOLD_CHARACTERS:
                text = f"{text[:_TOLD_CHARACTERS]} … {text[-_TOLD_CHARACTERS:]}"
            raise WorkerLost(f"a Ray worker of {self._pool.env_id} was lost: {text}") from error

    def give_back(self) -> None:
        self.closing = self._handle.ask.remote("close")
        self._pool.free(self)

    def discard(self) -> None:
        self._pool.forget(self)
        self.kill()

    def kill(self) -> None:
        ray = _ray()
        if ray.is_initialized():
            ray.kill(self._handle)

    def _start(self, ray: ModuleType) -> None:
        try:
            version = ray.get(self._handle.ask.remote("version"), timeout=self._start_timeout_s)
        except ray.exceptions.GetTimeoutError:
            free = ray.available_resources().get("CPU", 0.0)
            raise WorkerLost(
                f"no Ray worker of {self._pool.env_id} started within {self._start_timeout_s:g} s; "
                f"{free:g} of {ray.cluster_resources().get('CPU', 0.0):g} CPUs are free"
            ) from None
        if version != suite_version():
            raise UsageError(
                f"a Ray worker has agentgym-suite {version}, this process {suite_version()}; "
                "install the same version on every node"
            )
        self._started = True


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Connect this process to a Ray cluster, and leave it at the end.

    A connection that is there already is used and left as it is. Several pools one after another
    are faster within one ``connected``.

    Args:
        address: ``host:port`` of a cluster that runs, or ``"auto"``, the one of this machine; None
            takes the variable ``RAY_ADDRESS``, or else starts a Ray of this process's own.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: there is no cluster at the address.
    """
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    # Ray's own default would also join whatever cluster this machine had last, even a dead one
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_reachable(address)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"Ray cannot be used at address {shown(address)}: {reason}") from error
    if on_sigterm is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray puts its own there
    try:
        yield
    finally:
        ray.shutdown()


def _ray() -> ModuleType:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MissingExtra("ray", "a pool of Ray workers") from error
    module: ModuleType = ray
    return module


def _check_sendable(ray: ModuleType, spec: EnvSpec, kwargs: Mapping[str, Any]) -> None:
    """Refuse what cannot be pickled before a worker is started for it."""
    for name, value in {"registration": spec, **kwargs}.items():
        try:
            ray.cloudpickle.dumps(value)
        except Exception as error:  # pickling runs the value's own code
            raise UsageError(
                f"{name} of {spec.id} is {shown(value)}, which cannot be sent to a Ray worker "
                f"({type(error).__name__}: {error}); give what can be pickled"
            ) from error


def _check_reachable(address: str) -> None:
    """Ray itself would look for a cluster that is not there for minutes, then end the process."""
    try:
        url = urlsplit(address if "://" in address else f"//{address}")
        host, port = url.hostname, url.port
    except ValueError:
        return  # Ray says what is wrong with it
    if host is None or port is None:
        return
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except OSError as error:
        raise UsageError(
            f"no Ray cluster answers at {shown(address)} ({error}); start one there with "
            "`ray start --head`, or leave the address out"
        ) from error

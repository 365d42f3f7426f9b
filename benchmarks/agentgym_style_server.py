"""The other side of ``servers.py``: the same environment behind a server in AgentGym's style.

A FastAPI application with pydantic requests, plain functions as routes, which a pool of threads
runs, and one global table of environments under small numbers: no lock for a session, no lease, no
seed, no close, no repeated request. What a step answers is the four members of AgentGym's WebShop,
``info`` being null there as well.

Run by servers.py, in an environment with fastapi.
"""

from __future__ import annotations

import argparse
import itertools
import socket
from typing import Any

import gymnasium as gym
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

import agentgym_suite  # noqa: F401


class ResetRequest(BaseModel):
    """Which session, and which task, by its id where AgentGym gives a number."""

    env_idx: int
    session_id: str | None = None


class StepRequest(BaseModel):
    """Which session, and the action."""

    env_idx: int
    action: str


def build_app(env_id: str, arguments: dict[str, Any]) -> FastAPI:
    """The application over environments of one id."""
    app = FastAPI()
    table: dict[int, gym.Env[str, str]] = {}
    numbers = itertools.count()
    gym.make(env_id, disable_env_checker=True, **arguments).reset()  # the data are loaded once

    @app.get("/")
    def ok() -> str:
        return "ok"

    @app.post("/create")
    def create() -> int:
        env_idx = next(numbers)
        table[env_idx] = gym.make(env_id, disable_env_checker=True, **arguments)
        return env_idx

    @app.post("/reset")
    def reset(request: ResetRequest) -> Any:
        options = {} if request.session_id is None else {"task_id": request.session_id}
        observation, _ = table[request.env_idx].reset(options=options)
        return [observation, None]

    @app.post("/step")
    def step(request: StepRequest) -> Any:
        state, reward, terminated, truncated, _ = table[request.env_idx].step(request.action)
        return {"state": state, "reward": reward, "done": terminated or truncated, "info": None}

    return app


def main() -> None:
    """Serve until killed; prints the address."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="WebShop-v0")
    parser.add_argument("--data")
    args = parser.parse_args()
    app = build_app(args.env, {} if args.data is None else {"data": args.data})
    listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    # as uvicorn's own sockets have it; without it each answer waits 40 ms
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([listener])


if __name__ == "__main__":
    main()

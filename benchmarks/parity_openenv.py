"""Proof that OpenEnv's own client plays here what is played at home.

    make parity-openenv

A live server, with a token and without one, is played by ``GenericEnvClient`` of openenv-core 0.3.0
as it is published. Beside every client plays the local environment: each observation, info, reward,
end and state of every episode is compared. Two clients play in turns; one seed twice gives one
episode. Prints a table and exits with 1 when anything differs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import httpx
import numpy as np
from openenv.core import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient
from rich.console import Console
from rich.table import Table

from agentgym_suite.env import TextEnv
from agentgym_suite.game import Policy
from agentgym_suite.registry import ENV_IDS

CLIENT_VERSION = "0.3.0"
TOKEN = "tok-en_0123456789"
LOAD_S = 120.0
MOST_TOLD = 5

Pair = tuple[str, Any, Any]
"""What was compared, as the client has it, and as the local environment has it."""


@contextmanager
def server(token: str | None) -> Iterator[str]:
    """A server of all environments in a process of its own: host and port."""
    command = [sys.executable, "-m", "agentgym_suite", "serve", "env", "--port", "0"]
    command += ["--compat", "openenv", "--drain", "5"]
    with tempfile.TemporaryDirectory() as folder:
        if token is not None:
            secret = Path(folder) / "token"
            secret.write_text(token, encoding="utf-8")
            command += ["--token-file", str(secret)]
        log = Path(folder) / "log"
        with log.open("w") as sink:
            process = subprocess.Popen(command, stderr=sink)
        try:
            yield _ready_address(process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        said = log.read_text(encoding="utf-8")
        if code != 0 or "Traceback" in said:
            raise SystemExit(f"the server ended with {code}: {said[-2000:]}")


def _ready_address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + LOAD_S
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.2)
        told = re.search(r"http://([\d.]+:\d+)", log.read_text(encoding="utf-8"))
        if told and httpx.get(f"{told[0]}/readyz").is_success:
            return told[1]
    process.kill()
    raise SystemExit(f"the server was not ready within {LOAD_S:g} s: {log.read_text()[-2000:]}")


class Game:
    """One client, and the local environment that plays the same beside it."""

    def __init__(self, address: str, env_id: str) -> None:
        name = env_id.lower().removesuffix("-v0")
        # a sync wrapper of the client, its own, so that two play in turns without a loop here
        self.client: SyncEnvClient[Any, Any, Any] = GenericEnvClient(
            base_url=f"http://{address}/compat/openenv/{name}"
        ).sync()
        self.local = gym.make(env_id)
        self.tally: Counter[str] = Counter()
        self.differences: list[str] = []

    def close(self) -> None:
        """End both."""
        self.client.close()
        self.local.close()

    def episode(self, seed: int, policy: str, **reset: Any) -> Iterator[str]:
        """Play one episode to its end; yields the observation after each turn.

        Args:
            seed: of the reset, and of the random actions.
            policy: a policy of the environment, or "random".
            reset: further arguments of the reset.
        """
        options = {k: v for k, v in reset.items() if k != "episode_id"}
        text, info = self.local.reset(seed=seed, options=options)
        heard = self.client.reset(seed=seed, **reset)
        self._compare("reset", self._pairs(heard, text, None, False, False, info))
        inner = self.local.unwrapped
        if not isinstance(inner, TextEnv):
            raise SystemExit(f"{self.local} is no environment of the suite")
        play = None if policy == "random" else inner.policy(policy)
        dice = np.random.default_rng(seed)
        yield text
        for turn in itertools.count(1):
            action = _next_action(inner, play, dice, heard.observation)
            text, reward, terminated, truncated, info = self.local.step(action)
            heard = self.client.step({"text": action})
            self._compare(
                f"step {turn}", self._pairs(heard, text, float(reward), terminated, truncated, info)
            )
            self.tally["steps"] += 1
            yield text
            if terminated or truncated:
                self.tally["terminated" if terminated else "truncated"] += 1
                break
        state = {
            "episode_id": reset.get("episode_id"),
            "step_count": info["step"],
            "task_id": info["task_id"],
            "state_hash": info["state_hash"],
        }
        self._compare("state", [("state", self.client.state(), state)])

    def _pairs(
        self, heard: Any, text: str, reward: float | None, ended: bool, cut: bool, info: Any
    ) -> list[Pair]:
        told = heard.observation
        return [
            ("text", told["text"], text),
            ("reward", heard.reward, reward),
            ("done", heard.done, ended or cut),
            ("terminated", told["terminated"], ended),
            ("truncated", told["truncated"], cut),
            ("info", told["info"], json.loads(json.dumps(info))),
        ]

    def _compare(self, where: str, pairs: list[Pair]) -> None:
        for what, theirs, ours in pairs:
            self.tally["compared"] += 1
            if theirs != ours or type(theirs) is not type(ours):
                self.differences.append(f"{where}: {what} is {theirs!r}, here {ours!r}"[:500])


def _next_action(
    env: TextEnv, play: Policy | None, dice: np.random.Generator, heard: dict[str, Any]
) -> str:
    if play is None:
        return env.random_action(dice)
    # the policy reads what the client heard, so that a wrong word would lead it astray
    return play(heard["text"], heard["info"])


def compare(address: str, env_id: str, episodes: int) -> tuple[Counter[str], list[str]]:
    """Play ``episodes`` with each of two policies, two clients in turns, and one seed twice."""
    first, second = Game(address, env_id), Game(address, env_id)
    try:
        for seed in range(episodes):
            for policy in ("oracle", "random"):
                for _ in first.episode(seed, policy, episode_id=f"{policy}-{seed}"):
                    pass
        # in turns, on different tasks: were they one session, every turn would differ
        for _ in itertools.zip_longest(first.episode(1, "oracle"), second.episode(2, "oracle")):
            pass
        for _ in itertools.zip_longest(first.episode(3, "random"), second.episode(4, "random")):
            pass
        again = [list(game.episode(7, "random")) for game in (first, second, first)]
        differences = first.differences + second.differences
        if not again[0] == again[1] == again[2]:
            differences.append("the seed 7 gave different episodes")
        return first.tally + second.tally, differences
    finally:
        first.close()
        second.close()


def refused_without_token(address: str) -> list[str]:
    """What is wrong when a client without the token gets in, or is not told why it may not."""
    client = GenericEnvClient(base_url=f"http://{address}/compat/openenv/webshop").sync()
    try:
        client.connect()
    except ConnectionError as error:
        return [] if "401" in str(error) else [f"without a token the client was told: {error}"]
    client.close()
    return ["a client without a token was let in"]


def main() -> int:
    """Play, compare, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=5, help="seeds per policy (%(default)s)")
    args = parser.parse_args()
    found = importlib.metadata.version("openenv-core")
    if found != CLIENT_VERSION:
        raise SystemExit(f"openenv-core is {found}; install {CLIENT_VERSION}")
    headings = ("server", "environment", "episodes", "terminated", "truncated", "steps", "compared")
    title = f"GenericEnvClient of openenv-core {found} beside the local environment"
    table = Table(*headings, "differ", title=title)
    wrong: list[str] = []
    for token in (None, TOKEN):
        with server(token) as address:
            if token is not None:
                wrong += refused_without_token(address)
            login = "" if token is None else f"any:{token}@"
            for env_id in ENV_IDS:
                tally, differences = compare(f"{login}{address}", env_id, args.episodes)
                wrong += [f"{env_id}, {words}" for words in differences]
                table.add_row(
                    "open" if token is None else "token in the URL",
                    env_id,
                    f"{tally['terminated'] + tally['truncated']:,}",
                    *(f"{tally[name]:,}" for name in headings[3:]),
                    f"{len(differences):,}",
                )
    console = Console(width=110)
    console.print(table)
    for words in wrong[:MOST_TOLD]:
        console.print(words, markup=False)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

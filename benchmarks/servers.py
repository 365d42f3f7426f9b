"""An environment server under load, beside one in AgentGym's style over the same environment.

A thousand episodes are played here first, some by the environment's oracle, the others at random.
Then 1,000 live sessions play them at the server over 64 connections, each session another one, a
step of each in turn, until 200,000 steps are made. Every answer, with the whole info, must be that
of the local episode. The other server (``agentgym_style_server.py``) gets the same in fewer steps;
it tells no infos, so that there observation, reward and end are compared.

Reported are steps a second, latencies, the server's resident memory (after the first tenth of the
steps it must stay within 5 %), its CPU, and the environment's own CPU, taken in this process by
playing the same episodes before and after. CPU figures are for a step with its share of the resets.

Run: make benchmark-servers   (the other server needs fastapi)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gymnasium as gym
import httpx
import numpy as np
from server_clients import (
    AgentGymStyle,
    Dialect,
    Ours,
    Player,
    Script,
    Tally,
    Wire,
    expected_answers,
)

import agentgym_suite  # noqa: F401
from agentgym_suite.game import game_of

HERE = Path(__file__).parent
RANDOM_STEPS = 15
MOST_CPU_MS = 1.5
MOST_GROWTH = 0.05
WARM_UP_SHARE = 0.1
SAMPLE_S = 0.25
SHOWN = 3


# --------------------------------------------------------------------- the environment itself


def make_env(env_id: str, data: str | None) -> gym.Env[str, str]:
    """The environment as a server makes it."""
    arguments: dict[str, Any] = {} if data is None else {"data": data}
    return gym.make(env_id, disable_env_checker=True, **arguments)


def write_scripts(env: gym.Env[str, str], count: int) -> list[Script]:
    """``count`` episodes, the tasks again and again; every other task is first the oracle's."""
    rng = np.random.default_rng(0)
    ids = list(game_of(env).tasks)
    order = rng.permutation(len(ids)).tolist()[:count]
    scripts = []
    for number in range(count):
        task_id = ids[order[number % len(order)]]
        oracle = number < len(order) and number % 2 == 0
        scripts.append(_script(env, task_id, rng, oracle=oracle))
    return scripts


def _script(env: gym.Env[str, str], task_id: str, rng: Any, *, oracle: bool) -> Script:
    game = game_of(env)
    observation, info = env.reset(seed=0, options={"task_id": task_id})
    policy = game.policy("oracle") if oracle else None
    told: list[dict[str, Any]] = [{"observation": observation, "info": info}]
    actions: list[str] = []
    over = False
    while not over and len(actions) < RANDOM_STEPS:
        action = policy(observation, info) if policy else game.random_action(rng)
        observation, reward, terminated, truncated, info = env.step(action)
        actions.append(action)
        told.append(
            {
                "observation": observation,
                "reward": reward,
                "terminated": terminated,
                "truncated": truncated,
                "info": info,
            }
        )
        over = terminated or truncated
    # as JSON has it: lists for tuples
    return Script(task_id, tuple(actions), tuple(json.loads(json.dumps(told))))


def own_cpu_ms(env: gym.Env[str, str], scripts: list[Script], least_steps: int) -> float:
    """CPU of the environment for a step with its share of the resets."""
    steps = 0
    began = time.process_time()
    while steps < least_steps:
        for script in scripts:
            env.reset(seed=0, options={"task_id": script.task_id})
            for action in script.actions:
                env.step(action)
            steps += len(script.actions)
    return 1_000 * (time.process_time() - began) / steps


# ------------------------------------------------------------------------------- the servers


@contextmanager
def serving(command: list[str]) -> Iterator[tuple[int, str]]:
    """A server process and its address, once it can be used."""
    # a file takes whatever is logged, where a full pipe would hold the server up
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = _address(process, Path(log.name))
            while httpx.get(f"{address}/readyz", trust_env=False).status_code == 503:
                time.sleep(0.05)
            yield process.pid, address
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while True:
        said = log.read_text()
        found = re.search(r"http://\S+?:\d+(?=\W*\s)", said)
        if found:
            return found[0]
        if process.poll() is not None:
            raise SystemExit(f"the server did not start: {said[-2_000:]}")
        time.sleep(0.05)


def cpu_seconds(process: int) -> float:
    """User and system time of a process with all its threads (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(process: int) -> float:
    """Memory that a process holds (Linux)."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def load(
    process: int,
    address: str,
    dialect: Dialect,
    scripts: list[Script],
    *,
    sessions: int,
    clients: int,
    steps: int,
) -> dict[str, Any]:
    """Play and measure."""
    parts = urlsplit(address)
    tally = Tally()
    wires = [Wire(str(parts.hostname), parts.port or 80) for _ in range(clients)]
    expected = expected_answers(dialect, scripts)
    players = [Player(wire, dialect, scripts, expected, tally) for wire in wires]
    for wire in wires:
        await wire.open()
    shares = [range(number, sessions, clients) for number in range(clients)]
    began = time.perf_counter()
    await asyncio.gather(*(p.create(s) for p, s in zip(players, shares, strict=True)))
    created_s = time.perf_counter() - began
    for wire in wires:  # servers close connections that wait long
        wire.close()
        await wire.open()
    memory: list[tuple[int, float]] = []
    watch = asyncio.create_task(_watch(process, tally, memory))
    cpu, own, began = cpu_seconds(process), time.process_time(), time.perf_counter()
    await asyncio.gather(*(player.play(lambda: tally.steps >= steps) for player in players))
    took = time.perf_counter() - began
    cpu, own = cpu_seconds(process) - cpu, time.process_time() - own
    watch.cancel()
    for wire in wires:
        wire.close()
    latencies = statistics.quantiles(tally.latencies_s, n=1_000)
    settled = [mb for at, mb in memory if at >= WARM_UP_SHARE * steps] or [resident_mb(process)]
    return {
        "server": dialect.name,
        "sessions": sessions,
        "clients": clients,
        "steps": tally.steps,
        "resets": tally.resets,
        "errors": len(tally.errors),
        "mixed": len(tally.mixed),
        "repeats": sum(wire.repeats for wire in wires),
        "examples": [*tally.errors[:SHOWN], *tally.mixed[:SHOWN]],
        "create_ms": 1_000 * created_s / sessions,
        "seconds": took,
        "steps_a_second": tally.steps / took,
        "p50_ms": 1_000 * latencies[499],
        "p99_ms": 1_000 * latencies[989],
        "server_cpu_ms": 1_000 * cpu / tally.steps,
        "client_cpu_ms": 1_000 * own / tally.steps,
        "resident_mb": settled[0],
        "resident_most_mb": max(settled),
        "resident_least_mb": min(settled),
        "resident_last_mb": settled[-1],
        "growth": max(abs(mb / settled[0] - 1) for mb in settled),
        "memory": memory[:: max(1, len(memory) // 50)],
    }


async def _watch(process: int, tally: Tally, memory: list[tuple[int, float]]) -> None:
    while True:
        memory.append((tally.steps, resident_mb(process)))
        await asyncio.sleep(SAMPLE_S)


# --------------------------------------------------------------------------------- reporting


def faults_of(ours: dict[str, Any], peer: dict[str, Any] | None) -> list[str]:
    """What the run did not show."""
    faults = [
        f"{result['server']}: {result['errors']} errors, {result['mixed']} mixed answers"
        for result in (ours, peer)
        if result and (result["errors"] or result["mixed"])
    ]
    if ours["growth"] > MOST_GROWTH:
        faults.append(f"memory moved by {ours['growth']:.1%}")
    if ours["added_cpu_ms"] > MOST_CPU_MS:
        faults.append(f"the server adds {ours['added_cpu_ms']:.2f} ms of CPU to a step")
    return faults


def print_table(results: list[dict[str, Any]], own_ms: float) -> None:
    """One line for each server."""
    print(f"the environment itself: {own_ms:.3f} ms of CPU a step")
    columns = (
        ("server", "server", "{}"),
        ("steps", "steps", "{:,}"),
        ("errors", "errors", "{}"),
        ("mixed", "mixed", "{}"),
        ("repeats", "repeats", "{}"),
        ("steps/s", "steps_a_second", "{:,.0f}"),
        ("p50 ms", "p50_ms", "{:.1f}"),
        ("p99 ms", "p99_ms", "{:.1f}"),
        ("CPU ms", "server_cpu_ms", "{:.3f}"),
        ("added", "added_cpu_ms", "{:.3f}"),
        ("MB", "resident_mb", "{:.0f}"),
        ("most", "resident_most_mb", "{:.0f}"),
        ("moved", "growth", "{:.1%}"),
    )
    print("| " + " | ".join(title for title, _, _ in columns) + " |")
    print("|" + "---|" * len(columns))
    for result in results:
        print("| " + " | ".join(form.format(result[key]) for _, key, form in columns) + " |")
        for example in result["examples"]:
            print(example, file=sys.stderr)


def main() -> int:
    """Measure; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="WebShop-v0", metavar="ID")
    parser.add_argument("--data", metavar="PATH", help="of both servers (the embedded world)")
    parser.add_argument("--sessions", type=int, default=1_000, metavar="N")
    parser.add_argument("--clients", type=int, default=64, metavar="N")
    parser.add_argument("--steps", type=int, default=200_000, metavar="N")
    parser.add_argument("--peer-steps", type=int, default=40_000, metavar="N", help="0 for none")
    parser.add_argument("--scripts", type=int, default=1_000, metavar="N", help="episodes")
    parser.add_argument("--report", type=Path, metavar="FILE")
    args = parser.parse_args()

    env = make_env(args.env, args.data)
    scripts = write_scripts(env, args.scripts)
    rehearsal = max(1_000, args.steps // 20)
    own = [own_cpu_ms(env, scripts, rehearsal)]

    def run(command: list[str], dialect: Dialect, steps: int) -> dict[str, Any]:
        with serving([sys.executable, *command]) as (process, address):
            return asyncio.run(
                load(
                    process,
                    address,
                    dialect,
                    scripts,
                    sessions=args.sessions,
                    clients=args.clients,
                    steps=steps,
                )
            )

    data = [] if args.data is None else [f"--data={args.env}={args.data}"]
    serve = ["-m", "agentgym_suite", "serve", "env", "--env", args.env, "--port=0", *data]
    ours = run([*serve, f"--max-sessions={args.sessions}"], Ours(args.env), args.steps)
    peer = None
    if args.peer_steps:
        data = [] if args.data is None else [f"--data={args.data}"]
        command = [str(HERE / "agentgym_style_server.py"), f"--env={args.env}", *data]
        peer = run(command, AgentGymStyle(), args.peer_steps)
    own.append(own_cpu_ms(env, scripts, rehearsal))
    env.close()

    results = [result for result in (ours, peer) if result]
    for result in results:
        result["added_cpu_ms"] = result["server_cpu_ms"] - statistics.mean(own)
    print_table(results, statistics.mean(own))
    faults = faults_of(ours, peer)
    for fault in faults:
        print(f"fault: {fault}", file=sys.stderr)
    if args.report:
        episodes = {"scripts": len(scripts), "steps": sum(len(s.actions) for s in scripts)}
        report = {"env": args.env, "own_cpu_ms": own, "episodes": episodes, "results": results}
        args.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

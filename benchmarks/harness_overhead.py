"""What the harness costs: CPU of a step beside a bare loop, and memory over 10,000 episodes.

    python benchmarks/harness_overhead.py [--episodes N] [--env ID] [--max-steps N]

Both sides play the same tasks with the same seeds in this process: a loop of nothing but
``reset``, ``act`` and ``step``, then what ``evaluate`` does, with records, fsyncs, scores and the
report. Every action, observation, reward and state of the records must be the bare loop's. The
harness's share of a step is what it takes above the bare loop.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_suite.episodes import Turn
from agentgym_suite.evaluation.agent_runs import run_agents
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of
from agentgym_suite.evaluation.open_suites import OpenSuite, ad_hoc_suite
from agentgym_suite.evaluation.plan import planned_episodes
from agentgym_suite.evaluation.run_directory import EPISODES, read_records
from agentgym_suite.evaluation.settings import AgentSpec, RunProgress, named_agent
from agentgym_suite.tasks import Task

MARKS = (0.1, 0.5, 1.0)  # shares of the episodes after which memory is looked at
BOUND_MS = 1.0  # CPU of a step above the bare loop
FLAT = 1.05  # most that memory may grow from half of the episodes to all of them
Digests = dict[EpisodeKey, str]


@dataclass
class Figures:
    """What was measured."""

    episodes: int
    steps: int = 0
    bare_s: float = 0.0
    played_s: float = 0.0
    scored_s: float = 0.0
    differences: int = 0
    resident_mb: dict[int, float] = field(default_factory=dict)
    records_mb: float = 0.0

    @property
    def playing_ms(self) -> float:
        """CPU of a step above the bare loop while episodes are played and recorded."""
        return 1000 * (self.played_s - self.bare_s) / self.steps

    @property
    def overhead_ms(self) -> float:
        """The same with the scores, the report and its page."""
        return 1000 * (self.played_s + self.scored_s - self.bare_s) / self.steps

    @property
    def growth(self) -> float:
        """Memory after all episodes beside that after half of them."""
        *_, half, whole = self.resident_mb.values()
        return whole / half


def bare_loop(opened: OpenSuite, agent: AgentSpec, figures: Figures) -> Digests:
    """Play every episode with nothing around it; the CPU of taking digests is left out."""
    digests = {}
    (environment,) = opened.environments
    started = time.process_time()
    aside = 0.0
    with closing(environment.make()) as env:
        for key, seed in planned_episodes(opened.suite):
            player = agent.make(env, seed)
            observation, info = env.reset(seed=seed, options={"task_id": key.task_id})
            task = Task(key.task_id, -1, str(info["split"]), str(info["task_family"]))
            seen: list[tuple[Any, ...]] = []
            ended = False
            while not ended:
                reply = player.act(Turn(task, len(seen), observation, info, (), (), ()))
                following, reward, terminated, truncated, info = env.step(reply.text)
                told = info["parsed_action"], observation, float(reward), info["state_hash"]
                seen.append(told)
                observation, ended = following, terminated or truncated
            player.close()
            before = time.process_time()
            digests[key] = _digest(seen)
            aside += time.process_time() - before
            figures.steps += len(seen)
    figures.bare_s = time.process_time() - started - aside
    return digests


def harness(opened: OpenSuite, agent: AgentSpec, out: Path, figures: Figures) -> None:
    """Play the same with records, scores and report; look at the memory on the way."""
    marks = {round(share * figures.episodes) for share in MARKS}
    started = time.process_time()

    def look(progress: RunProgress) -> None:
        if progress.done in marks and progress.done not in figures.resident_mb:
            figures.resident_mb[progress.done] = resident_mb()
            figures.played_s = time.process_time() - started

    run_agents(opened, [agent], out, on_progress=look)
    figures.scored_s = time.process_time() - started - figures.played_s
    figures.records_mb = (out / EPISODES).stat().st_size / 1e6


def recorded(out: Path) -> Digests:
    """The digests of what stands in the records."""
    return {
        key_of(record): _digest(
            [(s["parsed_action"], s["obs"], s["reward"], s["state_hash"]) for s in record["steps"]]
        )
        for record in read_records(out / EPISODES)
    }


def _digest(steps: list[tuple[Any, ...]]) -> str:
    return hashlib.sha256(repr(steps).encode()).hexdigest()


def resident_mb() -> float:
    """Resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.partition("VmRSS:")[2].split()[0]) / 1024, 1)


def table(figures: Figures) -> str:
    """The figures for people."""
    rows = [
        ("episodes, steps", f"{figures.episodes:,}, {figures.steps:,}"),
        ("bare loop", f"{1000 * figures.bare_s / figures.steps:.3f} ms CPU a step"),
        ("above it: playing and recording", f"{figures.playing_ms:.3f} ms CPU a step"),
        ("above it: scores and report, too", f"{figures.overhead_ms:.3f} ms CPU a step"),
        ("resident after episodes", told_memory(figures.resident_mb)),
        ("records", f"{figures.records_mb:.0f} MB"),
        ("differences to the bare loop", str(figures.differences)),
    ]
    return "\n".join(f"{name:34}{value}" for name, value in rows)


def told_memory(resident: Mapping[int, float]) -> str:
    """Memory at each mark."""
    return ", ".join(f"{done:,}: {mb:.1f} MB" for done, mb in resident.items())


def main() -> int:
    """Measure; 1 if records differ, a step costs too much or memory grows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--env", default="ALFWorld-v0")
    parser.add_argument("--agent", default="random")
    parser.add_argument("--max-steps", type=int, default=12)
    parser.add_argument("--report", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    agent = named_agent(args.agent)
    tasks = len(ad_hoc_suite(args.env).suite.envs[0].tasks)
    trials = max(1, args.episodes // tasks)
    opened = ad_hoc_suite(
        args.env, trials=trials, episodes=min(tasks, args.episodes), max_steps=args.max_steps
    )
    figures = Figures(opened.suite.planned)
    with tempfile.TemporaryDirectory() as folder:
        digests = bare_loop(opened, agent, figures)
        harness(opened, agent, Path(folder) / "run", figures)
        found = recorded(Path(folder) / "run")
    figures.differences = sum(
        digests.get(key) != found.get(key) for key in digests.keys() | found.keys()
    )
    print(table(figures))
    if args.report is not None:
        told = {
            **vars(figures),
            "playing_ms": figures.playing_ms,
            "overhead_ms": figures.overhead_ms,
        }
        args.report.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    good = not figures.differences and figures.overhead_ms < BOUND_MS and figures.growth < FLAT
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""Before a run: its episodes with their seeds, and what ``run.json`` says of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentgym_suite.evaluation.machine import git_state, machine, package_versions
from agentgym_suite.evaluation.records import SCHEMA_VERSION, EpisodeKey
from agentgym_suite.evaluation.run_directory import config_digest
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions
from agentgym_suite.evaluation.suites import Suite, episode_seed
from agentgym_suite.evaluation.worlds import OpenSuite
from agentgym_suite.prompts import prompt_template
from agentgym_suite.versions import suite_version


def planned_episodes(suite: Suite) -> list[tuple[EpisodeKey, int]]:
    """Every episode of a suite with its seed, in the suite's order."""
    return [
        (
            EpisodeKey(entry.id, task, trial),
            episode_seed(suite.id, suite.version, entry.id, task, trial),
        )
        for entry in suite.envs
        for task in entry.tasks
        for trial in range(entry.trials)
    ]


def run_header(opened: OpenSuite, agent: AgentSpec, options: RunOptions) -> dict[str, Any]:
    """What ``run.json`` says of a new run; ``config`` holds all that can change a result."""
    suite = opened.suite
    prompt = agent.prompt
    config = {
        "suite": {"id": suite.id, "version": suite.version, "digest": suite.digest},
        "agent": {"name": agent.name, **agent.config},
        "policy_version": agent.policy_version,
        "prompt": None
        if prompt is None
        else {
            "template": prompt.template,
            "version": prompt_template(prompt.template).version,
            "history_length": prompt.history_length,
            "token_budget": prompt.token_budget,
            "truncation": prompt.truncation,
        },
        "reply_format": agent.reply_format,
        "environments": {
            world.entry.id: {"tasks": world.tasks.digest, "provenance": dict(world.provenance)}
            for world in opened.worlds
        },
        "package_version": suite_version(),
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": {
            "id": suite.id,
            "version": suite.version,
            "digest": opened.digest,
            "title": suite.title,
            "departures": list(suite.departures),
            "content": suite.content(),
        },
        "agent": agent.name,
        "policy_version": agent.policy_version,
        "config": config,
        "config_digest": config_digest(config),
        "options": {
            "concurrency": options.concurrency,
            "episode_timeout_s": options.episode_timeout_s,
            "max_retries": options.max_retries,
            "runner": "local",
            "data": {world.entry.id: world.data for world in opened.worlds},
        },
        "packages": package_versions(),
        "git": git_state(Path.cwd()),
        "machine": machine(),
        "started_at": timestamp(),
        "ended_at": None,
        "setup_s": opened.setup_s,
        "wall_s": 0.0,
    }


def timestamp() -> str:
    """The time now, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Before a run: its episodes with their seeds, and what ``run.json`` says of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from agentgym_suite.evaluation.episode_keys import EpisodeKey, planned_keys
from agentgym_suite.evaluation.open_suites import OpenSuite
from agentgym_suite.evaluation.records import SCHEMA_VERSION
from agentgym_suite.evaluation.settings import AgentSpec, RunOptions
from agentgym_suite.evaluation.suites import Suite, episode_seed
from agentgym_suite.files import json_digest
from agentgym_suite.machine import (
    git_state,
    machine,
    package_folder,
    package_versions,
)
from agentgym_suite.prompts import prompt_template
from agentgym_suite.spaces import without_surrogates
from agentgym_suite.versions import suite_version

_PACKAGES = ("agentgym-suite", "gymnasium", "numpy")


def planned_episodes(suite: Suite) -> list[tuple[EpisodeKey, int]]:
    """Every episode of a suite with its seed, in the suite's order."""
    return [
        (key, episode_seed(suite.id, suite.version, *key))
        for entry in suite.content()["env"]
        for key in planned_keys(entry)
    ]


def _success_feedback(agent: AgentSpec) -> dict[str, Any]:
    """What an agent is told of its success; nothing for one that plays a task once."""
    if agent.max_rounds == 1:
        return {}
    return {"reflexion_rounds": agent.max_rounds, "uses_success_feedback_at_test": True}


def run_header(opened: OpenSuite, agent: AgentSpec, options: RunOptions) -> dict[str, Any]:
    """What ``run.json`` says of a new run; ``config`` holds all that can change a result."""
    suite = opened.suite
    prompt = agent.prompt
    config = {
        "suite": {"id": suite.id, "version": suite.version, "digest": suite.digest},
        "agent": {"name": agent.name, **agent.config, **_success_feedback(agent)},
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
            environment.entry.id: {
                "tasks": environment.tasks.digest,
                "provenance": dict(environment.provenance),
            }
            for environment in opened.environments
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
        "config_digest": json_digest(config),
        "options": {
            "concurrency": options.concurrency,
            "episode_timeout_s": options.episode_timeout_s,
            "max_retries": options.max_retries,
            "runner": options.runner,
            "data": {
                environment.entry.id: environment.data and without_surrogates(environment.data)
                for environment in opened.environments
            },
        },
        "packages": package_versions(_PACKAGES),
        "git": git_state(package_folder()),
        "machine": machine(),
        "started_at": timestamp(),
        "ended_at": None,
        "setup_s": opened.setup_s,
        "wall_s": 0.0,
    }


def timestamp() -> str:
    """The time now, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")

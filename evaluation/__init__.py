"""The evaluation harness: suites, records, statistics and reports.

from agentgym_suite import evaluation

results = evaluation.run("smoke", "oracle", out="runs/smoke-oracle")
results.envs["WebShop-v0"].success  # estimate, low, high, method, n
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from agentgym_suite.evaluation.agent_runs import run_agents
from agentgym_suite.evaluation.intervals import Interval, task_bootstrap, wilson
from agentgym_suite.evaluation.model_specs import (
    CheckpointOptions,
    EndpointOptions,
    ModelOptions,
    TransformersOptions,
    WeightsOptions,
    model_agent,
)
from agentgym_suite.evaluation.open_suites import OpenSuite, ad_hoc_suite, open_suite
from agentgym_suite.evaluation.paired_results import Comparison
from agentgym_suite.evaluation.paired_runs import compare
from agentgym_suite.evaluation.replayed_runs import replayed_run
from agentgym_suite.evaluation.results import EnvResults, RunResults
from agentgym_suite.evaluation.settings import AgentSpec, OnProgress, RunOptions, named_agent
from agentgym_suite.evaluation.suite_unions import SuiteUnion, load_union
from agentgym_suite.evaluation.suites import EnvEntry, Suite, episode_seed, load_suite
from agentgym_suite.evaluation.tables import failure_sentences
from agentgym_suite.evaluation.union_runs import open_union, run_union

__all__ = [
    "AgentSpec",
    "CheckpointOptions",
    "Comparison",
    "EndpointOptions",
    "EnvEntry",
    "EnvResults",
    "Interval",
    "ModelOptions",
    "OpenSuite",
    "RunOptions",
    "RunResults",
    "Suite",
    "SuiteUnion",
    "TransformersOptions",
    "WeightsOptions",
    "ad_hoc_suite",
    "compare",
    "episode_seed",
    "load_suite",
    "load_union",
    "model_agent",
    "open_suite",
    "replayed_run",
    "open_union",
    "run",
    "run_union",
    "task_bootstrap",
    "wilson",
]

_log = logging.getLogger(__name__)


def run(
    suite: str | Path | Suite | OpenSuite,
    agent: str | AgentSpec,
    *,
    out: str | Path,
    data: Mapping[str, str] | None = None,
    allow_missing: bool = False,
    options: RunOptions | None = None,
    on_progress: OnProgress | None = None,
) -> RunResults:
    """Run an agent over a suite, or go on with the run in ``out``, and report it.

    Episodes that a failure ended are logged as warnings, one sentence for each kind.

    Args:
        suite: a suite, its id, the path of its TOML file, or an opened one (``ad_hoc_suite``).
        agent: an agent, or the name of one.
        out: the run's directory; records, results and reports are written there.
        data: environment or data set -> path of its official files; embedded worlds without.
        allow_missing: play what the data hold of the suite; such a run is not rankable.
        options: concurrency, timeouts, retries, resuming.
        on_progress: called after every episode with the count, the score and the time left.

    Returns:
        What ``results.json`` holds; ``status`` says whether the run is complete.

    Raises:
        UsageError: an unknown suite or agent, or a suite that does not fit its data.
        DataError: data that are absent or damaged.
        RunError: the directory holds another run, or is in use.
    """
    if not isinstance(suite, OpenSuite):
        suite = suite if isinstance(suite, Suite) else load_suite(suite)
        suite = open_suite(suite, data or {}, allow_missing=allow_missing)
    spec = named_agent(agent) if isinstance(agent, str) else agent
    done = run_agents(suite, [spec], Path(out), options=options, on_progress=on_progress)
    for sentence in failure_sentences(done.runs):
        _log.warning(sentence)
    return done.runs[0].results

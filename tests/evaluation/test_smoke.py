"""The smoke suite, for real: every environment's embedded world."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_suite import evaluation
from agentgym_suite.evaluation.suites import load_suite
from agentgym_suite.registry import ENV_IDS


def test_the_smoke_suite_holds_every_environment() -> None:
    assert {entry.id for entry in load_suite("smoke").envs} == set(ENV_IDS)
    assert all(len(entry.tasks) >= 20 for entry in load_suite("smoke").envs)


@pytest.mark.usefixtures("fresh_home")
def test_the_oracle_solves_it_and_random_does_not(tmp_path: Path) -> None:
    opened = evaluation.open_suite(load_suite("smoke"), {}, allow_missing=False)
    oracle = evaluation.run(opened, "oracle", out=tmp_path / "oracle")
    at_random = evaluation.run(opened, "random", out=tmp_path / "random")
    for results in (oracle, at_random):
        told = f"{results.run.agent} comes with the suite and is shown as a baseline"
        assert results.not_rankable_reasons == (told,)
    assert set(oracle.envs) == set(ENV_IDS)
    for env_id, env in oracle.envs.items():
        assert env.success.estimate == env.score.estimate == 1.0, env_id
        other = at_random.envs[env_id]
        assert other.finished == other.planned
        assert other.success.estimate is not None and other.success.estimate < 1.0, env_id
        assert other.score.estimate is not None and other.score.estimate < 1.0, env_id

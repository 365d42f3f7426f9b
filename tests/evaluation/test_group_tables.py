"""Success by data set: the mean of the sets beside the pooled rate, as published tables have it."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.evaluation.group_tables import GroupTable, group_tables
from agentgym_suite.evaluation.intervals import macro_interval
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.evaluation.report import html_report, markdown_report
from agentgym_suite.evaluation.scored_runs import ScoredRun, load_runs
from agentgym_suite.evaluation.settings import AgentSpec
from agentgym_suite.evaluation.tables import env_tables
from agentgym_suite.importers import IMPORTERS
from tests.evaluation.played import counting_suite, play, records_of, some, write_records

SETS = {"nq": 6, "hotpotqa": 3, "bamboogle": 1}


def question(data_set: str, number: int) -> dict[str, Any]:
    return {
        "id": f"test_{number}",
        "data_source": data_set,
        "prompt": [{"role": "user", "content": f"Question: which lamp is {number}?"}],
        "reward_model": {"ground_truth": {"target": ["the lamp"]}},
        "extra_info": {"split": "test", "index": number},
    }


class Reader:
    """Knows every answer of NQ, the first one of HotpotQA and no other."""

    def act(self, turn: Turn) -> Reply:
        known = turn.task.id.startswith("nq/") or turn.task.id == "hotpotqa/test/test_0"
        return Reply("answer[the lamp]" if known else "answer[a stone]")

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[ScoredRun]:
    folder = tmp_path_factory.mktemp("sets")
    rows = [question(name, number) for name, count in SETS.items() for number in range(count)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    passage = {"id": "0", "title": "Lamp", "text": "A lamp."}
    (folder / "corpus.jsonl").write_text(json.dumps(passage) + "\n", "utf-8")
    module = IMPORTERS["searchqa"].load()
    parser = argparse.ArgumentParser()
    module.add_import_arguments(parser)
    files = [str(folder / "test.jsonl"), "--corpus", str(folder / "corpus.jsonl")]
    data = module.run_import(parser.parse_args([*files, "--out", str(folder / "data")]))
    opened = ad_hoc_suite("MultiHopQA-v0", data=str(data), split="test")
    reader = AgentSpec("reader", lambda env, seed: Reader())
    evaluation.run(opened, reader, out=folder / "run")
    return load_runs([folder / "run"])


def by_data_set(runs: list[ScoredRun]) -> GroupTable:
    (table,) = env_tables(runs)
    (found,) = [one for one in group_tables(table) if one.dimension == "data set"]
    return found


def test_the_mean_of_the_data_sets_stands_beside_the_pooled_rate(runs: list[ScoredRun]) -> None:
    (column,) = by_data_set(runs).columns
    rates = {name: (rate.k, rate.n) for name, rate in column.rates.items()}
    assert rates == {"nq": (6, 6), "hotpotqa": (1, 3), "bamboogle": (0, 1)}
    assert column.mean.estimate == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert column.pooled.estimate == pytest.approx(7 / 10)
    assert column.mean.low is not None and column.mean.low < (4 / 9) < (column.mean.high or 0)
    em = runs[0].results.envs["MultiHopQA-v0"].metrics["em"]
    assert em.estimate == column.pooled.estimate  # exact match is this environment's success


def test_both_are_in_the_report(runs: list[ScoredRun]) -> None:
    text = markdown_report(runs)
    assert "MultiHopQA-v0 by data set" in text
    assert "| mean of the groups | 44.4 % |" in text and "| their tasks pooled | 70.0 % |" in text
    page = html_report(runs)
    assert "success by data set" in page and "mean of the groups" in page


def test_no_dimension_is_told_twice_and_none_of_one_group(runs: list[ScoredRun]) -> None:
    (table,) = env_tables(runs)
    assert [one.dimension for one in group_tables(table)] == ["data set"]


def test_reasons_counted_together_stand_last(runs: list[ScoredRun]) -> None:
    (run,) = runs
    env = replace(
        run.results.envs["MultiHopQA-v0"], format_errors={"no call": 3, "other reasons": 9}
    )
    changed = replace(run, results=replace(run.results, envs={"MultiHopQA-v0": env}))
    page = html_report([changed])
    assert 0 < page.index("no call") < page.index("other reasons")


def test_means_resample_tasks_and_hold_those_of_a_group_alone(
    counting_env: str, tmp_path: Path
) -> None:
    suite = counting_suite(10, trials=2)
    folder = play(tmp_path, {**some(2, 4, 5, trials=2), "count-7": (0,)}, suite=suite)
    records = records_of(folder)
    for record in records:
        if record["key"]["task_id"] in ("count-0", "count-1"):
            record["task_family"] = ""
    write_records(folder, records)
    runs = load_runs([folder])
    (groups,) = group_tables(env_tables(runs)[0])
    (column,) = groups.columns
    assert {name: (rate.k, rate.n) for name, rate in column.rates.items()} == {
        "even": (4, 8),
        "odd": (3, 8),
    }
    even, odd = [1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.5, 0.0]
    assert column.mean == macro_interval([even, odd], rate=True)
    assert column.mean.low is not None and column.mean.low < (column.mean.high or 0.0)
    assert column.pooled.estimate == pytest.approx(7 / 16) and column.pooled.n == 8
    assert runs[0].results.envs[counting_env].success.estimate == pytest.approx(7 / 20)

"""The comparison of trainings: its tables, and that what is finished is not done again."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.comparisons import holm, sign_flip
from agentgym_suite.evaluation.intervals import wilson

FOLDER = Path(__file__).parents[1] / "benchmarks"
SVG = "{http://www.w3.org/2000/svg}"


def script(name: str) -> ModuleType:
    """A script of the folder as it is when run: its neighbours are found, and later forgotten."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


runs, tables, curves = script("training_runs"), script("training_tables"), script("curves")
comparing, ablations = script("compare_algorithms"), script("ablations")
engines = script("two_engines")


def finished(algorithm: str, seed: int, sampled: dict[str, list[int | None]]) -> Any:
    greedy = {task: line[:1] for task, line in sampled.items()}
    metrics = [
        {"env_steps": 100.0, "cpu_s": 5.0, "evaluation/seen/temperature_1": 0.25},
        {"env_steps": 210.0, "cpu_s": 9.0, "rollout/failures": 2.0, "peak_memory_mib": 300.0},
    ]
    outcomes = {runs.SEEN: sampled, runs.GREEDY: greedy}
    return runs.TrainedRun(runs.Variant(algorithm), seed, outcomes, "", metrics)


def lines(*outcomes: Sequence[int | None]) -> dict[str, list[int | None]]:
    return {f"task {number}": list(line) for number, line in enumerate(outcomes)}


def test_seeds_of_one_task_are_one_unit_and_what_is_missing_is_no_success() -> None:
    row = tables.table_row(
        "capo",
        [
            finished("capo", 41, lines([1, 1], [0, None], [1, 0])),
            finished("capo", 42, lines([1, 0], [0, 0], [1, 1])),
            runs.TrainedRun(runs.Variant("capo"), 43, {}, "ended with 2: a reason"),
        ],
    )
    sampled = row.measured[runs.SEEN]
    assert sampled.mean == 0.5 and sampled.deviation == 0.0
    assert sampled.interval.n == 3 and sampled.interval.method == "task-bootstrap"
    assert (sampled.interval.low, sampled.interval.high) == (0.0, 0.75)
    assert sampled.missing == 1 and row.failures == 4 + 1
    assert row.average("env_steps") == 210.0 and row.typical("cpu_s") == 7.0
    assert tables.unfinished([row]) == ["* capo, seed 43: ended with 2: a reason"]
    told = "\n".join(tables.success_table([row]))
    assert "| capo | 2 of 3 | 0.500 ± 0.000 | 0.000 to 0.750 |" in told and "| 300 | 5 |" in told


def test_one_episode_a_task_has_wilsons_interval() -> None:
    row = tables.table_row("capo", [finished("capo", 41, lines([1], [1], [0], [1]))])
    assert row.measured[runs.GREEDY].interval == wilson(3, 4)
    assert row.measured[runs.GREEDY].deviation is None


def test_pairs_are_of_common_seeds_and_adjusted_together() -> None:
    good, bad = [[1, 1]] * 9 + [[0, 0]], [[0, 0]] * 8 + [[1, 0], [0, 0]]
    rows = [
        tables.table_row("a", [finished("capo", s, lines(*good)) for s in (41, 42)]),
        tables.table_row("b", [finished("grpo", s, lines(*bad)) for s in (42, 43)]),
        tables.table_row("c", [finished("ppo", s, lines(*good[::-1])) for s in (41, 42)]),
        tables.table_row("d", [finished("ppo", 44, lines(*good))]),
    ]
    pairs = tables.paired_differences(rows)
    assert [(p.first, p.second, p.seeds) for p in pairs] == [
        ("a", "b", (42,)),
        ("a", "c", (41, 42)),
        ("b", "c", (42,)),
    ]
    first = [(sum(g) - sum(b)) / 2 for g, b in zip(good, bad, strict=True)]
    assert pairs[0].difference.estimate == sum(first) / 10
    assert pairs[0].test == "sign-flip" and pairs[0].p == sign_flip(first)
    assert [pair.adjusted for pair in pairs] == holm([pair.p for pair in pairs])
    assert pairs[0].sentence == "a is higher than b"
    assert pairs[1].sentence == "a and c cannot be told apart"
    assert pairs[2].sentence == "c is higher than b"
    told = tables.difference_table(pairs)
    assert told[2].startswith("| a - b | +0.850 |") and len(told) == 5


def test_runs_of_different_tasks_are_not_compared() -> None:
    one = tables.table_row("a", [finished("capo", 41, {"x": [1]})])
    other = tables.table_row("b", [finished("grpo", 41, {"y": [1]})])
    with pytest.raises(UsageError, match="a and b were evaluated on different tasks"):
        tables.paired_differences([one, other])


def test_all_algorithms_come_in_the_order_of_the_registry(tmp_path: Path) -> None:
    names = [variant.algorithm for variant in comparing.variants_of("all", tmp_path)]
    assert names[:4] == ["capo", "sapo_ar", "taspo", "ppo"] and len(names) == 16
    without = [variant.algorithm for variant in comparing.variants_of("all", None)]
    assert without == [name for name in names if name != "opd"], "there is nobody to learn from"
    assert [one.algorithm for one in comparing.variants_of("opd", None)] == ["opd"]
    chosen = comparing.variants_of("grpo,opd,capo", tmp_path)
    assert [variant.algorithm for variant in chosen] == ["capo", "grpo", "opd"]
    assert chosen[2].settings == (("teacher_model", str(tmp_path)),)
    assert "/" not in chosen[2].name
    with pytest.raises(UsageError, match="sapo_ar"):
        comparing.variants_of("sapo", None)


def test_an_ablation_is_trained_once_wherever_it_stands() -> None:
    asked = ablations.tables_of("all", "tiny")
    assert asked["capo-ratio"].rows["action-aware (CAPO)"].name == "capo"
    assert asked["capo-clip"].rows["0.05"].name == "capo"
    assert asked["capo-credit"].rows["action, gamma 0.95"].name == "capo"
    assert asked["capo-removals"].rows["without the action's ratio"].name == "capo_ratio-token"
    assert ablations.tables_of("capo-clip", "paper")["capo-clip"].rows["0.001"].name == "capo"
    with pytest.raises(UsageError, match="'capo-size' does not exist"):
        ablations.tables_of("capo-size", "tiny")


@pytest.mark.parametrize("preset", ["tiny", "paper"])
def test_every_ablation_is_a_setting_that_its_algorithm_has(preset: str) -> None:
    from agentgym_suite.trainers.run_settings import resolve

    for table in ablations.tables_of("all", preset).values():
        for variant in table.rows.values():
            resolve(variant.algorithm, preset, None, dict(variant.settings))


def test_the_mean_curve_stands_where_every_seed_was_measured() -> None:
    line = curves.over_repetitions("x", [[(0, 0.0), (10, 1.0)], [(5, 0.5), (20, 0.5)], []])
    assert line.points == [(5, 0.5), (10, 0.75)]
    assert line.band == [(5, 0.5, 0.5), (10, 0.5, 1.0)]
    assert curves.over_repetitions("x", []).points == ()


def test_a_chart_names_its_axes_and_differs_in_more_than_colour() -> None:
    panels = [
        curves.Panel("a < b", [curves.Line("seen", [(0, 0), (9, 1)], [(0, 0, 0.2), (9, 0.8, 1)])]),
        curves.Panel("c", [curves.Line("seen", [(0, 1)]), curves.Line("unseen", [(0, 0), (9, 1)])]),
    ]
    drawn = ElementTree.fromstring(
        curves.chart(panels, title="t", x_label="steps", y_label="share")
    )
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert texts.count("steps") == texts.count("share") == 2 and {"a < b", "c"} <= set(texts)
    strokes = [line for line in drawn.iter(f"{SVG}polyline") if line.get("stroke") == "#000"]
    dashes = [line.get("stroke-dasharray") for line in strokes]
    # the legend's two, then the panels' three
    assert dashes[0] is None and dashes[1] and dashes[2:] == [None, None, dashes[1]]
    assert len(list(drawn.iter(f"{SVG}polygon"))) == 1


def test_the_family_of_ratios_is_told_by_length_of_the_action() -> None:
    import torch

    ratios = script("claim_ratios")
    # actions of 1, 1, 4 and 4 tokens; the mean of z is 0
    mask = torch.tensor([[1, 0, 0, 0]] * 2 + [[1] * 4] * 2, dtype=torch.bool)
    z = torch.tensor([[0.02], [-0.02], [0.02], [-0.02]], dtype=torch.float64) * mask
    advantages = torch.ones(4, 4, dtype=torch.float64) * mask
    parts = [(z, mask, advantages)]
    assert ratios.buckets_of(parts) == [(1, 3), (4, 4)]

    def told(kind: str) -> list[tuple[float, float]]:
        found = ratios.by_length(parts, kind, 0.03)
        return [(one["out_of_range"], one["active"]) for one in found.values()]

    # products are e^±0.08 for four tokens, roots e^±0.04, means e^±0.02
    assert told("product") == told("action-aware") == [(0.0, 0.0), (1.0, 0.5)]
    assert told("mean") == told("token") == [(0.0, 0.0), (0.0, 0.0)]
    assert ratios.growth(parts) == pytest.approx(2.0)  # equal tokens: the sum grows as L
    checks = ratios.checks_of([(torch.zeros_like(z), mask, advantages), *parts])
    assert all(checks.values()), checks


def test_a_comparison_goes_on_and_what_breaks_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from agentgym_suite.trainers.exports import save_policy
    from tests.trainers.tiny_training import policy

    model, tokenizer = policy()
    save_policy(tmp_path / "start", model, tokenizer, prompt="terse")
    plan = runs.Plan(
        env="ALFWorld-v0",
        preset="tiny",
        budget_steps=1,
        budget_minutes=0.0,
        policy=str(tmp_path / "start"),
        threads=1,
        settings=("most_admissible=10", "horizon=1", "tasks=1", 'unseen_split=""'),
    )
    out = tmp_path / "out"
    broken = runs.Variant("capo", (("clip_low", 2.0),))
    first = [(runs.Variant("capo"), 41), (broken, 41)]
    told: list[str] = []
    runs.train_all(plan, first, out, jobs=2, tell=told.append)
    done, failed = runs.trained_runs(out, first)
    assert done.failure == "" and len(done.outcomes[runs.SEEN]) == 17
    assert done.last("env_steps") >= 1 and done.record["configuration"]["run"]["seed"] == 41
    assert "ended with 2: " in failed.failure and "clip_low is 2" in failed.failure
    before = (runs.run_folder(out, *first[0]) / "evaluation.json").stat().st_mtime_ns
    second = [first[0], (runs.Variant("grpo"), 42)]
    told.clear()
    runs.train_all(plan, second, out, jobs=1, tell=told.append)
    assert told == [
        "capo, seed 41: finished before",
        "grpo, seed 42: training",
        "grpo, seed 42: finished",
    ]
    assert (runs.run_folder(out, *first[0]) / "evaluation.json").stat().st_mtime_ns == before
    shown = "\n".join(comparing.write_report(out, plan, list(runs.trained_runs(out, second))))
    assert "| capo | 1 of 1 |" in shown and "| grpo | 1 of 1 |" in shown
    assert "trajectories differs: 1 (capo 41); 8 (grpo 42)" in shown
    assert {"results.json", "results.md", "curves.svg"} <= {path.name for path in out.iterdir()}


def test_a_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    import argparse

    def asked(*more: str) -> Any:
        parser = argparse.ArgumentParser()
        runs.add_arguments(parser, seeds="41")
        return parser.parse_args(["--out", str(tmp_path / "out"), "--policy", "start", *more])

    plan = runs.plan_of(asked("--budget-steps", "600"))
    assert runs.plan_of(asked("--budget-steps", "600", "--seeds", "41,42", "--jobs", "2")) == plan
    with pytest.raises(UsageError, match="another plan .budget_steps was 600."):
        runs.plan_of(asked("--budget-steps", "700"))
    with pytest.raises(UsageError, match="give whole numbers"):
        runs.seeds_of(asked("--seeds", "41,x"))


def test_two_engines_are_held_against_each_other_task_by_task(tmp_path: Path) -> None:
    plan = runs.Plan(
        env="", preset="tiny", budget_steps=100, budget_minutes=0.0, policy="start", threads=1
    )
    one, other = engines.variants()
    played = {"transformers": lines([1, 0], [1, 1], [0, 0]), "vllm": lines([1, 1], [0, 1], [0, 0])}
    trained = [
        runs.TrainedRun(
            variant, 41, {runs.SEEN: played[dict(variant.settings)["engine"]]}, "", metrics
        )
        for variant, metrics in ((one, [{"mismatch/max": 2e-6}]), (other, [{"mismatch/max": 3e-5}]))
    ]
    told = engines.write_report(tmp_path, plan, trained)
    assert f"## {runs.SEEN}: the interval of the difference holds 0" in told
    results = json.loads((tmp_path / "two_engines.json").read_bytes())
    (pair,) = results["pairs"][runs.SEEN]
    assert (pair["first"], pair["second"]) == ("transformers", "vllm")
    assert pair["difference"]["estimate"] == 0.0
    assert results["pairs"][runs.GREEDY] == []
    assert results["mismatch"] == {"transformers": 2e-6, "vllm": 3e-5}
    never = [run if run.variant == one else replace(run, outcomes={}) for run in trained]
    assert not any("difference" in line for line in engines.write_report(tmp_path, plan, never))


def test_engines_that_differ_on_every_task_are_told_apart() -> None:
    tasks = range(40)
    first = finished("capo", 41, lines(*([1, 1] for _ in tasks)))
    second = finished("capo", 41, lines(*([0, number % 2] for number in tasks)))
    rows = [tables.table_row("transformers", [first]), tables.table_row("vllm", [second])]
    (pair,) = tables.paired_differences(rows)
    assert engines.verdict(pair) == "the interval of the difference does not hold 0"


def test_what_is_told_stands_in_front_of_the_prompt_of_its_own_reply() -> None:
    asked: list[Any] = []

    class Engine:
        policy_version = "measured"

        def generate(self, prompts: Any, sampling: Any, seeds: Any) -> list[str]:
            asked.append((prompts, seeds))
            return ["reply"] * len(prompts)

    telling = script("told_policy").ToldEngine(Engine(), {7: (1, 2), 8: ()})
    assert telling.generate([[5], [6]], None, [8, 7]) == ["reply", "reply"]
    assert asked == [([(5,), (1, 2, 6)], [8, 7])]


def test_shares_are_of_the_episodes_that_were_told_something() -> None:
    episodes = [
        SimpleNamespace(task_id=task, success=won)
        for task, won in zip("aabb", (1, 0, 1, 1), strict=True)
    ]
    found = script("told_policy").share(episodes, [True, True, False, True])
    assert (found["episodes"], found["estimate"], found["n"]) == (3, 0.75, 2)

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_suite.errors import DataMissing, RunError, UsageError
from agentgym_suite.evaluation.results import RunResults
from agentgym_suite.evaluation.run_directory import EPISODES
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.scoring import score_run
from agentgym_suite.evaluation.settings import named_agent
from agentgym_suite.evaluation.suite_unions import (
    SuiteUnion,
    load_union,
    parse_union,
    shipped_unions,
)
from agentgym_suite.evaluation.suites import EnvEntry, Suite, load_suite
from agentgym_suite.evaluation.union_results import UnionRow
from agentgym_suite.evaluation.union_runs import UnionRuns, open_union, run_union
from agentgym_suite.evaluation.union_tables import union_table

ENV = "Counting-v0"
AGENTS = {"solver": replace(named_agent("oracle"), name="solver")}
TOML = 'id = "two"\nversion = 1\nmembers = ["smoke", "lite"]\n'


def member(name: str, tasks: int, *, primary: str = "success", data: str = "") -> Suite:
    ids = tuple(f"count-{number}" for number in range(tasks))
    return Suite(name, 1, (EnvEntry(ENV, ids, max_steps=6, data=data),), primary=primary)


UNION = SuiteUnion("both", 1, (member("few", 5), member("many", 30, primary="score")), "Both")
WITH_ABSENT = SuiteUnion("three", 1, (*UNION.members, member("far", 4, data="abacus")))


def run(union: SuiteUnion, out: Path, *agents: str) -> UnionRuns:
    opened = open_union(union, {})
    return run_union(opened, [AGENTS.get(name) or named_agent(name) for name in agents], out)


def test_the_shipped_unions_are_the_papers() -> None:
    households = ["alfworld-seen-h50", "alfworld-unseen-h50"]
    found = {name: [m.id for m in load_union(name).members] for name in shipped_unions()}
    full = found.pop("full")
    assert found == {
        "capo": [
            *("alfworld-seen-h20", "alfworld-unseen-h20", "webshop-test500"),
            *("hotpotqa-dev", "2wiki-dev", "musique-dev", "papers-real50"),
        ],
        "sapo": [*households, "webshop-test500"],
        "taspo": [*households, "webshop-test128", "searchqa-7"],
    }
    assert set(full) == {name for members in found.values() for name in members}
    assert all(load_union(name).id == name for name in shipped_unions())


def test_a_union_is_its_members() -> None:
    union = parse_union(TOML, source="the test")
    assert union.planned == load_suite("smoke").planned + 200
    assert union.digest != parse_union(TOML.replace(', "lite"', ""), source="b").digest
    assert union.digest != union.part(episodes=1).digest
    assert union.part(episodes=2, trials=3).planned == 4 * 2 * 3 * 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"smoke", "lite"', "", "at least one suite"),
        ('"smoke", "lite"', "1", "at least one suite"),
        ('"smoke", "lite"', '"smoke", "smoke"', "smoke more than once"),
        ('"lite"', '"light"', "suite 'light' does not exist"),
        ('"lite"', '"capo"', "capo is a union"),
        ("members", "suites", "unknown key 'suites'"),
        ("version = 1", "", "version"),
    ],
)
def test_a_wrong_union_is_one_sentence(old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_union(TOML.replace(old, new), source="the test")


def test_unknown_unions_are_named() -> None:
    with pytest.raises(UsageError, match="capo, full, sapo, taspo"):
        load_union("cappo")


@pytest.mark.usefixtures("counting_env")
class TestRuns:
    """Unions of the counting game, played."""

    def test_each_member_is_a_run_of_its_own(self, tmp_path: Path) -> None:
        done = run(UNION, tmp_path, "solver")
        assert done.complete
        for suite in UNION.members:
            header = read_run(tmp_path / suite.id)
            assert header["suite"]["id"] == suite.id
            assert header["suite"]["digest"] == suite.digest
            assert score_run(tmp_path / suite.id).rankable
            assert (tmp_path / suite.id / "report.html").is_file()
        (row,) = done.results.rows
        assert row.rankable and row.covered == 2 and row.means.primary.estimate == 1.0
        assert json.loads((tmp_path / "union.json").read_bytes()) == done.results.as_dict()

    def test_a_mean_weighs_every_member_the_same(self, tmp_path: Path) -> None:
        done = run(UNION, tmp_path, "random", "oracle")
        first, second = done.results.rows
        assert [first.agent, second.agent] == ["oracle", "random"]
        few, many = (score_run(tmp_path / name / "random") for name in ("few", "many"))
        success, score = few.macro.success.estimate, many.macro.score.estimate
        assert success is not None and score is not None and score > 0
        assert second.means.primary.estimate == pytest.approx((success + score) / 2)
        assert second.means.primary.method == "stratified-task-bootstrap"
        own = [m.means.primary for m in second.members]
        assert own == [intervals(few), many.envs[ENV].score]

    def test_absent_data_skip_a_member_and_cost_the_rank(self, tmp_path: Path) -> None:
        done = run(WITH_ABSENT, tmp_path, "solver")
        (row,) = done.results.rows
        assert done.complete and not row.rankable
        assert row.not_rankable_reasons == ("far: data absent",)
        assert (row.covered, row.means.primary.estimate) == (2, 1.0)
        far = row.members[2]
        assert (far.status, far.planned, far.finished) == ("data absent", 4, 0)
        assert "--data Counting-v0=PATH" in far.reason and not (tmp_path / "far").exists()
        text = (tmp_path / "union.md").read_text("utf-8")
        assert "mean of 2 of 3" in text and "- far: data absent: abacus" in text
        assert union_table(done.results).row_count == 4

    def test_the_same_command_goes_on_to_the_same_bytes(self, tmp_path: Path) -> None:
        run(UNION, tmp_path, "oracle")
        before = {name: (tmp_path / name).read_bytes() for name in ("union.json", "union.md")}
        path = tmp_path / "many" / EPISODES
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
        run(UNION, tmp_path, "oracle")
        assert len(path.read_bytes().splitlines()) == 30
        assert {name: (tmp_path / name).read_bytes() for name in before} == before

    def test_an_incomplete_member_leaves_no_mean(self, tmp_path: Path) -> None:
        broken = Suite("broken", 1, (EnvEntry(ENV, ("count-1",), kwargs={"breaks": ["count-1"]}),))
        done = run(SuiteUnion("u", 1, (UNION.members[0], broken)), tmp_path, "oracle")
        row: UnionRow = done.results.rows[0]
        assert not done.complete and not row.rankable
        assert row.means.primary.estimate is None
        assert row.means.primary.method == "incomplete: broken"
        assert [m.status for m in row.members] == ["complete", "incomplete"]

    def test_nothing_is_played_where_a_member_does_not_fit(self, tmp_path: Path) -> None:
        wrong = Suite("wrong", 1, (EnvEntry(ENV, ("count-99",)),))
        with pytest.raises(UsageError, match="suite wrong does not fit"):
            run(SuiteUnion("u", 1, (UNION.members[0], wrong)), tmp_path, "oracle")
        with pytest.raises(UsageError, match="not distinct"):
            run(UNION, tmp_path, "oracle", "oracle")
        assert not list(tmp_path.iterdir())

    def test_a_union_without_any_data_is_refused(self) -> None:
        with pytest.raises(DataMissing, match="union u cannot be played: data absent: abacus"):
            open_union(SuiteUnion("u", 1, (member("far", 4, data="abacus"),)), {})
        with pytest.raises(UsageError, match=r"'beads'; union three has Counting-v0, abacus"):
            open_union(WITH_ABSENT, {"beads": "x"})

    def test_data_reach_the_members_that_play_them(self) -> None:
        opened = open_union(WITH_ABSENT, {"abacus": "x"})
        assert [one.environments[0].data for one in opened.opened] == [None, None, "x"]
        assert not opened.absent

    def test_runs_of_several_agents_do_not_mix_with_one(self, tmp_path: Path) -> None:
        run(UNION, tmp_path, "oracle")
        with pytest.raises(RunError, match="another directory"):
            run(UNION, tmp_path, "oracle", "random")


def intervals(results: RunResults) -> object:
    return results.envs[ENV].success

"""The folder of a union is found, reported, verified and ranked like any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.run_directory import EPISODES, RESULTS
from agentgym_suite.evaluation.scored_runs import find_runs
from agentgym_suite.evaluation.settings import named_agent
from agentgym_suite.evaluation.suite_unions import SuiteUnion
from agentgym_suite.evaluation.suites import EnvEntry, Suite
from agentgym_suite.evaluation.union_folder import UNION_JSON, read_union
from agentgym_suite.evaluation.union_report import report_union
from agentgym_suite.evaluation.union_runs import open_union, plan_of, run_union

Command = Callable[[Sequence[str]], int]
ENV = "Counting-v0"
SUMMARY = ("union.json", "union.md", "union.html")
pytestmark = pytest.mark.usefixtures("counting_env")


def member(name: str, tasks: int, data: str = "") -> Suite:
    ids = tuple(f"count-{number}" for number in range(tasks))
    return Suite(name, 1, (EnvEntry(ENV, ids, max_steps=6, data=data),))


UNION = SuiteUnion("three", 1, (member("few", 5), member("many", 12), member("far", 4, "abacus")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two agents on two suites of three; the data of the third are absent."""
    agents = [named_agent(name) for name in ("random", "oracle")]
    run_union(open_union(UNION, {}), agents, tmp_path / "union")
    return tmp_path / "union"


def test_every_run_of_it_is_found(folder: Path) -> None:
    found = [path.relative_to(folder).as_posix() for path in find_runs(folder)]
    assert found == ["few/oracle", "few/random", "many/oracle", "many/random"]


def test_report_makes_every_file_again(folder: Path, command: Command) -> None:
    names = [*SUMMARY, "few/report.html", "many/report.md", f"many/random/{RESULTS}"]
    before = {name: (folder / name).read_bytes() for name in names}
    for name in names:
        (folder / name).write_text("{}") if name != UNION_JSON else None
    assert command(["report", str(folder)]) == 0
    assert {name: (folder / name).read_bytes() for name in names} == before


def test_report_counts_what_is_there_now(folder: Path, command: Command) -> None:
    path = folder / "many" / "oracle" / EPISODES
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    assert command(["report", str(folder), "--json"]) == 1
    rows = {row["agent"]: row for row in json.loads((folder / UNION_JSON).read_bytes())["rows"]}
    assert rows["oracle"]["members"][1]["status"] == "incomplete"
    assert rows["oracle"]["means"]["primary"]["est"] is None
    assert rows["random"]["means"]["primary"]["est"] is not None


def test_the_page_has_one_bar_style_and_links_to_what_was_played(folder: Path) -> None:
    page = (folder / "union.html").read_text("utf-8")
    assert 'href="few/report.html"' in page and 'href="far/report.html"' not in page
    assert "data absent: abacus" in page and "2 of 3 with data" in page
    assert page.count('<svg class="bar"') == 2 * 3  # each agent's mean and two suites
    assert "default-src 'none'" in page and "<script" not in page


def test_verify_replays_every_run(
    folder: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["verify", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["runs"]
    assert [one["verdict"] for one in told] == ["verified"] * 4
    assert command(["report", str(folder)]) == 0
    assert "✓ verified" in (folder / "few" / "report.html").read_text("utf-8")


def test_each_run_is_verified_over_its_own_data(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    union = SuiteUnion("two", 1, (member("few", 3), member("far", 3, "abacus")))
    run_union(open_union(union, {"abacus": "here"}), [named_agent("oracle")], tmp_path)
    assert command(["verify", str(tmp_path), "--data", "abacus=there"]) == 0
    assert command(["verify", str(tmp_path), "--data", "beads=there"]) == 2
    assert "'beads'; the runs have Counting-v0, abacus" in capsys.readouterr().err


def test_a_killed_union_can_be_reported(folder: Path, command: Command) -> None:
    shutil.rmtree(folder / "many")
    assert command(["report", str(folder)]) == 1
    row = json.loads((folder / UNION_JSON).read_bytes())["rows"][0]
    assert [m["status"] for m in row["members"]] == ["complete", "not played", "data absent"]


def test_the_plan_is_kept(folder: Path) -> None:
    stored = read_union(folder)
    assert stored.plan == plan_of(UNION)
    assert stored.agents == ("oracle", "random") and set(stored.absent) == {"far"}


def test_strange_things_in_it_are_named(folder: Path) -> None:
    (folder / "holiday").mkdir()
    with pytest.raises(RunError, match=r"holds more than runs \(holiday\)"):
        find_runs(folder)


def test_a_run_of_another_suite_is_refused(folder: Path) -> None:
    shutil.rmtree(folder / "few")
    shutil.copytree(folder / "many", folder / "few")
    with pytest.raises(RunError, match="holds runs of many, version 1, where the union has few"):
        report_union(folder)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"schema_version": 1}', "is damaged"),
        ('{"schema_version": 9}', "has schema version 9, this version of the suite reads 1"),
    ],
)
def test_a_summary_that_is_none_is_named(folder: Path, text: str, told: str) -> None:
    (folder / UNION_JSON).write_text(text)
    with pytest.raises(RunError, match=told):
        find_runs(folder)


def test_no_suite_leads_out_of_the_folder(folder: Path) -> None:
    summary = json.loads((folder / UNION_JSON).read_bytes())
    summary["rows"][0]["members"][0]["suite"] = "../few"
    (folder / UNION_JSON).write_text(json.dumps(summary))
    with pytest.raises(RunError, match="is damaged"):
        read_union(folder)

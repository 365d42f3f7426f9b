from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.open_suites import OpenSuite, ad_hoc_suite
from agentgym_suite.evaluation.report import (
    html_report,
    markdown_report,
    report_again,
    write_report,
)
from agentgym_suite.evaluation.scored_runs import find_runs, load_runs
from agentgym_suite.evaluation.settings import AgentSpec, named_agent
from agentgym_suite.evaluation.tables import env_tables, number, percent, span
from agentgym_suite.evaluation.verify import verify_run
from agentgym_suite.evaluation.viewer import viewer_data

pytestmark = pytest.mark.usefixtures("counting_env")
ENV = "Counting-v0"
EVIL = "</script><script>document.title='pwned'</script>"


def hostile(**changes: Any) -> OpenSuite:
    return ad_hoc_suite(ENV, kwargs={"hostile": True}, **changes)


def play(out: Path, *agents: str, suite: OpenSuite | None = None) -> Path:
    for name in agents:
        evaluation.run(suite or hostile(), name, out=out / name)
    return out


def page_of(folder: Path, **options: Any) -> str:
    return html_report(load_runs(find_runs(folder)), **options)


class Elements(HTMLParser):
    """Tags, attributes and script texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts.append(data)


def test_the_page_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    play(tmp_path, "random", "oracle")
    runs = load_runs(find_runs(tmp_path))
    first = write_report(tmp_path, runs).read_bytes()
    markdown = (tmp_path / "report.md").read_bytes()
    assert write_report(tmp_path, load_runs(find_runs(tmp_path))).read_bytes() == first
    assert (tmp_path / "report.md").read_bytes() == markdown


def test_each_run_s_own_page_is_written_again_with_that_of_all(tmp_path: Path) -> None:
    play(tmp_path, "random", "oracle")
    assert report_again(tmp_path, load_runs(find_runs(tmp_path))) == tmp_path / "report.html"
    own = tmp_path / "oracle" / "report.html"
    assert "not verified" in own.read_text("utf-8")
    verify_run(tmp_path / "oracle")
    report_again(tmp_path, load_runs(find_runs(tmp_path)))
    assert "✓ verified" in own.read_text("utf-8") and "not verified" not in own.read_text("utf-8")
    assert "| oracle | complete, 30/30 | no: " in (tmp_path / "report.md").read_text("utf-8")
    verdicts = [row.split(" | ")[3] for row in rows_of_runs(tmp_path / "report.md")]
    assert verdicts == ["verified", "not verified"]


def rows_of_runs(markdown: Path) -> list[str]:
    """The table of runs: agent, status, rankable, verified, configuration."""
    runs = markdown.read_text("utf-8").partition("## Runs")[2]
    return [line for line in runs.splitlines() if line.startswith("| ")][1:]


def test_the_page_refers_to_nothing_outside(tmp_path: Path) -> None:
    elements = Elements(page_of(play(tmp_path, "oracle")))
    assert not {"link", "iframe", "object", "embed", "img", "form", "base"} & set(elements.tags)
    links = [value for name, value in elements.attributes if name in ("href", "src", "action")]
    assert links and all(value is not None and value.startswith("#") for value in links)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    assert not [name for name, _ in elements.attributes if name == "style"]
    text = page_of(tmp_path)
    assert "default-src 'none'" in text and "unsafe-inline" not in text
    assert not re.search(r"https?://|url\(|@import", text)


def test_texts_of_a_run_stay_data(tmp_path: Path) -> None:
    page = page_of(play(tmp_path, "oracle"))
    assert "<script>document.title" not in page and "<img" not in page
    elements = Elements(page)
    assert elements.tags.count("script") == 2
    episodes = json.loads(elements.scripts[0])
    assert len(episodes) == 30
    assert EVIL in episodes[0]["steps"][0]["obs"]
    assert episodes[0]["seed"].isdigit()  # a JavaScript number would lose its last digits


def test_a_number_under_two_names_is_shown_once(tmp_path: Path) -> None:
    evaluation.run(ad_hoc_suite("PaperSearch-v0", episodes=2), "oracle", out=tmp_path)
    (table,) = env_tables(load_runs([tmp_path]))
    (row,) = table.rows
    assert row.metric("recall@100") == row.metric("recall_100") is not None
    assert {"recall_100", "recall_all", "search_calls"} <= set(table.metrics)
    assert not {"recall@100", "recall", "searches"} & set(table.metrics)


def test_an_agent_s_name_is_escaped(tmp_path: Path) -> None:
    oracle = evaluation.AgentSpec("<b>|`x`\n", named_agent("oracle").make)
    evaluation.run(hostile(), oracle, out=tmp_path)
    runs = load_runs([tmp_path])
    assert "<b>|" not in html_report(runs) and "&lt;b&gt;|" in html_report(runs)
    rows = [line for line in markdown_report(runs).splitlines() if "40" in line or "30/30" in line]
    assert rows and "&lt;b\\>\\|\\`x\\`" in rows[0]


def test_the_leaderboard_is_best_first_with_intervals(tmp_path: Path) -> None:
    play(tmp_path, "random", "oracle")
    runs = load_runs(find_runs(tmp_path))
    assert [run.agent for run in runs] == ["oracle", "random"]
    markdown = markdown_report(runs)
    assert "| oracle | 100.0 | 30/30 | 88.6 – 100.0 |" in markdown
    assert "| even | 15/15, 100.0 % |" in markdown
    page = html_report(runs)
    assert 'aria-label="100.0 percent, 95 % interval 88.6 – 100.0"' in page
    assert page.count('<svg class="bar"') == 2 * (1 + 2 + 2)  # the whole, two families, two means


def test_incomplete_runs_show_bounds_and_no_estimate(tmp_path: Path) -> None:
    broken = ad_hoc_suite(ENV, kwargs={"breaks": ["count-2"]})
    page = page_of(play(tmp_path, "oracle", suite=broken))
    assert "96.7 – 100.0" in page and "incomplete: bounds, 29 of 30 episodes" in page
    assert "env exception" in page and 'aria-label="between 96.7 – 100.0 percent"' in page
    assert "| oracle | – | 29/29 of 30 | 96.7 – 100.0 | – |" in markdown_report(
        load_runs(find_runs(tmp_path))
    )


def test_large_runs_show_failures_and_a_seeded_sample(tmp_path: Path) -> None:
    solved_odd = AgentSpec("mixed", lambda env, seed: Mixed(env))
    evaluation.run(hostile(), solved_odd, out=tmp_path)
    everything = viewer_data([("mixed", tmp_path)])
    assert everything.shown == everything.total == 30
    bound = len(everything.json) * 3 // 4
    part = viewer_data([("mixed", tmp_path)], max_bytes=bound)
    episodes = json.loads(part.json)
    assert len(part.json.encode()) <= bound + 2 and 0 < part.shown == len(episodes) < 30
    assert sum(not episode["success"] for episode in episodes) == 15
    assert viewer_data([("mixed", tmp_path)], max_bytes=bound) == part
    assert viewer_data([("mixed", tmp_path)], max_bytes=bound, seed=1) != part
    assert f"{part.shown} of 30 episodes are shown" in page_of(tmp_path, max_bytes=bound)


class Mixed:
    """Solves the tasks of odd numbers only, in as many steps as the others."""

    def __init__(self, env: Any) -> None:
        self._policy = env.unwrapped.policy("oracle")

    def act(self, turn: Turn) -> Reply:
        action = self._policy(turn.observation, turn.info)
        spoil = action == "stop[]" and int(turn.task.id.removeprefix("count-")) % 2 == 0
        return Reply("add[1]" if spoil else action)

    def close(self) -> None:
        """Nothing is held."""


def test_runs_of_different_suites_are_not_mixed(tmp_path: Path) -> None:
    play(tmp_path, "oracle")
    play(tmp_path, "random", suite=ad_hoc_suite(ENV, tasks=["count-1"]))
    with pytest.raises(RunError, match="different suites"):
        load_runs(find_runs(tmp_path))


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        find_runs(tmp_path)


def test_runs_that_lie_about_in_a_folder_are_not_touched(tmp_path: Path) -> None:
    play(tmp_path, "random", "oracle")
    assert [path.name for path in find_runs(tmp_path)] == ["oracle", "random"]
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "oracle" / "notes.txt").write_text("of my own")
    assert len(find_runs(tmp_path)) == 2 and find_runs(tmp_path / "oracle")
    (tmp_path / "holiday").mkdir()
    with pytest.raises(RunError, match=r"holds more than runs \(holiday\)"):
        find_runs(tmp_path)


def test_the_runs_of_several_agents_are_found_in_the_folder_that_holds_theirs(
    tmp_path: Path,
) -> None:
    play(tmp_path / "hostile-random+oracle", "random", "oracle")
    play(tmp_path, "random")
    found = [path.relative_to(tmp_path).as_posix() for path in find_runs(tmp_path)]
    assert found == ["random", "hostile-random+oracle/oracle", "hostile-random+oracle/random"]
    (tmp_path / "hostile-random+oracle" / "holiday").mkdir()
    with pytest.raises(RunError, match=r"holds more than runs \(holiday\)"):
        find_runs(tmp_path)


def test_numbers_as_people_read_them() -> None:
    assert (percent(None), percent(0.4453125), number(None), number(1.005, 1)) == (
        "–",
        "44.5",
        "–",
        "1.0",
    )
    assert span(evaluation.wilson(57, 128)) == "36.2 – 53.2"
    assert span(evaluation.task_bootstrap([1, 1])) == "all equal"
    assert span(None) == "–"

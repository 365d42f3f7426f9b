"""The suites over official data: counts always, made-up data of their shape, and real data."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.errors import DataMissing, UsageError
from agentgym_suite.evaluation.open_suites import OpenSuite
from agentgym_suite.evaluation.suite_listing import suite_rows
from agentgym_suite.evaluation.suites import load_suite
from agentgym_suite.importers import IMPORTERS

LONG = (
    *("pick_and_place_simple", "look_at_obj_in_light", "pick_clean_then_place_in_recep"),
    *("pick_heat_then_place_in_recep", "pick_cool_then_place_in_recep", "pick_two_obj_and_place"),
)
SEEN, UNSEEN = (35, 13, 27, 16, 25, 24), (24, 18, 31, 23, 21, 17)
Row = dict[str, Any]


def imported(name: str, out: Path, *arguments: str | Path) -> Path:
    """A data set, imported as ``agentgym-suite data import`` does."""
    module = IMPORTERS[name].load()
    parser = argparse.ArgumentParser()
    module.add_import_arguments(parser)
    parsed = parser.parse_args([*map(str, arguments), "--out", str(out)])
    return Path(module.run_import(parsed))


def opened(suite: str, data: Path) -> OpenSuite:
    name = load_suite(suite).envs[0].id
    return evaluation.open_suite(load_suite(suite), {name: str(data)}, allow_missing=False)


def written(path: Path, rows: Iterable[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("suite", "planned", "horizon"),
    [
        ("alfworld-seen-h50", 140, 50), ("alfworld-seen-h20", 140, 20),
        ("alfworld-unseen-h50", 134, 50), ("alfworld-unseen-h20", 134, 20),
        ("webshop-test500", 500, 15), ("webshop-test128", 128, 15),
        ("hotpotqa-dev", 7_405, 5), ("2wiki-dev", 12_576, 5), ("musique-dev", 2_417, 5),
        ("searchqa-7", 51_713, 4), ("papers-real50", 50, 5), ("lite", 200, 15),
        ("webshop-sample1k", 500, 15), ("hotpotqa-sample", 80, 5), ("2wiki-sample", 54, 5),
        ("musique-sample", 70, 5), ("papers-litsearch-sample", 144, 5),
    ],
)  # fmt: skip
def test_counts_and_horizons_are_the_specification_s(
    suite: str, planned: int, horizon: int
) -> None:
    loaded = load_suite(suite)
    assert (loaded.planned, loaded.envs[0].max_steps) == (planned, horizon)


@pytest.mark.parametrize("horizon", [50, 20])
def test_the_households_are_the_published_ones(horizon: int) -> None:
    for split, counts in (("seen", SEEN), ("unseen", UNSEEN)):
        entry = load_suite(f"alfworld-{split}-h{horizon}").envs[0]
        assert entry.expected["families"] == dict(zip(LONG, counts, strict=True))
        assert all(task.startswith(f"valid_{split}/") for task in entry.tasks)
        assert len({task.split("/")[2] for task in entry.tasks}) == sum(counts)


def test_seven_question_sets_are_one() -> None:
    sizes = load_suite("searchqa-7").envs[0].expected["prefixes"]
    assert list(sizes.values()) == [3_610, 11_313, 14_267, 7_405, 12_576, 2_417, 125]
    assert sum(sizes.values()) == 51_713


def test_a_sample_says_so_and_is_another_suite() -> None:
    for name in ("webshop-sample1k", "hotpotqa-sample", "2wiki-sample", "musique-sample"):
        assert "sample" in load_suite(name).title
    assert "1,000 products" in load_suite("webshop-sample1k").title


@pytest.mark.usefixtures("fresh_home")
def test_without_data_every_official_suite_says_how_to_get_them() -> None:
    rows = {row["id"]: row for row in suite_rows()}
    assert {name for name, row in rows.items() if row["here"]} == {"smoke", "lite"}
    assert "data download musique" in rows["musique-dev"]["get"][0]
    assert len(rows["capo"]["get"]) == 6 and rows["capo"]["members"][0] == "alfworld-seen-h20"
    with pytest.raises(DataMissing, match="data absent: alfworld.*data download alfworld"):
        evaluation.open_suite(load_suite("alfworld-seen-h50"), {}, allow_missing=False)


# --------------------------------------------------------- made-up data of the official shape


def hotpot_rows(count: int) -> Iterator[Row]:
    for number in range(count):
        yield {
            "_id": f"{number:024x}", "question": f"Which lamp is number {number}?",
            "answer": "the lamp", "type": "bridge", "level": "hard",
            "supporting_facts": [["Lamp", 0]], "context": [["Lamp", ["A lamp."]]],
        }  # fmt: skip


def twowiki_rows(count: int) -> Iterator[Row]:
    for row in hotpot_rows(count):
        yield {**row, "evidences": [["Lamp", "is", "lamp"]], "entity_ids": "Q1"}


def musique_rows(count: int) -> Iterator[Row]:
    paragraph = {"idx": 0, "title": "Lamp", "paragraph_text": "A lamp.", "is_supporting": True}
    for number in range(count):
        step = {"id": 1, "question": "?", "answer": "a lamp", "paragraph_support_idx": 0}
        yield {
            "id": f"2hop__{number}_1", "paragraphs": [paragraph], "question": "Which lamp?",
            "question_decomposition": [step, step], "answer": "a lamp", "answer_aliases": [],
            "answerable": True,
        }  # fmt: skip


def searchqa_rows() -> Iterator[Row]:
    for prefix, count in load_suite("searchqa-7").envs[0].expected["prefixes"].items():
        for number in range(count):
            yield {
                "id": f"test_{number}", "data_source": prefix.rstrip("/"),
                "prompt": [{"role": "user", "content": f"Question: which lamp is {number}?"}],
                "reward_model": {"ground_truth": {"target": ["the lamp"]}},
                "extra_info": {"split": "test", "index": number},
            }  # fmt: skip


@pytest.mark.parametrize(
    ("suite", "name", "file", "rows", "count"),
    [
        ("hotpotqa-dev", "hotpotqa", "hotpot_dev_distractor_v1.json", hotpot_rows, 7_405),
        ("2wiki-dev", "2wiki", "dev.json", twowiki_rows, 12_576),
        ("musique-dev", "musique", "musique_ans_v1.0_dev.jsonl", musique_rows, 2_417),
    ],
)
def test_a_question_set_is_its_whole_dev_split(
    suite: str, name: str, file: str, rows: Callable[[int], Iterator[Row]], count: int,
    tmp_path: Path,
) -> None:  # fmt: skip
    whole = opened(suite, imported(name, tmp_path / "whole", written(tmp_path / file, rows(count))))
    assert whole.suite.planned == count and whole.suite.departures == ()
    assert whole.digest == whole.suite.digest == load_suite(suite).digest
    short = imported(name, tmp_path / "short", written(tmp_path / file, rows(count - 1)))
    with pytest.raises(UsageError, match=f"lists {count - 1} tasks and expects {count}"):
        opened(suite, short)


def test_search_qa_is_the_seven_sets_of_one_file(tmp_path: Path) -> None:
    file = written(tmp_path / "test.jsonl", searchqa_rows())
    corpus = written(tmp_path / "corpus.jsonl", [{"id": "0", "title": "Lamp", "text": "A lamp."}])
    whole = opened("searchqa-7", imported("searchqa", tmp_path / "all", file, "--corpus", corpus))
    assert whole.suite.planned == 51_713
    assert whole.suite.envs[0].tasks[0] == "nq/test/test_0"


def test_real_queries_are_the_fifty(tmp_path: Path) -> None:
    rows = [
        {
            "question": f"Which papers are about lamp {number}?", "answer": ["On lamps"],
            "answer_arxiv_id": ["2001.00001"], "source_meta": {"published_time": "20241001"},
            "qid": f"RealScholarQuery_{number}",
        }
        for number in range(50)
    ]  # fmt: skip
    corpus = [{"paper_id": "2001.00001", "title": "On lamps", "abstract": "They glow."}]
    papers = written(tmp_path / "papers.jsonl", corpus)
    file = written(tmp_path / "RealScholarQuery" / "test.jsonl", rows)
    data = imported("pasa", tmp_path / "pasa", file, "--corpus", papers)
    suite = opened("papers-real50", data)
    assert suite.suite.planned == 50 and suite.suite.envs[0].tasks[1].startswith("pasa/real/")


# ------------------------------------------------------------------------------- real data


@pytest.fixture(scope="module")
def households(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The official validation games, imported."""
    folder = tmp_path_factory.mktemp("households")
    tool = shared / "tools" / "alfworld_expand.py"
    expand = [sys.executable, str(tool), "--out", str(folder / "layout")]
    subprocess.run(expand, check=True, capture_output=True)
    return imported("alfworld", folder / "games", folder / "layout")


@pytest.mark.parametrize(
    ("suite", "games"), [("alfworld-seen-h20", 140), ("alfworld-unseen-h20", 134)]
)
def test_the_oracle_wins_every_official_game(
    suite: str, games: int, households: Path, tmp_path: Path
) -> None:
    results = evaluation.run(opened(suite, households), "oracle", out=tmp_path)
    env = results.envs["ALFWorld-v0"]
    (reason,) = results.not_rankable_reasons
    assert "baseline" in reason and (env.successes, env.planned) == (games, games)
    counts = SEEN if games == 140 else UNSEEN
    assert [env.families[name].n for name in LONG] == list(counts)


def test_the_lists_are_the_published_splits(shared: Path) -> None:
    splits = json.loads((shared / "data" / "alfworld" / "split_game_ids.json").read_text("utf-8"))
    for name in ("seen", "unseen"):
        ids = [f"valid_{name}/{game}" for game in splits[f"valid_{name}"]]
        assert list(load_suite(f"alfworld-{name}-h50").envs[0].tasks) == ids
        assert not set(splits[f"valid_{name}"]) & set(splits["train"])


@pytest.mark.parametrize(
    ("suite", "name", "arguments"),
    [
        ("hotpotqa-sample", "hotpotqa", ["qa/hotpot_distractor_dev100.json"]),
        ("musique-sample", "musique", ["qa/musique_100.jsonl"]),
        (
            "2wiki-sample",
            "2wiki",
            ["qa/2wiki_qa_covered.jsonl", "--corpus", "qa/2wiki_corpus.jsonl.xz"],
        ),
        (
            "papers-litsearch-sample",
            "litsearch",
            [
                *("papers/litsearch_queries.jsonl", "--corpus", "papers/corpus.jsonl.xz"),
                *("--citations", "papers/citations.tsv.xz"),
            ],
        ),
        (
            "webshop-sample1k",
            "webshop-small",
            [
                *("--items", "webshop/items_shuffle_1000.json.xz"),
                *("--attributes", "webshop/items_ins_v2_1000.json"),
                *("--human", "webshop/items_human_ins_1000.json"),
            ],
        ),
    ],
)
def test_the_samples_fit_their_data(
    suite: str, name: str, arguments: list[str], shared: Path, tmp_path: Path
) -> None:
    paths = [a if a.startswith("--") else shared / "data" / a for a in arguments]
    data = imported(name, tmp_path / "data", *paths)
    fitted = opened(suite, data)
    assert fitted.suite.departures == () and fitted.suite.planned == load_suite(suite).planned
    if name == "webshop-small":
        with pytest.raises(UsageError, match="487 of 500 tasks of WebShop-v0 are missing"):
            opened("webshop-test500", data)

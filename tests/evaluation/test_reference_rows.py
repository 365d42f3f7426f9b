"""Published numbers: read by hand from their sources, and files that are none."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import DataMissing, UsageError
from agentgym_suite.evaluation.reference_rows import (
    BENCHMARKS,
    COLUMNS,
    PROVENANCES,
    ReferenceRow,
    parse_rows,
    reference_rows,
)
from agentgym_suite.registry import ENV_IDS

ALL = reference_rows(include_unverified=True)


def the_row(**fields: str) -> ReferenceRow:
    found = [row for row in ALL if all(getattr(row, k) == v for k, v in fields.items())]
    assert len(found) == 1, [row.row_id for row in found]
    return found[0]


def test_the_columns_are_the_published_ones() -> None:
    assert ",".join(COLUMNS) == (
        "row_id,env,benchmark,split,n_tasks,horizon,model,method,metric,value,spread,"
        "spread_kind,seeds,source,provenance,note"
    )


def test_every_block_is_there() -> None:
    counts = Counter(row.source for row in ALL)
    # rows times columns that hold a number
    assert counts["ReAct Table 3"] == 7 * 7
    assert counts["CAPO Table 1"] == 18 * 9
    assert counts["SAPO Table 1"] == 20 * 9
    assert counts["TASPO Table 1"] == 20 * 17 - 2 * 2
    assert counts["Search-R1"] == 16 * 8 + 4
    assert counts["SAPO runtime table"] == 2 * 6 - 1
    assert {row.env for row in ALL} == {*ENV_IDS, ""}  # "": the source does not say
    assert {row.provenance for row in ALL} == set(PROVENANCES)


@pytest.mark.parametrize(
    ("fields", "value", "spread"),
    [
        (
            {"source": "CAPO Table 1", "model": "Qwen3-1.7B", "method": "CAPO"}
            | {"benchmark": "HotpotQA"},
            "45.19",
            "0.54",
        ),
        (
            {"source": "CAPO Table 1", "model": "Qwen3-4B-Instruct-2507", "method": "GiGPO"}
            | {"split": "valid_unseen"},
            "79.10",
            "2.19",
        ),
        (
            {"source": "CAPO Table 1", "model": "Qwen3-4B-Instruct-2507", "method": "CAPO"}
            | {"metric": "f1_all"},
            "31.8",
            "0.2",
        ),
        ({"source": "SAPO Table 1", "method": "GPT-4o", "metric": "score"}, "", ""),
        (
            {"source": "SAPO Table 1", "model": "Qwen2.5-1.5B-Instruct", "method": "SAPO"}
            | {"metric": "score"},
            "82.2",
            "1.4",
        ),
        (
            {"source": "TASPO Table 1", "model": "Qwen2.5-7B", "method": "OPID"}
            | {"benchmark": "Bamboogle"},
            "72.6",
            "",
        ),
        (
            {"source": "Search-R1", "model": "7B base", "method": "Search-R1 PPO"}
            | {"benchmark": "TriviaQA"},
            "63.8",
            "",
        ),
        (
            {"source": "PaSa", "method": "PaSa-7b ensemble", "benchmark": "RealScholarQuery"}
            | {"metric": "recall_20"},
            "59.86",
            "",
        ),
        ({"source": "ReAct notebook log", "metric": "score"}, "63.8", ""),
        ({"source": "CAPO Table 6", "method": "CAPO", "metric": "seconds_total"}, "189.54", ""),
        (
            {"source": "ReAct Table 3", "method": "Act best of 6", "metric": "success_look"},
            "72",
            "",
        ),
    ],
)
def test_numbers_are_as_printed(fields: dict[str, str], value: str, spread: str) -> None:
    if not value:  # a closed model is the model, its prompt the method
        fields, value = {**fields, "method": "prompt", "model": "GPT-4o"}, "31.8"
    row = the_row(**fields)
    assert (row.value, row.spread) == (value, spread)


def test_doubtful_numbers_are_marked() -> None:
    small = [r for r in ALL if r.source.startswith("TASPO") and r.model == "Qwen3-1.7B"]
    assert small and all(row.provenance == "disputed" for row in small)
    copied = [row for row in small if row.method == "OPID" and "copying error" in row.note]
    assert len(copied) == 8 + 2
    quoted = [r for r in ALL if r.source == "SAPO Table 1" and r.method != "SAPO"]
    assert all(row.provenance == "reported:quoted" for row in quoted)
    assert all(row.note for row in ALL if row.source in ("CAPO Table 1", "SAPO Table 1"))


def test_unverified_numbers_are_shown_on_request_alone() -> None:
    checked = reference_rows()
    noted = [row for row in ALL if "unverified" in row.note]
    assert len(noted) == 35 and sum(row.provenance == "unverified" for row in ALL) == 14
    assert len(ALL) - len(checked) == len({row for row in ALL if row.unverified}) == 49
    assert not [row for row in checked if row.provenance == "unverified" or row in noted]


def test_rows_of_the_benchmarks_that_a_suite_plays() -> None:
    published = {row.benchmark for row in ALL}
    assert {name for names in BENCHMARKS.values() for name in names} <= published
    rows = reference_rows(environments=["MultiHopQA-v0"], benchmarks=BENCHMARKS["musique"])
    assert rows and {row.benchmark for row in rows} == {"MuSiQue"}
    assert reference_rows(benchmarks=()) == ()


def test_rows_of_an_environment() -> None:
    rows = reference_rows(environments=["WebShop-v0"])
    assert rows and {row.env for row in rows} == {"WebShop-v0"}


HEAD = ",".join(COLUMNS)
GOOD = "a,WebShop-v0,WebShop,test,500,15,M,GRPO,success,36.2,0.6,std,3,Paper,reported:paper,"


def test_a_file_of_one_s_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{HEAD}\n{GOOD}\n")
    (row,) = reference_rows(path)
    assert (row.row_id, row.value, row.note) == ("a", "36.2", "")
    with pytest.raises(DataMissing, match="there is no file"):
        reference_rows(tmp_path / "none.csv")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8"):
        reference_rows(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has the columns ''"),
        ("row_id,env\na,b", "has the columns 'row_id,env'"),
        (f"{HEAD}\n{GOOD}\n{GOOD}", "line 3 has the row_id 'a' again"),
        (f"{HEAD}\n{GOOD},more", "line 2 has not 16 fields"),
        (f"{HEAD}\na,b", "line 2 has not 16 fields"),
        (f"{HEAD}\n{GOOD.replace('reported:paper', 'hearsay')}", "provenance 'hearsay'"),
        (f"{HEAD}\n{GOOD.replace('36.2', 'high')}", "value = 'high'"),
        (f"{HEAD}\n{GOOD.replace('36.2', 'inf')}", "value = 'inf'"),
        (f"{HEAD}\n{GOOD.replace('GRPO', '')}", "has no method"),
        (f'{HEAD}\n"{GOOD}', "is no CSV"),
    ],
)
def test_other_files_are_named_with_their_line(text: str, told: str) -> None:
    with pytest.raises(UsageError, match="rows.csv.*") as caught:
        parse_rows(text.splitlines(keepends=True), "rows.csv")
    assert told in str(caught.value)


@given(st.text(alphabet=st.sampled_from('a,"\n\r0.;é'), max_size=60))
def test_any_text_is_rows_or_one_sentence(text: str) -> None:
    lines = io.StringIO(f"{HEAD}\n{text}").readlines()
    try:
        rows = parse_rows(lines, "rows.csv")
    except UsageError as error:
        assert "rows.csv" in str(error)
    else:
        assert all(isinstance(row, ReferenceRow) for row in rows)

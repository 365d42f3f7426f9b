"""The arrays give FTS5's own full OR: the same rows, the same scores, to the last bit."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import RetrievalError, UsageError
from agentgym_suite.indexes import postings_build
from agentgym_suite.indexes.fts5_table import FTS5Table
from agentgym_suite.indexes.match_query import match_any, query_words
from agentgym_suite.indexes.postings import Postings, _within_rounding
from agentgym_suite.indexes.postings_build import _sum_of_varints, build_postings
from tests.indexes.corpus_files import WORDS, passages

Texts = list[tuple[str, str]]


def table(weights: tuple[float, float] = (2.0, 1.0)) -> FTS5Table:
    return FTS5Table("texts", ("title", "text"), weights)


def write(path: Path, texts: Texts, shape: FTS5Table) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        shape.create(connection)
        shape.insert(connection, [(row, *pair) for row, pair in enumerate(texts, start=1)])
        shape.finish(connection)
        connection.execute("COMMIT")


class Both:
    """The same texts in FTS5 and in arrays."""

    def __init__(self, place: Path, texts: Texts, shape: FTS5Table) -> None:
        write(place / "texts.sqlite", texts, shape)
        build_postings(place / "postings", place / "texts.sqlite", shape)
        self.arrays = Postings(place / "postings")
        self.fts5 = sqlite3.connect(place / "texts.sqlite")
        self.weights = ", ".join(map(str, shape.weights))

    def exact(self, query: str, k: int, last: int | None = None) -> list[tuple[int, float]]:
        """FTS5's OR of all words, none left out, of the rows up to ``last``."""
        match = match_any(query_words(query))
        if not match:
            return []
        rows = self.fts5.execute(
            f"SELECT rowid, -bm25(texts, {self.weights}) AS score FROM texts WHERE texts MATCH ? "
            "AND rowid <= ? ORDER BY score DESC, rowid LIMIT ?",
            (match, 1 << 40 if last is None else last, k),
        )
        return rows.fetchall()

    def close(self) -> None:
        self.arrays.close()
        self.fts5.close()


def odd_texts() -> Texts:
    """Words of every frequency, rows that are equal, rows without any word."""
    draw = Random(3)
    rows = [(row.title, row.text) for row in passages(1_500, seed=1)]
    rows += [("river", "stone")] * 40 + [("", "")] * 20 + [("river river", "")] * 5
    rows += [(f"word{draw.randint(0, 400)}", f"the {' '.join(WORDS)}") for _ in range(700)]
    rows += [("long", " ".join(draw.choices(WORDS, k=4_000)))]
    draw.shuffle(rows)
    return rows


@pytest.fixture(
    scope="module", params=[(2.0, 1.0), (0.3, 1.7), (1.0, 0.25)], ids=["2-1", "odd", "1-4"]
)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    made = Both(tmp_path_factory.mktemp("postings"), odd_texts(), table(request.param))
    yield made
    made.close()


def queries() -> list[str]:
    draw = Random(5)
    known = [*WORDS, "the", "long", "zebra", *(f"word{n}" for n in range(0, 400, 40))]
    made = [" ".join(draw.choices(known, k=draw.randint(1, 24))) for _ in range(60)]
    return [*made, "the", "river", "the river", "rivers river RIVER", "zebra", "", "word40"]


@pytest.mark.parametrize("k", [1, 10, 50, 5_000])
def test_the_same_as_fts5(both: Both, k: int) -> None:
    # Sums of such weights are rounded in FTS5's order of columns: the last digit may differ.
    exact = both.weights != "0.3, 1.7"
    for query in queries():
        expected = both.exact(query, k)
        found = both.arrays.best(query, k)
        assert found is not None
        if exact:
            assert found == expected, query
            continue
        assert len(found) == len(expected)
        assert np.allclose([s for _, s in found], [s for _, s in expected], rtol=1e-12, atol=0)


def test_rows_that_are_not_visible_use_up_no_place(both: Both) -> None:
    visible = np.arange(len(both.arrays)) < 700
    for query in queries():
        found = both.arrays.best(query, 10, visible)
        expected = both.exact(query, 10, last=700)
        assert found is not None
        assert [score for _, score in found] == pytest.approx([score for _, score in expected])
        assert all(row <= 700 for row, _ in found)
        if both.weights == "2.0, 1.0":
            assert found == expected
    assert both.arrays.best("river", 10, np.zeros(len(both.arrays), bool)) == []


def test_what_it_holds(both: Both) -> None:
    (terms, postings), (length,) = (
        both.fts5.execute("SELECT count(*), sum(df) FROM texts_df").fetchone(),
        both.fts5.execute("SELECT count(*) FROM texts_docsize").fetchone(),
    )
    assert (both.arrays.terms, both.arrays.postings, len(both.arrays)) == (terms, postings, length)
    assert both.arrays.average_length > 5


def test_a_phrase_is_left_to_fts5(both: Both) -> None:
    # U+19B0, a vowel sign, is a letter to Python and parts words in FTS5's Unicode 6.1.
    assert both.arrays.best("river\u19b0stone", 3) is None
    assert both.arrays.best("\u19b0", 3) == []
    with pytest.raises(UsageError, match="give text"):
        both.arrays.best(7, 3)  # type: ignore[arg-type]


def test_pruning_leaves_frequent_words_out(tmp_path: Path) -> None:
    texts = [("", f"common {'half' if n % 3 else 'rare'}") for n in range(90)] + [("", "")] * 110
    made = Both(tmp_path, texts, table())
    pruned = Postings(tmp_path / "postings", frequent=0.2)
    assert pruned.best("common rare", 200) == made.arrays.best("rare", 200)
    assert pruned.best("common", 200) == made.arrays.best("common", 200)
    assert len(made.arrays.best("common rare", 200) or []) == 90
    pruned.close()
    made.close()


def test_a_column_must_count(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the weight of text is 0"):
        build_postings(tmp_path / "postings", tmp_path / "texts.sqlite", table((1.0, 0.0)))


def test_closing(tmp_path: Path) -> None:
    made = Both(tmp_path, [("a", "b")], table())
    made.arrays.close()
    with pytest.raises(RetrievalError, match="was closed"):
        made.arrays.best("a", 1)
    made.close()


@given(
    st.lists(
        st.lists(st.floats(1e-9, 50) | st.sampled_from([1.0, 1 / 3, 1e-6]), max_size=6),
        min_size=1,
        max_size=700,
    ),
    st.integers(1, 40),
    st.integers(0, 3),
)
def test_rounding_keeps_no_row_out(parts: list[list[float]], k: int, frequent: int) -> None:
    """Whatever float32 makes of the sums, and frequent words add, the true best are kept."""
    true = np.array([sum(row) for row in parts])
    rounded = np.zeros(len(parts), np.float32)
    for place, row in enumerate(parts):
        for part in row:
            rounded[place] += np.float32(part)
    extra = np.resize([0.0, 2.2e-6], len(parts)) * frequent * (true > 0)
    kept = set(_within_rounding(rounded, k, 6, frequent).tolist())
    true = true + extra
    best = sorted((row for row in range(len(true)) if true[row] > 0), key=lambda row: -true[row])
    assert set(best[:k]) <= kept


@given(st.lists(st.integers(0, (1 << 31) - 1), max_size=6))
def test_varints(numbers: list[int]) -> None:
    blob = b""
    for number in numbers:
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(number & 0x7F | 0x80)
        blob += bytes(reversed(groups))
    assert _sum_of_varints(blob) == sum(numbers)


KILLED = """
import os, signal, sys
from pathlib import Path
from agentgym_suite.indexes import postings_build
from agentgym_suite.indexes.fts5_table import FTS5Table
folder, database, when = sys.argv[1:]
postings_build._INSTANCES_AT_ONCE = 5_000
blocks = 0
original = postings_build._GrowingArray.append
def append(self, values):
    original(self, values)
    global blocks
    blocks += 1
    if str(blocks) == when:
        self.sync()
        os.kill(os.getpid(), signal.SIGKILL)
postings_build._GrowingArray.append = append
postings_build.build_postings(
    Path(folder), Path(database), FTS5Table("texts", ("title", "text"), (2.0, 1.0))
)
"""


@pytest.mark.parametrize("when", ["1", "5", "9"])
def test_a_killed_build_goes_on_and_gives_the_same(
    tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "texts.sqlite", odd_texts(), table())
    arguments = [str(tmp_path / "killed"), str(tmp_path / "texts.sqlite"), when]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments])
    assert done.returncode == -signal.SIGKILL
    # Whatever the system kept of the unfinished block is overwritten.
    with (tmp_path / "killed" / "rows.npy").open("ab") as stream:
        stream.write(os.urandom(500))
    monkeypatch.setattr(postings_build, "_INSTANCES_AT_ONCE", 5_000)
    for name in ("killed", "whole"):
        build_postings(tmp_path / name, tmp_path / "texts.sqlite", table())
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "killed").iterdir())
    for name in names:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_rows_must_be_numbered_without_gaps(tmp_path: Path) -> None:
    write(tmp_path / "texts.sqlite", [("a", "b")] * 3, table())
    with closing(sqlite3.connect(tmp_path / "texts.sqlite")) as connection:
        connection.execute("DELETE FROM texts_docsize WHERE id = 2")
        connection.commit()
    with pytest.raises(RetrievalError, match="2 rows are numbered up to 3"):
        build_postings(tmp_path / "postings", tmp_path / "texts.sqlite", table())

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_suite.decoding import Decoding
from agentgym_suite.errors import DataError, DataMissing, UsageError
from agentgym_suite.evaluation.primary_values import metric_of
from agentgym_suite.evaluation.suite_tasks import ids_digest
from agentgym_suite.evaluation.suites import (
    SUITES_FOLDER,
    Suite,
    episode_seed,
    load_suite,
    parse_suite,
    shipped_suites,
)

TASKS = 'tasks = ["count-0", "count-1"]'
TOML = """
id = "tiny"
version = 3
[[env]]
id = "Counting-v0"
split = "test"
tasks = ["count-0", "count-1"]
trials = 2
max_steps = 5
"""


def parse(text: str) -> Suite:
    return parse_suite(text, source="the test")


def test_seeds_are_the_specification_s() -> None:
    assert episode_seed("smoke", 1, "ALFWorld-v0", "g0001", 0) == 4048255801517674940
    assert episode_seed("smoke", 1, "ALFWorld-v0", "g0001", 1) == 752314546872097498


def test_seeds_depend_on_every_part_of_the_key() -> None:
    key = ("s", 1, "e", "t", 0)
    others = [("S", 1, "e", "t", 0), ("s", 2, "e", "t", 0), ("s", 1, "E", "t", 0)]
    others += [("s", 1, "e", "T", 0), ("s", 1, "e", "t", 1)]
    seeds = {episode_seed(*other) for other in [key, *others]}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_suite_says_what_it_is() -> None:
    suite = parse_suite(TOML, source="the test")
    assert (suite.id, suite.version, suite.planned) == ("tiny", 3, 4)
    assert suite.envs[0].tasks == ("count-0", "count-1")
    assert suite.departures == ()


def test_a_suite_names_prompt_and_order() -> None:
    more = '[prompt]\nformat = "capo"\n[metrics]\nprimary = "score"\n'
    suite = parse_suite(TOML + more, source="the test")
    assert (suite.prompt_format, suite.primary) == ("capo", "score")
    assert suite.digest != parse_suite(TOML, source="the test").digest


def test_the_digest_follows_content_not_layout() -> None:
    suite = parse_suite(TOML, source="a")
    spread = TOML.replace('["count-0", "count-1"]', '[\n "count-0",\n "count-1" ] # same')
    assert parse_suite(spread, source="b").digest == suite.digest
    for old, new in (("version = 3", "version = 4"), ("count-1", "count-2"), ("= 5", "= 6")):
        assert parse_suite(TOML.replace(old, new), source="c").digest != suite.digest


def test_a_suite_says_how_models_sample() -> None:
    suite = parse(TOML + "[decoding]\ntemperature = 1\nmax_tokens = 64\n")
    assert suite.decoding == Decoding(temperature=1.0, top_p=1.0, max_tokens=64)
    assert suite.digest != parse(TOML).digest
    assert parse(TOML).decoding is None and "decoding" not in parse(TOML).content()


def test_a_range_equals_its_ids() -> None:
    ranged = parse(TOML.replace(TASKS, 'task_range = { prefix = "count", count = 2 }'))
    assert ranged.digest == parse(TOML).digest
    assert ranged.envs[0].tasks == ("count-0", "count-1")


def test_a_split_stands_for_tasks_that_are_not_known_yet() -> None:
    text = TOML.replace(TASKS, 'split_tasks = "count-"\nexpected = { tasks = 30 }')
    suite = parse(text)
    assert (suite.envs[0].tasks, suite.planned) == ((), 60)
    assert suite.part(trials=1).planned == 30
    assert suite.part(episodes=4).planned == 8 and suite.part(episodes=30) is suite
    assert suite.part(tasks=["count-7"], trials=1).envs[0].tasks == ("count-7",)
    digests = {one.digest for one in (suite, suite.part(episodes=4), suite.part(trials=1))}
    assert len(digests) == 3
    assert parse(text.replace("count-", "other-")).digest not in digests


def test_a_task_list_file_equals_its_ids(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("# the list\ncount-0\n\ncount-1\n")
    path = tmp_path / "tiny.toml"
    path.write_text(TOML.replace('tasks = ["count-0", "count-1"]', 'task_list = "ids.txt"'))
    assert load_suite(path).digest == parse_suite(TOML, source="a").digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"count-1"]', '"count-0"]', "count-0"),
        ("trials = 2", "trials = 0", "trials"),
        ("max_steps = 5", "max_steps = 0", "max_steps"),
        ("max_steps = 5", "horizon = 5", "horizon"),
        ("version = 3", "version = true", "version"),
        ("version = 3", "", "version"),
        ('tasks = ["count-0", "count-1"]', "tasks = []", "no tasks"),
        ('tasks = ["count-0", "count-1"]', "tasks = [1]", "strings"),
        ('tasks = ["count-0", "count-1"]', "", "task_list"),
        ('tasks = ["count-0", "count-1"]', 'task_list = "none.txt"', "none.txt"),
        (TASKS, 'task_range = { prefix = "count" }', "task_range has count"),
        (TASKS, 'task_range = { prefix = "count", count = 0 }', "no tasks"),
        (TASKS, "task_range = { first = 0, count = 2 }", "task_range.*'first'.*prefix"),
        (TASKS, "split_tasks = true", "split_tasks = True; give a string"),
        (TASKS, 'split_tasks = "count"', r"split_tasks without.*expected = \{ tasks"),
        (TASKS, f'{TASKS}\nsplit_tasks = "count"', "exactly one"),
        ("[[env]]", "[env]", "env"),
        ("id =", "id", "TOML"),
        ("[[env]]", "[decoding]\nbeams = 4\n[[env]]", r"\[decoding\].*beams.*temperature"),
        ("[[env]]", '[decoding]\ntop_p = "1"\n[[env]]', r"\[decoding\] has top_p = '1'.*number"),
        ("[[env]]", "[decoding]\ntemperature = -0.5\n[[env]]", "temperature is -0.5"),
        ("[[env]]", "[decoding]\ntemperature = nan\n[[env]]", "temperature is nan"),
        ("[[env]]", "[decoding]\ntop_p = 0\n[[env]]", "top_p is 0.0"),
        ("[[env]]", "[decoding]\nmax_tokens = 0\n[[env]]", "max_tokens is 0"),
        ("[[env]]", '[prompt]\nformat = "sonnet"\n[[env]]', "sonnet.*compact"),
        ("[[env]]", '[prompt]\nformt = "capo"\n[[env]]', r"\[prompt\].*formt.*format"),
        ("[[env]]", '[metrics]\nprimery = "score"\n[[env]]', r"\[metrics\].*primery.*primary"),
        ("[[env]]", "[metrics]\nprimary = 1\n[[env]]", r"\[metrics\] has primary = 1"),
        ("max_steps = 5", "expected = { task = 2 }", "expected.*task.*families"),
        ("max_steps = 5", 'expected = { tasks = "2" }', "expected has tasks = '2'"),
        ("max_steps = 5", "expected = { families = 2 }", "expected has families = 2"),
        ("max_steps = 5", "expected = { prefixes = { a = 1.5 } }", "prefixes has a = 1.5"),
        ("max_steps = 5", "expected = { ids = 2 }", "expected has ids = 2"),
        ("max_steps = 5", "expected = { families = { a = [] } }", r"families has a = \[\]"),
        ("max_steps = 5", "kwargs = { day = 2020-01-01 }", "JSON cannot hold"),
        ("max_steps = 5", "kwargs = { share = nan }", "JSON cannot hold"),
    ],
)
def test_a_wrong_suite_is_one_sentence(old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(TOML.replace(old, new, 1))


def test_a_suite_file_that_is_not_utf_8_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_bytes(b"count-0\n\xff\n")
    path = tmp_path / "tiny.toml"
    path.write_bytes(TOML.encode() + b"# \xff\n")
    with pytest.raises(UsageError, match=r"tiny\.toml is not UTF-8"):
        load_suite(path)
    path.write_text(TOML.replace('tasks = ["count-0", "count-1"]', 'task_list = "ids.txt"'))
    with pytest.raises(UsageError, match=r"ids\.txt is not UTF-8"):
        load_suite(path)


def test_a_suite_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, encoding: str) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    path = tmp_path / "tiny.toml"
    path.write_text(TOML)
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(DataError, match=r"tiny\.toml cannot be read \(Permission denied\)"):
        load_suite(path)


def test_an_environment_stands_once() -> None:
    with pytest.raises(UsageError, match="more than once"):
        parse(TOML + TOML[TOML.index("[[env]]") :].replace("count-", "other-"))


def test_unknown_suites_are_named() -> None:
    with pytest.raises(UsageError, match="smoke"):
        load_suite("smok")
    with pytest.raises(DataMissing, match=r"nowhere\.toml"):
        load_suite("nowhere.toml")


def test_every_shipped_suite_loads() -> None:
    assert "smoke" in shipped_suites()
    for name in shipped_suites():
        assert load_suite(name).id == name


def test_every_list_of_ids_is_the_one_that_was_stated() -> None:
    entries = [entry for name in shipped_suites() for entry in load_suite(name).envs]
    stated = [entry for entry in entries if "ids" in entry.expected]
    assert len(stated) >= 14
    for entry in stated:
        assert entry.expected["ids"] == ids_digest(entry.tasks)
        assert entry.expected["tasks"] == len(entry.tasks)
    assert all("ids" in e.expected or e.split_tasks for e in entries if e.data)


def test_every_list_of_ids_bears_the_canary_and_is_used() -> None:
    lists = {path.name: path.read_text("utf-8") for path in (SUITES_FOLDER / "lists").iterdir()}
    suites = "".join(path.read_text("utf-8") for path in SUITES_FOLDER.glob("*.toml"))
    for name, text in lists.items():
        assert text.splitlines()[1].startswith("# canary a8c6f3d2-5b0e-4c7a-9f41-6e2d7b90c5e1"), (
            name
        )
        assert f'"lists/{name}"' in suites, name


def test_a_part_keeps_the_seeds_and_is_not_rankable() -> None:
    suite = parse_suite(TOML, source="a")
    part = suite.part(tasks=["count-1"])
    assert (part.id, part.version, part.envs[0].tasks) == ("tiny", 3, ("count-1",))
    assert part.departures and part.digest != suite.digest
    assert suite.part(episodes=1).envs[0].tasks == ("count-0",)
    assert suite.part(trials=7).planned == 14
    assert suite.part(episodes=2, trials=2) is suite
    with pytest.raises(UsageError, match="count-9"):
        suite.part(tasks=["count-9"])


def test_a_suite_is_ordered_by_what_its_environments_are() -> None:
    assert metric_of(load_suite("searchqa-7")) == "em"
    assert metric_of(load_suite("papers-real50")) == "f1_all"
    assert metric_of(load_suite("webshop-test500")) == "success"
    assert metric_of(load_suite("smoke")) == "primary metric"


def test_another_index_makes_a_suite_unrankable_and_is_an_argument() -> None:
    whole = parse(TOML)
    suite = whole.searching({"Counting-v0": "folder"})
    assert (
        suite.envs[0].kwargs == {"index": "folder"} and suite.envs[0].tasks == whole.envs[0].tasks
    )
    assert suite.departures == ("Counting-v0 searches another index",)
    assert whole.searching({}) == whole
    with pytest.raises(UsageError, match="an index is given for 'Other-v0'; suite tiny has"):
        whole.searching({"Other-v0": "x"})

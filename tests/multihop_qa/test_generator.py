"""The embedded encyclopedia: its bytes, its formats, its names, and what keeps its splits apart."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from agentgym_suite.errors import DataError, UsageError
from agentgym_suite.multihop_qa import generated_files, generator
from agentgym_suite.multihop_qa.generator import DEFAULT_SEED, QUESTION_COUNTS, SIZES
from agentgym_suite.multihop_qa.generator.growing import grow_world
from agentgym_suite.multihop_qa.generator.tables import Tables, load_tables
from agentgym_suite.multihop_qa.generator.wording import gives_away
from agentgym_suite.multihop_qa.generator.world import World
from tests.multihop_qa.embedded_world import SPLITS, Files, Row, embedded_files, gold_passages

PINNED = {
    "2wiki/dev.json": "08c5867d8427344ae5ab4ba1eb07bc2635df1063b4c8f5d3c4399ac9463a633b",
    "2wiki/id_aliases.jsonl": "49ded659820e4987e318b4f09391a6ac57614d5c57ce8a85027321da6c03e3a4",
    "2wiki/test.json": "fee54a24441b67483afba8317e20696e7035d6a3e24886237a629d8ca43e8240",
    "2wiki/train.json": "444f05f895f900b1bf65fe98dd0e0ca965d6e4bb005f0bcf7364eb96c6e64d10",
    "corpus.jsonl": "5f8d702471447b869b4f997fad474a38c9022e0eff41590a13c50b56a1de4f58",
    "corpus_titles.jsonl": "c3f831512ad6731caed887bcb3bb8ce7c8ce796c63ca3d30aebc7ce9c7d4d339",
    "flashrag/dev.jsonl": "6050632f8e5a4bfda8109dff93d9fa39a5130967290091979d98145eda273c94",
    "flashrag/test.jsonl": "b55859d34a6cd2b0c2612a2a47beedc45a401e20cf0abced0ef83b06a6cbea74",
    "flashrag/train.jsonl": "d0437b36b3f6d1e6e029da558ceb5804bf9d764081f81eb2bfb02f11b15d2d71",
    "hotpotqa/dev.json": "897a6ad38081dff1c7ae7432e808e88c8314788defe60eaf4e117a95c357d915",
    "hotpotqa/test.json": "30325b5eddfe77bde97f58a782b571ae2f69f1e7968d3706ca76f3af015f30ec",
    "hotpotqa/train.json": "f451532ace98b11b3e6b3a8867acba5b5ae35a9bee46b58a7aa2b89278cbf086",
    "musique/dev.jsonl": "dfe257c6f6dfd4c3f9b61720d6a66fe3c7f8685e4c8508b7cafff765a064b199",
    "musique/test.jsonl": "d46b0a58737c407b820e3ec631fd2a23a3a18efbf0f03432ebf46054e611abd3",
    "musique/train.jsonl": "d3b2699d8acd3e46ec2cad351e6b34edc6b4b9ab0250b3482edbc2172b626313",
}
FEW = {"train": 40, "dev": 20, "test": 20}
PRINT_DIGESTS = f"""
import hashlib, pathlib, tempfile
from agentgym_suite.multihop_qa.generator import generate
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    generate(folder, questions={FEW!r})
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        print(path.relative_to(folder), hashlib.sha256(path.read_bytes()).hexdigest())
"""


@pytest.fixture(scope="module")
def files() -> Files:
    return embedded_files()


@pytest.fixture(scope="module")
def tables() -> Tables:
    return load_tables()


@pytest.fixture(scope="module")
def world(tables: Tables) -> World:
    return grow_world(tables, SIZES["small"], DEFAULT_SEED)


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


# --- bytes


def test_the_embedded_files_are_pinned(files: Files) -> None:
    assert digests(files.folder) == PINNED


def test_hash_seed_and_locale_change_nothing() -> None:
    def digest(hash_seed: str, locale: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "LC_ALL": locale}
        command = [sys.executable, "-c", PRINT_DIGESTS]
        return subprocess.run(
            command, env=environment, capture_output=True, check=True, text=True
        ).stdout

    assert digest("1", "C") == digest("2", "C.UTF-8") != ""


def test_another_seed_is_another_world(tmp_path: Path, files: Files) -> None:
    generator.generate(tmp_path, seed=DEFAULT_SEED + 1, questions=FEW)
    mine = {row["title"] for row in Files(tmp_path).lines("corpus_titles.jsonl")}
    embedded = {row["title"] for row in files.lines("corpus_titles.jsonl")}
    assert len(mine & embedded) < 0.2 * len(mine)


# --- publishing


def test_the_folder_is_made_once(files: Files) -> None:
    before = (files.folder / "manifest.json").stat().st_mtime_ns
    assert generated_files.embedded_folder() == files.folder
    assert (files.folder / "manifest.json").stat().st_mtime_ns == before


def test_progress_runs_to_the_end_of_every_phase(tmp_path: Path) -> None:
    seen: dict[str, tuple[int, int | None]] = {}
    manifest = generated_files.publish_generated(
        tmp_path / "world",
        seed=5,
        questions=FEW,
        progress=lambda phase, done, total: seen.update({phase: (done, total)}),
    )
    assert manifest.counts["train"] == 40 and manifest.counts["passages"] > 1_300
    phases = {"grow the world", "write pages", "draw questions", "write questions"}
    assert phases <= seen.keys()
    assert all(done == total for done, total in seen.values())


def test_an_unknown_size_and_too_many_questions_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="size is 'huge': give one of small, medium, large"):
        generated_files.publish_generated(tmp_path / "huge", size="huge")
    with pytest.raises(DataError, match="too few facts"):
        generator.generate(tmp_path, questions={"test": 40_000})


# --- formats


def test_every_file_has_its_rows(files: Files) -> None:
    for split, count in QUESTION_COUNTS.items():
        hotpot, twowiki = files.rows("hotpotqa", split), files.rows("2wiki", split)
        chains = [row for row in twowiki if row["type"] in ("compositional", "inference")]
        assert len(hotpot) == len(twowiki) == len(files.rows("flashrag", split)) == count
        assert len(files.rows("musique", split)) == len(chains) == count * 79 // 100
        assert [row["_id"] for row in hotpot] == [row["_id"] for row in twowiki]
    ids = [row["_id"] for split in SPLITS for row in files.rows("hotpotqa", split)]
    assert len(set(ids)) == 2_600 and all(re.fullmatch("[0-9a-f]{24}", each) for each in ids)


@pytest.mark.parametrize("split", SPLITS)
def test_half_of_the_questions_have_two_hops_and_a_fifth_four(files: Files, split: str) -> None:
    rows = files.rows("2wiki", split)
    hops = [len(row["evidences"]) for row in rows]
    assert [hops.count(n) / len(rows) for n in (2, 3, 4)] == [0.5, 0.3, 0.2]
    kinds = [row["type"] for row in rows]
    shares = {kind: kinds.count(kind) / len(rows) for kind in set(kinds)}
    assert shares == {
        "compositional": 0.71,
        "comparison": 0.13,
        "inference": 0.08,
        "bridge_comparison": 0.08,
    }


@pytest.mark.parametrize("split", SPLITS)
def test_rows_hold_together(files: Files, split: str) -> None:
    corpus = {(row["title"], row["text"]) for row in files.lines("corpus_titles.jsonl")}
    for hotpot, twowiki in zip(
        files.rows("hotpotqa", split), files.rows("2wiki", split), strict=True
    ):
        assert hotpot["context"] == twowiki["context"]
        titles = [title for title, _ in hotpot["context"]]
        assert len(titles) == len(set(titles)) == 10
        passages = {(title, "".join(sentences)) for title, sentences in hotpot["context"]}
        assert passages <= corpus
        sentences = dict(hotpot["context"])
        for (title, number), evidence in zip(
            hotpot["supporting_facts"], twowiki["evidences"], strict=True
        ):
            assert title == evidence[0] and number < len(sentences[title])
        assert all(s.startswith(" ") for rows in sentences.values() for s in rows[1:])
        assert twowiki["entity_ids"].split("_") == [e[0] for e in twowiki["evidences_id"]]


@pytest.mark.parametrize("split", SPLITS)
def test_musique_rows_are_the_chains_step_by_step(files: Files, split: str) -> None:
    golds = {row["question"]: gold_passages(row) for row in files.rows("2wiki", split)}
    for row in files.rows("musique", split):
        paragraphs = row["paragraphs"]
        assert [p["idx"] for p in paragraphs] == list(range(20))
        assert len({p["title"] for p in paragraphs}) == 20
        steps = row["question_decomposition"]
        assert row["id"].startswith(f"{len(steps)}hop__") and row["answerable"]
        assert steps[-1]["answer"] == row["answer"]
        assert "#" not in steps[0]["question"]
        assert all(f"#{n}" in step["question"] for n, step in enumerate(steps) if n)
        told = [paragraphs[step["paragraph_support_idx"]] for step in steps]
        assert [(p["title"], p["paragraph_text"]) for p in told] == golds[row["question"]]
        assert [p for p in paragraphs if p["is_supporting"]] == sorted(
            told, key=lambda p: int(p["idx"])
        )


def test_answers_go_with_their_aliases(files: Files) -> None:
    aliases = {
        row["Q_id"]: row["aliases"] + row["demonyms"]
        for row in files.lines("2wiki/id_aliases.jsonl")
    }
    with_aliases = 0
    for split in SPLITS:
        for twowiki, flash in zip(
            files.rows("2wiki", split), files.rows("flashrag", split), strict=True
        ):
            expected = [twowiki["answer"], *aliases.get(twowiki["answer_id"], [])]
            assert flash["golden_answers"] == expected
            assert (twowiki["answer_id"] is None) == (twowiki["answer"] in ("yes", "no"))
            with_aliases += len(expected) > 1
    assert with_aliases > 500


def test_both_shapes_of_the_corpus_say_the_same(files: Files) -> None:
    rows = files.lines("corpus_titles.jsonl")
    assert 1_400 <= len(rows) <= 1_650
    for number, (row, other) in enumerate(zip(rows, files.lines("corpus.jsonl"), strict=True)):
        assert row["id"] == other["id"] == str(number)
        assert other["contents"] == f'"{row["title"]}"\n{row["text"]}'
    # pages stand together, in the order of an encyclopedia
    titles = list(dict.fromkeys(row["title"] for row in rows))
    assert titles == sorted(titles, key=lambda title: (title.casefold(), title))


# --- questions


def everything(files: Files) -> list[Row]:
    return [row for split in SPLITS for row in files.rows("2wiki", split)]


def test_no_question_names_its_answer_or_an_entity_on_the_way(files: Files, world: World) -> None:
    by_id = {entity.id: entity for entity in world.entities}
    for row in everything(files):
        starts = {e[0] for e in row["evidences_id"]} - {e[2] for e in row["evidences_id"]}
        names = [row["answer"]]
        ends = {end for e in row["evidences_id"] for end in (e[0], e[2])} - starts
        for end in sorted(ends):
            # what a comparison's two sides have in common is neither answer nor bridge
            if end in by_id and row["type"] in ("compositional", "inference"):
                names += [by_id[end].title, *by_id[end].aliases]
        if row["type"] == "bridge_comparison":
            names += [e[2] for e in row["evidences"][:2]]
        assert not gives_away(row["question"], names), row["question"]


def test_answers_are_the_only_ones(files: Files, world: World, tables: Tables) -> None:
    """Follow every path over plain lists of all facts, told wherever."""
    labels = {}
    for kind, page in tables.pages.items():
        for telling in page.tellings.values():
            labels[kind, telling.label] = telling
    numbers = {entity.title: entity.number for entity in world.entities}

    def ends(subject: str, label: str) -> set[str]:
        telling = labels[world.entities[numbers[subject]].kind, label]
        found = set()
        for fact in world.facts:
            if fact.relation != telling.relation.name:
                continue
            symmetric = telling.relation.symmetric
            if (telling.forward or symmetric) and fact.subject == numbers[subject]:
                value = fact.value
                found.add(value.answer if value else world.entities[fact.object].title)
            if (not telling.forward or symmetric) and fact.object == numbers[subject]:
                found.add(world.entities[fact.subject].title)
        return found

    checked: set[tuple[str, ...]] = set()
    for row in everything(files):
        for subject, label, thing in row["evidences"]:
            if (subject, label, thing) not in checked:
                assert ends(subject, label) == {thing}
                checked.add((subject, label, thing))
        if row["type"] in ("compositional", "inference"):
            chain = row["evidences"]
            assert all(one[2] == two[0] for one, two in zip(chain, chain[1:], strict=False))
            assert row["answer"] == chain[-1][2]
    assert len(checked) > 1_000


def test_comparisons_are_right(files: Files) -> None:
    verdicts = {"yes": 0, "no": 0}
    for row in everything(files):
        if "comparison" not in row["type"]:
            continue
        (one, _, a), (other, _, b) = row["evidences"][-2:]
        if row["answer"] in verdicts:
            verdicts[row["answer"]] += 1
            if " same " in row["question"]:
                assert row["answer"] == ("yes" if a == b else "no")
        elif row["type"] == "comparison":
            assert a != b and row["answer"] in (a, b)
        else:
            assert a != b and row["answer"] in (one, other)
    total = sum(verdicts.values())
    assert 0.3 < verdicts["yes"] / total < 0.7


# --- splits


def paths(row: Row) -> set[tuple[tuple[str, ...], ...]]:
    """The path of a question and, of a chain, every part of two hops or more."""
    facts = tuple(map(tuple, row["evidences"]))
    if row["type"] not in ("compositional", "inference"):
        return {tuple(sorted(facts))}
    return {
        facts[first:last]
        for first, last in product(range(len(facts)), range(len(facts) + 1))
        if last - first >= 2
    }


def entities(row: Row) -> set[str]:
    return {end for e in row["evidences_id"] for end in (e[0], e[2]) if end.startswith("Q")}


def test_no_question_and_no_path_is_in_two_splits(files: Files) -> None:
    train = files.rows("2wiki", "train")
    trained = {path for row in train for path in paths(row)}
    for split in ("dev", "test"):
        rows = files.rows("2wiki", split)
        whole = {max(paths(row), key=len) for row in rows}
        assert len(whole) == len(rows) and not whole & trained
        assert not {row["question"] for row in rows} & {row["question"] for row in train}
    dev, test = ({max(paths(r), key=len) for r in files.rows("2wiki", s)} for s in SPLITS[1:])
    assert not dev & test


def test_three_tenths_of_the_test_entities_are_new(files: Files) -> None:
    touched = {end for row in files.rows("2wiki", "train") for end in entities(row)}
    tested = {end for row in files.rows("2wiki", "test") for end in entities(row)}
    assert 0.3 <= len(tested - touched) / len(tested) <= 0.4


# --- names


def real_names() -> set[str]:
    lines = (Path(__file__).parent / "real_names.txt").read_text(encoding="utf-8").splitlines()
    return {word.casefold() for line in lines if not line.startswith("#") for word in line.split()}


def test_no_syllables_make_a_real_name(tables: Tables) -> None:
    real = real_names()
    assert len(real) > 1_000
    for table in tables.names.values():
        parts = table.parts
        middles = ("", *parts["middles"])
        words = {"".join(p).casefold() for p in product(parts["starts"], middles, parts["ends"])}
        for group in ("women", "men"):
            pairs = product(parts.get(group, ()), parts.get(f"{group}_ends", ()))
            words |= {"".join(pair).casefold() for pair in pairs}
        assert not words & real


def test_no_name_of_the_world_is_a_real_one(world: World, tables: Tables) -> None:
    listed = {
        word.casefold()
        for table in tables.names.values()
        for group in ("adjectives", "nouns", "plurals", "times")
        for word in table.parts.get(group, ())
    }
    real = real_names() - listed
    for entity in world.entities:
        for name in (entity.title, *entity.aliases):
            assert not {word.casefold() for word in re.split(r"[\W_]+", name)} & real, name


def test_titles_are_unique_and_some_are_alike(world: World) -> None:
    names = [name for e in world.entities for name in (e.title, *e.aliases)]
    assert len({name.casefold() for name in names}) == len(names)
    count = len(world.entities)
    assert 0.06 <= sum(e.twin >= 0 for e in world.entities) / count <= 0.1
    assert 0.08 <= sum(bool(e.aliases) for e in world.entities) / count <= 0.12
    for entity in world.entities:
        if entity.twin >= 0:
            twin = world.entities[entity.twin]
            assert twin.twin == entity.number and twin.kind == entity.kind


def test_the_world_hangs_together(world: World) -> None:
    for fact in world.facts:
        relation = world.relations[fact.relation]
        subject = world.entities[fact.subject]
        assert subject.kind == relation.domain and fact.subject != fact.object
        if relation.is_value:
            assert fact.value is not None and fact.object == -1
            continue
        assert world.entities[fact.object].kind == relation.range
        if relation.years is not None:
            gap = subject.year - world.entities[fact.object].year
            assert relation.years[0] <= gap <= relation.years[1]
        if relation.within:
            path = [(step, True) for step in relation.within]
            assert world.answers(fact.subject, path) == {fact.object}

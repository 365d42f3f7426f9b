"""The data home: what is published, read back, refused, and found damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_suite import data
from agentgym_suite.errors import DataDamaged, DataError, DataMissing, DataVersion, UsageError
from agentgym_suite.files import remove_folder
from tests.small_store import build


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_home_follows_the_environment_at_every_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTGYM_SUITE_HOME", str(tmp_path / "one"))
    assert data.data_home() == tmp_path / "one"
    assert data.data_folder("webshop", "webshop-small") == tmp_path / "one/webshop/webshop-small"
    monkeypatch.setenv("AGENTGYM_SUITE_HOME", "~/two")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data.data_home() == tmp_path / "two"
    monkeypatch.setenv("AGENTGYM_SUITE_HOME", "")
    assert data.data_home().name == "agentgym-suite"
    assert not (tmp_path / "one").exists()


def test_published_folder_and_its_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "store"
    manifest = build(folder)
    assert data.read_manifest(folder, kind="test-store", version=1) == manifest
    assert data.verify_folder(folder) == manifest
    assert set(manifest.files) == {"deep/a.txt", "b.bin"}
    assert manifest.counts == {"things": 2}
    assert manifest.notes == {"label": "ü"}
    assert manifest.files["b.bin"].sha256 == data.sha256_file(folder / "b.bin")
    assert not (tmp_path / "home" / "store.partial").exists()
    assert sorted(files_of(folder)) == ["b.bin", "deep/a.txt", "manifest.json"]


def test_digest_is_of_kind_version_and_contents_only(tmp_path: Path) -> None:
    one = build(tmp_path / "one")
    other_inputs = build(tmp_path / "two", inputs={"x": 2})
    other_text = build(tmp_path / "three", text="hallo")
    other_version = build(tmp_path / "four", version=2)
    assert one.digest == other_inputs.digest
    assert len({one.digest, other_text.digest, other_version.digest}) == 3
    assert one.digest.startswith("sha256:")
    assert len(one.digest) == len("sha256:") + 64


def test_equal_inputs_reuse_and_other_inputs_never_overwrite(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    seen: list[list[str]] = []
    first = build(folder, seen=seen)
    before = files_of(folder)
    assert build(folder, seen=seen, text="changed") == first
    assert len(seen) == 1
    with pytest.raises(DataError, match="inputs.*choose another place or remove"):
        build(folder, inputs={"x": 2})
    with pytest.raises(DataError, match="version 1, not 2"):
        build(folder, version=2)
    assert files_of(folder) == before


def test_a_tuple_and_a_list_are_the_same_inputs(tmp_path: Path) -> None:
    first = build(tmp_path / "store", inputs={"x": (1, 2)})
    assert build(tmp_path / "store", inputs={"x": [1, 2]}) == first


def test_foreign_folder_and_file_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.tex").write_text("ten years of work")
    before = files_of(folder)
    with pytest.raises(DataError, match="was not made by this suite"):
        build(folder)
    assert files_of(folder) == before
    with pytest.raises(DataError, match="was not made by this suite"):
        build(folder / "thesis.tex")
    assert files_of(folder) == before
    with pytest.raises(DataError, match="cannot be written"):
        build(folder / "thesis.tex" / "store")


def test_an_empty_folder_is_room_enough(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    assert build(folder).counts == {"things": 2}


def test_missing_other_kind_and_other_version(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"no test-store at .*; run `make it`"):
        data.read_manifest(tmp_path / "no", kind="test-store", version=1, mend="run `make it`")
    build(tmp_path / "store")
    with pytest.raises(DataMissing, match="holds test-store, not bm25-index"):
        data.read_manifest(tmp_path / "store", kind="bm25-index", version=1)
    with pytest.raises(DataVersion, match="has format version 1 .* reads 2"):
        data.read_manifest(tmp_path / "store", kind="test-store", version=2)
    with pytest.raises(DataMissing):
        data.verify_folder(tmp_path)


@pytest.mark.parametrize("damage", ["absent", "short", "flipped"])
def test_damaged_files(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "store"
    build(folder)
    victim = folder / "deep" / "a.txt"
    if damage == "absent":
        victim.unlink()
    elif damage == "short":
        victim.write_text("hell")
    else:
        victim.write_text("jello")
    with pytest.raises(DataDamaged, match=r"a\.txt"):
        data.verify_folder(folder)
    if damage == "flipped":  # the cheap check looks at sizes only, by design
        data.read_manifest(folder, kind="test-store", version=1)
    else:
        with pytest.raises(DataDamaged, match=r"a\.txt"):
            data.read_manifest(folder, kind="test-store", version=1)
        with pytest.raises(DataDamaged, match="make it again"):
            build(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"kind": 1}', "\udcff", '"x"', "null", "[1]", "[" * 99_999]
)
def test_damaged_manifest(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "store"
    build(folder)
    (folder / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataDamaged, match="is not a manifest"):
        data.read_manifest(folder, kind="test-store", version=1)


def test_an_edited_manifest_is_seen_and_one_of_an_older_build_is_not_refused(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store"
    build(folder)
    path = folder / "manifest.json"
    whole = json.loads(path.read_text("utf-8"))
    assert whole["seal"] == data.json_digest({k: v for k, v in whole.items() if k != "seal"})
    path.write_text(json.dumps(whole | {"inputs": {"edited": 1}}))
    with pytest.raises(DataDamaged, match="was changed after it was written .its seal is"):
        data.load_manifest(folder)
    path.write_text(json.dumps(whole | {"seal": 7}))
    with pytest.raises(DataDamaged, match="was changed after it was written"):
        data.load_manifest(folder)
    del whole["seal"]
    path.write_text(json.dumps(whole))
    assert data.load_manifest(folder).inputs == whole["inputs"]


def test_a_manifest_with_other_values_than_ours(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    build(folder)
    whole = json.loads((folder / "manifest.json").read_text("utf-8"))
    for changes in (
        {"counts": {"things": "many"}},
        {"counts": {"things": None}},
        {"counts": [1]},
        {"version": float("inf")},
        {"files": {"b.bin": {"size": [], "sha256": "x"}}},
        {"files": {"b.bin": {}}},
    ):
        (folder / "manifest.json").write_text(json.dumps(whole | changes))
        with pytest.raises(DataDamaged, match="is not a manifest"):
            data.load_manifest(folder)


def test_a_file_beside_the_manifest_is_not_verified_in_silence(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    build(folder)
    (folder / "deep" / "more.txt").write_text("x")
    with pytest.raises(DataDamaged, match=r"deep/more\.txt is not in the manifest"):
        data.verify_folder(folder)


def test_an_unreadable_folder_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store"
    build(folder)

    def refuse(path: Path, *_: object, **__: object) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    for method in ("open", "read_bytes"):
        monkeypatch.setattr(Path, method, refuse)
        with pytest.raises(DataError, match=r"cannot be read \(Permission denied\); check its"):
            data.verify_folder(folder)
    with pytest.raises(DataError, match="cannot be read"):
        build(folder)


def test_a_link_leads_to_what_is_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for target in ("nowhere", "empty"):
        link = tmp_path / f"link to {target}"
        link.symlink_to(tmp_path / target)
        build(link)
        assert link.is_symlink()
        assert data.verify_folder(tmp_path / target) == data.verify_folder(link)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(DataError, match="a link that leads to itself"):
        build(loop)


@pytest.mark.parametrize("place", ["n" * 300, "thesis.tex/store", "/proc/store", "/sys/store"])
def test_places_where_nothing_can_be_made(tmp_path: Path, place: str) -> None:
    (tmp_path / "thesis.tex").write_text("ten years of work")
    with pytest.raises(DataError, match="cannot be written"):
        build(tmp_path / place)


@pytest.mark.parametrize("given", [5, b"bytes", ["webshop"]])
def test_data_are_named_by_text(given: object) -> None:
    with pytest.raises(UsageError, match="give a name or a path as text"):
        data.find_data(given, "webshop")  # type: ignore[arg-type]


def test_manifest_cut_at_every_byte(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    build(folder)
    whole = (folder / "manifest.json").read_bytes().rstrip()
    for length in range(len(whole)):
        (folder / "manifest.json").write_bytes(whole[:length])
        with pytest.raises(DataDamaged):
            data.read_manifest(folder, kind="test-store", version=1)


def test_writers_leave_the_old_file_when_they_fail(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    data.write_json_atomic(path, {"b": 1, "a": "ß"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        data.write_json_atomic(path, float("nan"))
    assert json.loads(path.read_text("utf-8")) == {"a": "ß", "b": 1}
    assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


def test_canonical_json() -> None:
    assert data.canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        data.canonical_json([float("inf")])


def test_progress_counts_bytes(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"q" * 2_500_000)
    calls: list[tuple[str, int, int | None]] = []
    data.sha256_file(path, lambda *call: calls.append(call))
    assert calls[-1] == ("digest big", 2_500_000, 2_500_000)
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)
    with pytest.raises(DataMissing):
        data.sha256_file(tmp_path / "none")


def test_json_digest_is_of_the_canonical_text() -> None:
    assert data.json_digest({"b": 1, "a": "ß"}) == data.json_digest({"a": "ß", "b": 1})
    assert (
        data.json_digest([])
        == "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    )


def test_data_are_found_by_name_and_by_path(
    fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fresh_home / "webshop" / "tiny"
    build(store)
    here = tmp_path / "here"
    (here / "tiny").mkdir(parents=True)
    (here / "official").mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("tiny", "webshop/tiny", Path("tiny"), store, str(store)):
        assert data.find_data(name, "webshop") == store
    assert data.find_data("./tiny", "webshop") == here / "tiny"
    assert data.find_data("tiny", "alfworld") == here / "tiny"
    assert data.find_data("official", "webshop") == here / "official"
    assert data.find_data("~/here", "webshop") == here


@pytest.mark.parametrize(
    "name", ["", "nowhere", "webshop/nowhere", "../webshop/tiny", "\0", "n" * 300, "~nobody-here/x"]
)
def test_data_that_are_not_there_name_the_commands(fresh_home: Path, name: str) -> None:
    build(fresh_home / "webshop" / "tiny")
    with pytest.raises(DataMissing, match="data list.*data download NAME.*data path NAME"):
        data.find_data(name, "webshop")


def test_an_unfinished_data_set_is_not_found_by_name(fresh_home: Path) -> None:
    (fresh_home / "webshop" / "tiny").mkdir(parents=True)
    with pytest.raises(DataMissing):
        data.find_data("tiny", "webshop")


def test_a_removed_folder_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    build(folder)
    (tmp_path / "store.partial").mkdir()
    (tmp_path / "store.partial" / "left").write_text("x")
    remove_folder(folder)
    assert [path.name for path in tmp_path.iterdir()] in ([], ["store.lock"])
    remove_folder(folder)
    assert build(folder).counts == {"things": 2}

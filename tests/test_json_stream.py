"""The streaming JSON readers: equal to json.load, and clear about damage."""

from __future__ import annotations

import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import DataDamaged, DataMissing
from agentgym_suite.json_stream import JsonWindow, iter_json_list, iter_json_object

numbers = (
    st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.sampled_from([1e300, -1.5e-7, float("inf"), -float("inf")])
)
scalars = st.none() | st.booleans() | numbers | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
chunks = st.sampled_from([1, 2, 3, 7, 16, 64, 1 << 20])
layouts = st.sampled_from(
    [
        {"separators": (",", ":")},
        {"indent": 2},
        {"separators": (" ,\r\n", "\t: "), "ensure_ascii": False},
    ]
)


def encode(value: Any, layout: dict[str, Any]) -> bytes:
    # A lone surrogate has no UTF-8 form; escaped it is legal JSON and must survive.
    return json.dumps(value, **layout).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("json")


@given(st.lists(values, max_size=6), chunks, layouts, st.sampled_from(["", ".gz", ".xz"]))
def test_lists_equal_json_load(
    scratch: Path, value: list[Any], chunk: int, layout: dict[str, Any], suffix: str
) -> None:
    data = encode(value, layout)
    path = scratch / f"list.json{suffix}"
    packers: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".gz": gzip.compress,
        ".xz": lzma.compress,
    }
    path.write_bytes(packers[suffix](data))
    found = list(iter_json_list(path, chunk_bytes=chunk))
    assert [element for element, _ in found] == json.loads(data)
    offsets = [offset for _, offset in found]
    assert offsets == sorted(set(offsets))
    for element, offset in found:
        head = data[:offset].decode("utf-8")
        assert json.loads(head + "]")[-1] == element


@given(st.dictionaries(st.text(), values, max_size=6), chunks, layouts)
def test_objects_equal_json_load(
    scratch: Path, value: dict[str, Any], chunk: int, layout: dict[str, Any]
) -> None:
    path = scratch / "object.json"
    path.write_bytes(encode(value, layout))
    assert list(iter_json_object(path, chunk_bytes=chunk)) == list(value.items())


@given(st.lists(values, max_size=6), chunks, layouts)
def test_a_window_knows_the_line_of_its_cursor(
    value: list[Any], chunk: int, layout: dict[str, Any]
) -> None:
    data = encode(value, layout)
    window = JsonWindow("text", io.BytesIO(data), chunk)
    window.begin("[", "a JSON list")
    while not window.at_end_of("]"):
        window.value()
        assert window.line == data[: window.position].count(b"\n") + 1


SAMPLE = {"naïve ☃": [1.5e3, -2, {"a": '\\ \u2028 " é😀'}], "b": [True, None, []], "": {}}


@pytest.mark.parametrize("chunk", [1, 5, 1 << 20])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_cut_at_every_byte_is_damage_with_file_and_position(
    tmp_path: Path, chunk: int, ascii_only: bool
) -> None:
    path = tmp_path / "cut.json"
    for reader, value in ((iter_json_object, SAMPLE), (iter_json_list, [SAMPLE, 12, "x"])):
        data = json.dumps(value, ensure_ascii=ascii_only).encode()
        for length in range(len(data)):
            path.write_bytes(data[:length])
            with pytest.raises(DataDamaged) as caught:
                list(reader(path, chunk_bytes=chunk))
            message = str(caught.value)
            assert str(path) in message
            position = int(message.split(" at byte ")[1].split(" ")[0])
            assert 0 <= position <= length


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_file_cut_at_every_byte(tmp_path: Path, pack: Any) -> None:
    suffix = ".gz" if pack is gzip.compress else ".xz"
    path = tmp_path / f"cut.json{suffix}"
    data = pack(json.dumps([SAMPLE] * 3).encode())
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(DataDamaged, match=path.name):
            list(iter_json_list(path))


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        ("", 0),
        ("{}", 0),
        ('"x"', 0),
        ("[1 2]", 3),
        ("[1,]", 3),
        ("[,1]", 1),
        ("[1]]", 3),
        ("[1] x", 4),
        ("[1.]", 2),
        ("[01]", 2),
        ("[tru]", 1),
        ('["a\nb"]', 3),
        ('[{"a":1,}]', 8),
        ('["é", nope]', 7),
        ("[" + "[" * 100_000, 1),
    ],
)
@pytest.mark.parametrize("chunk", [1 << 20, 4])
def test_foreign_text_is_damage_at_the_right_byte(
    tmp_path: Path, text: str, byte: int, chunk: int
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataDamaged) as caught:
        list(iter_json_list(path, chunk_bytes=chunk))
    assert f"{path} is damaged at byte " in str(caught.value)
    if text != '[{"a":1,}]':  # json moved this position between Python versions
        assert f"at byte {byte} " in str(caught.value)


def test_a_key_must_be_a_string(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("{1: 2}")
    with pytest.raises(DataDamaged, match="at byte 1 .*key"):
        list(iter_json_object(path))


def test_not_utf8_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "latin.json"
    path.write_bytes(b'["ok", "caf\xe9"]')
    for chunk in (1, 3, 1 << 20):
        with pytest.raises(DataDamaged, match="at byte 11 .*UTF-8"):
            list(iter_json_list(path, chunk_bytes=chunk))


def test_elements_before_the_damage_are_delivered(tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    path.write_text('["one", "two", "thr')
    reader = iter_json_list(path)
    assert [next(reader)[0], next(reader)[0]] == ["one", "two"]
    with pytest.raises(DataDamaged, match=r"element 3"):
        next(reader)


def test_an_early_error_does_not_read_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "early.json"
    path.write_text("[1, {nope: 1}" + ", 2" * 100_000 + "]")
    with path.open("rb") as stream:
        window = JsonWindow(path, stream, 256)
        window.begin("[", "a JSON list")
        with pytest.raises(DataDamaged):
            while not window.at_end_of("]"):
                window.value()
        assert stream.tell() < 10_000


def test_byte_order_mark_and_repeated_keys(tmp_path: Path) -> None:
    path = tmp_path / "bom.json"
    path.write_text('{"a": 1, "a": 2}', encoding="utf-8-sig")
    assert list(iter_json_object(path)) == [("a", 1), ("a", 2)]


def test_missing_file(tmp_path: Path) -> None:
    for name in ("no.json", "no.json.xz", "no.json.gz", "."):
        with pytest.raises(DataMissing, match="there is no file"):
            list(iter_json_list(tmp_path / name))

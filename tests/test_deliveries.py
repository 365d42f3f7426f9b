"""The files of a source on this machine, whichever way they are published."""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentgym_suite import deliveries
from agentgym_suite.deliveries import deliver
from agentgym_suite.errors import DataMissing, DiskFull, DownloadError, MissingExtra
from agentgym_suite.sources import Source, SourceFile


def source(*files: SourceFile, unpacked_bytes: int = 0) -> Source:
    return Source("set", "webshop", "A set", "free", files, unpacked_bytes=unpacked_bytes)


HUB = SourceFile("papers", "folder", "hub:dataset:lab/papers@abc123", patterns=("*.jsonl",))


class Hub(ModuleType):
    """Stands in for the hub's own library, which is an extra."""

    def __init__(self) -> None:
        super().__init__("huggingface_hub")
        self.calls: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def snapshot_download(self, **options: Any) -> str:
        self.calls.append(options)
        if self.error:
            raise self.error
        (Path(options["local_dir"]) / "a.jsonl").write_text("{}")
        return str(options["local_dir"])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    module = Hub()
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_files_by_option_and_optional_ones_on_request(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    files = []
    for name, optional in (("a.json", False), ("b.json", True)):
        (tmp_path / "mirror" / name).write_text("[]")
        address = (tmp_path / "mirror" / name).as_uri()
        files.append(SourceFile(name, name[0], address, optional=optional))
    folder = tmp_path / "downloads"
    assert deliver(source(*files), folder) == {"a": folder / "a.json"}
    assert deliver(source(*files), folder, with_optional=True) == {
        "a": folder / "a.json",
        "b": folder / "b.json",
    }


def test_a_mirror_may_keep_files_packed(tmp_path: Path) -> None:
    (tmp_path / "a.json.xz").write_bytes(lzma.compress(b"[]"))
    file = SourceFile("a.json", "a", (tmp_path / "a.json.xz").as_uri())
    folder = tmp_path / "downloads"
    assert deliver(source(file), folder) == {"a": folder / "a.json.xz"}


def test_a_failure_says_the_manual_way(tmp_path: Path) -> None:
    files = (
        SourceFile("a.json", "items", "ftp://nowhere/a.json"),
        SourceFile("b.json", "human", "drive:abc"),
    )
    with pytest.raises(DownloadError) as caught:
        deliver(source(*files), tmp_path)
    assert str(caught.value).endswith(
        "or download it in a browser from ftp://nowhere/a.json, then "
        "`agentgym-suite data import set --items PATH --human PATH`"
    )
    with pytest.raises(DataMissing, match="names no file"):
        deliver(source(SourceFile("a.json", "items", "file:///no/such/file")), tmp_path)


def test_hub_repository(tmp_path: Path, hub: Hub) -> None:
    assert deliver(source(HUB), tmp_path) == {"folder": tmp_path / "papers"}
    assert hub.calls == [
        {
            "repo_id": "lab/papers",
            "repo_type": "dataset",
            "revision": "abc123",
            "allow_patterns": ["*.jsonl"],
            "local_dir": str(tmp_path / "papers"),
        }
    ]


def test_hub_refusal_and_full_disk(tmp_path: Path, hub: Hub) -> None:
    hub.error = OSError("403 Client Error.\n\nAccess to lab/papers is restricted")
    with pytest.raises(DownloadError, match=r"403 Client Error\. Access.*page of lab/papers"):
        deliver(source(HUB), tmp_path)
    hub.error = OSError(28, "No space left on device")
    with pytest.raises(DiskFull):
        deliver(source(HUB), tmp_path)


def test_hub_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"pip install 'agentgym-suite\[retrieval\]'"):
        deliver(source(HUB), tmp_path)
    assert not (tmp_path / "papers").exists()


def test_a_local_folder_in_place_of_a_hub_repository(tmp_path: Path) -> None:
    here = tmp_path / "my papers"
    here.mkdir()
    file = SourceFile("papers", "folder", here.as_uri())
    assert deliver(source(file), tmp_path / "downloads") == {"folder": here}


def test_the_disk_is_looked_at_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: Hub
) -> None:
    monkeypatch.setattr(deliveries, "free_bytes", lambda place: 10**9)
    with pytest.raises(DiskFull, match=r"about 15\.0 GB where 1\.0 GB are free"):
        deliver(source(HUB, unpacked_bytes=15 * 10**9), tmp_path)
    assert hub.calls == []

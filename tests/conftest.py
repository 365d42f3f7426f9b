"""What every test may use: the benchmark data, when it is there, and a data home of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

try:
    import agentgym_suite.servers  # noqa: F401
except ImportError as missing:  # a bare checkout: the outer folders are mapped by the install
    raise pytest.UsageError("install the project first: pip install -e '.[dev]'") from missing

# A busy machine is no failure, so examples have no deadline.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real benchmark data named by AGENTGYM_SUITE_SHARED; else the test skips."""
    folder = os.environ.get("AGENTGYM_SUITE_SHARED")
    if not folder:
        pytest.skip("AGENTGYM_SUITE_SHARED is not set: no benchmark data to compare with")
    return Path(folder)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One data home for the whole run, so that the embedded worlds are built once."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_SUITE_HOME", str(folder))
        yield folder


@pytest.fixture
def fresh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data home for this test alone."""
    home = tmp_path / "home"
    monkeypatch.setenv("AGENTGYM_SUITE_HOME", str(home))
    return home

"""Literals are read again where threads confuse the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym_suite.files import load_array, write_array
from agentgym_suite.literals import reread

CONFUSED = "AST constructor recursion depth mismatch (before=84, after=81)"


class Confused:
    """Fails so many times, then reads well."""

    def __init__(self, failures: int) -> None:
        self.calls = 0
        self._failures = failures

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self._failures:
            raise SystemError(CONFUSED)
        return 7


def test_what_was_confused_is_read_again() -> None:
    read = Confused(3)
    assert reread(read) == 7
    assert read.calls == 4


def test_an_interpreter_that_always_fails_is_told() -> None:
    with pytest.raises(SystemError, match="depth mismatch"):
        reread(Confused(10_000))


@pytest.mark.parametrize("mapped", [True, False])
def test_an_array_whose_header_was_confused(
    mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_array(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    confused = Confused(1)
    load = np.load

    def load_after_confusion(*args: Any, **kwargs: Any) -> Any:
        confused()
        return load(*args, **kwargs)

    monkeypatch.setattr(np, "load", load_after_confusion)
    assert load_array(tmp_path / "a.npy", mapped=mapped).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert confused.calls == 2

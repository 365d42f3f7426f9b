"""Progress of long work where there is a terminal, and where there is none."""

from __future__ import annotations

import pytest

from agentgym_suite.progress_bars import progress_bars, progress_lines


def test_lines_come_about_every_ten_seconds() -> None:
    now = 0.0
    lines: list[str] = []
    report = progress_lines(lines.append, lambda: now)
    for second in range(35):
        now = float(second)
        phase = "first" if second < 15 else "second"
        report(phase, second * 1000, 40_000 if phase == "first" else None)
    assert lines == [
        "first: 10,000 of 40,000 after 10 s",
        "second: 20,000 after 20 s",
        "second: 30,000 after 30 s",
    ]


def test_short_work_says_nothing_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars() as progress:
        progress("phase", 1, 2)
        progress("phase", 2, 2)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_bars(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bars() as progress:
        progress("counting", 1, 2)
        progress("counting", 2_000, 2_000)
    out, err = capsys.readouterr()
    assert out == "" and "counting" in err and "2,000 of 2,000" in err

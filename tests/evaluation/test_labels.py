"""What rows are called that have one name."""

from __future__ import annotations

from agentgym_suite.evaluation.labels import labels


def test_names_stand_alone_as_long_as_they_are_alone() -> None:
    names = ["a", "b", "a", "a"]
    assert labels(names) == names
    folders = [" (x)", " (x)", " (y)", " (y)"]
    assert labels(names, folders) == ["a (x)", "b", "a (y)", "a (y)"]
    numbers = [" #1", " #1", " #1", " #2"]
    assert labels(names, folders, numbers) == ["a (x)", "b", "a (y) #1", "a (y) #2"]
    assert labels([], [], []) == []

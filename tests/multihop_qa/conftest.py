from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_suite.multihop_qa.question_set import QuestionSet
from tests.multihop_qa.small_encyclopedia import small_questions


@pytest.fixture(scope="session")
def questions(tmp_path_factory: pytest.TempPathFactory) -> QuestionSet:
    return small_questions(tmp_path_factory.mktemp("small") / "questions")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "questions"

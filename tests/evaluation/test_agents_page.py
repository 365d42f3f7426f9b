"""The commands of docs/agents.md, run against a server of this test's own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.verify import verify_run
from tests.chat_server import Answer, chat_server, completion

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
LOCAL = "http://127.0.0.1:8000/v1"


def commands() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.strip()]


def test_the_commands_of_the_page_run(
    command: Callable[[Sequence[str]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")

    def says(request: dict[str, Any]) -> Answer:
        return Answer(completion("I do not know."))

    runs = []
    with chat_server(says) as server:
        for words in commands():
            arguments = [server.url if word == LOCAL else word for word in words]
            assert command([*arguments, "--episodes", "1"]) == 0, words
            runs.append(Path(arguments[arguments.index("--out") + 1]))
    assert [read_run(run)["agent"] for run in runs] == [
        "my-model",
        "my-model",
        "cassette:my-model",
        "replay:my-model",
    ]
    assert verify_run(runs[1]).verdict == verify_run(runs[2]).verdict == "verified"

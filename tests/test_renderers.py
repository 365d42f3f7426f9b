"""The file that says how a policy was trained to be talked to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_suite.errors import DataDamaged, DataMissing, DataVersion, UsageError
from agentgym_suite.prompts import StepPrompt
from agentgym_suite.renderers import RENDERER_FILE, Renderer


@pytest.mark.parametrize(
    "renderer",
    [Renderer("verl_agent", "verl_agent", 3), Renderer("compact", "raw"), Renderer("capo", "tags")],
)
def test_what_is_written_is_read(tmp_path: Path, renderer: Renderer) -> None:
    renderer.write(tmp_path)
    assert Renderer.read(tmp_path) == renderer
    assert renderer.step_prompt == StepPrompt(renderer.prompt, renderer.history_length)


def test_the_prompt_s_name_is_enough(tmp_path: Path) -> None:
    (tmp_path / RENDERER_FILE).write_text('{"prompt": "verl_agent", "history_length": null}')
    assert Renderer.read(tmp_path) == Renderer("verl_agent")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "is no object"),
        ({}, "names the prompt None"),
        ({"prompt": "other"}, "names the prompt 'other', and there are capo"),
        ({"prompt": "capo", "reply_format": "xml"}, "reply format 'xml'"),
        ({"prompt": "capo", "history_length": "2"}, "history_length '2'"),
        ({"prompt": "capo", "history_length": True}, "history_length True"),
        ({"prompt": "capo", "temperature": 1}, "has 'temperature', which nobody reads"),
    ],
)
def test_what_is_no_renderer_is_refused(tmp_path: Path, value: object, said: str) -> None:
    (tmp_path / RENDERER_FILE).write_text(json.dumps(value))
    with pytest.raises(DataDamaged, match=said):
        Renderer.read(tmp_path)


def test_another_wording_or_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="names the prompt that a policy was trained with"):
        Renderer.read(tmp_path)
    (tmp_path / RENDERER_FILE).write_text('{"prompt": "capo", "prompt_version": 99}')
    with pytest.raises(DataVersion, match="asks for version 99 of prompt capo"):
        Renderer.read(tmp_path)
    with pytest.raises(UsageError, match="prompt template 'none' does not exist"):
        Renderer("none")


def test_a_folder_that_is_not_there_is_told_apart_from_one_that_does_not_say(
    tmp_path: Path,
) -> None:
    with pytest.raises(DataMissing, match=r"there is no folder .*nowhere; give that of a policy"):
        Renderer.read(tmp_path / "nowhere")
    with pytest.raises(DataMissing, match="agentgym_suite.json, which names the prompt"):
        Renderer.read(tmp_path)

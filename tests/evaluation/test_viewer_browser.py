"""The trajectory viewer in a real browser: what a model sent and got, and every round of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentgym_suite import evaluation
from agentgym_suite.evaluation.model_specs import EndpointOptions, model_agent
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.evaluation.report import write_report
from agentgym_suite.evaluation.scored_runs import find_runs, load_runs
from tests.chat_server import Answer, chat_server, completion, tool_call
from tests.evaluation.browser import Seen

pytestmark = pytest.mark.usefixtures("counting_env")
ENV = "Counting-v0"


def next_call(said: str) -> tuple[str, str]:
    """What solves the counting game: the function and its argument."""
    count, target = re.findall(r"count (\d+) of (\d+)", said)[-1]
    return ("add", "1") if int(count) < int(target) else ("stop", "")


def calls_tools(request: dict[str, Any]) -> Answer:
    name, number = next_call(request["messages"][-1]["content"])
    arguments = json.dumps({"n": number} if number else {})
    return Answer(completion(None, tool_calls=[tool_call(name, arguments)]))


def reflects(request: dict[str, Any]) -> Answer:
    """Stops too early, unless it has reflected."""
    said = request["messages"][-1]["content"]
    if "The task is not solved" in said:
        return Answer(completion("Count with care."))
    name, number = next_call(said) if "Count with care." in said else ("stop", "")
    return Answer(completion(f"Thought: so\nAction: {name}[{number}]"))


def page(out: Path, script: Any, **options: Any) -> str:
    with chat_server(script) as server:
        agent = model_agent("openai", EndpointOptions("tiny", endpoint=server.url, **options))
        evaluation.run(ad_hoc_suite(ENV, tasks=["count-1"]), agent, out=out)
    return write_report(out, load_runs(find_runs(out))).as_uri()


def test_tool_calls_are_shown_with_the_functions_that_were_sent(tmp_path: Path, seen: Seen) -> None:
    seen.page.goto(page(tmp_path, calls_tools, reply_format="openai"))
    shown = seen.text("#step")
    assert 'Tool call\nadd({"n": "1"})' in shown and "Action\nadd[1]" in shown
    assert "(empty)" not in shown
    seen.page.click("#step summary")
    assert "The environment's functions went with these messages" in seen.text("#step details")
    assert seen.problems == []


def test_earlier_rounds_and_reflections_are_stepped_through(tmp_path: Path, seen: Seen) -> None:
    address = page(tmp_path, reflects, prompting="reflexion", reflexion_rounds=3)
    seen.page.goto(address)
    assert "told whether it failed, and played again" in seen.text(".facts")
    buttons = seen.page.locator("#rounds button")
    assert buttons.all_inner_texts() == ["✗ round 1 of 2: failure", "✓ round 2 of 2: success"]
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    assert seen.text("#place") == "step 1 of 3"
    seen.page.locator("#list").focus()
    seen.press("ArrowLeft")  # over the border, to the end of the round before
    assert seen.text("#place") == "end of 1 step" and "Count with care." in seen.text("#step")
    assert seen.page.evaluate("location.hash").endswith("/count-1/0/2/1")
    seen.press("ArrowLeft")
    assert "Action\nstop[]" in seen.text("#step") and seen.page.is_disabled("#back")
    seen.page.reload()
    assert seen.text("#place") == "step 1 of 1"
    assert buttons.nth(0).get_attribute("aria-pressed") == "true"
    seen.page.locator("#list").focus()
    seen.press("ArrowRight", "ArrowRight")
    assert seen.text("#place") == "step 1 of 3"
    assert seen.page.evaluate("location.hash").endswith("/count-1/0/1")
    assert seen.problems == []


def test_an_episode_without_reflection_shows_no_rounds(tmp_path: Path, seen: Seen) -> None:
    evaluation.run(ad_hoc_suite(ENV, tasks=["count-1"]), "oracle", out=tmp_path)
    seen.page.goto(write_report(tmp_path, load_runs([tmp_path])).as_uri())
    assert not seen.page.is_visible("#rounds") and seen.page.is_visible("#task")

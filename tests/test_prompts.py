from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import PROMPT_TEMPLATES, PastStep, PromptInput, StepPrompt
from agentgym_suite.replies import REPLY_FORMATS

HISTORY = tuple(PastStep(f"page {i}", f"click[{i}]") for i in range(5))
INPUT = PromptInput(
    "buy a mug",
    "you see a mug",
    HISTORY,
    ("click[mug]",),
    "no such button",
    ("click(value): clicks",),
)


def text_of(prompt: StepPrompt, given: PromptInput = INPUT) -> str:
    return "\n".join(message.content for message in prompt.render(given).messages)


@pytest.mark.parametrize("name", sorted(PROMPT_TEMPLATES))
def test_every_template_shows_the_goal_and_names_a_reply_format(name: str) -> None:
    template = PROMPT_TEMPLATES[name]
    assert template.name == name and template.reply_format in REPLY_FORMATS
    assert "buy a mug" in text_of(StepPrompt(name))


def test_history_windows() -> None:
    assert "click[0]" in text_of(StepPrompt("capo")) and "page 0" not in text_of(StepPrompt("capo"))
    tags = text_of(StepPrompt("verl_agent"))
    assert "page 3" in tags and "page 2" not in tags
    assert "page 0" in text_of(StepPrompt("verl_agent", history_length=-1))
    assert "page 4" not in text_of(StepPrompt("verl_agent", history_length=0))


def test_search_r1_asks_with_a_question_mark() -> None:
    prompt = StepPrompt("search_r1").render(PromptInput("who wrote it", "q"))
    assert prompt.messages[0].content.endswith("Question: who wrote it?\n")
    with pytest.raises(UsageError, match="empty question"):
        StepPrompt("search_r1").render(PromptInput("", " "))


def test_search_r1_shows_each_result_behind_the_search_that_found_it() -> None:
    history = (PastStep("the question", "search[a]"), PastStep("found a", "search[b]"))
    (message,) = StepPrompt("search_r1").render(PromptInput("q?", "found b", history)).messages
    assert message.content.endswith(
        "Question: q?\n<search>a</search>\n\n<information>found a</information>\n\n"
        "<search>b</search>\n\n<information>found b</information>\n\n"
    )


@given(st.integers(30, 400), st.text(max_size=600))
def test_a_budget_is_kept_and_the_loss_reported(budget: int, observation: str) -> None:
    prompt = StepPrompt("verl_agent", history_length=-1, token_budget=budget, counter=len)
    given_input = PromptInput("g", observation, HISTORY)
    try:
        rendered = prompt.render(given_input)
    except UsageError:
        return
    assert sum(len(message.content) for message in rendered.messages) <= budget
    full = StepPrompt("verl_agent", history_length=-1).render(given_input)
    if rendered.messages != full.messages:
        assert rendered.dropped_steps or rendered.cut_characters


def test_truncation_policies_differ() -> None:
    size = len(text_of(StepPrompt("verl_agent")))
    dropping = StepPrompt("verl_agent", token_budget=size - 5, counter=len).render(INPUT)
    assert dropping.dropped_steps == 1 and not dropping.cut_characters
    cutting = StepPrompt(
        "verl_agent", token_budget=size - 5, counter=len, truncation="cut_observation"
    ).render(INPUT)
    assert not cutting.dropped_steps and cutting.cut_characters >= 5
    with pytest.raises(UsageError, match="budget"):
        StepPrompt("verl_agent", token_budget=size - 5, counter=len, truncation="error").render(
            INPUT
        )


def test_unknown_template_names_the_known() -> None:
    with pytest.raises(UsageError, match="capo, verl_agent"):
        StepPrompt("chatty")
    with pytest.raises(UsageError, match="cut_observation"):
        StepPrompt(truncation="hope")  # type: ignore[arg-type]

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import (
    PROMPT_TEMPLATES,
    SEARCH_R1_INVALID,
    Message,
    PastStep,
    PromptInput,
    StepPrompt,
)
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
    goal = "buy mug" if name == "terse" else "buy a mug"
    assert goal in text_of(StepPrompt(name))


def test_the_terse_template_keeps_what_carries_content() -> None:
    given = PromptInput(
        "put a mug in the sink.",
        "You arrive at drawer 12. On it, you see nothing. Your task is to: put a mug in the sink.",
        HISTORY,
        ("click[mug]",),
    )
    assert text_of(StepPrompt("terse"), given) == (
        "goal put mug sink first page 0 now arrive drawer 12 nothing task "
        "did click[0] | click[1] | click[2] | click[3] | click[4]"
    )
    assert text_of(StepPrompt("terse"), PromptInput("", "x " * 60)) == "now " + "x " * 47 + "x"


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


def test_search_r1_prompt_byte_for_byte() -> None:
    (message,) = StepPrompt("search_r1").render(PromptInput("Who {wrote} it?", "q")).messages
    assert message == Message(
        "user",
        "Answer the given question. You must conduct reasoning inside <think> and </think> first "
        "every time you get new information. After reasoning, if you find you lack some "
        "knowledge, you can call a search engine by <search> query </search> and it will return "
        "the top searched results between <information> and </information>. You can search as "
        "many times as your want. If you find no further external knowledge needed, you can "
        "directly provide the answer inside <answer> and </answer>, without detailed "
        "illustrations. For example, <answer> Beijing </answer>. Question: Who {wrote} it?\n",
    )


def running_text(*steps: PastStep, now: str) -> str:
    user, assistant = StepPrompt("search_r1").render(PromptInput("q?", now, steps)).messages
    assert (user.role, assistant.role) == ("user", "assistant")
    assert user.content.endswith("Question: q?\n")
    return assistant.content


def test_search_r1_goes_on_with_the_running_text() -> None:
    steps = (
        PastStep("q?", "search[a]", "<think>hm</think>\n<search> a </search> and more"),
        PastStep('Doc 1(Title: "A") one\n', "search[b]", "<search>b</search>"),
    )
    assert running_text(*steps, now=" found b\n") == (
        "<think>hm</think>\n<search> a </search>"
        '\n\n<information>Doc 1(Title: "A") one</information>\n\n'
        "<search>b</search>\n\n<information>found b</information>\n\n"
    )


def test_search_r1_writes_actions_in_tags_where_no_reply_is_known() -> None:
    assert running_text(PastStep("q?", "search[a]"), now="found a") == (
        "<search>a</search>\n\n<information>found a</information>\n\n"
    )


def test_search_r1_answers_an_unreadable_reply_with_its_own_sentence() -> None:
    sentence = (
        "\nMy previous action is invalid. If I want to search, I should put the query between "
        "<search> and </search>. If I want to give the final answer, I should put the answer "
        "between <answer> and </answer>. Let me try again.\n"
    )
    assert sentence == SEARCH_R1_INVALID
    bad = PastStep("q?", "I wonder", "I wonder")
    assert running_text(bad, now="whatever the environment says") == "I wonder" + sentence
    refused = PastStep("q?", "search[]", "<search></search>")
    assert running_text(refused, now=sentence.strip()) == "<search></search>" + sentence
    good = PastStep(sentence.strip(), "search[a]", "<search>a</search>")
    assert running_text(bad, good, now="x") == (
        f"I wonder{sentence}<search>a</search>\n\n<information>x</information>\n\n"
    )


def test_steppo_frames_the_state_with_its_headers() -> None:
    state = "### User Query\nq?\n\n### History Actions\nNone"
    calls = ("search(query): finds", "answer(answer): ends")
    system, user = (
        StepPrompt("steppo").render(PromptInput("q?", state, HISTORY, calls=calls)).messages
    )
    assert (system.role, user.role) == ("system", "user")
    assert user.content.startswith(f"{state}\n\n### Instructions\n")
    assert "\nsearch(query): finds\nanswer(answer): ends\n\n### Output Format\n" in user.content
    assert "<analysis>" in user.content and "<answer>" in user.content
    assert "<answer>" not in text_of(StepPrompt("steppo"))


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

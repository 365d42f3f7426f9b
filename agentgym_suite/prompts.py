"""Observation and history turned into the messages of one step, by named templates.

Pure functions: no tokenizer, model or network. A policy is evaluated with the template it was
trained with, so the template's name and version stand in an episode's provenance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from agentgym_suite.arguments import check_count
from agentgym_suite.calls import Call, parse_calls
from agentgym_suite.errors import ContextTooLong, UsageError
from agentgym_suite.plain_words import plain_words
from agentgym_suite.reply_tags import search_r1_turn

Truncation = Literal["drop_oldest_step", "cut_observation", "error"]
_SEARCH_R1 = (
    "Answer the given question. You must conduct reasoning inside <think> and </think> first "
    "every time you get new information. After reasoning, if you find you lack some knowledge, "
    "you can call a search engine by <search> query </search> and it will return the top searched "
    "results between <information> and </information>. You can search as many times as your want. "
    "If you find no further external knowledge needed, you can directly provide the answer inside "
    "<answer> and </answer>, without detailed illustrations. For example, <answer> Beijing "
    "</answer>. Question: {question}\n"
)
_LEARNT = "You failed at this task before. What you wrote down then:"
_TERSE_WORDS = 48
_MOST = 2**31 - 1  # of steps and of tokens
SEARCH_R1_INVALID = (
    "\nMy previous action is invalid. If I want to search, I should put the query between <search> "
    "and </search>. If I want to give the final answer, I should put the answer between <answer> "
    "and </answer>. Let me try again.\n"
)
"""What Search-R1 puts behind a reply that it cannot read."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str

    def as_dict(self) -> dict[str, str]:
        """The form chat endpoints take."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True)
class PastStep:
    """One earlier step as prompts see it.

    Attributes:
        observation: what the policy saw before it acted.
        action: the action that was played.
        reply: what the model wrote, word for word; "" where that is not known.
    """

    observation: str
    action: str
    reply: str = ""


@dataclass(frozen=True, slots=True)
class PromptInput:
    """Everything a template may show.

    Attributes:
        goal: the task in words; "" where the observation already says it.
        observation: what the environment says now.
        history: earlier steps, oldest first.
        admissible: the legal actions; empty when open-ended.
        feedback: why the last action was refused; "" if it was not.
        calls: one line per legal call, for templates that explain the grammar.
        reflections: what the policy wrote about earlier rounds of this episode that failed; any
            template shows them.
    """

    goal: str
    observation: str
    history: tuple[PastStep, ...] = ()
    admissible: tuple[str, ...] = ()
    feedback: str = ""
    calls: tuple[str, ...] = ()
    reflections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """The messages of one step, and what the budget took away."""

    messages: tuple[Message, ...]
    dropped_steps: int = 0
    cut_characters: int = 0


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A named way to write a step's prompt.

    Attributes:
        name: its name in the registry.
        version: raised with any change of wording.
        reply_format: the reply format it asks for (a name of ``replies.REPLY_FORMATS``).
        history_length: how many earlier steps it shows; None means all.
        write: from the input to the messages.
    """

    name: str
    version: int
    reply_format: str
    history_length: int | None
    write: Callable[[PromptInput], list[Message]]


@dataclass(frozen=True, slots=True)
class StepPrompt:
    """A template with its history window and token budget.

    Args:
        template: a name of ``PROMPT_TEMPLATES``.
        history_length: overrides the template's window (None keeps it, -1 means all steps).
        token_budget: most tokens of all messages together; None means no bound.
        counter: counts tokens of a text; characters / 4 when not given.
        truncation: what gives way when the budget is exceeded; ``drop_oldest_step`` drops whole
            steps and cuts the observation once none is left.

    Raises:
        UsageError: on an unknown template or truncation, or a number out of its range.
    """

    template: str = "compact"
    history_length: int | None = None
    token_budget: int | None = None
    counter: Callable[[str], int] | None = None
    truncation: Truncation = "drop_oldest_step"

    def __post_init__(self) -> None:
        prompt_template(self.template)
        if self.truncation not in get_args(Truncation):
            known = ", ".join(get_args(Truncation))
            raise UsageError(f"truncation {self.truncation!r} does not exist; use {known}")
        if self.history_length is not None:
            check_count("history_length", self.history_length, -1, _MOST)
        if self.token_budget is not None:
            check_count("token_budget", self.token_budget, 1, _MOST)

    def render(self, prompt: PromptInput) -> RenderedPrompt:
        """The messages of one step.

        Raises:
            ContextTooLong: when the prompt cannot fit the budget.
        """
        template = prompt_template(self.template)
        window = template.history_length if self.history_length is None else self.history_length
        history = prompt.history
        if window is not None and window >= 0:
            history = history[max(0, len(history) - window) :]
        shown = replace(prompt, history=history)
        messages = _written(template, shown)
        if self.token_budget is None or self._size(messages) <= self.token_budget:
            return RenderedPrompt(tuple(messages))
        return self._fit(template, shown)

    def _size(self, messages: Sequence[Message]) -> int:
        count = self.counter or _quarter_of_characters
        return sum(count(message.content) for message in messages)

    def _fit(self, template: PromptTemplate, prompt: PromptInput) -> RenderedPrompt:
        budget = self.token_budget or 0
        if self.truncation == "drop_oldest_step":
            for dropped in range(1, len(prompt.history) + 1):
                shorter = replace(prompt, history=prompt.history[dropped:])
                messages = _written(template, shorter)
                if self._size(messages) <= budget:
                    return RenderedPrompt(tuple(messages), dropped_steps=dropped)
        if self.truncation in ("cut_observation", "drop_oldest_step"):
            history = () if self.truncation == "drop_oldest_step" else prompt.history
            return self._cut(template, replace(prompt, history=history), len(prompt.history))
        raise ContextTooLong(
            f"the prompt exceeds its budget of {budget} tokens; raise the budget or choose a "
            "truncation other than 'error'"
        )

    def _cut(self, template: PromptTemplate, prompt: PromptInput, steps: int) -> RenderedPrompt:
        """The longest beginning of the observation that fits, found by bisection."""
        budget = self.token_budget or 0
        low, high = 0, len(prompt.observation)
        while low < high:
            keep = (low + high + 1) // 2
            shorter = replace(prompt, observation=prompt.observation[:keep] + " …")
            messages = _written(template, shorter)
            low, high = (keep, high) if self._size(messages) <= budget else (low, keep - 1)
        messages = _written(template, replace(prompt, observation=prompt.observation[:low] + " …"))
        if self._size(messages) > budget:
            raise ContextTooLong(
                f"the prompt exceeds its budget of {budget} tokens even without an observation; "
                "raise the budget"
            )
        dropped = steps - len(prompt.history)
        return RenderedPrompt(tuple(messages), dropped, len(prompt.observation) - low)


def prompt_template(name: str) -> PromptTemplate:
    """The template of that name.

    Raises:
        UsageError: naming the templates there are.
    """
    try:
        return PROMPT_TEMPLATES[name]
    except KeyError:
        raise UsageError(
            f"prompt template {name!r} does not exist; use {', '.join(PROMPT_TEMPLATES)}"
        ) from None


def _written(template: PromptTemplate, prompt: PromptInput) -> list[Message]:
    """The template's messages, with what was learnt from failed rounds before the user's first."""
    messages = template.write(prompt)
    if not prompt.reflections:
        return messages
    learnt = "\n".join(f"- {text.strip()}" for text in prompt.reflections)
    place = next(i for i, message in enumerate(messages) if message.role == "user")
    told = _joined(_section(_LEARNT, learnt), messages[place].content)
    return [*messages[:place], Message("user", told), *messages[place + 1 :]]


def _quarter_of_characters(text: str) -> int:
    return (len(text) + 3) // 4


def _section(title: str, body: str) -> str:
    return f"{title}\n{body}" if body else ""


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _capo(prompt: PromptInput) -> list[Message]:
    system = _joined(
        "You act in an interactive environment by calling its tools.",
        _section("Tools:", "\n".join(f"- {call}" for call in prompt.calls)),
        "Answer with a short reasoning and then one call:\n"
        '<tool_call>\n{"name": "…", "arguments": {…}}\n</tool_call>',
    )
    actions = "\n".join(f"{i}. {past.action}" for i, past in enumerate(prompt.history, 1))
    user = _joined(
        _section("Task:", prompt.goal),
        _section("Actions so far:", actions or "None"),
        _section("Observation:", prompt.observation),
        _section("Feedback:", prompt.feedback),
    )
    return [Message("system", system), Message("user", user)]


def _verl_agent(prompt: PromptInput) -> list[Message]:
    past = "\n".join(
        f"[Observation: '{step.observation}', Action: '{step.action}']" for step in prompt.history
    )
    user = _joined(
        _section("Your task:", prompt.goal),
        _section("Your latest steps:", past),
        _section("Current observation:", f"'{prompt.observation}'"),
        _section("Admissible actions:", "\n".join(f"'{a}'" for a in prompt.admissible)),
        _section("Feedback:", prompt.feedback),
        "Think step by step inside <think> </think>, then give exactly one admissible action "
        "inside <action> </action>.",
    )
    return [Message("user", user)]


def _search_r1(prompt: PromptInput) -> list[Message]:
    question = prompt.goal or prompt.observation
    if not question.strip():
        raise UsageError("the search_r1 prompt got an empty question; check the task's data")
    question = question.strip()
    question = question if question.endswith("?") else question + "?"
    messages = [Message("user", _SEARCH_R1.format(question=question))]
    results = [step.observation for step in prompt.history[1:]] + [prompt.observation]
    running = "".join(map(_search_r1_past, prompt.history, results))
    # the model goes on writing its own text, in which results stand between its searches
    return messages + [Message("assistant", running)] if running else messages


def _search_r1_past(step: PastStep, result: str) -> str:
    """What a step adds to the running text: the model's words and what came back."""
    calls = parse_calls(step.action)
    written = search_r1_turn(step.reply) or "".join(
        f"<{call.name}>{call.argument}</{call.name}>" if isinstance(call, Call) else call.text
        for call in calls
    )
    unread = not any(isinstance(call, Call) for call in calls)
    if unread or result.strip() == SEARCH_R1_INVALID.strip():
        return written + SEARCH_R1_INVALID
    return f"{written}\n\n<information>{result.strip()}</information>\n\n"


def _steppo(prompt: PromptInput) -> list[Message]:
    answers = any(call.startswith("answer(") for call in prompt.calls)
    instead = ", or the final answer alone inside <answer> </answer>" if answers else ""
    user = _joined(
        "" if prompt.goal in prompt.observation else _section("### User Query", prompt.goal),
        prompt.observation,
        _section("### Instructions", "\n".join(("Choose the next calls:", *prompt.calls))),
        "### Output Format\n"
        "First your reasoning inside <analysis> </analysis>, then one or more calls, each as\n"
        f'<tool_call>\n{{"name": "…", "arguments": {{…}}}}\n</tool_call>{instead}',
    )
    return [Message("system", "You work on a query by calling tools."), Message("user", user)]


def _react(prompt: PromptInput) -> list[Message]:
    calls = "" if prompt.admissible else "\n".join(f"- {call}" for call in prompt.calls)
    system = _joined(
        "You solve a task step by step in an interactive environment.",
        _section("An action is one of these calls, or several lines of them:", calls),
        "Write a call as name[argument]." if calls else "",
        "Each time answer with two lines and nothing behind them:\n"
        "Thought: what you know and what to do next\n"
        "Action: what you do",
    )
    past = "\n".join(
        f"Observation: {step.observation}\n{step.reply.strip() or f'Action: {step.action}'}"
        for step in prompt.history
    )
    user = _joined(
        _section("Task:", prompt.goal),
        past,
        f"Observation: {prompt.observation}",
        _section("Actions that are possible now:", "\n".join(prompt.admissible)),
        _section("Your last action was not carried out:", prompt.feedback),
    )
    return [Message("system", system), Message("user", user)]


def _tools(prompt: PromptInput) -> list[Message]:
    actions = "\n".join(f"{i}. {past.action}" for i, past in enumerate(prompt.history, 1))
    user = _joined(
        _section("Task:", prompt.goal),
        _section("Your calls so far:", actions),
        _section("Observation:", prompt.observation),
        _section("Possible now:", "\n".join(prompt.admissible)),
        _section("Feedback:", prompt.feedback),
        "Call the tool that brings you nearer to the goal.",
    )
    return [Message("user", user)]


def _compact(prompt: PromptInput) -> list[Message]:
    actions = " | ".join(past.action for past in prompt.history)
    lines = [
        f"goal: {prompt.goal}" if prompt.goal else "",
        f"now: {prompt.observation}",
        f"did: {actions}" if actions else "",
        f"can: {' | '.join(prompt.admissible)}" if prompt.admissible else "",
        f"note: {prompt.feedback}" if prompt.feedback else "",
    ]
    return [Message("user", "\n".join(line for line in lines if line))]


def _terse(prompt: PromptInput) -> list[Message]:
    goal, history = prompt.goal, prompt.history
    seen = {
        "goal": goal,
        "first": history[0].observation.replace(goal, "") if history else "",
        "now": prompt.observation.replace(goal, ""),
    }
    kept = {name: plain_words(text, _TERSE_WORDS) for name, text in seen.items()}
    parts = [f"{name} {words}" for name, words in kept.items() if words]
    if history:
        parts.append("did " + " | ".join(past.action for past in history))
    return [Message("user", " ".join(parts))]


PROMPT_TEMPLATES: Mapping[str, PromptTemplate] = {
    template.name: template
    for template in (
        PromptTemplate("capo", 1, "hermes", None, _capo),
        PromptTemplate("verl_agent", 1, "verl_agent", 2, _verl_agent),
        PromptTemplate("search_r1", 2, "search_r1", None, _search_r1),
        PromptTemplate("steppo", 1, "hermes", 0, _steppo),
        PromptTemplate("compact", 1, "raw", 2, _compact),
        PromptTemplate("react", 1, "react", None, _react),
        PromptTemplate("tools", 1, "openai", None, _tools),
        PromptTemplate("terse", 2, "raw", None, _terse),
    )
}

"""Privileged information (PI): its text, its tokens, and the rows that a teacher scores with it.

The teacher is the frozen policy itself, shown the same prompt with the PI; the response's tokens
are the sampled ones, so that both sides differ in nothing but the PI. The policy never sees it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, get_args

from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import Message
from agentgym_suite.trainers.action_span import Encode

PI_TOKENS = 256
"""Token budget of the PI, header and footer included; on top of the prompt's own budget."""

PI_HEADER = "[Privileged Guidance]\n"
PI_FOOTER = "\n[End Privileged Guidance]\n\n"
PiPosition = Literal["prefix", "user_turn"]

Render = Callable[[Sequence[Message]], Sequence[int]]
"""Messages -> the prompt's token ids, by the chat template that the rollout used."""


class PlayedRow(Protocol):
    """A row of a batch, as far as scoring with PI needs it: a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The ids given to the engine."""
        ...

    @property
    def pi_text(self) -> str:
        """The PI of the row's trajectory; "" for none."""
        ...


Row = TypeVar("Row", bound=PlayedRow)


@dataclass(frozen=True, slots=True)
class TeacherRows(Generic[Row]):
    """The rows that a teacher scores.

    Attributes:
        rows: those rows with the PI in their prompts, all else as it was.
        numbers: their places in the rows that they were made from.
    """

    rows: tuple[Row, ...]
    numbers: tuple[int, ...]


def plain_encode(tokenizer: Any) -> Encode:
    """Tokenises text as text: nothing is added, and no words of it become a special token.

    Guidance quotes environments and is written by a model; an end-of-turn token spelled out in it
    must not end a turn. To have one split is a state of a tokenizer, and rollouts write their
    prompts with the same one in other threads: such a text is left to a copy of it.

    Args:
        tokenizer: of transformers.
    """
    special = [token for token in tokenizer.added_tokens_decoder.values() if token.special]
    words = [token.content for token in special]
    exact = not any(token.normalized for token in special)  # else other spellings are special, too
    own: Any = None

    def encode(text: str) -> tuple[int, ...]:
        nonlocal own
        if exact and not any(word in text for word in words):
            return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
        own = own or copy.deepcopy(tokenizer)
        found = own(text, add_special_tokens=False, split_special_tokens=True)
        return tuple(found["input_ids"])

    return encode


def compose_guidance(statements: Iterable[str]) -> str:
    """Accepted statements as the PI's text, one line each; "" if there are none."""
    return "\n".join(f"- {statement}" for statement in statements)


def pi_ids(text: str, encode: Encode, budget: int = PI_TOKENS) -> tuple[int, ...]:
    """The tokens of a PI: header, as much of the text as fits, footer.

    The three are tokenised apart. A budget without room for header and footer takes the beginning
    of the text alone. A blank text is no PI.

    Args:
        text: the PI's text.
        encode: the tokenizer's, which adds no special token.
        budget: most tokens of all.

    Raises:
        UsageError: the budget is below 0.
    """
    if budget < 0:
        raise UsageError(f"the PI's budget is {budget} tokens; give 0 for no PI, or more")
    guidance = tuple(encode(text)) if text.strip() else ()
    if not guidance:
        return ()
    header, footer = tuple(encode(PI_HEADER)), tuple(encode(PI_FOOTER))
    room = budget - len(header) - len(footer)
    if room <= 0:
        return guidance[:budget]
    return header + guidance[:room] + footer


def pi_block(text: str, encode: Encode, budget: int = PI_TOKENS) -> str:
    """The PI as text, for a template that is rendered anew: the longest that the budget takes.

    Args:
        text: the PI's text.
        encode: the tokenizer's, which adds no special token.
        budget: most tokens of all.

    Raises:
        UsageError: the budget is below 0.
    """
    if not pi_ids(text, encode, budget):
        return ""
    room = budget - len(encode(PI_HEADER)) - len(encode(PI_FOOTER))
    if room <= 0:
        return _beginning(text, encode, budget)
    return PI_HEADER + _beginning(text, encode, room) + PI_FOOTER


def teacher_rows(
    rows: Sequence[Row],
    encode: Encode,
    *,
    wanted: Sequence[bool] | None = None,
    budget: int = PI_TOKENS,
    position: PiPosition = "prefix",
    messages: Sequence[Sequence[Message]] | None = None,
    render: Render | None = None,
) -> TeacherRows[Row]:
    """The rows whose weights depend on the PI, with the PI in their prompts.

    Left out are rows without PI and those that are not wanted. Nothing of a prompt gives way to
    the PI.

    Args:
        rows: of any trajectories, in any order.
        encode: the tokenizer's, which adds no special token.
        wanted: whether anything depends on the row's scores; None keeps all rows with PI.
        budget: most tokens of the PI.
        position: ``prefix`` puts it in front of the prompt's first token, before what the chat
            template writes; ``user_turn`` at the beginning of the last user message, which is
            rendered anew.
        messages: the messages of each row's prompt, for ``user_turn``.
        render: the chat template, for ``user_turn``.

    Raises:
        UsageError: an unknown position, ``user_turn`` without messages or template, or values
            that are not one for each row.
    """
    if position not in get_args(PiPosition):
        known = ", ".join(get_args(PiPosition))
        raise UsageError(f"pi_position {position!r} does not exist; use {known}")
    for name, values in (("wanted", wanted), ("messages", messages)):
        if values is not None and len(values) != len(rows):
            raise UsageError(f"{name} has {len(values)} values for {len(rows)} rows; give one each")
    prefixes: dict[str, tuple[int, ...]] = {}
    made: list[Row] = []
    numbers: list[int] = []
    for number, row in enumerate(rows):
        if wanted is not None and not wanted[number]:
            continue
        if row.pi_text not in prefixes:
            prefixes[row.pi_text] = pi_ids(row.pi_text, encode, budget)
        prefix = prefixes[row.pi_text]
        if not prefix:
            continue
        if position == "prefix":
            prompt = prefix + row.prompt_ids
        else:
            if messages is None or render is None:
                raise UsageError(
                    "pi_position 'user_turn' needs each row's messages and the chat template; "
                    "pass messages= and render="
                )
            block = pi_block(row.pi_text, encode, budget)
            prompt = tuple(render(with_pi(messages[number], block)))
        made.append(replace(row, prompt_ids=prompt))
        numbers.append(number)
    return TeacherRows(tuple(made), tuple(numbers))


def with_pi(messages: Sequence[Message], block: str) -> tuple[Message, ...]:
    """The messages with a text at the beginning of the last user message.

    Raises:
        UsageError: there is no user message.
    """
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            told = Message("user", block + messages[place].content)
            return (*messages[:place], told, *messages[place + 1 :])
    raise UsageError("the prompt has no user message to put the PI into; use pi_position 'prefix'")


def _beginning(text: str, encode: Encode, tokens: int) -> str:
    """The longest beginning of a text that has at most so many tokens."""
    low, high = 0, len(text)
    while low < high:
        keep = (low + high + 1) // 2
        low, high = (keep, high) if len(encode(text[:keep])) <= tokens else (low, keep - 1)
    return text[:low]

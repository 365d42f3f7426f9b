"""Where the executable action stands in a response, in tokens: what TASPO's scores are read on.

Text positions become token positions by decoding beginnings of the response as a whole. Decoding
tokens one at a time would not do: a character whose bytes are spread over several tokens gives
several replacement characters, which shifts every position behind it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix

from agentgym_suite.episodes import Step
from agentgym_suite.errors import UsageError
from agentgym_suite.reply_tags import blocks, first_block

Decode = Callable[[Sequence[int]], str]
"""Token ids -> text."""

Encode = Callable[[str], Sequence[int]]
"""Text -> token ids, without a template's or a model's own tokens."""

Span = tuple[int, int]

_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class ActionRule:
    """What counts as the executable action of a response.

    Attributes:
        tags: tags whose block it is, both tags included; None takes the whole response without
            its end token, for policies that reply with the bare command.
        every: all blocks within what was parsed as the action (several calls in one reply),
            instead of the first block.
        parsed: the span that the reply's parser found, for formats without tags.

    Raises:
        UsageError: a tag is no name, or there is none.
    """

    tags: tuple[str, ...] | None = ("action", "search", "answer")
    every: bool = False
    parsed: bool = False

    def __post_init__(self) -> None:
        if self.tags is not None and not (self.tags and all(map(str.isidentifier, self.tags))):
            raise UsageError(f"action_tags is {self.tags!r}; give names of tags, or None")


_WHOLE = ActionRule(tags=None)
ACTION_RULES: Mapping[str, ActionRule] = {
    "raw": _WHOLE,
    "react": ActionRule(tags=None, parsed=True),
    "tags": ActionRule(),
    "verl_agent": ActionRule(),
    "search_r1": ActionRule(),
    "hermes": ActionRule(tags=("tool_call", "answer"), every=True),
    "openai": _WHOLE,
}
"""The rule of each reply format."""


class TokenText:
    """The text of a response and the characters that each of its tokens has a part in.

    Args:
        ids: the response's token ids, as they were sampled.
        decode: the tokenizer's; it may leave special tokens out.
    """

    def __init__(self, ids: Sequence[int], decode: Decode) -> None:
        self._ids = tuple(ids)
        self._decode = decode
        self.text = decode(self._ids)
        self._reached: dict[int, Span] = {0: (0, 0), len(self._ids): (len(self.text),) * 2}

    def characters(self, index: int) -> Span:
        """Start and end of the characters that a token has a part in; equal if it has none."""
        return self._reach(index)[0], self._reach(index + 1)[1]

    def tokens(self, span: Span) -> list[int]:
        """The tokens that overlap a span of characters, in order."""
        start, end = span
        if start >= end:
            return []
        counts = range(len(self._ids) + 1)
        first = bisect_right(counts, start, key=lambda count: self._reach(count)[1]) - 1
        behind = bisect_left(counts, end, key=lambda count: self._reach(count)[0])
        return [
            index
            for index in range(max(0, first), min(behind, len(self._ids)))
            if self._overlaps(index, start, end)
        ]

    def _overlaps(self, index: int, start: int, end: int) -> bool:
        left, right = self.characters(index)
        return left < right and left < end and right > start

    def _reach(self, count: int) -> Span:
        """How far the first ``count`` tokens reach: characters settled, and those begun too."""
        known = self._reached.get(count)
        if known is None:
            beginning = self._decode(self._ids[:count])
            settled = len(commonprefix([beginning, self.text]))
            begun = min(settled + (len(beginning) > settled), len(self.text))
            if settled and beginning.endswith(_REPLACEMENT) and self._goes_on(count, beginning):
                settled = begun - 1
            known = self._reached[count] = settled, begun
        return known

    def _goes_on(self, count: int, beginning: str) -> bool:
        """Whether the next token is part of the last character, and not all of its own."""
        longer = self._decode(self._ids[: count + 1])
        return len(longer) < len(beginning) + len(self._decode(self._ids[count : count + 1]))


def action_mask(
    response_ids: Sequence[int],
    response_mask: Sequence[int],
    rule: ActionRule = ActionRule(),
    *,
    decode: Decode,
    encode: Encode | None = None,
    recorded: str = "",
    parsed_span: Span | None = None,
    end_ids: Collection[int] = (),
) -> tuple[int, ...]:
    """1 on the sampled tokens of the executable action, 0 elsewhere; all 0 if there is none.

    Where the joined tokens have no such block, the one of the recorded text is looked for as the
    tokens that it has alone, with and without a blank in front.

    Args:
        response_ids: as they were sampled.
        response_mask: 1 where the policy sampled the id.
        rule: what the action is.
        decode: the tokenizer's.
        encode: the tokenizer's; without it nothing is looked for in the recorded text.
        recorded: the response's text as the episode has it.
        parsed_span: the action's offsets in the recorded text, for ``every`` and ``parsed``.
        end_ids: the model's end tokens.

    Raises:
        UsageError: the mask is not as long as the ids.
    """
    if len(response_ids) != len(response_mask):
        raise UsageError(
            f"response_mask has {len(response_mask)} values for {len(response_ids)} ids; "
            "give one each"
        )
    if rule.tags is None and not rule.parsed:
        chosen = set(_without_end(response_ids, end_ids))
    else:
        joined = TokenText(response_ids, decode)
        spans = _spans(joined.text, rule, _in_joined(joined.text, recorded, parsed_span))
        chosen = {index for span in spans for index in joined.tokens(span)}
        if not chosen and encode is not None:
            texts = [recorded[slice(*one)] for one in _spans(recorded, rule, parsed_span)]
            chosen = {index for text in texts for index in _find(response_ids, text, encode)}
    return tuple(int(index in chosen and bool(on)) for index, on in enumerate(response_mask))


def step_action_mask(
    step: Step,
    rule: ActionRule,
    *,
    decode: Decode,
    encode: Encode | None = None,
    end_ids: Collection[int] = (),
) -> tuple[int, ...]:
    """The action mask of a played step; see ``action_mask``.

    Args:
        step: played by an engine, so that its reply carries token ids.
        rule: what the action is; ``ACTION_RULES`` has one for each reply format.
        decode: the tokenizer's.
        encode: the tokenizer's.
        end_ids: the model's end tokens.

    Raises:
        UsageError: the reply carries no token ids.
    """
    trace = step.tokens
    if trace is None:
        raise UsageError("the step's reply has no token ids; play it with an engine")
    return action_mask(
        trace.response_ids,
        trace.mask,
        rule,
        decode=decode,
        encode=encode,
        recorded=step.reply.text,
        parsed_span=step.span,
        end_ids=end_ids,
    )


def _spans(text: str, rule: ActionRule, parsed: Span | None) -> list[Span]:
    if rule.parsed:
        return [parsed] if parsed is not None else []
    tags = rule.tags or ()
    if not rule.every:
        block = first_block(text, *tags, any_case=True)
        return [] if block is None else [block.span]
    found = sorted(block.span for tag in tags for block in blocks(text, tag, any_case=True))
    if parsed is None:
        return found
    return [span for span in found if parsed[0] <= span[0] and span[1] <= parsed[1]]


def _in_joined(joined: str, recorded: str, parsed: Span | None) -> Span | None:
    """A span of the recorded text in the joined tokens' text; None where it cannot be told."""
    if parsed is None or joined.startswith(recorded):
        return parsed
    shift = joined.find(recorded) if recorded else -1
    return None if shift < 0 else (parsed[0] + shift, parsed[1] + shift)


def _without_end(ids: Sequence[int], end_ids: Collection[int]) -> range:
    size = len(ids)
    while size and ids[size - 1] in end_ids:
        size -= 1
    return range(size)


def _find(ids: Sequence[int], text: str, encode: Encode) -> range:
    """Where the tokens of a text stand in the response; the first place."""
    for written in (text, " " + text):
        wanted = tuple(encode(written)) if text else ()
        for start in range(len(ids) - len(wanted) + 1 if wanted else 0):
            if tuple(ids[start : start + len(wanted)]) == wanted:
                return range(start, start + len(wanted))
    return range(0)

"""A tokenizer of transformers as agents use it: conversations to ids, ids to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_suite.errors import UsageError, reason_of
from agentgym_suite.prompts import Message


class TransformersChatTokenizer:
    """Writes conversations in the chat format that a model was trained with.

    Args:
        tokenizer: of transformers, with a chat template.
        stop_ids: end a reply, beside the tokenizer's own end of sequence.
    """

    def __init__(self, tokenizer: Any, stop_ids: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        own = tokenizer.eos_token_id
        self._stop_ids = tuple(sorted({*stop_ids, *([] if own is None else [int(own)])}))

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The ids that end a reply, in ascending order."""
        return self._stop_ids

    def chat_ids(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[int]:
        """The prompt in the model's chat format, ready for its reply.

        A last message of the assistant is left open: the model goes on writing it.

        Args:
            messages: the conversation.
            tools: descriptions of functions, where the chat format shows them.

        Raises:
            UsageError: there is no chat format, or it refuses these messages.
        """
        if not messages:
            raise UsageError("a prompt has no messages; give at least one")
        if not self._tokenizer.chat_template:
            raise UsageError(
                "the tokenizer has no chat template; save one beside it (chat_template.jinja), or "
                "take an instruct model"
            )
        goes_on = messages[-1].role == "assistant"
        try:
            ids = self._tokenizer.apply_chat_template(
                [message.as_dict() for message in messages],
                tools=[dict(tool) for tool in tools] or None,
                add_generation_prompt=not goes_on,
                continue_final_message=goes_on,
                return_dict=False,
            )
        except Exception as error:  # templates raise what their authors chose
            reason = reason_of(error)
            raise UsageError(
                f"the model's chat template refuses these messages ({reason}); choose a prompt "
                "template with other roles"
            ) from error
        return [int(token) for token in ids]

    def text(self, ids: Sequence[int]) -> str:
        """What the ids say, without special tokens such as the stop id."""
        said = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return str(said)

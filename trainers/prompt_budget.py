"""How long a prompt may be in a training: what the policy's window leaves, in its tokens."""

from __future__ import annotations

from agentgym_suite.engines.tokens import ChatTokenizer
from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import Message, StepPrompt


def fitting_prompt(
    template: str,
    tokenizer: ChatTokenizer,
    *,
    most_tokens: int,
    window: int | None,
    beside: int,
) -> StepPrompt:
    """The template with a budget that every prompt keeps.

    A prompt that is too long loses its oldest steps, then the end of its observation. Each
    message is counted with all that the chat format writes around a prompt, so that the whole
    prompt is never longer than the budget.

    Args:
        template: a name of ``prompts.PROMPT_TEMPLATES``.
        tokenizer: of the policy.
        most_tokens: the longest prompt wanted; 0 takes what the window leaves.
        window: tokens that the policy takes; None when it does not say.
        beside: tokens of the window that the prompt may not take: the reply's, and those of
            privileged information.

    Raises:
        UsageError: the window leaves no room, or the tokenizer has no chat format.
    """

    def count(text: str) -> int:
        return len(tokenizer.chat_ids([Message("user", text)]))

    count("")  # a tokenizer without a chat format is refused here, before anything is played
    left = None if window is None else window - beside
    if left is not None and left < max(1, most_tokens):
        raise UsageError(
            f"the policy's window of {window} tokens has {max(0, left)} for a prompt beside the "
            f"{beside} of reply and guidance; lower max_new_tokens, pi_tokens or prompt_tokens"
        )

    return StepPrompt(template, token_budget=most_tokens or left, counter=count)

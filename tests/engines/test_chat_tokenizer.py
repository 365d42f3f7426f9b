"""Conversations to ids and back."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="transformers is missing: pip install '.[train]'")

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.tokens import ChatTokenizer
from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import Message
from tests.engines.small_policy import small_tokenizer


@pytest.fixture
def tokenizer() -> TransformersChatTokenizer:
    return TransformersChatTokenizer(small_tokenizer(), stop_ids=(40, 1))


def test_a_conversation_ends_where_the_reply_begins(tokenizer: ChatTokenizer) -> None:
    messages = [Message("user", "w9 w10"), Message("assistant", "w11"), Message("user", "w12")]
    assert tokenizer.chat_ids(messages) == [2, 9, 10, 1, 3, 11, 1, 2, 12, 1, 3]


def test_an_assistant_s_last_message_is_left_open(tokenizer: ChatTokenizer) -> None:
    messages = [Message("user", "w9"), Message("assistant", "w11 w12")]
    assert tokenizer.chat_ids(messages) == [2, 9, 1, 3, 11, 12]


def test_tools_reach_the_template(tokenizer: ChatTokenizer) -> None:
    assert tokenizer.chat_ids([Message("user", "w9")], [{"name": "w20"}]) == [4, 20, 2, 9, 1, 3]


def test_text_has_no_special_tokens(tokenizer: ChatTokenizer) -> None:
    assert tokenizer.text([30, 31, 1]) == "w30w31"
    assert tokenizer.stop_ids == (1, 40)


def test_what_has_no_chat_format_says_so(tokenizer: ChatTokenizer) -> None:
    plain = small_tokenizer()
    plain.chat_template = None
    with pytest.raises(UsageError, match="no chat template"):
        TransformersChatTokenizer(plain).chat_ids([Message("user", "w9")])
    with pytest.raises(UsageError, match="has no messages"):
        tokenizer.chat_ids([])
    strict = small_tokenizer()
    strict.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(UsageError, match="roles must alternate"):
        TransformersChatTokenizer(strict).chat_ids([Message("user", "w9")])

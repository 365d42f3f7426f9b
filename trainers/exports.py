"""A policy as others load it: weights, tokenizer, decoding, and how it is prompted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from agentgym_suite.engines.loading import LoadedPolicy
from agentgym_suite.engines.loading import save_policy as write_weights
from agentgym_suite.files import explain_full_disk, make_folder, partial_folder, sync_folder
from agentgym_suite.prompts import prompt_template
from agentgym_suite.renderers import Renderer


def generation_config(
    tokenizer: Any,
    *,
    rows: int,
    banned: Sequence[int] = (),
    stop_ids: Sequence[int] = (),
    temperature: float = 1.0,
) -> GenerationConfig:
    """How a policy is decoded by whoever loads it: sampled as trained, rows without a word banned.

    Args:
        tokenizer: gives end and padding token.
        rows: rows of the network's output.
        banned: further ids that are never sampled.
        stop_ids: ids that end a reply; none takes the tokenizer's end token alone.
        temperature: that of the rollouts.
    """
    tail = range(len(tokenizer), rows)
    ends = list(stop_ids) or [tokenizer.eos_token_id]
    return GenerationConfig(
        do_sample=True,
        temperature=temperature,
        top_k=0,  # transformers would sample from 50 tokens otherwise
        top_p=1.0,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=ends if len(ends) > 1 else ends[0],
        pad_token_id=tokenizer.pad_token_id,
        suppress_tokens=sorted({*tail, *banned}) or None,
    )


def save_policy(
    folder: Path, model: Any, tokenizer: Any, *, prompt: str, history_length: int | None = None
) -> None:
    """Write a policy as others load it: weights, tokenizer, decoding, and how it is prompted.

    The folder is whole or not there; one of the same name gives way when the new one is whole.

    Args:
        folder: where; those above it are made.
        model: a transformers model; its ``generation_config`` is written as it is.
        tokenizer: its tokenizer.
        prompt: the prompt template it was trained with, a name of ``prompts.PROMPT_TEMPLATES``.
        history_length: the template's window where it was another one.

    Raises:
        DataError: the folder cannot be made.
        DiskFull: no space is left.
    """
    with replaced_folder(folder) as partial:
        write_weights(LoadedPolicy(model, tokenizer), partial)
        Renderer(prompt, prompt_template(prompt).reply_format, history_length).write(partial)


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """A folder to be filled, which takes the place of one of that name when it is whole.

    Args:
        folder: where; those above it are made.

    Raises:
        DataError: it cannot be made.
        DiskFull: no space is left; what was there stays.
    """
    make_folder(folder.parent)
    partial = partial_folder(folder)
    if partial.exists():
        shutil.rmtree(partial)
    try:
        with explain_full_disk(partial):
            partial.mkdir()
            yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
    sync_folder(folder.parent)

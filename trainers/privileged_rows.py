"""Privileged information in a training iteration: who is told what, and the teacher's scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentgym_suite.engines.tokens import ChatTokenizer
from agentgym_suite.trainers.action_span import ACTION_RULES, step_action_mask
from agentgym_suite.trainers.batch import StepBatch
from agentgym_suite.trainers.collector import Collection
from agentgym_suite.trainers.hinting import Hinting, trajectory_name
from agentgym_suite.trainers.logprobs import Forward
from agentgym_suite.trainers.passes import teacher_pass
from agentgym_suite.trainers.privileged import teacher_rows
from agentgym_suite.trainers.rows import StepRow


@dataclass(frozen=True, slots=True)
class Privileged:
    """How an iteration gets its privileged information.

    Attributes:
        hinting: makes the texts from the episodes.
        tokenizer: reads replies.
        encode: text to ids, without a template's tokens.
        reply_format: what of a reply is the executable action.
        tokens: budget of the privileged text.
    """

    hinting: Hinting
    tokenizer: ChatTokenizer
    encode: Callable[[str], Sequence[int]]
    reply_format: str
    tokens: int

    def told(self, collection: Collection, iteration: int) -> tuple[StepRow, ...]:
        """The rows with the text of their trajectory and the mask of their action."""
        hints = self.hinting.hints(collection.episodes, iteration)
        rule = ACTION_RULES[self.reply_format]
        steps = {
            (trajectory_name(episode), index): step
            for episode in collection.episodes
            for index, step in enumerate(episode.steps)
        }
        return tuple(
            replace(
                row,
                pi_text=hints.texts.get(row.trajectory_id, ""),
                action_mask=step_action_mask(
                    steps[row.trajectory_id, row.step_index],
                    rule,
                    decode=self.tokenizer.text,
                    encode=self.encode,
                    end_ids=self.tokenizer.stop_ids,
                ),
            )
            for row in collection.rows
        )

    def scored(self, batch: StepBatch, teacher: Any, forward: Forward, tokens: int) -> StepBatch:
        """Fill ``teacher_logprobs``: the frozen policy behind prompts with the text."""
        told = teacher_rows(batch.rows, self.encode, budget=self.tokens)
        prompts = dict(zip(told.numbers, (row.prompt_ids for row in told.rows), strict=True))
        given = [prompts.get(number) for number in range(len(batch))]
        return teacher_pass(batch, teacher, given, forward, tokens)

"""Privileged information in a training iteration: who is told what, and what a teacher reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentgym_suite.engines.tokens import ChatTokenizer
from agentgym_suite.trainers.action_span import ACTION_RULES, step_action_mask
from agentgym_suite.trainers.collector import Collection
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.privileged import PiPosition, Render, teacher_rows
from agentgym_suite.trainers.resampling import equal_groups
from agentgym_suite.trainers.rows import StepRow, trajectory_id


@dataclass(frozen=True, slots=True)
class Privileged:
    """How an iteration gets its privileged information.

    Attributes:
        hinting: makes the texts from the episodes.
        tokenizer: reads replies.
        encode: text to ids, without a template's tokens.
        reply_format: what of a reply is the executable action.
        tokens: budget of the privileged text.
        position: where it stands in the teacher's prompt.
        render: messages to the prompt's ids as in the rollout, for position ``user_turn``.
        mixed_by: the settings that make scores, where groups of equal scores are not taught.
    """

    hinting: Hinting
    tokenizer: ChatTokenizer
    encode: Callable[[str], Sequence[int]]
    reply_format: str
    tokens: int
    position: PiPosition = "prefix"
    render: Render | None = None
    mixed_by: AlgorithmConfig | None = None

    def told(
        self, collection: Collection, iteration: int
    ) -> tuple[tuple[StepRow, ...], dict[str, float]]:
        """The rows with the text of their trajectory, the teacher's prompt, the action's mask.

        Returns:
            (the rows, what to log: coverage, and why there was no hint).
        """
        hints = self.hinting.hints(collection.episodes, iteration)
        rule = ACTION_RULES[self.reply_format]
        steps = {
            (trajectory_id(episode), index): step
            for episode in collection.episodes
            for index, step in enumerate(episode.steps)
        }
        played = [steps[row.trajectory_id, row.step_index] for row in collection.rows]
        rows = [
            replace(
                row,
                pi_text=hints.texts.get(row.trajectory_id, ""),
                action_mask=step_action_mask(
                    step,
                    rule,
                    decode=self.tokenizer.text,
                    encode=self.encode,
                    end_ids=self.tokenizer.stop_ids,
                ),
            )
            for row, step in zip(collection.rows, played, strict=True)
        ]
        read = teacher_rows(
            rows,
            self.encode,
            wanted=in_mixed_group(rows, self.mixed_by) if self.mixed_by else None,
            budget=self.tokens,
            position=self.position,
            messages=[step.messages for step in played],
            render=self.render,
        )
        for number, row in zip(read.numbers, read.rows, strict=True):
            rows[number] = replace(rows[number], teacher_prompt_ids=row.prompt_ids)
        metrics = {f"hints/{name}": value for name, value in hints.metrics.items()}
        return tuple(rows), metrics


def in_mixed_group(rows: Sequence[StepRow], config: AlgorithmConfig) -> list[bool]:
    """Whether the trajectories of each row's group have different scores, see ``equal_groups``."""
    equal = equal_groups(rows, config)
    return [row.group_id not in equal for row in rows]

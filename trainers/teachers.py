"""Teachers: a frozen model that scores what the policy sampled, token by token.

Another model of the same vocabulary, or the weights that sampled, behind prompts that know more.
Rows say what a teacher reads (``teacher_prompt_ids``); here is who reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.models import frozen_copy
from agentgym_suite.trainers.reading import copy_weights


@dataclass(frozen=True, slots=True)
class Teacher:
    """A frozen causal model over the policy's vocabulary.

    Attributes:
        model: of transformers.
        banned_ids: rows of its output that no reply has: what is left are the ids that the policy
            may sample, in the same order.
        follows: whether it takes the policy's weights at the start of every iteration, and keeps
            them while the policy learns.
    """

    model: Any
    banned_ids: tuple[int, ...] = ()
    follows: bool = False

    def begin(self, policy: Any) -> None:
        """Take the weights that sample in this iteration, where it follows them."""
        if self.follows:
            copy_weights(policy, self.model)


def own_teacher(policy: Any, banned_ids: tuple[int, ...], *, stays: bool) -> Teacher:
    """The weights that sampled, as a teacher that is shown other prompts.

    Args:
        policy: the model that is trained.
        banned_ids: what it must not sample.
        stays: whether it is asked while the policy learns; then it is a copy.
    """
    if stays:
        return Teacher(frozen_copy(policy), banned_ids, follows=True)
    return Teacher(policy, banned_ids)


def other_teacher(
    model: Any, policy: Any, banned_ids: Collection[int]
) -> tuple[Teacher, tuple[int, ...]]:
    """Another model as teacher, and what the policy must not sample under it.

    Outputs over one vocabulary may have tails of different lengths, since models pad them; an id
    that only one of the two has is banned from both distributions.

    Args:
        model: of the policy's tokenizer, see ``check_vocabulary``.
        policy: the model that is trained.
        banned_ids: what the policy must not sample anyway.
    """
    rows, others = (m.get_output_embeddings().weight.shape[0] for m in (policy, model))
    common = min(rows, others)
    kept = {token for token in banned_ids if token < common}
    theirs = sorted({*kept, *range(common, others)})
    ours = sorted({*banned_ids, *range(common, rows)})
    return Teacher(model.eval().requires_grad_(False), tuple(theirs)), tuple(ours)


def check_vocabulary(tokenizer: Any, other: Any, name: str) -> None:
    """Refuse a teacher that reads other tokens than the policy writes.

    Args:
        tokenizer: the policy's.
        other: the teacher's; None where it came without one.
        name: of the teacher, for the message.

    Raises:
        UsageError: their vocabularies differ.
    """
    if other is None:
        raise UsageError(f"teacher_model {name} has no tokenizer; bring its folder over whole")
    ours, theirs = tokenizer.get_vocab(), other.get_vocab()
    if ours != theirs:
        token = min(word for word in {*ours, *theirs} if ours.get(word) != theirs.get(word))
        raise UsageError(
            f"teacher_model {name} has another vocabulary than the policy ({token!r} is "
            f"{theirs.get(token, 'no id')} in the one and {ours.get(token, 'no id')} in the "
            "other); take a teacher with the policy's tokenizer"
        )

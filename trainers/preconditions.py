"""What a training is refused for before it starts."""

from __future__ import annotations

from typing import Any

from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.algorithm import Algorithm
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.ranks import Ranks
from agentgym_suite.trainers.run_settings import Configuration


def check_ranks(configuration: Configuration, ranks: Ranks) -> None:
    """See that there is work for every process.

    Raises:
        UsageError: fewer tasks than processes, or a setting that is for one process.
    """
    if configuration.settings.tasks < ranks.size:
        raise UsageError(
            f"tasks is {configuration.settings.tasks}, and {ranks.size} processes play them; give "
            "at least one to each"
        )
    if configuration.run.share_prefix and ranks.size > 1:
        raise UsageError(
            "share_prefix calls layers as often as prompts differ, which processes cannot do in "
            "step; set share_prefix = false"
        )


def check_teacher(algorithm: Algorithm, privileged: Privileged | None, teacher: Any) -> None:
    """See that what the algorithm is taught by is given.

    Raises:
        UsageError: it is not.
    """
    given = {"privileged": privileged, "model": teacher}
    wanted = algorithm.needs.teacher
    if wanted != "none" and given[wanted] is None:
        what = {"privileged": "privileged information", "model": "another model as teacher"}
        raise UsageError(f"{algorithm.name} needs {what[wanted]}; give it to the trainer")


def refuse_unfit(algorithm: Algorithm, policy: Any, tokenizer: Any) -> None:
    """See that groups can be compared, and that the tokenizer is one of the policy.

    Raises:
        UsageError: groups of one, no tokenizer, or one of more tokens than the policy has.
    """
    if algorithm.needs.group and algorithm.config.rollouts < 2:
        raise UsageError(
            f"rollouts is {algorithm.config.rollouts}, and {algorithm.name} compares the "
            "trajectories of a task; give 2 or more"
        )
    if tokenizer is None:
        raise UsageError(
            "the policy has no tokenizer; save it beside the weights, as tokenizer.json"
        )
    rows = policy.get_output_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise UsageError(
            f"the tokenizer has {len(tokenizer)} tokens and the policy {rows}; bring the "
            "tokenizer that the policy was made with"
        )

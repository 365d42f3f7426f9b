"""What a run of veRL says about environment and algorithm: the section ``algorithm.agentgym``.

Names and presets are those of ``agentgym-suite train``; batch sizes, optimizers, sampling and the
number of rollouts are veRL's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym_suite.episodes import PlaySettings
from agentgym_suite.errors import UsageError
from agentgym_suite.prompts import StepPrompt, prompt_template
from agentgym_suite.rewards import reward_preset
from agentgym_suite.trainers.registry import ALGORITHMS
from agentgym_suite.trainers.run_settings import Configuration, RunSettings, resolve
from agentgym_suite.trainers.task_lists import environments, select_tasks

PREFIX = "agentgym_"
"""In front of every name in a foreign registry."""
LOOP = TRAINER = "agentgym"
"""Name of the agent loop, and of the trainer."""


def verl_configuration(algorithm: Mapping[str, Any]) -> Configuration:
    """The resolved settings of a run.

    Args:
        algorithm: the section ``algorithm`` of veRL's configuration, with ``adv_estimator``.

    Raises:
        UsageError: an estimator that is not the suite's, or a setting that does not exist.
    """
    name = str(algorithm["adv_estimator"])
    if not name.startswith(PREFIX):
        known = ", ".join(PREFIX + known for known in ALGORITHMS)
        raise UsageError(f"algorithm.adv_estimator is {name!r}; use one of {known}")
    given = dict(algorithm.get("agentgym") or {})
    preset = str(given.pop("preset", "paper"))
    return resolve(name.removeprefix(PREFIX), preset, None, given)


def play_settings(run: RunSettings, tokenizer: Any) -> PlaySettings:
    """How the run's episodes are played; texts are counted in tokens of a transformers tokenizer.

    Episodes count in threads of their own while others have their prompts written by the same
    tokenizer, so that counting asks for special tokens as prompts do.
    """

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    prompt = StepPrompt(
        run.prompt,
        token_budget=run.prompt_tokens or None,
        counter=count,
    )
    return PlaySettings(
        prompt=prompt,
        reply_format=prompt_template(run.prompt).reply_format,
        reward=reward_preset(run.reward),
        max_steps=run.horizon or None,
    )


def task_rows(run: RunSettings, split: str) -> list[dict[str, Any]]:
    """The tasks of a split as rows of a data set of veRL.

    Args:
        run: environment and data.
        split: whose tasks.

    Raises:
        UsageError: there is no such split.
    """
    tasks = select_tasks(environments(run), split, run.most_admissible)
    return [
        {
            "data_source": run.env,
            "agent_name": LOOP,
            "prompt": [{"role": "user", "content": task}],  # the loop writes its own prompts
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": number, "task_id": task, "split": split},
        }
        for number, task in enumerate(tasks)
    ]

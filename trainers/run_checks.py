"""Settings that only together are wrong, and those of one part made of those of a run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentgym_suite.engines.loading import choose_device, find_files
from agentgym_suite.errors import MissingExtra, TrainingError, UsageError
from agentgym_suite.rewards import reward_preset
from agentgym_suite.trainers.algorithm import Algorithm
from agentgym_suite.trainers.analyzer import AnalyzerSettings
from agentgym_suite.trainers.config import CriticConfig
from agentgym_suite.trainers.lora import LoraSettings
from agentgym_suite.trainers.opd import OpdConfig
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.ranks import Ranks
from agentgym_suite.trainers.registry import make_algorithm
from agentgym_suite.trainers.run_settings import Configuration, RunSettings
from agentgym_suite.trainers.sapo_ar import SapoArConfig
from agentgym_suite.trainers.starts import StartSettings
from agentgym_suite.trainers.stats import Reducer
from agentgym_suite.trainers.taspo import TaspoConfig


def check_beforehand(configuration: Configuration, ranks: Ranks, *, tensorboard: bool) -> None:
    """Refuse what is known to be wrong before a start is made, which takes minutes.

    Args:
        configuration: of the run.
        ranks: the processes that it runs in.
        tensorboard: TensorBoard's files are wanted.

    Raises:
        UsageError: settings do not fit each other, or what they name is not here.
        MissingExtra: something that they name is not installed.
        EngineError: the teacher cannot be fetched.
    """
    run, settings = configuration.run, configuration.settings
    check_group(make_algorithm(configuration.algorithm, configuration.preset, **vars(settings)))
    check_ranks(configuration, ranks.size)
    if configuration.preset == "tiny" and not run.policy:
        StartSettings(prompt=run.prompt)  # refuses what a start cannot be cloned for
    wanted = (
        (tensorboard, "tensorboard", "train", "TensorBoard"),
        (run.engine == "vllm" and not run.servers, "vllm", "vllm", "the engine vllm"),
        (run.runner == "ray", "ray", "ray", "a pool of Ray workers"),
    )
    for needed, module, extra, what in wanted:
        if needed and find_spec(module) is None:
            raise MissingExtra(extra, what)
    choose_device(run.device)
    if isinstance(settings, OpdConfig):
        if not settings.teacher_model:
            raise UsageError("opd learns from another model; name it with --set teacher_model=DIR")
        find_files(settings.teacher_model)


def check_value_rows(configuration: Configuration) -> None:
    """See that SAPO's values can be learned.

    Raises:
        UsageError: adapters cannot part the rows of the head that start equal.
    """
    run, settings = configuration.run, configuration.settings
    if isinstance(settings, SapoArConfig) and run.lora_rank and settings.init_value_rows:
        raise UsageError(
            f"lora_rank is {run.lora_rank}, whose adapters leave the head as it is, and "
            "init_value_rows makes the two rows of it equal that values are read from, so that "
            "every value would stay 0; set init_value_rows = false, or lora_rank = 0"
        )


def check_punishment(configuration: Configuration) -> None:
    """See that an invalid action costs once.

    Raises:
        UsageError: the reward punishes it, and the algorithm, too.
    """
    run, settings = configuration.run, configuration.settings
    punished = reward_preset(run.reward).invalid_call
    for name in ("invalid_penalty", "c_inv"):
        value = getattr(settings, name, 0.0)
        if punished and value:
            raise UsageError(
                f"{name} is {value} and reward {run.reward!r} gives {punished} for an invalid "
                f"action, which would be punished twice; set {name} to 0, or choose another reward"
            )


def check_group(algorithm: Algorithm) -> None:
    """See that an algorithm that compares trajectories has some to compare.

    Raises:
        UsageError: it has not.
    """
    if algorithm.needs.group and algorithm.config.rollouts < 2:
        raise UsageError(
            f"rollouts is {algorithm.config.rollouts}, and {algorithm.name} compares the "
            "trajectories of a task; give 2 or more"
        )


def shares_weights(run: RunSettings) -> bool:
    """Whether the engine computes with the trainer's very tensors."""
    return run.engine == "transformers" and not run.max_staleness


def lora_settings(run: RunSettings) -> LoraSettings:
    """The adapter that a run trains."""
    return LoraSettings(
        rank=run.lora_rank, alpha=run.lora_alpha, targets=run.lora_targets, seed=run.seed
    )


def analyzer_settings(configuration: Configuration) -> AnalyzerSettings:
    """How a run has groups analyzed."""
    run, settings = configuration.run, configuration.settings
    return AnalyzerSettings(
        align_mode=run.align_mode,
        align_sees_outcome=isinstance(settings, TaspoConfig) and settings.align_sees_outcome,
        required=run.analyzer_required,
    )


def check_ranks(configuration: Configuration, processes: int) -> None:
    """See that so many processes can play and train by these settings.

    Raises:
        UsageError: there are more of them than tasks, a setting is for one process or does not fit
            another, rows of older weights would go uncorrected, or the engine does not fit.
    """
    run, settings = configuration.run, configuration.settings
    if settings.tasks < processes:
        raise UsageError(
            f"tasks is {settings.tasks}, and {processes} processes play them; give at least one "
            "to each"
        )
    if run.share_prefix and processes > 1:
        raise UsageError(
            "share_prefix calls layers as often as prompts differ, which processes cannot do in "
            "step; set share_prefix = false"
        )
    check_value_rows(configuration)
    check_punishment(configuration)
    needs = configuration.make_algorithm().needs
    whole = needs.divergence != "none"  # an expectation already, which needs no weights
    if whole and run.merge_append_only and getattr(settings, "pi_position", "") == "user_turn":
        raise UsageError(
            "merge_append_only is set, and with pi_position 'user_turn' no prompt of the teacher "
            "goes on in another; set one of them otherwise"
        )
    if run.max_staleness and not settings.mismatch_cap and not whole:
        raise UsageError(
            f"max_staleness is {run.max_staleness}, and rows of older weights would go "
            "uncorrected; set mismatch_cap, such as 2"
        )
    check_engine(run, processes)


def check_together(iteration: int, out: Path, reducer: Reducer) -> None:
    """See that all processes go on from one checkpoint.

    Raises:
        TrainingError: they do not see the same ones.
    """
    found = sorted(set(reducer.gather([iteration])))
    if len(found) > 1:
        raise TrainingError(
            f"the processes go on from iterations {', '.join(map(str, found))} of {out}; give all "
            "of them the same folder, and start them again"
        )


def check_teacher(algorithm: Algorithm, privileged: Privileged | None, teacher: Any) -> None:
    """See that an algorithm's teacher is there.

    Raises:
        UsageError: it is not.
    """
    given = {"privileged": privileged, "model": teacher}
    wanted = algorithm.needs.teacher
    if wanted != "none" and given[wanted] is None:
        what = {"privileged": "privileged information", "model": "another model as teacher"}
        raise UsageError(f"{algorithm.name} needs {what[wanted]}; give it to the trainer")


def check_engine(run: RunSettings, processes: int) -> None:
    """See that what is set of the engine is for the engine that is set, and for so many processes.

    Two names of one server cannot be told apart.

    Raises:
        UsageError: it is not.
    """
    if run.engine_options and (run.engine == "transformers" or run.engine_url):
        given = ", ".join(run.engine_options)
        raise UsageError(f"engine_options are for engine vllm here ({given}); leave them out")
    if run.engine_url and run.engine != "vllm":
        raise UsageError("engine_url is for engine vllm; set engine = vllm, or leave it out")
    if len(set(run.servers)) < len(run.servers) or not all(run.servers):
        raise UsageError(
            f"engine_url is {run.engine_url!r}, with an address twice or an empty one; give each "
            "server once"
        )
    for server in run.servers:
        if not _is_address(server):
            raise UsageError(f"engine_url has {server!r}; give addresses such as http://host:8000")
    if len(run.servers) > processes:
        raise UsageError(
            f"engine_url names {len(run.servers)} servers, and each is asked by a process of its "
            f"own, of which there are {processes}; give fewer, or start more processes"
        )
    if run.engine == "vllm" and processes > 1 and not run.servers:
        raise UsageError(
            f"engine is vllm, and in each of {processes} processes that train it would take the "
            "first device; give servers in engine_url, train in one process, or set engine = "
            "transformers"
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def refuse_unfit(algorithm: Algorithm, policy: Any, tokenizer: Any) -> None:
    """See that an algorithm, a policy and a tokenizer fit each other.

    Raises:
        UsageError: they do not.
    """
    check_group(algorithm)
    if algorithm.needs.critic != "none" and not isinstance(algorithm.config, CriticConfig):
        raise UsageError(
            f"{algorithm.name} needs a critic, and its settings have no rate to train it with; "
            "make them a subclass of CriticConfig"
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

"""What a training run is told beside its algorithm: environment, policy, loop; and where from.

Values come from defaults, then a preset and what it says of the environment in particular, then a
TOML file, then flags; the last one counts. The settings of the algorithm lie in the same names, so
one file holds a whole run.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError
from agentgym_suite.files import json_digest
from agentgym_suite.prompts import prompt_template
from agentgym_suite.rewards import reward_preset
from agentgym_suite.trainers.algorithm import Algorithm
from agentgym_suite.trainers.config import (
    ABOVE_ZERO,
    ONE_WAY,
    AlgorithmConfig,
    AlignMode,
    Preset,
    check_settings,
    setting,
)
from agentgym_suite.trainers.registry import algorithm_spec
from agentgym_suite.trainers.setting_values import kinds, typed, unknown_setting

CONFIGS = Path(__file__).parent / "configs"
"""Settings of published comparisons, one TOML file each."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of a run that every algorithm shares.

    Raises:
        UsageError: a number out of its range.
    """

    PRESETS: ClassVar[Mapping[str, Preset]] = {
        "paper": {},
        "public_code": {},
        "tiny": {
            "split": "train",
            "most_tasks": 48,
            "prompt": "terse",
            "max_new_tokens": 48,
            "micro_tokens": 4_096,
            "warmup_steps": 30,
            "evaluate_every": 5,
            "evaluate_tasks": 0,
            "checkpoint_every": 5,
            "budget_steps": 60_000,
        },
    }
    WORLDS: ClassVar[Mapping[str, Mapping[str, Preset]]] = {
        "tiny": {
            "ALFWorld-v0": {
                "unseen_split": "valid_unseen",
                "most_tasks": 0,
                "most_admissible": 15,
                "horizon": 20,
                "max_new_tokens": 12,
            },
            "WebShop-v0": {"unseen_split": "test", "horizon": 15},
            "MultiHopQA-v0": {"unseen_split": "test", "horizon": 5, "max_new_tokens": 96},
            "PaperSearch-v0": {"unseen_split": "test", "horizon": 5, "max_new_tokens": 256},
        },
    }
    """Preset -> environment -> what the preset says of it in particular."""

    # environment
    env: str = setting("ALFWorld-v0", "Gymnasium id of the environment")
    data: str = setting("", "its data, a name or a path; the embedded world when empty")
    kwargs: Mapping[str, Any] = field(
        default_factory=dict,
        metadata={"help": "its other arguments by name; those given later are added"},
    )
    split: str = setting("train", "tasks that are trained on, and evaluated")
    task_list: str = setting(
        "", "file of the task ids that are trained on, one a line, instead of all of the split"
    )
    unseen_split: str = setting("", "tasks that are evaluated only; none when empty")
    most_admissible: int = setting(
        0, "only tasks that start with at most so many admissible actions; 0 takes all"
    )
    most_tasks: int = setting(0, "only the first so many tasks of each split; 0 takes all")
    horizon: int = setting(0, "most steps of an episode; 0 leaves it to the environment")
    reward: str = setting("none", "reward preset that shapes a step's reward")

    # policy
    policy: str = setting("", "folder of the weights and the tokenizer that are trained")
    start_worlds: int = setting(
        0, "generated worlds that the teacher of a tiny start shows besides the training tasks"
    )
    device: str = setting("auto", "where it is, as torch names it; auto is a GPU if there is one")
    prompt: str = setting("capo", "prompt template")
    prompt_tokens: int = setting(
        0,
        "most tokens of a prompt, which loses its oldest steps and then the end of its "
        "observation; 0 takes what the policy's window leaves",
    )
    temperature: float = setting(1.0, "of the rollouts, and of every log-probability")
    max_new_tokens: int = setting(512, "most tokens of a reply")
    lora_rank: int = setting(0, "rank of an adapter that is trained alone; 0 trains all weights")
    lora_alpha: float = setting(32.0, "the adapter weighs lora_alpha / lora_rank")
    lora_targets: str = setting(
        "all-linear", "layers with an adapter: names with commas, or all linear ones but the head"
    )
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = setting(
        "auto", "kernel of attention: auto takes flash attention where it is installed and fits"
    )

    # rollouts
    engine: Literal["transformers", "vllm"] = setting("transformers", "what samples replies")
    engine_options: Mapping[str, Any] = field(
        default_factory=dict,
        metadata={"help": "for vllm: dtype, and arguments of its EngineArgs by name"},
    )
    engine_url: str = setting(
        "",
        "for vllm: addresses of servers that sample instead, with commas between; each serves one "
        "or more processes and must be able to read the run's folder",
    )
    sync_tolerance: float = setting(
        0.0,
        "how far the engine's log-probabilities may lie from the trainer's after it took weights; "
        "0 takes 1e-5 in float32, 2e-2 in half precision",
    )
    max_staleness: int = setting(
        0, "how many iterations old the weights of a row may be: rollouts run so far ahead"
    )

    runner: Literal["local", "ray"] = setting(
        "local", "where environments are played: in this process, or in the actors of a Ray"
    )
    ray_address: str = setting("", "of the Ray cluster; one of this machine when empty")

    # privileged information, for algorithms that use it
    analyzer_url: str = setting("", "chat endpoint of the analyzer; fixed rules when empty")
    analyzer_model: str = setting("", "the model asked there")
    analyzer_reasoning_off: str = setting("thinking", "how it is told not to reason")
    analyzer_max_tokens: int = setting(4_096, "longest answer, in tokens")
    analyzer_timeout_s: float = setting(120.0, "longest wait for a whole answer, in seconds")
    analyzer_retries: int = setting(1, "tries after one that brought nothing of use, at most 3")
    analyzer_required: bool = setting(
        False, "end the run when it fails, instead of going on without guidance"
    )
    align_mode: AlignMode = setting(
        "per_group", "ask it once for all trajectories of a task, or once for each"
    )

    # loop
    seed: int = setting(41, "of everything that is drawn")
    budget_steps: int = setting(1_000_000, "environment steps that training may consume")
    budget_minutes: float = setting(
        0.0, "minutes of training, evaluations aside, that end it earlier; 0 is no bound"
    )
    iterations: int = setting(0, "iterations that training may take; 0 leaves it to the steps")
    concurrency: int = setting(256, "most episodes in flight")
    episode_timeout_s: float = setting(
        600.0,
        "wall-clock bound of an episode, waiting for replies included, and of a server's answer",
    )
    attempts: int = setting(3, "how often a broken trajectory is played before it is dropped")
    micro_tokens: int = setting(16_384, "padded tokens of a micro-batch")
    share_prefix: bool = setting(False, "compute a prompt that several rows have only once")
    merge_append_only: bool = setting(
        False,
        "compute the steps of a trajectory as one sequence, where each prompt begins with the last "
        "one and its reply to the token",
    )
    recompute: bool = setting(
        False, "keep no activations inside a layer, compute them again in the backward pass"
    )
    compute_dtype: Literal["", "bfloat16", "float32"] = setting(
        "", "what layers compute in beside weights in float32; empty leaves it to the weights"
    )
    rank_timeout_s: float = setting(1_800.0, "how long one process waits for another")
    warmup_steps: int = setting(0, "optimizer steps over which learning rates rise")
    weight_decay: float = setting(0.01, "of AdamW")
    evaluate_every: int = setting(5, "iterations between evaluations; 0 evaluates at the end only")
    evaluate_rounds: int = setting(1, "episodes of each task in an evaluation at temperature 1")
    evaluate_tasks: int = setting(
        128, "most tasks of each split that an evaluation plays, evenly spaced; 0 plays all"
    )
    checkpoint_every: int = setting(5, "iterations between checkpoints")
    keep_checkpoints: int = setting(2, "checkpoints that stay")

    def __post_init__(self) -> None:
        check_settings(self, _BOUNDS)
        if self.share_prefix and self.recompute:
            raise UsageError("recompute would fill a shared prefix twice; set share_prefix = false")
        if self.share_prefix and self.merge_append_only:
            raise UsageError(ONE_WAY)
        if bool(self.analyzer_url) != bool(self.analyzer_model):
            raise UsageError("analyzer_url and analyzer_model belong together; give both or none")
        reward_preset(self.reward)
        if prompt_template(self.prompt).reply_format == "openai":
            raise UsageError(
                f"prompt {self.prompt!r} asks for structured calls, which only chat endpoints "
                "answer with; train with 'capo' or 'steppo', whose calls are text"
            )

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses of ``engine_url``."""
        urls = self.engine_url.split(",") if self.engine_url else ()
        return tuple(url.strip().rstrip("/") for url in urls)


_BOUNDS: Mapping[str, tuple[float, float]] = {
    "temperature": (0.01, 100.0),
    "episode_timeout_s": ABOVE_ZERO,
    "rank_timeout_s": (1e-3, 1e9),
    "lora_rank": (0, 65_536),
    "lora_alpha": ABOVE_ZERO,
    "analyzer_timeout_s": ABOVE_ZERO,
    "analyzer_retries": (0, 3),  # as many pauses as the client knows
    "max_staleness": (0, 100),  # so many copies of the weights wait on the host
    **dict.fromkeys(
        (
            "max_new_tokens",
            "analyzer_max_tokens",
            "budget_steps",
            "concurrency",
            "attempts",
            "micro_tokens",
            "evaluate_rounds",
            "checkpoint_every",
            "keep_checkpoints",
        ),
        (1, math.inf),
    ),
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A resolved run.

    Attributes:
        algorithm: a name of the registry.
        preset: whose values stand under those that were given.
        run: what every algorithm shares.
        settings: the algorithm's own.
    """

    algorithm: str
    preset: str
    run: RunSettings
    settings: AlgorithmConfig

    def make_algorithm(self) -> Algorithm:
        """The algorithm with its settings."""
        return algorithm_spec(self.algorithm).algorithm(self.settings)

    def as_dict(self) -> dict[str, Any]:
        """Every value by name, for ``run.json``."""
        return {
            "algorithm": self.algorithm,
            "preset": self.preset,
            "run": asdict(self.run),
            "settings": asdict(self.settings),
        }

    @property
    def digest(self) -> str:
        """What a checkpoint is bound to: everything but how long and how often."""
        values = self.as_dict()
        for name in FREE:
            del values["run"][name]
        for name in _YOUNGER:
            if values["run"][name] == getattr(RunSettings, name):
                del values["run"][name]
        return json_digest(values)


FREE = (
    "device",
    "budget_steps",
    "budget_minutes",
    "iterations",
    "analyzer_url",
    "engine_url",
    "evaluate_every",
    "evaluate_rounds",
    "evaluate_tasks",
    "checkpoint_every",
    "keep_checkpoints",
    "recompute",
    "analyzer_timeout_s",
    "analyzer_retries",
    "analyzer_required",
    "rank_timeout_s",
    "sync_tolerance",
    "runner",
    "ray_address",
)
"""Settings that a run may change and go on: how long, how often and where."""
# younger than checkpoints that there are, which know only their defaults
_YOUNGER = ("task_list", "merge_append_only", "align_mode", "analyzer_max_tokens")


def resolve(
    algorithm: str, preset: str, file: Path | None, given: Mapping[str, Any]
) -> Configuration:
    """Defaults, then the preset, what it says of the environment, the file, what was given.

    Args:
        algorithm: a name of the registry.
        preset: a name that both the run and the algorithm know.
        file: TOML with settings by name, or the name of one of ``CONFIGS``; or None.
        given: settings by name.

    Raises:
        UsageError: an unknown algorithm, preset or setting, or a value that cannot be.
    """
    spec = algorithm_spec(algorithm)
    if preset not in RunSettings.PRESETS:
        known = ", ".join(RunSettings.PRESETS)
        raise UsageError(f"preset {preset!r} does not exist; use {known}")
    of_run, of_algorithm = kinds(RunSettings), kinds(spec.config)
    values: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for source, table in (("--config", _read(file)), ("--set", given)):
        for name, value in table.items():
            if name in of_run:
                wanted = typed(name, value, of_run[name], source)
                nested = of_run[name] == Mapping[str, Any]
                values[name] = {**values.get(name, {}), **wanted} if nested else wanted
            elif name in of_algorithm:
                own[name] = typed(name, value, of_algorithm[name], source)
            elif isinstance(value, dict):
                raise UsageError(f"{source} has the table {shown(name)}; give settings, not tables")
            else:
                raise UsageError(unknown_setting(name, {*of_run, *of_algorithm}, source))
    played = {**RunSettings.PRESETS[preset], **values}.get("env", RunSettings.env)
    world = RunSettings.WORLDS.get(preset, {}).get(played, {})
    run = RunSettings(**{**RunSettings.PRESETS[preset], **world, **values})
    return Configuration(algorithm, preset, run, spec.config.preset(preset, **own))


def _read(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    if not os.path.isfile(file):
        shipped = CONFIGS / f"{file}.toml"
        if not os.path.isfile(shipped):
            known = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.toml")))
            name = str(file) if str(file).isprintable() else shown(str(file))
            raise UsageError(f"there is no settings file {name}; give a path, or one of {known}")
        file = shipped
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:  # numbers and tables that Python itself refuses
        raise UsageError(f"{file} is not TOML ({error}); correct it") from error
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}); check its permissions"
        ) from error

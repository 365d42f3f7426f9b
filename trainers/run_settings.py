"""What a training run is told beside its algorithm: environment, policy, loop; and where from.

Values come from defaults, then a preset, then a TOML file, then flags; the last one counts. The
settings of the algorithm lie in the same names, so one file holds a whole run.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError
from agentgym_suite.files import json_digest
from agentgym_suite.rewards import reward_preset
from agentgym_suite.trainers.config import AlgorithmConfig, Preset, setting
from agentgym_suite.trainers.registry import algorithm_spec

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
            "unseen_split": "valid_unseen",
            "most_admissible": 15,
            "horizon": 20,
            "start_worlds": 12,
            "prompt": "terse",
            "max_new_tokens": 12,
            "micro_tokens": 4_096,
            "warmup_steps": 30,
            "evaluate_every": 5,
            "checkpoint_every": 5,
            "budget_steps": 60_000,
        },
    }

    # environment
    env: str = setting("ALFWorld-v0", "Gymnasium id of the environment")
    data: str = setting("", "its data, a name or a path; the embedded world when empty")
    kwargs: Mapping[str, Any] = field(
        default_factory=dict,
        metadata={"help": "its other arguments by name; those given later are added"},
    )
    split: str = setting("train", "tasks that are trained on, and evaluated")
    unseen_split: str = setting("", "tasks that are evaluated only; none when empty")
    most_admissible: int = setting(
        0, "only tasks that start with at most so many admissible actions; 0 takes all"
    )
    horizon: int = setting(0, "most steps of an episode; 0 leaves it to the environment")
    reward: str = setting("none", "reward preset that shapes a step's reward")

    # policy
    policy: str = setting("", "folder of the weights and the tokenizer that are trained")
    start_worlds: int = setting(
        0, "generated worlds that the teacher of a tiny start shows besides the training tasks"
    )
    prompt: str = setting("capo", "prompt template")
    prompt_tokens: int = setting(
        0, "most tokens of a prompt's messages, the oldest steps give way; 0 for no bound"
    )
    temperature: float = setting(1.0, "of the rollouts, and of every log-probability")
    max_new_tokens: int = setting(512, "most tokens of a reply")

    # privileged information, for algorithms that use it
    analyzer_url: str = setting("", "chat endpoint of the analyzer; fixed rules when empty")
    analyzer_model: str = setting("", "the model asked there")
    analyzer_reasoning_off: str = setting("thinking", "how it is told not to reason")

    # loop
    seed: int = setting(41, "of everything that is drawn")
    budget_steps: int = setting(1_000_000, "environment steps that training may consume")
    budget_minutes: float = setting(
        0.0, "minutes of training, evaluations aside, that end it earlier; 0 is no bound"
    )
    iterations: int = setting(0, "iterations that training may take; 0 leaves it to the steps")
    concurrency: int = setting(256, "most episodes in flight")
    episode_timeout_s: float = setting(600.0, "wall-clock bound of one episode")
    attempts: int = setting(3, "how often a broken trajectory is played before it is dropped")
    micro_tokens: int = setting(16_384, "padded tokens of a micro-batch")
    share_prefix: bool = setting(False, "compute a prompt that several rows have only once")
    warmup_steps: int = setting(0, "optimizer steps over which learning rates rise")
    weight_decay: float = setting(0.01, "of AdamW")
    evaluate_every: int = setting(5, "iterations between evaluations; 0 evaluates at the end only")
    evaluate_tasks: int = setting(0, "most tasks of a split that are evaluated; 0 takes all")
    evaluate_rounds: int = setting(1, "episodes of each task in an evaluation at temperature 1")
    checkpoint_every: int = setting(5, "iterations between checkpoints")
    keep_checkpoints: int = setting(2, "checkpoints that stay")

    def __post_init__(self) -> None:
        for name in ("budget_steps", "concurrency", "attempts", "micro_tokens", "max_new_tokens"):
            _least(name, getattr(self, name), 1)
        for name in _FROM_ZERO:
            _least(name, getattr(self, name), 0)
        for name in ("evaluate_rounds", "checkpoint_every", "keep_checkpoints"):
            _least(name, getattr(self, name), 1)
        if not 0.0 <= self.budget_minutes < float("inf"):
            raise UsageError(f"budget_minutes is {self.budget_minutes}; give at least 0")
        if not self.temperature > 0:
            raise UsageError(f"temperature is {self.temperature}; training needs more than 0")
        if bool(self.analyzer_url) != bool(self.analyzer_model):
            raise UsageError("analyzer_url and analyzer_model belong together; give both or none")
        reward_preset(self.reward)


_FROM_ZERO = (
    "most_admissible",
    "start_worlds",
    "horizon",
    "prompt_tokens",
    "warmup_steps",
    "iterations",
    "evaluate_every",
    "evaluate_tasks",
    "seed",
)


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
        for name in _FREE:
            del values["run"][name]
        return json_digest(values)


_FREE = (
    "budget_steps",
    "budget_minutes",
    "iterations",
    "analyzer_url",
    "evaluate_every",
    "evaluate_tasks",
    "evaluate_rounds",
    "checkpoint_every",
    "keep_checkpoints",
)


def resolve(
    algorithm: str, preset: str, file: Path | None, given: Mapping[str, Any]
) -> Configuration:
    """Defaults, then the preset, then the file, then what was given.

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
    of_run = set(_kinds(RunSettings))
    of_algorithm = set(_kinds(spec.config))
    values = {**RunSettings.PRESETS[preset]}
    own: dict[str, Any] = {}
    for source, table in (("--config", _read(file)), ("a flag", given)):
        for name, value in table.items():
            if name in of_run:
                typed = _typed(name, value, _kinds(RunSettings)[name], source)
                values[name] = {**values.get(name, {}), **typed} if name == "kwargs" else typed
            elif name in of_algorithm:
                own[name] = _typed(name, value, _kinds(spec.config)[name], source)
            else:
                raise UsageError(_unknown(name, of_run | of_algorithm, source))
    return Configuration(
        algorithm, preset, RunSettings(**values), spec.config.preset(preset, **own)
    )


def _read(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    if not file.is_file():
        shipped = CONFIGS / f"{file}.toml"
        if not shipped.is_file():
            known = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.toml")))
            raise UsageError(f"there is no settings file {file}; give a path, or one of {known}")
        file = shipped
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML ({error}); correct it") from error


def _kinds(settings: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(settings)
    return {item.name: hints[item.name] for item in fields(settings)}


def _typed(name: str, value: Any, kind: Any, source: str) -> Any:
    """The value as its setting wants it; choices are checked by the settings themselves."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == Mapping[str, Any] and not isinstance(value, dict):
        raise UsageError(f"{source} has {name} = {shown(value)}; give a table of arguments by name")
    plain = kind in (str, int, float, bool)
    if plain and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
        raise UsageError(f"{source} has {name} = {shown(value)}; give {_WORDS[kind]}")
    return value


_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def _unknown(name: str, known: set[str], source: str) -> str:
    nearest = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {nearest[0]!r}?" if nearest else f"use {', '.join(sorted(known))}"
    return f"{source} has the unknown setting {name!r}; {advice}"


def _least(name: str, value: int, least: int) -> None:
    if value < least:
        raise UsageError(f"{name} is {value}; give at least {least}")

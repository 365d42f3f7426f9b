"""What a person declares of a run before it can be ranked: ``declaration.toml`` in its folder.

    trained_on_split = "train"             # or "none"
    tuned_on_test = false                  # true is not ranked
    pretraining_cutoff = "2024-06"         # of the model's data, or "none"
    uses_privileged_info_at_test = false   # true is not ranked
    training_seeds = [0, 1, 2]             # [] without training
    contact = "name, page or address"

    [model]
    name = "Some-Model-7B"
    size = "7B"
    weights = "public"                     # public, on request, private or none

    [trainer]
    name = "capo"                          # or "none"
    config_digest = "sha256:0123"          # or "none"

Nothing of it can be recomputed, so it is shown with the row. What was left as it stands above is
not filled.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.arguments import shown
from agentgym_suite.evaluation.run_directory import DECLARATION

WEIGHTS = ("public", "on request", "private", "none")
_TEXTS = ("trained_on_split", "pretraining_cutoff", "contact")
_FLAGS = ("tuned_on_test", "uses_privileged_info_at_test")
_TABLES: Mapping[str, tuple[str, ...]] = {
    "model": ("name", "size", "weights"),
    "trainer": ("name", "config_digest"),
}
_EXAMPLES: Mapping[str, str] = {
    "contact": "name, page or address",
    "model.name": "Some-Model-7B",
    "trainer.config_digest": "sha256:0123",
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is declared of a run.

    Attributes:
        trained_on_split: split of the suite's data that the model was trained on, or "none".
        tuned_on_test: whether anything was chosen by looking at the test tasks.
        pretraining_cutoff: date of the newest data of its pretraining, or "none".
        uses_privileged_info_at_test: whether it sees what a player does not.
        training_seeds: seeds of its training; empty without.
        contact: who answers questions.
        model_name: the model.
        model_size: its size.
        model_weights: whether its weights can be had, one of ``WEIGHTS``.
        trainer_name: what trained it, or "none".
        trainer_config_digest: digest of that training's configuration, or "none".
    """

    trained_on_split: str
    tuned_on_test: bool
    pretraining_cutoff: str
    uses_privileged_info_at_test: bool
    training_seeds: tuple[int, ...]
    contact: str
    model_name: str
    model_size: str
    model_weights: str
    trainer_name: str
    trainer_config_digest: str

    @property
    def training(self) -> tuple[str, str, str]:
        """What runs over several training seeds have in common: model, trainer, its digest."""
        return self.model_name, self.trainer_name, self.trainer_config_digest


def read_declaration(folder: Path) -> tuple[Declaration | None, str]:
    """What is declared of a run, or why that is not enough.

    Returns:
        The declaration and ""; or None and the reason.
    """
    path = folder / DECLARATION
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None, f"{DECLARATION} is not there"
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        return None, f"{DECLARATION} cannot be read ({error})"
    faults = declaration_faults(raw)
    if faults:
        return None, f"{DECLARATION} is not filled: {', '.join(faults)}"
    model, trainer = raw["model"], raw["trainer"]
    return Declaration(
        trained_on_split=raw["trained_on_split"],
        tuned_on_test=raw["tuned_on_test"],
        pretraining_cutoff=str(raw["pretraining_cutoff"]),
        uses_privileged_info_at_test=raw["uses_privileged_info_at_test"],
        training_seeds=tuple(raw["training_seeds"]),
        contact=raw["contact"],
        model_name=model["name"],
        model_size=model["size"],
        model_weights=model["weights"],
        trainer_name=trainer["name"],
        trainer_config_digest=trainer["config_digest"],
    ), ""


def declaration_faults(raw: Mapping[str, Any]) -> list[str]:
    """What is missing or wrong, field by field."""
    cutoff = raw.get("pretraining_cutoff")
    texts = dict(raw)
    if isinstance(cutoff, datetime.date):  # TOML writes a day without quotes
        texts["pretraining_cutoff"] = cutoff.isoformat()
    faults = [f"{name} needs a text" for name in _TEXTS if not _is_filled(texts.get(name))]
    faults += [f"{name} needs true or false" for name in _FLAGS if not _is_flag(raw.get(name))]
    seeds = raw.get("training_seeds")
    if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
        faults.append("training_seeds needs a list of integers")
    for table, names in _TABLES.items():
        inner = raw.get(table)
        inside = inner if isinstance(inner, dict) else {}
        faults += [
            f"{table}.{name} needs a text" for name in names if not _is_filled(inside.get(name))
        ]
        faults += [f"{table}.{name} is unknown" for name in inside if name not in names]
    model = raw.get("model")
    weights = model.get("weights") if isinstance(model, dict) else None
    if isinstance(weights, str) and weights and weights not in WEIGHTS:
        faults.append(f"model.weights is {shown(weights)}, use one of {', '.join(WEIGHTS)}")
    faults += _left_as_examples(raw)
    known = {*_TEXTS, *_FLAGS, "training_seeds", *_TABLES}
    return faults + [f"{name} is unknown" for name in raw if name not in known]


def _left_as_examples(raw: Mapping[str, Any]) -> list[str]:
    """Fields that still hold what documentation shows in their place, or no letter or digit."""
    faults = []
    for name in (*_TEXTS, *(f"{table}.{field}" for table in _TABLES for field in _TABLES[table])):
        table, _, field = name.rpartition(".")
        inside = raw.get(table) if table else raw
        value = inside.get(field) if isinstance(inside, dict) else None
        told = value.strip() if isinstance(value, str) else ""
        if not told:
            continue
        if told == _EXAMPLES.get(name) or not any(map(str.isalnum, told)):
            faults.append(f"{name} is still {shown(told)}")
    return faults


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)

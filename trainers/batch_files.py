"""A batch on the disk: one ``.npz`` an iteration, from which the same update follows.

Token columns are stored without padding, one value per response id; identity and text are JSON
inside the archive; nothing is pickled.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym_suite.errors import DataDamaged, DataMissing, DataVersion
from agentgym_suite.files import write_atomic
from agentgym_suite.trainers.batch import ROW_COLUMNS, TOKEN_COLUMNS, StepBatch, collate
from agentgym_suite.trainers.rows import StepRow

SCHEMA = "step_batch/2"
_RAGGED_IDS = (
    "prompt_ids",
    "response_ids",
    "response_mask",
    "action_mask",
    "teacher_prompt_ids",
    "next_prompt_ids",
)
_RAGGED = (*_RAGGED_IDS, "rollout_logprobs")
_SCALARS = tuple(field.name for field in fields(StepRow) if field.name not in _RAGGED)


def save_batch(batch: StepBatch, path: Path | str) -> None:
    """Write rows and computed columns, whole or not at all; targets are derived anew.

    Raises:
        DataError: the file cannot be written.
    """
    arrays: dict[str, NDArray[Any]] = {}
    lines = [{name: getattr(row, name) for name in _SCALARS} for row in batch.rows]
    header = {"schema": SCHEMA, "rows": lines}
    arrays["header"] = np.frombuffer(json.dumps(header).encode("utf-8"), dtype=np.uint8)
    for name in _RAGGED:
        values = [getattr(row, name) for row in batch.rows]
        dtype = np.float64 if name == "rollout_logprobs" else np.int64
        arrays[name] = np.array([value for line in values for value in line], dtype=dtype)
        arrays[f"{name}.lengths"] = np.array([len(line) for line in values], dtype=np.int64)
    for name in TOKEN_COLUMNS:
        if (column := getattr(batch, name)) is not None:
            arrays[f"column.{name}"] = _without_padding(batch, column)
    for name in ROW_COLUMNS:
        if (column := getattr(batch, name)) is not None:
            arrays[f"column.{name}"] = column.detach().cpu().numpy()
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    write_atomic(path, stream.getvalue())


def load_batch(path: Path | str) -> StepBatch:
    """Read what ``save_batch`` wrote, padded on the right.

    Raises:
        DataMissing: there is no such file.
        DataVersion: written by another version.
        DataDamaged: the file is not a batch.
        UsageError: its rows break an invariant.
    """
    path = Path(path)
    if not path.is_file():
        raise DataMissing(f"there is no batch {path}; check the path")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays["header"].tobytes().decode("utf-8"))
        schema = header["schema"]
    except Exception as error:  # zip, header and JSON each raise their own
        raise DataDamaged(f"{path} is no batch ({error}); collect it again") from error
    if schema != SCHEMA:
        raise DataVersion(f"{path} has schema {schema!r}, this version reads {SCHEMA!r}; redo it")
    try:
        batch = collate(_rows(header["rows"], arrays))
        columns = {
            name: _with_padding(batch, arrays[f"column.{name}"])
            for name in TOKEN_COLUMNS
            if f"column.{name}" in arrays
        }
        columns |= {
            name: torch.from_numpy(arrays[f"column.{name}"])
            for name in ROW_COLUMNS
            if f"column.{name}" in arrays
        }
    except (KeyError, TypeError, IndexError, RuntimeError) as error:
        raise DataDamaged(f"{path} is damaged ({error!r}); collect it again") from error
    return batch.with_columns(**columns)


def _rows(lines: Sequence[dict[str, Any]], arrays: dict[str, NDArray[Any]]) -> list[StepRow]:
    ragged = {name: _split(arrays[name], arrays[f"{name}.lengths"]) for name in _RAGGED}
    rows = []
    for number, line in enumerate(lines):
        values: dict[str, Any] = {name: column[number] for name, column in ragged.items()}
        rows.append(StepRow(**line, **values))
    return rows


def _split(flat: NDArray[Any], lengths: NDArray[Any]) -> list[tuple[Any, ...]]:
    ends = np.cumsum(lengths)
    return [
        tuple(flat[end - length : end].tolist()) for end, length in zip(ends, lengths, strict=True)
    ]


def _response_places(batch: StepBatch) -> Tensor:
    """True on every response id, sampled or forced; bool ``[N, R]``."""
    counts = torch.tensor([len(row.response_ids) for row in batch.rows])
    width = batch.response_mask.shape[1]
    places = torch.arange(width)
    if batch.side == "left":
        places = width - 1 - places
    return places[None, :] < counts[:, None]


def _without_padding(batch: StepBatch, column: Tensor) -> NDArray[Any]:
    flat: NDArray[Any] = column.detach().cpu()[_response_places(batch)].numpy()
    return flat


def _with_padding(batch: StepBatch, flat: NDArray[Any]) -> Tensor:
    table = torch.zeros(batch.response_mask.shape, dtype=torch.from_numpy(flat).dtype)
    table[_response_places(batch)] = torch.from_numpy(flat)
    return table

"""Ragged lists as padded tensors, for tests that compare with printed numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def padded(lines: Sequence[Sequence[float]], dtype: torch.dtype = torch.float64) -> Tensor:
    """``[n, longest]``, 0 in padding."""
    table = torch.zeros(len(lines), max(map(len, lines)), dtype=dtype)
    for number, line in enumerate(lines):
        table[number, : len(line)] = torch.tensor(line, dtype=dtype)
    return table


def mask_of(lines: Sequence[Sequence[float]]) -> Tensor:
    """True where a line has a value."""
    return padded([[1.0] * len(line) for line in lines]).bool()

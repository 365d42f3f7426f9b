"""Weights that may be spread over processes, and functions that read them whole."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

P = ParamSpec("P")
T = TypeVar("T")


def reads_weights(
    function: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], T]:
    """Mark a function whose first argument is a network that it takes apart.

    A network whose weights are spread over processes has a method ``reading``, which brings them
    together while the function runs, and spreads the gradient of what it returned again.
    """

    @functools.wraps(function)
    def read(model: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        reading: Callable[[Callable[[], T]], T] | None = getattr(model, "reading", None)
        if reading is None:
            return function(model, *args, **kwargs)
        return reading(functools.partial(function, model, *args, **kwargs))

    return read


def full(tensor: Tensor) -> Tensor:
    """A tensor whole on this rank; where it is spread, every rank must ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def copy_weights(source: Any, target: Any) -> None:
    """Give a network the weights of another one that is spread in the same way."""
    for model in (source, target):
        if isinstance(model, FSDPModule):
            model.reshard()  # what was read last is still whole
    target.load_state_dict(source.state_dict())

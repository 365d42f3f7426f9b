"""Several processes that train one policy: FSDP2 over gloo or NCCL, started by ``torchrun``.

Every decoder layer is a unit of its own, the rest of the network another. Gradients are added over
ranks, never averaged: the losses of ranks are shares that add up. Each rank samples with a whole
copy of the policy, since tokens are decoded one after the other and would gather it for each.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from agentgym_suite.engines.loading import choose_device
from agentgym_suite.episodes import EpisodeRequest
from agentgym_suite.errors import TrainingError, UsageError
from agentgym_suite.trainers.models import decoder_layers
from agentgym_suite.trainers.ranks import OneProcess, Ranks, is_lost_rank, share_of_groups
from agentgym_suite.trainers.reading import full
from agentgym_suite.trainers.stats import AllRanks, Reducer

_TOLD = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT", "MASTER_ADDR")


class FsdpRanks:
    """The ranks of the process group that this process has joined.

    Args:
        device: where this rank computes.
        compute_dtype: what layers compute in; None leaves it to the weights, which stay as they
            are, and gradients with them.
        timeout_s: how long another rank is waited for, from one exchange to the next.
    """

    def __init__(
        self,
        device: torch.device,
        compute_dtype: torch.dtype | None = None,
        timeout_s: float = 1800.0,
    ) -> None:
        self.rank = distributed.get_rank()
        self.size = distributed.get_world_size()
        self.reducer: Reducer = AllRanks()
        self._device = device
        self._dtype = compute_dtype
        self._timeout = timedelta(seconds=timeout_s)
        self._mesh = init_device_mesh(device.type, (self.size,))

    def load_device(self, device: str) -> str:
        """The processor: a device holds shares alone."""
        return "cpu"

    def placed(self, model: Any) -> Any:
        """The same network, a share of each weight on each rank."""
        dtype = next(model.parameters()).dtype
        precision = MixedPrecisionPolicy(param_dtype=self._dtype, reduce_dtype=dtype)
        for part in (*decoder_layers(model), model):
            fully_shard(part, mesh=self._mesh, mp_policy=precision)
        for part in model.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)  # gloo has no other
        model.reading = _reading
        register_fsdp_forward_method(model, "reading")
        return model

    def whole(self, model: Any) -> Any:
        """A copy on this rank's device, in the dtype that layers compute in."""
        copied = copy.deepcopy(model).to(self._device)
        if self._dtype is not None:
            for weight in copied.parameters():  # buffers, such as rotary angles, keep their digits
                weight.data = weight.data.to(self._dtype)
        return copied.eval().requires_grad_(False)

    def gather(self, model: Any, whole: Any) -> None:
        """Bring the weights that are trained into the copy, one after the other."""
        kept = dict(whole.named_parameters())
        model.reshard()  # what was read last may still be whole
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.requires_grad:
                    kept[name].copy_(full(weight.detach()))

    def share(self, requests: Sequence[EpisodeRequest]) -> list[EpisodeRequest]:
        """The episodes of this rank's groups."""
        return share_of_groups(requests, self.rank, self.size)

    def meet(self) -> None:
        """Wait until every rank is here."""
        self.reducer.most(0)

    def once(self, work: Callable[[], object]) -> None:
        """Do something on rank 0; the others wait for it."""
        if self.rank == 0:
            work()
        self.meet()

    def beside(self) -> Ranks:
        """The same with a process group of its own; what rollouts exchange lies on the host."""
        other = copy.copy(self)
        other.reducer = AllRanks(distributed.new_group(backend="gloo", timeout=self._timeout))
        return other


@contextmanager
def open_ranks(
    *, device: str = "auto", compute_dtype: str = "", timeout_s: float = 1800.0
) -> Iterator[Ranks]:
    """The processes that ``torchrun`` started with this one; without it, this one alone.

    Args:
        device: of which kind, ``auto`` for CUDA where there is one.
        compute_dtype: "bfloat16", or empty for what the weights are.
        timeout_s: how long another rank is waited for, from one exchange to the next.

    Raises:
        UsageError: more processes on this machine than it has devices of their kind, or an
            environment that is not torchrun's.
        TrainingError: in the block: another rank has ended, or does not answer.
    """
    spread = "WORLD_SIZE" in os.environ
    if not spread and not compute_dtype:
        yield OneProcess()
        return
    if spread:
        _check_torchrun()
    own = _own_device(device)
    where: dict[str, Any] = {} if spread else _alone()
    backend = "cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo"
    with _worded(), ExitStack() as closed:
        distributed.init_process_group(backend, timeout=timedelta(seconds=timeout_s), **where)
        if not spread:  # others would be waited for, where one of them has failed
            closed.callback(distributed.destroy_process_group)
        dtype = getattr(torch, compute_dtype) if compute_dtype else None
        yield FsdpRanks(own, dtype, timeout_s)
        if spread:
            distributed.destroy_process_group()


def _check_torchrun() -> None:
    """See that the environment is torchrun's: torch would wait for ranks that are not there."""
    told = {name: os.environ.get(name, "") for name in _TOLD}
    wrong = [name for name in _TOLD if not told[name].isdecimal() and name != "MASTER_ADDR"]
    wrong += [] if told["MASTER_ADDR"] else ["MASTER_ADDR"]
    wrong += ["RANK"] if not wrong and int(told["RANK"]) >= int(told["WORLD_SIZE"]) else []
    if wrong:
        raise UsageError(
            f"{wrong[0]} is {told[wrong[0]]!r} in an environment with WORLD_SIZE "
            f"{told['WORLD_SIZE']!r}; start the processes by torchrun, or unset WORLD_SIZE"
        )


def _own_device(device: str) -> torch.device:
    wanted = torch.device(choose_device(device))
    if wanted.type != "cuda":
        return wanted
    number, found = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if number >= found:
        raise UsageError(
            f"process {number} of this machine has no device, there are {found}; start torchrun "
            f"with --nproc-per-node {found}"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _alone() -> dict[str, Any]:
    return {"store": distributed.HashStore(), "rank": 0, "world_size": 1}


def _reading(read: Callable[[], Any]) -> Any:
    return read()


@contextmanager
def _worded() -> Iterator[None]:
    """A rank that has gone is one sentence; what else torch raises stays as it is."""
    try:
        yield
    except RuntimeError as error:
        if not is_lost_rank(error):
            raise
        said = " ".join(str(error).split())
        raise TrainingError(
            f"another process of this training has ended or does not answer ({said[:160]}); start "
            "all of them again, they go on from the last checkpoint"
        ) from error

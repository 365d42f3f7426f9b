"""Where a training runs: ``Ranks``, the processes that share it, and ``OneProcess``.

A trajectory lies on one rank with all its rows, and a group with all its trajectories. What ranks
tell each other are sums, through the reducer; networks are spread by ``placed``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agentgym_suite.episodes import EpisodeRequest
from agentgym_suite.trainers.stats import ALONE, Reducer


class Ranks(Protocol):
    """What a training asks of the processes that it runs in; every rank asks the same in order.

    Attributes:
        rank: the number of this process, from 0.
        size: how many there are.
        reducer: sums over all of them.
    """

    rank: int
    size: int
    reducer: Reducer

    def load_device(self, device: str) -> str:
        """Where networks that train on ``device`` are loaded to, before they are placed."""
        ...

    def placed(self, model: Any) -> Any:
        """The network where it computes, with a share of its weights on each rank."""
        ...

    def whole(self, model: Any) -> Any:
        """A network that has all weights on this rank, made before ``model`` is placed."""
        ...

    def gather(self, model: Any, whole: Any) -> None:
        """Bring the trained weights of a placed network into what ``whole`` made of it."""
        ...

    def share(self, requests: Sequence[EpisodeRequest]) -> list[EpisodeRequest]:
        """The episodes that this rank plays: every so many-th group."""
        ...

    def meet(self) -> None:
        """Wait until every rank is here."""
        ...

    def once(self, work: Callable[[], object]) -> None:
        """Do something on the first rank alone, and go on when it is done."""
        ...

    def beside(self) -> Ranks:
        """For a second thread: its ``reducer`` and ``meet`` do not meet those of the first."""
        ...


class OneProcess:
    """The ``Ranks`` of a training in this process alone: networks stay as they are."""

    def __init__(self) -> None:
        self.rank = 0
        self.size = 1
        self.reducer: Reducer = ALONE

    def load_device(self, device: str) -> str:
        """That device itself."""
        return device

    def placed(self, model: Any) -> Any:
        """The network itself."""
        return model

    def whole(self, model: Any) -> Any:
        """The network itself."""
        return model

    def gather(self, model: Any, whole: Any) -> None:
        """Nothing: both are one."""

    def share(self, requests: Sequence[EpisodeRequest]) -> list[EpisodeRequest]:
        """All of them."""
        return list(requests)

    def meet(self) -> None:
        """Nothing: this is all."""

    def once(self, work: Callable[[], object]) -> None:
        """Do it."""
        work()

    def beside(self) -> Ranks:
        """This one: nothing is exchanged."""
        return self


ONE_PROCESS = OneProcess()
"""The ranks of whoever is not told of others; it holds nothing that changes."""


_GONE = ("gloo", "nccl", "connection", "broken pipe", "timed out", "socket")


def is_lost_rank(error: BaseException) -> bool:
    """Whether an exchange failed since another rank has ended or does not answer."""
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in said for word in _GONE)


def share_of_groups(
    requests: Sequence[EpisodeRequest], rank: int, size: int
) -> list[EpisodeRequest]:
    """The requests of every ``size``-th group from the ``rank``-th on."""
    groups = {name: place for place, name in enumerate(dict.fromkeys(r.group_id for r in requests))}
    return [request for request in requests if groups[request.group_id] % size == rank]

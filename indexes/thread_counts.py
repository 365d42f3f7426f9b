"""How many threads FAISS, torch and BLAS use: one number for all of them, or theirs as they are.

Their thread pools do not survive a fork: a child that starts a parallel region of the thread that
forked waits for ever for threads that it does not have (faiss issue 5206; torch behaves alike). A
forked child therefore computes with one thread, which is also what a pool of workers wants,
whether its objects were made before the fork or after it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading

from agentgym_suite.errors import UsageError

_IMPORTED_BY = os.getpid()
_FRESH_STARTS = ("spawn", "forkserver")
"""How multiprocessing starts children that share nothing with their parent."""


def check_threads(threads: int | None) -> None:
    """Check a thread count; None leaves every library as it is.

    Raises:
        UsageError: it is no integer of at least 1.
    """
    if threads is not None and (
        not isinstance(threads, int) or isinstance(threads, bool) or threads < 1
    ):
        raise UsageError(f"threads is {threads!r}; give an integer of at least 1, or None")


def limit_threads(threads: int) -> None:
    """Set what is loaded of FAISS, torch and BLAS to so many threads, for this process."""
    limit_this_thread(threads)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # then numpy's BLAS keeps what its environment variables say
        return
    threadpool_limits(threads)


def limit_this_thread(threads: int) -> None:
    """Set OpenMP of FAISS to so many threads: it keeps one number for each calling thread."""
    if "faiss" in sys.modules:
        import faiss

        faiss.omp_set_num_threads(threads)


def is_forked_child() -> bool:
    """Whether this process was forked from one that may have used threads of these libraries."""
    if os.getpid() != _IMPORTED_BY:
        return True
    # Imported after the fork: the parent may have used torch or FAISS without this module.
    return (
        multiprocessing.parent_process() is not None
        and multiprocessing.get_start_method(allow_none=True) not in _FRESH_STARTS
    )


class ProcessThreads:
    """The thread count that one object computes with.

    Args:
        threads: what was asked for; None leaves the libraries as they are.

    Raises:
        UsageError: it is no integer of at least 1.
    """

    def __init__(self, threads: int | None) -> None:
        check_threads(threads)
        self.threads = threads
        self._limited: tuple[int, bool] | None = None

    def apply(self) -> None:
        """Before a computation: see that its libraries use as many threads as they may."""
        threads = 1 if is_forked_child() else self.threads
        if threads is None:
            return
        state = (os.getpid(), "torch" in sys.modules)
        if self._limited != state:
            limit_threads(threads)
            self._limited = state
        limit_this_thread(threads)


class ProcessLock:
    """A lock that a forked child starts with open: who held it there does not exist any more."""

    def __init__(self) -> None:
        self._own = (os.getpid(), threading.Lock())

    def __enter__(self) -> None:
        process, lock = self._own
        if process != os.getpid():
            lock = threading.Lock()
            self._own = (os.getpid(), lock)
        lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._own[1].release()

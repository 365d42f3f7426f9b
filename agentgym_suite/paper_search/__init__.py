"""PaperSearch: find the papers that answer a research question, by searching and by citations.

``gymnasium.make("PaperSearch-v0")`` calls ``make``. Importing this package imports nothing heavy;
its names are loaded when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym

    from agentgym_suite.paper_search.env import PaperSearchEnv
    from agentgym_suite.paper_search.reward import PaperReward

__all__ = ["PaperReward", "PaperSearchEnv", "make"]


def make(
    data: Any = None, *, server_url: Any = None, token: str | None = None, **kwargs: Any
) -> gym.Env[str, str]:
    """The environment of ``PaperSearch-v0``: played here, or by a server.

    Args:
        data: queries by the name of a data set of the data home, a folder, or official files;
            None for the embedded literature.
        server_url: address of an environment server, or several; None plays in this process.
        token: the server's bearer token.
        kwargs: arguments of ``PaperSearchEnv``; with a server also those of ``make_remote``.

    Raises:
        UsageError: ``data`` is given together with a server, or an argument is wrong.
    """
    if server_url is None:
        from agentgym_suite.arguments import refuse_unknown
        from agentgym_suite.paper_search.env import PaperSearchEnv

        refuse_unknown(kwargs, make, PaperSearchEnv.__init__)
        return PaperSearchEnv(data, **kwargs)
    from agentgym_suite.paper_search.actions import CODEC
    from agentgym_suite.remote import make_remote

    return make_remote("PaperSearch-v0", server_url, data=data, codec=CODEC, token=token, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "PaperSearchEnv":
        from agentgym_suite.paper_search.env import PaperSearchEnv

        return PaperSearchEnv
    if name == "PaperReward":
        from agentgym_suite.paper_search.reward import PaperReward

        return PaperReward
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

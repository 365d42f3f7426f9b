"""MultiHopQA: answer questions whose facts lie in several passages that must be searched.

``gymnasium.make("MultiHopQA-v0")`` calls ``make``. Importing this package imports nothing heavy;
its names are loaded when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym

    from agentgym_suite.multihop_qa.env import MultiHopQAEnv
    from agentgym_suite.multihop_qa.reward import QAReward

__all__ = ["MultiHopQAEnv", "QAReward", "make"]


def make(
    data: Any = None, *, server_url: Any = None, token: str | None = None, **kwargs: Any
) -> gym.Env[str, str]:
    """The environment of ``MultiHopQA-v0``: played here, or by a server.

    Args:
        data: questions by the name of a data set of the data home, a folder, or official files;
            None for the embedded encyclopedia.
        server_url: address of an environment server, or several; None plays in this process.
        token: the server's bearer token.
        kwargs: arguments of ``MultiHopQAEnv``; with a server also those of ``make_remote``.

    Raises:
        UsageError: ``data`` is given together with a server, or an argument is wrong.
    """
    if server_url is None:
        from agentgym_suite.arguments import refuse_unknown
        from agentgym_suite.multihop_qa.env import MultiHopQAEnv

        refuse_unknown(kwargs, make, MultiHopQAEnv.__init__)
        return MultiHopQAEnv(data, **kwargs)
    from agentgym_suite.multihop_qa.actions import CODEC
    from agentgym_suite.remote import make_remote

    return make_remote("MultiHopQA-v0", server_url, data=data, codec=CODEC, token=token, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "MultiHopQAEnv":
        from agentgym_suite.multihop_qa.env import MultiHopQAEnv

        return MultiHopQAEnv
    if name == "QAReward":
        from agentgym_suite.multihop_qa.reward import QAReward

        return QAReward
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

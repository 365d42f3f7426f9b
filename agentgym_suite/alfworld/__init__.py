"""ALFWorld: do a chore in a household that answers in words.

``gymnasium.make("ALFWorld-v0")`` calls ``make``. Importing this package imports nothing heavy; its
names are loaded when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym

    from agentgym_suite.alfworld.env import ALFWorldEnv

__all__ = ["ALFWorldEnv", "make"]


def make(
    data: Any = None, *, server_url: Any = None, token: str | None = None, **kwargs: Any
) -> gym.Env[str, str]:
    """The environment of ``ALFWorld-v0``: played here, or by a server.

    Args:
        data: folder or files of official games; None for the embedded households.
        server_url: address of an environment server, or several; None plays in this process.
        token: the server's bearer token.
        kwargs: arguments of ``ALFWorldEnv``; with a server also those of ``make_remote``.

    Raises:
        UsageError: if ``data`` is given together with a server, or an argument is wrong.
    """
    if server_url is None:
        from agentgym_suite.alfworld.env import ALFWorldEnv
        from agentgym_suite.arguments import refuse_unknown

        refuse_unknown(kwargs, make, ALFWorldEnv.__init__)
        return ALFWorldEnv(data, **kwargs)
    from agentgym_suite.alfworld.commands import CODEC
    from agentgym_suite.remote import make_remote

    return make_remote("ALFWorld-v0", server_url, data=data, codec=CODEC, token=token, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "ALFWorldEnv":
        from agentgym_suite.alfworld.env import ALFWorldEnv

        return ALFWorldEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""WebShop: buy the product that a customer describes.

``gymnasium.make("WebShop-v0")`` calls ``make``. Importing this package imports nothing heavy; its
names are loaded when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym

    from agentgym_suite.webshop.env import WebShopEnv

__all__ = ["WebShopEnv", "make"]


def make(
    data: Any = None, *, server_url: Any = None, token: str | None = None, **kwargs: Any
) -> gym.Env[str, str]:
    """The environment of ``WebShop-v0``: played here, or by a server.

    Args:
        data: a data set of the data home by name, or a folder of official files or of a built
            store; None for the embedded catalogue.
        server_url: address of an environment server, or several; None plays in this process.
        token: the server's bearer token.
        kwargs: arguments of ``WebShopEnv``; with a server also those of ``make_remote``.

    Raises:
        DataMissing: there is no such data set or folder.
        UsageError: ``data`` is given together with a server, or an argument is wrong.
    """
    if server_url is None:
        from agentgym_suite.arguments import refuse_unknown
        from agentgym_suite.webshop.env import WebShopEnv

        refuse_unknown(kwargs, make, WebShopEnv.__init__)
        return WebShopEnv(data, **kwargs)
    from agentgym_suite.remote import make_remote
    from agentgym_suite.webshop.actions import CODEC

    return make_remote("WebShop-v0", server_url, data=data, codec=CODEC, token=token, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "WebShopEnv":
        from agentgym_suite.webshop.env import WebShopEnv

        return WebShopEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

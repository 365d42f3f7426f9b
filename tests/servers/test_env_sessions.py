from __future__ import annotations

from typing import Any, cast

import pytest

from agentgym_suite.servers.env_sessions import EnvSession
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.problems import Problem


class Refusing:
    """Stands in for ``Served``; a number that is too large for C raises OverflowError."""

    env_id = "Refusing-v0"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def make(self, kwargs: Any) -> None:
        raise self._error


@pytest.mark.parametrize("error", [TypeError("t"), ValueError("v"), OverflowError("o")])
def test_arguments_that_do_not_fit_are_the_clients_fault(error: Exception) -> None:
    served = cast(Served, Refusing(error))
    with pytest.raises(Problem) as caught:
        EnvSession(served, {"num_prev_obs": 10**20}).make()
    assert (caught.value.slug, caught.value.fields["field"]) == ("invalid", "env_kwargs")
    with pytest.raises(type(error)):  # without any, it is the server's own
        EnvSession(served, {}).make()

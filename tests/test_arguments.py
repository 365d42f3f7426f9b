"""Arguments that nothing takes: named, with the nearest that there is."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym_suite.arguments import refuse_unknown
from agentgym_suite.errors import UsageError


class Shop:
    def __init__(self, data: str, *, goals: int = 0, **rest: Any) -> None: ...


def opened(place: str, *, token: str = "") -> None: ...


def test_arguments_of_any_taker_pass() -> None:
    refuse_unknown(["data", "goals", "place", "token"], Shop.__init__, opened)
    refuse_unknown([], opened)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gaols", "no argument 'gaols'; did you mean 'goals'?"),
        ("zzz", "no argument 'zzz'; choose data, goals, place, token"),
        ("self", "no argument 'self'"),
        ("rest", "no argument 'rest'"),
    ],
)
def test_others_are_refused_with_advice(name: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_unknown(["data", name], Shop.__init__, opened)
    assert says in str(refused.value)

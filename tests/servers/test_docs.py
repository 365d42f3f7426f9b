"""The page on servers names what there is: every route, every error, every field."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.routing import Route

from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from agentgym_suite.servers.problems import PROBLEMS
from agentgym_suite.servers.protocol import (
    CREATE_FIELDS,
    RENEW_FIELDS,
    RESET_FIELDS,
    STEP_FIELDS,
    EnvProtocol,
)
from tests.servers.counting_server import ENV_ID

PAGE = Path(__file__).parents[2] / "docs" / "servers.md"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not here")


def test_every_route_and_its_methods() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for route in EnvProtocol(EnvHost([Served(ENV_ID)], Limits())).routes:
        assert isinstance(route, Route) and route.methods
        path = route.path.replace("{session_id}", "{id}")
        if path.startswith("/v1"):
            for method in route.methods - {"HEAD"}:
                assert f"`{method} {path}" in page
        else:
            assert f"`{path}`" in page


def test_every_error_in_the_row_of_its_status() -> None:
    rows = PAGE.read_text(encoding="utf-8").splitlines()
    for slug, (status, _) in PROBLEMS.items():
        assert any(f"`{slug}`" in row and str(status) in row.split("|")[1] for row in rows), slug


def test_every_field_of_a_request() -> None:
    rows = [row for row in PAGE.read_text(encoding="utf-8").splitlines() if "`POST /v1" in row]
    for call, fields in (
        ("sessions`", CREATE_FIELDS),
        ("reset`", RESET_FIELDS),
        ("step`", STEP_FIELDS),
        ("renew`", RENEW_FIELDS),
    ):
        (row,) = (row for row in rows if row.split("|")[1].strip().endswith(call))
        for name, field in fields.items():
            assert f"`{name}`{'' if field.required else '?'}" in row.split("|")[2]

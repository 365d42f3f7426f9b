"""The page's files as the server hands them out, and what they may not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from agentgym_suite.servers.env_app import env_app
from agentgym_suite.servers.env_page import PAGE_PATHS, page_routes
from agentgym_suite.servers.env_specs import Served
from agentgym_suite.servers.hosting import EnvHost, Limits
from tests.servers.counting_server import ENV_ID, register
from tests.servers.in_process import running
from tests.servers.protocol_calls import slug

register()
TYPES = {
    "/": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    app = env_app(EnvHost([Served(ENV_ID)], Limits()), token="secret")
    with (
        running(app) as transport,
        httpx.Client(transport=transport, base_url="http://localhost") as client,
    ):
        yield client


@pytest.fixture(scope="module")
def files(client: httpx.Client) -> dict[str, str]:
    return {path: client.get(path).text for path in PAGE_PATHS}


def scripts(files: dict[str, str]) -> str:
    return "\n".join(text for path, text in files.items() if path.endswith(".js"))


@pytest.mark.parametrize("path", PAGE_PATHS)
def test_files_need_no_token_and_run_nothing_foreign(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == TYPES[path.rpartition(".")[2]]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'"} <= set(policy)
    assert {"style-src 'self'", "form-action 'none'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert client.head(path).headers["Content-Length"] == str(len(answer.content))


def test_everything_else_needs_the_token(client: httpx.Client) -> None:
    for path in ("/v1/info", "/v1/sessions", "/static/", "/static/../v1/info", "/templates/x"):
        assert slug(client.get(path)) == "unauthorized"
    for path in ("/static/shop.css", "/static/env_page.py"):
        answer = client.get(path, headers={"Authorization": "Bearer secret"})
        assert answer.status_code == 404
    assert client.post("/").status_code == 405


def test_the_page_asks_for_nothing_that_needs_a_token(files: dict[str, str]) -> None:
    wanted = set(re.findall(r'(?:src|href)="(?!data:)([^"]*)"', files["/"]))
    wanted |= {f"static/{name}" for name in re.findall(r'from "\./([^"]+)"', scripts(files))}
    assert {f"/{path}" for path in wanted} == set(PAGE_PATHS) - {"/"}


def test_the_page_has_no_inline_code_and_no_foreign_address(files: dict[str, str]) -> None:
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]* src=)", files["/"])
    for text in files.values():
        assert not re.search(r"https?:|[\"'(]//|@import|url\(", text)


def test_scripts_make_no_markup_and_keep_nothing(files: dict[str, str]) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
        r"|localStorage|sessionStorage|indexedDB|\.cookie|\blocation\b|history\.\w+State"
    )
    assert not re.search(forbidden, scripts(files))


def test_scripts_find_every_element_that_they_name(files: dict[str, str]) -> None:
    named = set(re.findall(r'(?:\$|onSubmit)\("([^"]+)"', scripts(files)))
    there = re.findall(r'\sid="([^"]+)"', files["/"])
    assert len(there) == len(set(there))
    assert named and named <= set(there)


def test_each_application_reads_the_files_itself() -> None:
    first, second = page_routes(), page_routes()
    assert len(first) == len(second) == len(PAGE_PATHS)
    assert not {id(route) for route in first} & {id(route) for route in second}

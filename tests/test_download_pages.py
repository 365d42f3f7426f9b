"""Pages that come where a file was asked for are told from files."""

from __future__ import annotations

from agentgym_suite.download_pages import confirmed_address, looks_like_page, page_title


def test_pages_are_told_from_files() -> None:
    assert looks_like_page("text/HTML; charset=x", b"[]")
    assert looks_like_page("", b"\xef\xbb\xbf\n <!DocType HTML>")
    assert looks_like_page("", b"<html lang=en>")
    assert not looks_like_page("application/json", b'[{"name": "<html>"}]')
    assert not looks_like_page("", b"")
    assert page_title("<title>a\n  b</title><title></title>") == "a b"
    assert len(page_title(f"<title>{'x' * 500}</title>")) == 80
    assert confirmed_address("<form action='/x'><input name=q></form>", "http://h/") is None
    assert confirmed_address("<a href='javascript:x?confirm=1'>x</a>", "http://h/") is None

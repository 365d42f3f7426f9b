"""Reads an HTML page as the original's parser did: visible text nodes and elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from agentgym_suite.webshop.segments import visible_text

_VOID = {"meta", "link", "br", "img", "input", "hr"}
_UNSEEN = {"style", "script", "head", "title", "meta", ""}


@dataclass
class Element:
    """One element: its name, attributes, the texts directly inside, and its parent."""

    name: str
    attributes: dict[str, str]
    parent: Element | None
    texts: list[str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @property
    def ancestors(self) -> list[Element]:
        return [] if self.parent is None else [self.parent, *self.parent.ancestors]


class ParsedPage(HTMLParser):
    """A parsed page; fails on tags that are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self._open = Element("", {}, None)
        self._text = ""
        self.elements: list[Element] = []
        self.nodes: list[tuple[str, Element]] = []
        self.feed(html)
        self.close()
        self._end_text()
        assert self._open.parent is None, f"<{self._open.name}> is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end_text()
        element = Element(tag, {name: value or "" for name, value in attrs}, self._open)
        self.elements.append(element)
        if tag not in _VOID:
            self._open = element

    def handle_endtag(self, tag: str) -> None:
        self._end_text()
        assert tag == self._open.name, f"</{tag}> closes <{self._open.name}>"
        assert self._open.parent is not None
        self._open = self._open.parent

    def handle_decl(self, decl: str) -> None:
        self._end_text()

    def handle_data(self, data: str) -> None:
        self._text += data

    def _end_text(self) -> None:
        text, self._text = visible_text(self._text), ""
        if text and self._open.name not in _UNSEEN:
            self._open.texts.append(text)
            self.nodes.append((text, self._open))

    @property
    def texts(self) -> list[str]:
        return [text for text, _ in self.nodes]

    def by_id(self, name: str) -> Element:
        (element,) = [e for e in self.elements if e.attributes.get("id") == name]
        return element

    def by_class(self, name: str) -> list[Element]:
        return [e for e in self.elements if name in e.classes]

    def by_name(self, name: str) -> list[Element]:
        return [e for e in self.elements if e.name == name]

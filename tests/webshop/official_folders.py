"""Folders of official files with a few products, written for one test each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def record(asin: str, **changes: Any) -> dict[str, Any]:
    """A raw product record; ``changes`` are fields."""
    fields: dict[str, Any] = {
        "asin": asin,
        "name": f"Shirt {asin}",
        "full_description": "A shirt.",
        "small_description": ["soft", ""],
        "pricing": "$19.99",
        "images": [f"https://images.example/{asin}.jpg"],
        "category": "fashion",
        "query": " Men's Shirts ",
        "product_category": "Clothing › Men › Shirts",
        "customization_options": {
            "Size": [{"value": "Small"}, {"value": "W/ hood"}],
            "Color": [{"value": "red", "image": "https://images.example/red.jpg"}],
            "Style": None,
        },
        "average_rating": "",
        "page": 3,
    }
    return fields | changes


def entry(*attributes: str, instruction: str | None = None) -> dict[str, Any]:
    """An entry of the attributes file, all attributes asked for if there is an instruction."""
    found: dict[str, Any] = {"attributes": list(attributes)}
    if instruction is not None:
        found |= {"instruction": instruction, "instruction_attributes": list(attributes)}
    return found


def human(text: str, attributes: list[str], options: list[str]) -> dict[str, Any]:
    """One human instruction."""
    return {
        "instruction": text,
        "instruction_attributes": attributes,
        "instruction_options": options,
    }


def write_folder(
    folder: Path,
    records: list[Any],
    attributes: dict[str, Any] | None = None,
    instructions: dict[str, Any] | None = None,
    nouns: dict[str, list[str]] | None = None,
) -> Path:
    """Write the official files of a catalogue; absent ones are not written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in (
        ("items_shuffle.json", records),
        ("items_ins_v2.json", attributes),
        ("items_human_ins.json", instructions),
    ):
        if value is not None:
            (folder / name).write_text(json.dumps(value), "utf-8")
    if nouns is not None:
        lines = (json.dumps({"asin": asin, "nouns": words}) for asin, words in nouns.items())
        (folder / "title_nouns.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def shirts(count: int) -> tuple[list[Any], dict[str, Any]]:
    """So many products with two synthetic goals each, and their attributes file."""
    asins = [f"B{number:09d}" for number in range(count)]
    records = [
        record(asin, name=f"Cotton shirt number {number}", pricing=f"${number % 90 + 5}.50")
        for number, asin in enumerate(asins)
    ]
    attributes = {
        asin: entry("machine wash", f"trait {number % 3}", instruction=f"find shirt {number}")
        for number, asin in enumerate(asins)
    }
    return records, attributes

"""Invented rows in every official format, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]

HOTPOT: Row = {
    "_id": "5adf00000000000000000001",
    "question": "Which river does the birthplace of Odrin Vale lie on?",
    "answer": 'Morne" Upper',
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Odrin Vale", 1], ["Tessaly", 0]],
    "context": [
        ["Odrin Vale", ["Odrin Vale is a writer.", " He was born in Tessaly."]],
        [" Tessaly ", ["Tessaly lies on the Morne."]],
        ["Empty", ["", " "]],
    ],
}
HOTPOT_HUB: Row = {
    "id": "5adf00000000000000000002",
    "question": "Is Harrow larger than Tessaly?",
    "answer": "yes",
    "type": "comparison",
    "level": "easy",
    "supporting_facts": {"title": ["Harrow", "Tessaly"], "sent_id": [0, 0]},
    "context": {
        "title": ["Harrow", "Tessaly"],
        "sentences": [["Harrow is large."], ["Tessaly lies on the Morne."]],
    },
}
TWOWIKI: Row = {
    "_id": "8813f87c0bdd11eba7f7acde48001122",
    "type": "bridge_comparison",
    "question": "Which film has the older director, Grey Lantern or Red Lantern?",
    "answer": "Grey Lantern",
    "answer_id": "Q1",
    "entity_ids": "Q1_Q2",
    "supporting_facts": [["Grey Lantern", 0]],
    "context": [["Grey Lantern", ["A film.", "By Odrin Vale."]]],
    "evidences": [
        ["Grey Lantern", "director", "Odrin Vale"],
        ["Odrin Vale", "date of birth", "1 May 1900"],
    ],
    "evidences_id": [["Q1", "director", "Q3"], ["Q3", "date of birth", "Q9"]],
}
ALIASES: list[Row] = [
    {"Q_id": "Q1", "aliases": ["The Grey Lantern", "Grey Lantern"], "demonyms": []},
    {"Q_id": "Q3", "aliases": ["O. Vale"], "demonyms": ["Valean"]},
    {"Q_id": "Q7", "aliases": [], "demonyms": []},
]
MUSIQUE: Row = {
    "id": "3hop1__11_22_33",
    "paragraphs": [
        {"idx": 0, "title": "Harrow", "paragraph_text": "A port.", "is_supporting": True},
        {"idx": 1, "title": "Odrin Vale", "paragraph_text": "A writer.", "is_supporting": True},
        {"idx": 2, "title": "Tessaly", "paragraph_text": "A town.", "is_supporting": False},
        {"idx": 3, "title": "Tessaly", "paragraph_text": "A ship.", "is_supporting": True},
    ],
    "question": "Who governs the port below the town of Odrin Vale?",
    "question_decomposition": [
        {"id": 1, "question": "Odrin Vale >> town", "answer": "T", "paragraph_support_idx": 1},
        {"id": 2, "question": "port below #1", "answer": "Harrow", "paragraph_support_idx": 3},
        {"id": 3, "question": "who governs #2", "answer": "Ilse", "paragraph_support_idx": 0},
    ],
    "answer": "Ilse Dorn",
    "answer_aliases": ["Ilse", "Ilse Dorn"],
    "answerable": True,
}
FLASHRAG: Row = {
    "id": "test_0",
    "question": "who wrote grey lantern",
    "golden_answers": ["Odrin Vale", "Vale", "Odrin Vale"],
    "metadata": {"type": "bridge", "level": "easy"},
}
NQ_OPEN: Row = {"question": "when was harrow built", "answer": ["14 May 1900", "May 1900"]}
BAMBOOGLE: Row = {"id": "bamboogle_1", "question": "Who ruled Harrow?", "answer": ["ilse dorn"]}
SEARCH_R1: Row = {
    "id": "test_7",
    "data_source": "nq",
    "prompt": [
        {
            "role": "user",
            "content": "Answer the given question. You must reason inside <think> and </think>. "
            "Question: what does Question: mean?\n",
        }
    ],
    "ability": "fact-reasoning",
    "reward_model": {"style": "rule", "ground_truth": {"target": ["asking", "to ask"]}},
    "extra_info": {"split": "test", "index": 7},
}
VERL: Row = {
    "data_source": "searchR1_hotpotqa",
    "prompt": [
        {"role": "system", "content": "Call tools in <tool_call>. Question: no"},
        {"role": "user", "content": "Answer it. Question: where is harrow?"},
    ],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["in the south"]}},
    "extra_info": {
        "split": "test",
        "index": 3,
        "tools_kwargs": {"search": {"create_kwargs": {"question": "where is harrow?"}}},
    },
}


def variant(row: Row, **changes: Any) -> Row:
    """A copy of a row with some fields changed; None removes one."""
    changed = {**row, **changes}
    return {key: value for key, value in changed.items() if value is not None}


def write_list(path: Path, rows: Iterable[Row]) -> Path:
    """A JSON list, one row a line."""
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[\n{text}\n]\n", "utf-8")
    return path


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), "utf-8")
    return path

"""The episodes that a report's trajectory viewer carries, as one JSON text.

The text stands in a script block of the page as data; nothing in it can end that block.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of, planned_keys
from agentgym_suite.evaluation.long_texts import LongTexts
from agentgym_suite.evaluation.records import TextReference
from agentgym_suite.evaluation.run_directory import EPISODES, OBSERVATIONS, read_records
from agentgym_suite.evaluation.run_header import read_run

MAX_BYTES = 20_000_000
_LONGEST_TEXT = 20_000  # characters of one text shown; the record keeps all of it


@dataclass(frozen=True, slots=True)
class ViewerData:
    """What the viewer shows.

    Attributes:
        json: a JSON list of episodes, safe inside a script block.
        shown: how many episodes it holds.
        total: how many the runs hold.
    """

    json: str
    shown: int
    total: int


def viewer_data(
    folders: Sequence[tuple[str, Path]], *, max_bytes: int = MAX_BYTES, seed: int = 0
) -> ViewerData:
    """Every episode of the runs, or, above the size bound, failures first and a seeded sample.

    Args:
        folders: (label, run directory), in the order of the report.
        max_bytes: most bytes of the JSON text.
        seed: of the sample.
    """
    sizes, solved = [], []
    for episode in _episodes(folders):
        sizes.append(len(_script_json(episode).encode("utf-8")) + 1)
        solved.append(episode["success"])
    order = list(range(len(sizes)))
    if sum(sizes) > max_bytes:
        random.Random(seed).shuffle(order)
        order.sort(key=lambda number: solved[number])  # stable: failures first, each part shuffled
    chosen, room = set(), max_bytes
    for number in order:
        if sizes[number] <= room:
            chosen.add(number)
            room -= sizes[number]
    texts = [
        _script_json(episode)
        for number, episode in enumerate(_episodes(folders))
        if number in chosen
    ]
    return ViewerData("[" + ",\n".join(texts) + "]", len(texts), len(sizes))


def _episodes(folders: Sequence[tuple[str, Path]]) -> Iterator[dict[str, Any]]:
    """The episodes of each run, reduced to what is shown, in the suite's order."""
    for label, folder in folders:
        long_texts = LongTexts(folder / OBSERVATIONS)
        entries = read_run(folder)["suite"]["content"]["env"]
        planned = chain.from_iterable(planned_keys(entry) for entry in entries)
        place = {key: number for number, key in enumerate(planned)}
        keys = [key_of(record) for record in read_records(folder / EPISODES)]
        order = deque(sorted(keys, key=place.__getitem__))
        waiting: dict[EpisodeKey, dict[str, Any]] = {}
        for record in read_records(folder / EPISODES):
            waiting[key_of(record)] = _shown(label, record, long_texts)
            while order and order[0] in waiting:
                yield waiting.pop(order.popleft())


def _shown(label: str, record: dict[str, Any], long_texts: LongTexts) -> dict[str, Any]:
    key = record["key"]
    return {
        "agent": label,
        "env": key["env_id"],
        "task": key["task_id"],
        "trial": key["trial"],
        "family": record["task_family"],
        "split": record["split"],
        "seed": str(record["seed"]),  # 63 bits, more than a number of JavaScript holds
        "score": record["score"],
        "success": record["success"],
        "outcome": record["outcome"],
        "failure": record["failure"],
        "attempts": record["attempts"],
        "metrics": record["metrics"],
        "wall_s": record["wall_s"],
        "final_obs": _text(record["final_obs"], record["final_obs_ref"], long_texts),
        "steps": [
            {
                "obs": _text(step["obs"], step["obs_ref"], long_texts),
                "messages": _messages(step, long_texts),
                "reply": _cut(step["reply"]),
                "action": _cut(step["parsed_action"]),
                "valid": step["action_valid"],
                "error": step["action_error"],
                "reward": step["reward"],
                "state": step["state_hash"],
                "admissible": step["admissible_n"],
                "dropped": step["dropped_steps"],
                "cut": step["cut_characters"],
                "tokens": step["tokens"],
                "latency": step["latency_s"],
                "truncated": step["truncated"],
            }
            for step in record["steps"]
        ],
    }


def _messages(step: dict[str, Any], long_texts: LongTexts) -> list[dict[str, str]]:
    messages, reference = step["messages"] or [], step["messages_ref"]
    try:
        if reference is not None:
            messages = json.loads(long_texts.read(TextReference(**reference)))
        return [{"role": m["role"], "content": _cut(m["content"])} for m in messages]
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"the text at {reference['offset']} of {OBSERVATIONS} holds no messages; restore "
            "that file and its records"
        ) from error


def _text(text: str | None, reference: dict[str, Any] | None, long_texts: LongTexts) -> str:
    if reference is not None:
        text = long_texts.read(TextReference(**reference))
    return _cut(text or "")


def _cut(text: str) -> str:
    over = len(text) - _LONGEST_TEXT
    return text if over <= 0 else f"{text[:_LONGEST_TEXT]}\n[… {over:,} characters not shown]"


def _script_json(value: Any) -> str:
    """JSON that may stand in a script block: no ``<`` can end the block or open a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")

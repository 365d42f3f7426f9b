"""The episodes that a report's trajectory viewer carries, as one JSON text.

The text stands in a script block of the page as data; nothing in it can end that block.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym_suite.errors import RunError
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of, planned_keys
from agentgym_suite.evaluation.long_texts import LongTexts
from agentgym_suite.evaluation.run_directory import EPISODES, OBSERVATIONS, read_records
from agentgym_suite.evaluation.run_header import read_run
from agentgym_suite.evaluation.step_records import TextReference

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
    places = [_places(folder) for _, folder in folders]
    sizes: dict[_Place, tuple[int, bool]] = {}
    texts: dict[_Place, str] = {}
    total = 0
    for place, episode in _episodes(folders, places, lambda place: True):
        text = _script_json(episode)
        sizes[place] = len(text.encode("utf-8")) + 1, episode["success"]
        total += sizes[place][0]
        if total <= max_bytes:
            texts[place] = text
        else:  # not all of them fit: the chosen ones are made again below
            texts.clear()
    if total > max_bytes:
        chosen = _sampled(sizes, max_bytes, seed)
        found = _episodes(folders, places, chosen.__contains__)
        texts = {place: _script_json(episode) for place, episode in found}
    shown = [texts[place] for place in sorted(texts)]
    return ViewerData("[" + ",\n".join(shown) + "]", len(shown), len(sizes))


_Place = tuple[int, int]
"""Number of the run, number of the episode in its suite's plan."""


def _sampled(sizes: Mapping[_Place, tuple[int, bool]], max_bytes: int, seed: int) -> set[_Place]:
    """As many as there is room for, failures first, in a seeded order."""
    order = sorted(sizes)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda place: sizes[place][1])  # stable: each part stays shuffled
    chosen = set()
    for place in order:
        if sizes[place][0] <= max_bytes:
            chosen.add(place)
            max_bytes -= sizes[place][0]
    return chosen


def _places(folder: Path) -> dict[EpisodeKey, int]:
    entries = read_run(folder)["suite"]["content"]["env"]
    planned = chain.from_iterable(planned_keys(entry) for entry in entries)
    return {key: number for number, key in enumerate(planned)}


def _episodes(
    folders: Sequence[tuple[str, Path]],
    places: Sequence[Mapping[EpisodeKey, int]],
    wanted: Callable[[_Place], bool],
) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """The wanted episodes of each run, reduced to what is shown, as they were finished."""
    for number, (label, folder) in enumerate(folders):
        long_texts = LongTexts(folder / OBSERVATIONS)
        facts = {"agent": label, "tools": _sends_tools(read_run(folder))}
        for record in read_records(folder / EPISODES):
            place = number, places[number][key_of(record)]
            if wanted(place):
                yield place, {**facts, **_shown(record, long_texts)}


def _sends_tools(header: dict[str, Any]) -> bool:
    """Whether the environment's functions went with each request to the model."""
    config = header["config"]
    return config.get("reply_format") == "openai" and "decoding" in config["agent"]


def _shown(record: dict[str, Any], long_texts: LongTexts) -> dict[str, Any]:
    key = record["key"]
    return {
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
        "usd": record["cost"]["usd"],
        "metrics": record["metrics"],
        "wall_s": record["wall_s"],
        "final_obs": _text(record["final_obs"], record["final_obs_ref"], long_texts),
        "steps": _steps(record, long_texts),
        "earlier": [
            {
                "steps": _steps(before, long_texts),
                "final_obs": _text(before["final_obs"], before["final_obs_ref"], long_texts),
                "score": before["score"],
                "outcome": before["outcome"],
                "reflection": _cut(before["reflection"]),
                "tokens": before["reflection_tokens"],
            }
            for before in record["earlier_rounds"]
        ],
    }


def _steps(played: dict[str, Any], long_texts: LongTexts) -> list[dict[str, Any]]:
    """The steps of an episode, or of a round before it."""
    return [
        {
            "obs": _text(step["obs"], step["obs_ref"], long_texts),
            "messages": _messages(step, long_texts),
            "reply": _cut(step["reply"]),
            "calls": [[call["name"], _cut(_arguments(call))] for call in step["tool_calls"]],
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
        for step in played["steps"]
    ]


def _arguments(call: dict[str, Any]) -> str:
    """The arguments as JSON; as they came where the model wrote none."""
    arguments = call["arguments"]
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


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

"""What the policy reads: the complete state, or the bare results as other trainers show them.

The layout of the state is fixed, byte by byte, so that a policy that was trained on it meets the
same text later; ``steppo`` has that project's headers. ``search_r1``, ``verl`` and ``skyrl`` give
what these projects put between their information tags, or hand back as a tool's result.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from agentgym_suite.arguments import check_choice, check_count
from agentgym_suite.call_results import messages_of
from agentgym_suite.calls import split_lines
from agentgym_suite.files import Json
from agentgym_suite.multihop_qa.actions import ANSWER, SEARCH
from agentgym_suite.multihop_qa.reward import PassagePolicy
from agentgym_suite.multihop_qa.state import QAState, SeenPassage
from agentgym_suite.prompts import SEARCH_R1_INVALID

if TYPE_CHECKING:
    from agentgym_suite.indexes.passages import Found

ObservationFormat = Literal["state", "steppo", "search_r1", "verl", "skyrl"]
WHOLE_STATE: tuple[ObservationFormat, ...] = ("state", "steppo")
_LONGEST = 1_000_000
_NONE = "None"
_BETWEEN_SEARCHES = "\n---\n"


@dataclass(frozen=True, slots=True)
class Layout:
    """How observations are written.

    Attributes:
        format: ``state``, the same under the headers of ``steppo``, or whose bare results.
        passage_chars: most characters of a passage's text.
        observation_chars: most characters of the passages together.
        passage_policy: which passages give way beyond that.

    Raises:
        UsageError: a name is unknown, or a number out of its bounds.
    """

    format: ObservationFormat = "state"
    passage_chars: int = 1200
    observation_chars: int = 32768
    passage_policy: PassagePolicy = "keep_newest"

    def __post_init__(self) -> None:
        check_choice("observation_format", self.format, get_args(ObservationFormat))
        for name, least in (("passage_chars", 1), ("observation_chars", 100)):
            number = check_count(name, getattr(self, name), least, _LONGEST)
            object.__setattr__(self, name, number)  # numpy's have no form in JSON
        check_choice("passage_policy", self.passage_policy, get_args(PassagePolicy))

    def told(self) -> dict[str, Json]:
        """Every number, for provenance."""
        return {
            "observation_format": self.format,
            "passage_chars": self.passage_chars,
            "observation_chars": self.observation_chars,
            "passage_policy": self.passage_policy,
        }


@dataclass(frozen=True, slots=True)
class Ahead:
    """What may still be done.

    Attributes:
        steps_left: after this observation; None without a horizon.
        max_calls: searches of one step; 0 where the next step takes an answer only.
        over: whether the episode has ended.
    """

    steps_left: int | None
    max_calls: int
    over: bool = False


def write_observation(state: QAState, layout: Layout, ahead: Ahead, *, first: bool) -> str:
    """The observation after a reset (``first``) or a step."""
    if layout.format == "state":
        return write_state(state, layout, ahead)
    if layout.format == "steppo":
        return write_steppo_state(state, layout)
    if first:
        return state.question.question
    return _bare_results(state, layout.format)


def write_state(state: QAState, layout: Layout, ahead: Ahead) -> str:
    """The five parts of the state, an empty line between them."""
    return "\n\n".join(
        (
            f"Question: {one_line(state.question.question)}",
            _part("Earlier searches:", _history(state)),
            _part("Passages:", _passages(state, layout)),
            _part("Feedback:", messages_of(state.results)),
            _part("Calls:", _calls(ahead)),
        )
    )


def write_steppo_state(state: QAState, layout: Layout) -> str:
    """The parts of the state under the headers of StepPO's step prompt, without the calls."""
    return "\n\n".join(
        (
            _part("### User Query", [one_line(state.question.question)]),
            _part("### History Actions", _history(state)),
            _part("### Retrieved Passages", _passages(state, layout)),
            _part("### Recent tool / format issues", messages_of(state.results)),
        )
    )


def one_line(text: str) -> str:
    """Text whose line ends are blanks."""
    return " ".join(split_lines(text))


def _part(header: str, lines: Sequence[str]) -> str:
    return "\n".join((header, *(lines or [_NONE])))


def _history(state: QAState) -> list[str]:
    return [f"[Search] {query}" for query in state.queries]


def _calls(ahead: Ahead) -> list[str]:
    if ahead.over:
        return []
    left = "no limit" if ahead.steps_left is None else str(ahead.steps_left)
    lines = [f"{ANSWER}[short answer]: ends the episode", f"Steps left: {left}"]
    if ahead.max_calls:
        lines.insert(0, f"{SEARCH}[query]: at most {ahead.max_calls} per step")
    return lines


# ---------------------------------------------------------------------- passages of the state


def _passages(state: QAState, layout: Layout) -> list[str]:
    entries = [
        _entry(number, seen, layout.passage_chars) for number, seen in enumerate(state.passages, 1)
    ]
    if _size(entries) <= layout.observation_chars:
        return entries
    if layout.passage_policy == "keep_first":
        return _first_ones(entries, layout.observation_chars)
    newest = state.latest or {len(entries) - 1}
    return _newest_ones(entries, newest, layout.observation_chars)


def _entry(number: int, seen: SeenPassage, most: int) -> str:
    title, text = one_line(seen.passage.title), one_line(seen.passage.text)[:most]
    return f"[{number}] (query: {seen.query}) {title}: {text}"


def _size(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + max(0, len(lines) - 1)


def _first_ones(entries: list[str], budget: int) -> list[str]:
    """The published code: what comes too late is not shown."""
    kept = len(entries)
    size = _size(entries) + 1
    while True:
        kept -= 1
        size -= len(entries[kept]) + 1
        marker = f"... ({len(entries) - kept} more passages truncated)"
        if size + len(marker) <= budget or not kept:
            return [*entries[:kept], marker]


def _newest_ones(entries: list[str], newest: Collection[int], budget: int) -> list[str]:
    """Older passages go first; those of the last search stay, cut evenly where they must be."""
    older = [place for place in range(len(entries)) if place not in newest]
    size = _size(entries) + 1
    gone: set[int] = set()
    note = ""
    for place in older:
        gone.add(place)
        size -= len(entries[place]) + 1
        note = f"({len(gone)} earlier passages not shown)"
        if size + len(note) <= budget:
            break
    kept = [entry for place, entry in enumerate(entries) if place not in gone]
    notes = [note] if note else []
    room = budget - _size([*notes, *[""] * len(kept)])
    most = _even_length([len(entry) for entry in kept], room)
    return [*notes, *(entry[:most] for entry in kept)]


def _even_length(lengths: Sequence[int], room: int) -> int:
    """The greatest length to which all can be cut so that together they fit."""
    ascending = sorted(lengths)
    for done, length in enumerate(ascending):
        share = room // (len(ascending) - done)
        if length > share:
            return max(0, share)
        room -= length
    return ascending[-1]


# ------------------------------------------------------------------------------- bare results


def _bare_results(state: QAState, format: ObservationFormat) -> str:
    """The results of the last step's searches; feedback where nothing was searched."""
    if format == "verl":
        told = _BETWEEN_SEARCHES.join(map(verl_documents, state.found)) or _told(state)
        return json.dumps({"result": told}, ensure_ascii=False)
    write = search_r1_documents if format == "search_r1" else skyrl_documents
    if state.found:
        return _BETWEEN_SEARCHES.join(write(found).strip() for found in state.found)
    return _told(state)


def _told(state: QAState) -> str:
    if state.results and all(result.status == "malformed" for result in state.results):
        return SEARCH_R1_INVALID.strip()
    return "\n".join(messages_of(state.results))


def search_r1_documents(found: Sequence[Found]) -> str:
    """Results as Search-R1 writes them; the title keeps the quotes that ``contents`` has."""
    parts = (one.passage.contents.partition("\n") for one in found)
    return "".join(
        f"Doc {number}(Title: {title}) {text}\n" for number, (title, _, text) in enumerate(parts, 1)
    )


def verl_documents(found: Sequence[Found]) -> str:
    """Results as verl's search tool writes them."""
    parts = (one.passage.contents.partition("\n") for one in found)
    return "".join(
        f"Doc {number} (Title: {title})\n{text}\n\n"
        for number, (title, _, text) in enumerate(parts, 1)
    ).strip()


def skyrl_documents(found: Sequence[Found]) -> str:
    """Results as SkyRL's and verl-agent's search environments write them."""
    return "".join(
        f"Doc {number}: {one.passage.contents.strip()}\n" for number, one in enumerate(found, 1)
    )

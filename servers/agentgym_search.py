"""What AgentGym's SearchQA and Academia clients are told: questions by AgentGym's item numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from agentgym_suite.multihop_qa.actions import CODEC
from agentgym_suite.multihop_qa.question_set import QuestionSet
from agentgym_suite.multihop_qa.searchqa_items import (
    SEARCHQA_ITEMS,
    SearchQAItem,
    find_searchqa_item,
)
from agentgym_suite.prompts import SEARCH_R1_INVALID, PromptInput, prompt_template
from agentgym_suite.replies import parse_reply
from agentgym_suite.servers.agentgym_calls import ACTION, ID, Call
from agentgym_suite.servers.agentgym_sessions import Seats, Turn
from agentgym_suite.servers.bodies import Field
from agentgym_suite.servers.problems import Problem

_ITEM = Field((int,), "an item's number or null", minimum=0)
_ONE = {"env_idx": ID}
_CREATE = {"id": _ITEM}
_RESET = {**_ONE, "id": _ITEM}
_STEP = {**_ONE, "action": ACTION}
# Search-R1 evaluates on the dev set of what has no test set with answers, and calls it test
_STORED_AS = {"test": ("test", "dev"), "train": ("train",)}


class _ItemDialect:
    """The calls that both have.

    Args:
        seats: the ids of the server.
    """

    name: ClassVar[str]
    env_id: ClassVar[str]
    kwargs: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, seats: Seats) -> None:
        self._seats = seats

    @property
    def calls(self) -> list[Call]:
        """The addresses."""
        return [
            Call("GET", "/", self.greet),
            Call("POST", "/create", self.create, _CREATE),
            Call("POST", "/reset", self.reset, _RESET),
            Call("POST", "/step", self.step, _STEP),
            Call("GET", "/observation", self.observation, _ONE),
            Call("POST", "/close", self.close, _ONE),
        ]

    async def greet(self, given: dict[str, Any]) -> str:
        """The server is there."""
        return "ok"

    async def create(self, given: dict[str, Any]) -> int:
        """A new id; the item is that of the reset, which every client posts."""
        return await self._seats.open(self.env_id, self.kwargs)

    async def reset(self, given: dict[str, Any]) -> str:
        """Begin an item; without a number one is drawn."""

        def choose(env: Any) -> dict[str, Any]:
            return {"task_id": self._task(env, given["id"])} if "id" in given else {}

        async with self._seats.at(given["env_idx"], self.env_id) as seat:
            return self._begun(await self._seats.reset(seat, given, choose))

    async def step(self, given: dict[str, Any]) -> dict[str, Any]:
        """Play a reply."""
        action = self._action(given["action"])
        async with self._seats.at(given["env_idx"], self.env_id) as seat:
            return self._told(await self._seats.step(seat, action))

    async def observation(self, given: dict[str, Any]) -> str:
        """The text that an episode begins with, or goes on with."""
        async with self._seats.at(given["env_idx"], self.env_id) as seat:
            return self._begun(seat.heard)

    async def close(self, given: dict[str, Any]) -> bool:
        """End the session; again if need be."""
        await self._seats.close(given["env_idx"], self.env_id)
        return True

    def _task(self, env: Any, number: int) -> int:
        """*Work*: the task that an item's number means."""
        return number

    def _begun(self, turn: Turn) -> str:
        return turn.observation

    def _action(self, reply: str) -> str:
        return reply

    def _told(self, turn: Turn) -> dict[str, Any]:
        return {"observation": turn.observation, "reward": turn.score, "done": turn.done}


class AcademiaDialect(_ItemDialect):
    """The calls of ``agentenv.envs.academia``, in which PaperSearch is played by its own grammar.

    An item is the number of a task.
    """

    name = "academia"
    env_id = "PaperSearch-v0"


class SearchQADialect(_ItemDialect):
    """The calls of ``agentenv.envs.searchqa``: a model's replies with Search-R1's tags.

    An item is a row of Search-R1's files if the server has one of their sets, else the number of a
    task. An answer ends the episode, right or wrong.
    """

    name = "searchqa"
    env_id = "MultiHopQA-v0"
    kwargs: ClassVar[Mapping[str, Any]] = {
        "reward": "search_r1",
        "scorer": "search_r1",
        "observation_format": "search_r1",
    }

    def __init__(self, seats: Seats) -> None:
        super().__init__(seats)
        self._items: dict[str, Items] = {}

    def _task(self, env: Any, number: int) -> int:
        questions: QuestionSet = env.questions
        if questions.digest not in self._items:
            self._items[questions.digest] = Items(questions)
        return self._items[questions.digest].position(number)

    def _begun(self, turn: Turn) -> str:
        question = str(turn.info["question"])
        prompt = PromptInput(goal=question, observation=question)
        return prompt_template("search_r1").write(prompt)[0].content

    def _action(self, reply: str) -> str:
        return parse_reply(reply, "search_r1", codec=CODEC).action

    def _told(self, turn: Turn) -> dict[str, Any]:
        observation = turn.observation.strip()
        if turn.done:
            observation = f"The answer is {'right' if turn.info['success'] else 'wrong'}."
        elif observation != SEARCH_R1_INVALID.strip():
            observation = f"<information>{observation}</information>"
        return {**super()._told(turn), "observation": observation, "info": None}


class Items:
    """The task that each item's number means among some questions.

    Args:
        questions: the questions of a server.
    """

    def __init__(self, questions: QuestionSet) -> None:
        self._dataset = questions.dataset
        stored = _places(questions)
        self._found: dict[tuple[str, str], Sequence[int]] = {}
        for item, rows in _stretches():
            for split in _STORED_AS[item.split]:
                there = stored.get((item.dataset, split), [])
                # a part of a set, or its test set without answers, has other rows
                if len(there) == rows and questions.question(there[0]).golds:
                    self._found[item.dataset, item.split] = there
                    break

    def position(self, number: int) -> int:
        """The number of the task.

        Raises:
            UnknownTask: there is no such item.
            Problem: ``no-task``: the server has other sets.
        """
        if not self._found:
            return number
        item = find_searchqa_item(number)
        there = self._found.get((item.dataset, item.split))
        if there is None:
            raise Problem(
                "no-task",
                f"item {number} is of {item.dataset} {item.split}, which is not whole here; this "
                f"server has {', '.join(' '.join(place) for place in self._found)}",
                field="id",
            )
        return there[item.row]


def _places(questions: QuestionSet) -> dict[tuple[str, str], list[int]]:
    """The positions of each data set's questions in each split, in the order of their file."""
    places: dict[tuple[str, str], list[int]] = {}
    for position, task_id in enumerate(questions.tasks.ids):
        dataset, split = task_id.split("/", 2)[:2]
        places.setdefault((dataset, split), []).append(position)
    return places


def _stretches() -> Iterator[tuple[SearchQAItem, int]]:
    """The first item of each set of AgentGym's numbers, and how many it has."""
    first = 0
    while first < SEARCHQA_ITEMS:
        item = find_searchqa_item(first)
        rows = bisect_left(
            range(SEARCHQA_ITEMS - first), True, key=lambda n: not _is_row(item, n, first)
        )
        yield item, rows
        first += rows


def _is_row(item: SearchQAItem, row: int, first: int) -> bool:
    other = find_searchqa_item(first + row)
    return (other.dataset, other.split) == (item.dataset, item.split)

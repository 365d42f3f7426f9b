"""A small game of the tests' own: count up to a target with ``add[n]``, ``say[text]`` echoes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_suite.calls import Call, CallCodec, Tool, parse_calls
from agentgym_suite.env import TextEnv, Transition
from agentgym_suite.game import Policy
from agentgym_suite.tasks import NumberedIds, Task, TaskSet


class CountingEnv(TextEnv):
    """Reach the task's number exactly."""

    remote_kwargs = ("split",)
    detail_keys = ("target", "total")
    codec = CallCodec((Tool("add", "adds", "n"), Tool("say", "echoes", "text")))
    policies: ClassVar[Mapping[str, Any]] = {"oracle": lambda env: _Oracle(env)}

    def __init__(self, split: str = "train", render_mode: str | None = None, **kwargs: Any) -> None:
        super().__init__(
            split=split, render_mode=render_mode, example_actions=("add[1]", "add[2]"), **kwargs
        )
        self.total = 0
        self.target = 0

    def _load_tasks(self) -> TaskSet:
        return TaskSet(
            NumberedIds("count", 20),
            {"train": range(10, 20), "test": range(10)},
            family=lambda i: "even" if i % 2 == 0 else "odd",
        )

    def _begin(self, task: Task) -> Transition:
        self.target, self.total = task.index + 1, 0
        return Transition(f"Count to {self.target}. é 你好 😀")

    def _play(self, action: str) -> Transition:
        call = next(iter(parse_calls(action, names=("add", "say"))), None)
        if not isinstance(call, Call):
            return self._refuse(action, "write add[n] or say[text]")
        if call.name == "say":
            return Transition(call.argument, parsed_action=action)
        if call.argument == "boom":
            raise RuntimeError("the machine broke")
        self.total += (
            int(call.argument) if call.argument.isascii() and call.argument.isdigit() else 0
        )
        won = self.total == self.target
        over = self.total >= self.target
        return Transition(f"{self.total} of {self.target}", float(won), over, parsed_action=action)

    def _refuse(self, action: str, error: str) -> Transition:
        return Transition(f"No: {error}.", error=error, parsed_action=action)

    def _admissible_actions(self) -> tuple[str, ...]:
        return ("add[1]", "add[2]", "add[3]")

    def _score(self) -> tuple[float, bool]:
        won = self.total == self.target and self.target > 0
        return float(won), won

    def _metrics(self) -> dict[str, float]:
        return {"total": float(self.total)}

    def _details(self) -> dict[str, Any]:
        return {"target": self.target, "total": self.total}

    def _state(self) -> str:
        return f'{{"target":{self.target},"total":{self.total}}}'

    def _provenance(self) -> Mapping[str, Any]:
        return {"data_digest": "sha256:none"}


class _Oracle(Policy):
    def __init__(self, env: CountingEnv) -> None:
        self._env = env

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        return f"add[{min(3, self._env.target - self._env.total)}]"

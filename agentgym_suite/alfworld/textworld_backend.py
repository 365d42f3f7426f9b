"""TextWorld behind the environment's interface: slow, but the original to compare with.

It runs in a process of its own (``textworld_worker``), so nothing of this process is touched and
environments in several threads never meet.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_suite.alfworld.game_files import read_bytes
from agentgym_suite.alfworld.game_index import GameRecord
from agentgym_suite.data import canonical_json
from agentgym_suite.errors import EnvError, MissingExtra, UsageError

_WORKER = Path(__file__).with_name("textworld_worker.py")
_VERSIONS = (
    "from importlib.metadata import version as v;"
    "print(*(f'{name} {v(name)}' for name in ('textworld', 'alfworld')), sep=', ')"
)


class TextWorldBackend:
    """One TextWorld process that plays one game after the other.

    Args:
        python: an interpreter that has textworld and alfworld; None is this one.

    Raises:
        MissingExtra: they are not installed there.
    """

    name = "textworld"

    def __init__(self, python: str | None = None) -> None:
        self._python = python or sys.executable
        self.version = self._ask_versions()
        self._process: subprocess.Popen[str] | None = None
        self._loaded = ""

    def load(self, record: GameRecord) -> TextWorldGame:
        """The game of a record; TextWorld reads it when it is started."""
        return TextWorldGame(self, record)

    def start(self, record: GameRecord) -> dict[str, Any]:
        """Begin an episode of a game; the first answer.

        Raises:
            DataMissing: the file vanished.
            DataDamaged: it is not the file that was indexed.
            EnvError: TextWorld could not load the game, or its process ended.
        """
        if self._loaded != record.path:
            self._loaded = ""
            read_bytes(record.path, record.id, record.sha256)  # the game that the index means
            self.ask(record, {"load": record.path})
            self._loaded = record.path
        return self.ask(record, {"reset": True})

    def ask(self, record: GameRecord, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            EnvError: TextWorld failed on it, or its process ended.
            MissingExtra: the process has no TextWorld.
        """
        process = self._process = self._process or self._launch()
        if process.stdin is None or process.stdout is None:
            raise EnvError("the TextWorld process has no pipes; report this as a bug")
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            self.close()
            raise EnvError(f"the TextWorld process ended in game {record.id}; reset to go on")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            self._loaded = ""
            if answer["missing"]:
                raise MissingExtra("textworld", "backend='textworld'")
            raise EnvError(f"TextWorld failed in game {record.id} ({answer['error']})")
        return answer

    def close(self) -> None:
        """End the process; may be called any number of times."""
        if self._process is not None:
            self._finalizer()
            self._process, self._loaded = None, ""

    def _launch(self) -> subprocess.Popen[str]:
        # -P: the worker's folder is a package of ours, whose modules must not shadow others
        process = subprocess.Popen(
            [self._python, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._finalizer = weakref.finalize(self, _end, process)
        return process

    def _ask_versions(self) -> str:
        try:
            answer = subprocess.run(
                [self._python, "-P", "-c", _VERSIONS], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise UsageError(
                f"{self._python} does not run ({error.strerror}): give a Python"
            ) from error
        if answer.returncode:
            raise MissingExtra("textworld", "backend='textworld'")
        return answer.stdout.strip()


class TextWorldGame:
    """A game that TextWorld plays.

    Args:
        backend: the process.
        record: the game.
    """

    def __init__(self, backend: TextWorldBackend, record: GameRecord) -> None:
        self.record = record
        self.goal = record.goal
        self.data_version = record.data_version
        self._backend = backend

    def start(self, shuffle: np.random.Generator | None = None) -> TextWorldPlay:
        """A new episode.

        Raises:
            UsageError: shuffled numbers were asked for.
            EnvError: TextWorld could not play the game.
        """
        if shuffle is not None:
            raise UsageError("backend 'textworld' cannot shuffle numbers; use 'native'")
        return TextWorldPlay(self._backend, self.record, self._backend.start(self.record))


class TextWorldPlay:
    """One episode in TextWorld.

    Args:
        backend: the process.
        record: the game.
        answer: the process's answer to the reset.
    """

    def __init__(
        self, backend: TextWorldBackend, record: GameRecord, answer: dict[str, Any]
    ) -> None:
        self._backend = backend
        self._record = record
        self._done: list[str] = []
        self._take(answer)

    def step(self, command: str) -> tuple[str, bool]:
        """Try a command: the reply, and whether it did something."""
        valid = command.strip() in self.admissible
        self._take(self._backend.ask(self._record, {"step": command}))
        if valid:
            self._done.append(command.strip())
        return self.observation, valid

    def why_not(self, command: str) -> str:
        """Why a command does nothing now, as far as TextWorld lets one know."""
        return f"{command.strip()[:80]!r} is not among the admissible commands here"

    def canonical_state(self) -> str:
        """The game and what was done in it: equal histories have equal futures."""
        return canonical_json([self._record.sha256, self._done])

    def _take(self, answer: dict[str, Any]) -> None:
        self.observation: str = answer["observation"]
        self.admissible: tuple[str, ...] = tuple(answer["admissible"])
        self.won: bool = answer["won"]


def _end(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # the process may have ended while something was still to be sent
            with contextlib.suppress(OSError):
                pipe.close()
    process.kill()
    process.wait()

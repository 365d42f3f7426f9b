"""The terminal as commands write to it: texts as they are, and a reader that may go away.

Warnings of libraries and of the suite come as one plain line each.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def console(*, stderr: bool = False, highlight: bool = True, quiet: bool = False) -> Console:
    """A console for a command: names and messages as they are, no markup, no emoji codes.

    When the reader goes away (``agentgym-suite list | head -1``), the rest is thrown away and the
    command goes on: its exit code tells what became of its work, not of its reader.

    Args:
        stderr: write to standard error instead of standard output.
        highlight: colour numbers and names on a terminal.
        quiet: write nothing, beside a process that tells the same.
    """
    return _CommandConsole(
        stderr=stderr, markup=False, emoji=False, highlight=highlight, quiet=quiet
    )


def tell_error(words: str) -> None:
    """One line of the command's own on standard error, also where nobody reads it any more."""
    try:
        sys.stderr.write(f"agentgym-suite: {words}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        _throw_away(sys.stderr)


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Tell every warning once, as one line on standard error, without the place in the code.

    A reader that has gone away ends nothing.
    """
    told: set[str] = set()

    def tell(message: Warning | str, *where: object, **more: object) -> None:
        words = " ".join(_COLOUR.sub("", str(message)).split()).removeprefix("WARN: ")
        if words not in told:
            told.add(words)
            tell_error(f"warning: {words}")

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield


class _CommandConsole(Console):
    def on_broken_pipe(self) -> None:
        """Throw away what is still to be written, where rich would end the command."""
        self.quiet = True
        _throw_away(sys.stderr if self.stderr else sys.stdout)


def _throw_away(stream: TextIO) -> None:
    """Let a stream write to nowhere: what it holds back would break its pipe again at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)

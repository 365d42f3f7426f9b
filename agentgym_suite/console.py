"""The terminal as commands write to it: texts as they are, and a reader that may go away."""

from __future__ import annotations

import os
import sys

from rich.console import Console


def console(*, stderr: bool = False, highlight: bool = True) -> Console:
    """A console for a command: names and messages as they are, no markup, no emoji codes.

    When the reader goes away (``agentgym-suite list | head -1``), the rest is thrown away and the
    command goes on: its exit code tells what became of its work, not of its reader.

    Args:
        stderr: write to standard error instead of standard output.
        highlight: colour numbers and names on a terminal.
    """
    return _CommandConsole(stderr=stderr, markup=False, emoji=False, highlight=highlight)


class _CommandConsole(Console):
    def on_broken_pipe(self) -> None:
        """Throw away what is still to be written, where rich would end the command."""
        self.quiet = True
        stream = sys.stderr if self.stderr else sys.stdout
        # What the stream holds back would break the pipe again when the interpreter ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)

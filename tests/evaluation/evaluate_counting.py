"""The evaluation commands beside the counting game, as a process of its own to be killed."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    game = runpy.run_path(str(Path(__file__).with_name("conftest.py")))
    game["register_counting"]()
    sys.exit(game["run_command"](sys.argv[1:]))

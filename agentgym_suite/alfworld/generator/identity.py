"""What a generated world is a function of; read at every start, so it imports nothing."""

from __future__ import annotations

GENERATOR_VERSION = 1
DEFAULT_SEED = 31
EMBEDDED_GAMES = {"train": 144, "valid_seen": 48, "valid_unseen": 48}

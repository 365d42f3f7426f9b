"""What a generated encyclopedia is a function of; read at every start, so it imports nothing."""

from __future__ import annotations

GENERATOR_VERSION = 1
DEFAULT_SEED = 0
#: How many times the entities of the small world each size has.
SIZES = {"small": 1, "medium": 13, "large": 330}
#: Questions of each split, the same in every size: only the haystack grows.
QUESTION_COUNTS = {"train": 2000, "dev": 300, "test": 300}

"""What a generated literature is a function of; read at every start, so it imports nothing."""

from __future__ import annotations

GENERATOR_VERSION = 1
DEFAULT_SEED = 11
DEFAULT_PAPERS = 3_000
#: Queries of each split, in each of the two sets.
QUERY_COUNTS = {"train": 1_000, "dev": 50, "test": 50}
#: The sets by the names of PaSa's files: many relevant papers a query, and few.
BROAD_SET, NARROW_SET = "RealScholarQuery", "AutoScholarQuery"

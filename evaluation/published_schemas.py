"""The JSON Schemas of what a run leaves, as they lie in the package."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym_suite.evaluation.records import EpisodeRecord
from agentgym_suite.evaluation.results import RunResults
from agentgym_suite.evaluation.schema import json_schema


def published_schemas() -> dict[Path, str]:
    """The schema files that lie beside this module, as they should be: path -> text."""
    schemas = {
        "episode.schema.json": json_schema(EpisodeRecord, "agentgym_suite episode record"),
        "results.schema.json": json_schema(RunResults, "agentgym_suite results of a run"),
    }
    return {
        Path(__file__).with_name(name): json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }

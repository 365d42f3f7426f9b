"""What differs between two runs that are compared, besides their agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentgym_suite.evaluation.configuration import differing_keys
from agentgym_suite.evaluation.run_header import DATA_DIGESTS, INDEX_DIGESTS, provenance_of

_DIGESTS = (*DATA_DIGESTS, "goals_digest", *INDEX_DIGESTS)
_SHOWN = 3  # differences of one kind that a warning names


def setting_warnings(
    first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, str]
) -> list[str]:
    """One sentence for each kind of setting that differs: what a difference may be due to.

    Args:
        first: header of the first run.
        second: header of the second one.
        names: what the runs are called.
    """
    told = []
    for kind, one, other in _kinds(first, second):
        changed = differing_keys(one, other)
        if changed:
            shown = [f"{key}: {a} and {b}" for key, (a, b) in changed.items()]
            more = len(shown) - _SHOWN
            rest = f"; and {more} more" if more > 0 else ""
            told.append(
                f"{kind} of {names[0]} and {names[1]} differ ({'; '.join(shown[:_SHOWN])}{rest})"
            )
    return told


def _kinds(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """(kind, values of the first run, values of the second one)."""
    prompts = _prompt(first), _prompt(second)
    if all(prompts):  # an agent without a model reads no prompt
        yield "prompts", *prompts
    decodings = _decoding(first), _decoding(second)
    if all(decodings):
        yield "decodings", *decodings
    yield "data digests", _digests(first), _digests(second)
    yield "horizons", _horizons(first), _horizons(second)
    yield "environment settings", _settings(first), _settings(second)


def _prompt(header: Mapping[str, Any]) -> dict[str, Any]:
    config = header["config"]
    if not config.get("prompt"):
        return {}
    return {"prompt": config["prompt"], "reply format": config.get("reply_format")}


def _decoding(header: Mapping[str, Any]) -> dict[str, Any]:
    """How the agent samples, with the fields that it adds to each request; {} without a model."""
    agent = header["config"]["agent"]
    if not agent.get("decoding"):
        return {}
    return {"decoding": agent["decoding"], "request": agent.get("request", {})}


def _environments(header: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    told = header["config"]["environments"]
    return {env_id: provenance_of(told, env_id) for env_id in told}


def _digests(header: Mapping[str, Any]) -> dict[str, Any]:
    return {
        env_id: {name: told[name] for name in _DIGESTS if isinstance(told.get(name), str)}
        for env_id, told in _environments(header).items()
    }


def _horizons(header: Mapping[str, Any]) -> dict[str, Any]:
    told = _environments(header)
    return {
        entry["id"]: told.get(entry["id"], {}).get("horizon", entry["max_steps"])
        for entry in header["suite"]["content"]["env"]
    }


def _settings(header: Mapping[str, Any]) -> dict[str, Any]:
    """The rest of what environments say of themselves, versions included."""
    apart = {*_DIGESTS, "task_digest", "horizon", "split"}
    return {
        env_id: {name: value for name, value in told.items() if name not in apart}
        for env_id, told in _environments(header).items()
    }

"""What devices reach at most, from their makers' data sheets, and what a run states instead."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.arguments import shown
from agentgym_suite.errors import UsageError

_KNOWN = Path(__file__).parent / "devices.toml"
HOST = "cpu"
"""The name of a processor, whose operations and memory a run has to state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device.

    Attributes:
        name: how it is called.
        operations: dense bfloat16 operations a second on matrix units; 0 where not stated.
        bandwidth: bytes a second to and from its memory; 0 where not stated.
        memory: bytes of that memory; 0 where not stated.
        source: where the numbers stand.
    """

    name: str
    operations: float
    bandwidth: float
    memory: float
    source: str


def known_devices() -> dict[str, Device]:
    """The devices that are known, by the name they are asked for by."""
    return {
        name: Device(**row) for name, row in tomllib.loads(_KNOWN.read_text("utf-8")).items()
    } | {HOST: Device(name="processor", operations=0.0, bandwidth=0.0, memory=0.0, source="")}


def device(name: str) -> Device:
    """The device of that name.

    Raises:
        UsageError: it is not known.
    """
    known = known_devices()
    if not isinstance(name, str) or name.lower() not in known:
        raise UsageError(
            f"device is {shown(name)}, which is not known; use one of {', '.join(known)}"
        )
    return known[name.lower()]


def device_of_card(card: str) -> Device | None:
    """The device that a driver's name of a card means, or None.

    Args:
        card: such as ``NVIDIA H100 80GB HBM3``.
    """
    said = card.lower()
    fitting = {
        name: found
        for name, found in known_devices().items()
        if name != HOST and all(part in said for part in name.split("-"))
    }
    return fitting[max(fitting, key=len)] if fitting else None

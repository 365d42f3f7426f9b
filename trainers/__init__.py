"""Trainers: algorithms as pure functions, and the loops that use them; all of it needs torch."""

from importlib.util import find_spec

from agentgym_suite.errors import MissingExtra

if find_spec("torch") is None:
    raise MissingExtra("train", "training")

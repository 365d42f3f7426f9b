"""veRL on this machine's processor: its platform, its engine's registration, and its imports.

Imported before anything of veRL. The plugin is loaded by the tests themselves, so that the
platform is chosen before veRL's engines ask for it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import types
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

if importlib.util.find_spec("verl") is None:
    pytest.skip("veRL is not installed: make test-verl", allow_module_level=True)


@contextlib.contextmanager
def _without_plugins() -> Iterator[None]:
    before = os.environ.get("VERL_USE_EXTERNAL_PLUGINS")
    os.environ["VERL_USE_EXTERNAL_PLUGINS"] = "none"
    try:
        yield
    finally:
        if before is None:
            del os.environ["VERL_USE_EXTERNAL_PLUGINS"]
        else:
            os.environ["VERL_USE_EXTERNAL_PLUGINS"] = before


with warnings.catch_warnings(), _without_plugins():
    warnings.simplefilter("ignore")  # of engines that are not installed, and of what they import
    from verl.plugin.platform import platform_manager
    from verl.plugin.platform.platform_cuda import PlatformCUDA

    class Processor(PlatformCUDA):  # type: ignore[misc]
        """A platform without an accelerator: gloo, and no memory to report."""

        device_name = "cpu"
        device_module = types.SimpleNamespace(
            max_memory_allocated=lambda *_: 0,
            max_memory_reserved=lambda *_: 0,
            memory_allocated=lambda *_: 0,
            memory_reserved=lambda *_: 0,
            mem_get_info=lambda *_: (0, 0),
            empty_cache=lambda: None,
            synchronize=lambda *_: None,
            get_device_name=lambda *_: "cpu",
            is_available=lambda: False,
        )

        def is_available(self) -> bool:
            return True

        def current_device(self) -> Any:
            return "cpu"

        def device_count(self) -> int:
            return 1

        def communication_backend_name(self) -> str:
            return "gloo"

        def set_device(self, device_index: int) -> None:
            pass

        def synchronize(self, device_index: int | None = None) -> None:
            pass

        def empty_cache(self) -> None:
            pass

    platform_manager.set_platform(Processor())

    from verl.workers.engine.base import EngineRegistry
    from verl.workers.engine.fsdp.transformer_impl import (
        FSDPEngineWithLMHead,
        FSDPEngineWithValueHead,
    )

    for kind, engine in (
        ("language_model", FSDPEngineWithLMHead),
        ("value_model", FSDPEngineWithValueHead),
    ):
        EngineRegistry.register(model_type=kind, backend=["fsdp", "fsdp2"], device="cpu")(engine)

    import agentgym_suite.trainers.verl_plugin
    import agentgym_suite.trainers.verl_trainer  # noqa: F401

"""Engines by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentgym_suite.engines.opening import PolicyEngine, open_engine
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.errors import MissingExtra, UsageError


def test_an_engine_opens_by_its_name(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is missing: pip install '.[train]'")
    from agentgym_suite.engines.loading import LoadedPolicy, save_policy
    from tests.engines.small_policy import small_module, small_tokenizer

    save_policy(LoadedPolicy(small_module(), small_tokenizer()), tmp_path)
    engine: PolicyEngine = open_engine("transformers", tmp_path, device="cpu", threads=1)
    assert engine.context_window == 96
    assert engine.tokenizer.stop_ids == (1,)
    assert len(engine.generate([[5]], Sampling(max_new_tokens=3), [0])[0].ids) == 3
    engine.close()


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="engine 'tgi' does not exist; use transformers, vllm"):
        open_engine("tgi", ".")
    with pytest.raises(UsageError, match=r"options are for vllm \(max_model_len\)"):
        open_engine("transformers", ".", options={"max_model_len": 3})
    with pytest.raises(UsageError, match="device and threads are for transformers"):
        open_engine("vllm", ".", threads=2)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("vllm", "vllm.engine.arg_utils", "vllm"),
        ("transformers", "agentgym_suite.engines.transformers_engine", "train"),
    ],
)
def test_a_missing_library_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'agentgym-suite\[{extra}\]'"):
        open_engine(name, ".")

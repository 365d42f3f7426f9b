"""Settings: defaults, preset, file, flags, in this order; unknown ones are errors."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentgym_suite.cli import main
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.run_settings import resolve


def test_the_last_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("horizon = 7\ngamma = 0.5\nseed = 3\n", "utf-8")
    plain = resolve("capo", "paper", None, {})
    assert (plain.run.horizon, plain.settings.gamma, plain.run.seed) == (0, 0.99, 41)
    tiny = resolve("capo", "tiny", None, {})
    assert (tiny.run.horizon, tiny.settings.gamma) == (20, 0.95)
    filed = resolve("capo", "tiny", file, {"seed": 5})
    assert (filed.run.horizon, filed.settings.gamma, filed.run.seed) == (7, 0.5, 5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"horizn": 3}, "did you mean 'horizon'"),
        ({"zzzzzz": 3}, "unknown setting 'zzzzzz'"),
        ({"horizon": "3"}, "give a whole number"),
        ({"horizon": True}, "give a whole number"),
        ({"gamma": "much"}, "give a number"),
        ({"gamma": 2.0}, "gamma is 2"),
        ({"ratio": "golden"}, "use one of"),
        ({"budget_steps": 0}, "budget_steps is 0"),
        ({"temperature": 0}, "temperature is 0"),
        ({"reward": "gold"}, "reward preset 'gold'"),
    ],
)
def test_wrong_settings_are_named(given: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        resolve("capo", "paper", None, given)


def test_wrong_files_presets_and_names_are_told(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("gamma = = 1", "utf-8")
    with pytest.raises(UsageError, match="is not TOML"):
        resolve("capo", "paper", file, {})
    with pytest.raises(UsageError, match="preset 'big'"):
        resolve("capo", "big", None, {})
    with pytest.raises(UsageError, match="sapo_ar"):
        resolve("sapo", "paper", None, {})


def test_the_digest_leaves_out_how_long_and_how_often() -> None:
    one = resolve("capo", "tiny", None, {})
    assert one.digest == resolve("capo", "tiny", None, {"budget_steps": 5}).digest
    assert one.digest != resolve("capo", "tiny", None, {"gamma": 0.9}).digest
    assert one.digest != resolve("ppo", "tiny", None, {}).digest


def test_the_command_says_what_is_wrong_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "sapo", "--out", str(tmp_path / "a")]) == 2
    assert "sapo_ar" in capsys.readouterr().err
    assert main(["train", "capo", "--set", "lr=1", "--out", str(tmp_path / "b")]) == 2
    assert "unknown setting 'lr'" in capsys.readouterr().err
    assert main(["train", "capo", "--out", str(tmp_path / "c")]) == 2
    assert "--policy" in capsys.readouterr().err

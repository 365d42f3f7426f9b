"""Settings: defaults, preset, file, flags, in this order; unknown ones are errors."""

from __future__ import annotations

import math
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("torch")

from agentgym_suite.cli import main
from agentgym_suite.errors import UsageError
from agentgym_suite.files import json_digest
from agentgym_suite.making import make_environment
from agentgym_suite.trainers.registry import ALGORITHMS
from agentgym_suite.trainers.run_settings import CONFIGS, FREE, resolve


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
        ({"preset": "tiny"}, "preset, which is no setting; give it as the option --preset"),
        ({"dry_run": True}, "give it as the option --dry-run"),
        ({"algorithm": "capo"}, "write agentgym-suite train ALGORITHM"),
        ({"horizon": "3"}, "give a whole number"),
        ({"horizon": True}, "give a whole number"),
        ({"gamma": "much"}, "give a number"),
        ({"gamma": 2.0}, "gamma is 2"),
        ({"ratio": "golden"}, "use one of"),
        ({"budget_steps": 0}, "budget_steps is 0"),
        ({"temperature": 0}, "temperature is 0"),
        ({"reward": "gold"}, "reward preset 'gold'"),
        ({"prompt_tokens": -1}, "prompt_tokens is -1"),
        ({"kwargs": "paper"}, "kwargs = 'paper'; give a table"),
        ({"analyzer_url": "http://localhost/v1"}, "belong together"),
        ({"engine": "sglang"}, "engine is 'sglang'; use one of 'transformers', 'vllm'"),
        ({"sync_tolerance": -1.0}, "sync_tolerance is -1"),
        ({"max_staleness": -1}, "max_staleness is -1"),
        ({"kwargs": {"size": math.nan}}, "kwargs = {'size': nan}, which JSON cannot hold"),
        ({"kwargs": {"since": date(2024, 1, 1)}}, "which JSON cannot hold; give Unicode texts"),
        ({"policy": "my-policy-\udcff"}, "which JSON cannot hold; give Unicode texts"),
        ({"horizon": 10**400}, "give at most 9,223,372,036,854,775,807"),
        ({"seed": 2**64}, "seed is 18446744073709551616; give at most"),
        ({"max_staleness": 2**62}, "give a number from 0 to 100"),
        ({"lora_alpha": 0}, "lora_alpha is 0.0; give a number above 0"),
        ({"lora_rank": 10**9}, "lora_rank is 1000000000; give a number from 0 to 65536"),
        ({"rank_timeout_s": 1e308}, "rank_timeout_s is 1e\\+308; give a number from 0.001 to"),
        ({"runner": "slurm"}, "runner is 'slurm'; use one of 'local', 'ray'"),
    ],
)
def test_wrong_settings_are_named(given: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        resolve("capo", "paper", None, given)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("horizon = " + "9" * 5_000, "is not TOML"),
        ("kwargs = " + "{a = " * 2_000 + "1" + "}" * 2_000, "is not TOML"),
        ("kwargs = {since = 2024-01-01}", "which JSON cannot hold"),
        ("kwargs = {size = inf}", "which JSON cannot hold"),
    ],
    ids=["digits", "depth", "date", "infinity"],
)
def test_a_file_that_python_or_json_refuses_is_named(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=told):
        resolve("capo", "paper", file, {})


@pytest.mark.parametrize("name", ["a" * 5_000, "two\nlines"])
def test_a_name_that_no_file_can_have_is_one_line(name: str) -> None:
    with pytest.raises(UsageError, match="there is no settings file") as told:
        resolve("capo", "paper", Path(name), {})
    assert "\n" not in str(told.value)


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


def test_a_setting_that_older_checkpoints_do_not_know_leaves_their_digest() -> None:
    one = resolve("capo", "tiny", None, {})
    values = one.as_dict()
    younger = ("task_list", "merge_append_only", "align_mode", "analyzer_max_tokens")
    for name in (*FREE, *younger):
        del values["run"][name]
    assert one.digest == json_digest(values)
    assert one.digest != resolve("capo", "tiny", None, {"task_list": "tasks.txt"}).digest


def test_the_command_says_what_is_wrong_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "sapo", "--out", str(tmp_path / "a")]) == 2
    assert "sapo_ar" in capsys.readouterr().err
    assert main(["train", "capo", "--set", "lr=1", "--out", str(tmp_path / "b")]) == 2
    assert "unknown setting 'lr'" in capsys.readouterr().err
    assert main(["train", "capo", "--out", str(tmp_path / "c")]) == 2
    assert "--policy" in capsys.readouterr().err


CONFIG_NAMES = sorted(path.stem for path in CONFIGS.glob("*.toml"))


def compared(name: str) -> list[str]:
    """The algorithms that a published comparison is for."""
    return ["sapo_ar"] if name.startswith("sapo") else list(ALGORITHMS)


@pytest.mark.parametrize("name", CONFIG_NAMES)
def test_the_settings_of_a_comparison_fit_its_algorithms_and_its_environment(name: str) -> None:
    for algorithm in compared(name):
        found = resolve(algorithm, "paper", Path(name), {"data": ""})
        assert found.run.iterations and found.run.prompt_tokens and found.run.horizon
    with closing(
        make_environment(found.run.env, found.run.kwargs, max_episode_steps=found.run.horizon)
    ) as env:
        env.reset(seed=0)


def test_the_papers_numbers_of_each_environment() -> None:
    def of(name: str, algorithm: str) -> tuple[int, int, int, int, float]:
        found = resolve(algorithm, "paper", Path(name), {})
        run, settings = found.run, found.settings
        sizes = (run.horizon, run.prompt_tokens, run.max_new_tokens)
        return (*sizes, settings.minibatch_rows, settings.kl_coef)

    assert len(CONFIG_NAMES) == 9
    assert of("capo-alfworld", "capo") == (20, 8192, 4096, 128, 1e-3)
    assert of("capo-webshop", "capo") == (15, 16384, 4096, 128, 1e-3)
    assert of("capo-hotpotqa", "capo") == (5, 10240, 1024, 128, 1e-3)
    assert of("capo-papers", "capo") == (5, 10240, 4096, 128, 1e-3)
    assert of("sapo-alfworld", "sapo_ar") == (50, 2048, 512, 256, 0.01)
    assert of("sapo-webshop", "sapo_ar") == (15, 4096, 512, 64, 0.01)
    assert of("taspo-alfworld", "taspo") == (50, 2048, 512, 256, 0.01)
    assert of("taspo-webshop", "taspo") == (15, 4096, 512, 64, 0.01)
    assert of("taspo-searchqa", "taspo") == (4, 4096, 512, 256, 1e-3)
    searchqa = resolve("taspo", "paper", Path("taspo-searchqa"), {}).settings
    assert (searchqa.tasks, searchqa.rollouts) == (128, 8)


def test_arguments_of_the_environment_are_added_to_those_of_the_file() -> None:
    given = {"kwargs": {"index": "w", "top_k": 5}}
    found = resolve("taspo", "paper", Path("taspo-searchqa"), given)
    assert found.run.kwargs == {
        "reward": "paper",
        "scorer": "search_r1",
        "top_k": 5,
        "max_calls": 1,
        "index": "w",
    }


def test_a_settings_file_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no settings file capo-chess.*one of capo-alfworld, "):
        resolve("capo", "paper", Path("capo-chess"), {})

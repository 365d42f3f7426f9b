"""What a training cannot use is one sentence before anything is played or written over."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.cli import main
from agentgym_suite.files import only_writer
from agentgym_suite.trainers import run_checks
from agentgym_suite.trainers.exports import save_policy
from agentgym_suite.trainers.live_view import TrainingView
from agentgym_suite.trainers.metrics import METRICS_FILE
from agentgym_suite.trainers.run_records import RUN_FILE, START_FILE
from tests.trainers.tiny_training import policy

ENV_ID = "CountingForBadTraining-v0"
SMALL = (
    "tasks=2",
    "rollouts=2",
    "minibatch_rows=12",
    "horizon=8",
    "max_new_tokens=6",
    "evaluate_tasks=1",
    "checkpoint_every=1",
    "micro_tokens=128",
    "start_worlds=0",
)


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    gym.register(ENV_ID, entry_point="tests.counting:CountingEnv", max_episode_steps=8)
    yield
    del gym.registry[ENV_ID]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that knows the game's words."""
    folder = tmp_path_factory.mktemp("policy") / "start"
    model, tokenizer = policy()
    save_policy(folder, model, tokenizer, prompt="terse")
    return folder


def command(start: Path, out: Path, *more: str, algorithm: str = "capo") -> list[str]:
    given = [text for one in SMALL for text in ("--set", one)]
    return [
        *("train", algorithm, "--preset", "tiny", "--env", ENV_ID, "--policy", str(start)),
        *("--budget-steps", "20", *given, "--out", str(out), *more),
    ]


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused command says."""
    capsys.readouterr()
    assert main(words) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("agentgym-suite: ") and "\n" not in said, said
    assert "Traceback" not in said and " line " not in said, said
    return said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--set", "gamma"), "--set is 'gamma'; write NAME=VALUE"),
        (("--set", "lrn=1"), "unknown setting 'lrn'"),
        (("--set", "tasks=1.5"), "tasks = 1.5; give a whole number"),
        (("--set", "tasks=-1"), "tasks is -1; give a number from 1 on"),
        (("--set", "gamma=NaN"), "gamma is nan; give a number from 0 to 1"),
        (("--set", "learning_rate=-1"), "learning_rate is -1.0; give a number from 0 on"),
        (("--set", "learning_rate=Infinity"), "learning_rate is inf"),
        (("--set", "grad_clip=0"), "grad_clip is 0.0; give a number above 0"),
        (("--set", "episode_timeout_s=0"), "episode_timeout_s is 0.0; give a number above 0"),
        (("--set", "temperature=1e-300"), "temperature is 1e-300; give a number from 0.01 to 100"),
        (("--set", "prompt=tools"), "'tools' asks for structured calls"),
        (("--set", "prompt=nope"), "prompt template 'nope' does not exist"),
        (("--set", "reward=nope"), "reward preset 'nope' does not exist"),
        (("--set", "split=nope"), "split 'nope' does not exist; choose"),
        (("--set", "unseen_split=nope"), "split 'nope' does not exist; choose"),
        (("--set", "most_admissible=1"), "starts with at most 1 admissible actions"),
        (("--set", "device=cuda:99"), "device is 'cuda:99', which is not here"),
        (("--set", "device=abacus"), "device is 'abacus', which is not here"),
        (("--set", "device=meta"), "device is 'meta', where tensors have no numbers"),
        (("--set", "device=privateuseone"), "device is 'privateuseone', which is not here"),
        (("--set", "max_new_tokens=200"), "window of 128 tokens has 0 for a prompt"),
        (("--set", "prompt_tokens=2000"), "window of 128 tokens has 122 for a prompt"),
        (("--env", "Nope-v0"), "'Nope-v0' is not registered"),
        (("--env", "CartPole-v1"), "'CartPole-v1' has no tasks"),
        (("--policy", ""), "--policy is empty; give a value, or leave it out"),
        (("--out", ""), "--out is empty; give a value, or leave it out"),
        (("--config", ""), "--config is empty; give a value, or leave it out"),
        (("--seed", "-1"), "seed is -1"),
        (("--threads", "0"), "threads is 0"),
        (("--threads", str(2**31)), "threads is 2147483648; give at most 4,096"),
        (("--preset", "huge"), "preset 'huge' does not exist"),
        (("--policy", "/nowhere/at/all"), "neither a folder nor"),
    ],
)
def test_a_wrong_argument_is_named(
    more: tuple[str, ...],
    words: str,
    start: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert words in told(command(start, tmp_path / "out", *more), capsys)
    assert not (tmp_path / "out" / METRICS_FILE).exists()


@pytest.mark.skipif(find_spec("flash_attn") is not None, reason="flash attention is installed")
def test_a_kernel_that_is_not_installed_is_named(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = command(start, tmp_path / "out", "--set", "attention=flash_attention_2")
    said = told(refused, capsys)
    assert "attention is 'flash_attention_2'" in said and "set attention = auto" in said


@pytest.mark.parametrize(
    ("algorithm", "more", "words"),
    [
        ("cappo", (), "algorithm 'cappo' does not exist; use capo"),
        ("grpo", ("--set", "rollouts=1"), "rollouts is 1, and grpo compares the trajectories"),
        ("taspo", ("--set", "clip=wide"), "clip = 'wide'; give a number"),
    ],
)
def test_an_algorithm_that_cannot_be_is_named(
    algorithm: str,
    more: tuple[str, ...],
    words: str,
    start: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = command(start, tmp_path / "out", *more, algorithm=algorithm)
    assert words in told(refused, capsys)


@pytest.mark.parametrize(
    ("algorithm", "more", "words"),
    [
        ("grpo", ("--set", "max_staleness=1"), "rows of older weights would go uncorrected"),
        ("grpo", ("--set", "rollouts=1"), "rollouts is 1"),
        ("grpo", ("--set", "bootstrap_truncated=true"), "bootstrap_truncated"),
        ("grpo", ("--set", "device=abacus"), "device is 'abacus', which is not here"),
        ("opd", (), "--set teacher_model=DIR"),
        ("sapo_ar", ("--set", "lora_rank=4"), "every value would stay 0; set init_value_rows"),
        ("sapo_ar", ("--set", "reward=verl_agent"), "would be punished twice; set c_inv to 0"),
        ("grpo", ("--set", "reward=verl_agent"), "punished twice; set invalid_penalty to 0"),
        ("grpo", ("--set", "prompt=capo"), "asks for more than the bare command"),
        (
            "opsd",
            (
                *("--set", "objective=full", "--set", "merge_append_only=true"),
                *("--set", "pi_position=user_turn"),
            ),
            "no prompt of the teacher goes on in another",
        ),
        ("opd", ("--set", "teacher_model=/nowhere"), "neither a folder nor"),
    ],
)
def test_what_is_known_beforehand_is_refused_before_a_start_is_made(
    algorithm: str,
    more: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    refused = ["train", algorithm, "--preset", "tiny", "--env", ENV_ID, *more, "--out", str(out)]
    assert words in told(refused, capsys)
    assert not out.exists()


@pytest.mark.parametrize(
    ("extra", "module", "more"),
    [
        ("train", "tensorboard", ("--tensorboard",)),
        ("vllm", "vllm", ("--set", "engine=vllm")),
        ("ray", "ray", ("--set", "runner=ray")),
    ],
)
def test_a_missing_package_is_named_before_a_start_is_made(
    extra: str,
    module: str,
    more: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        run_checks, "find_spec", lambda name: None if name == module else find_spec(name)
    )
    out = tmp_path / "out"
    refused = ["train", "grpo", "--preset", "tiny", "--env", ENV_ID, *more, "--out", str(out)]
    assert f"pip install 'agentgym-suite[{extra}]'" in told(refused, capsys)
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"gamma = [1]", "gamma = [1]; give a number"),
        (b"[run]\ngamma = 1", "has the table 'run'; give settings, not tables"),
        (b"env = 2024-01-01", "give a text"),
        (b"\xff\xfe", "is not TOML"),
    ],
)
def test_a_wrong_settings_file_is_named(
    text: bytes, words: str, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(text)
    assert words in told(command(start, tmp_path / "out", "--config", str(file)), capsys)


def without(folder: Path, *patterns: str) -> None:
    for pattern in patterns:
        for path in folder.glob(pattern):
            path.unlink()


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def other_architecture(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**config, "model_type": "gpt2"}), "utf-8")


def unknown_architecture(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": "nonesuch"}), "utf-8")


def other_decoding(folder: Path, text: str) -> None:
    (folder / "generation_config.json").write_text(text, "utf-8")


def more_words(folder: Path) -> None:
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text("utf-8"))
    words = value["model"]["vocab"]
    words |= {f"word{number}": len(words) + number for number in range(9)}
    path.write_text(json.dumps(value), "utf-8")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: without(folder, "*token*"), "has no tokenizer"),
        (lambda folder: without(folder, "chat_template*"), "has no chat template"),
        (cut_weights, "cannot be loaded as a causal language model"),
        (other_architecture, "weights of a GPT2LMHeadModel, such as"),
        (unknown_architecture, "cannot be loaded as a causal language model"),
        (lambda folder: other_decoding(folder, "{"), "cannot be loaded as a causal language model"),
        (
            lambda folder: other_decoding(folder, '{"suppress_tokens": ["a"]}'),
            "the generation configuration has the token id 'a'",
        ),
        (
            lambda folder: other_decoding(folder, '{"eos_token_id": "end"}'),
            "the generation configuration has the token id 'end'",
        ),
        (more_words, "bring the tokenizer that the policy was made with"),
    ],
    ids=[
        "tokenizer",
        "template",
        "weights",
        "other",
        "unknown",
        "decoding",
        "banned",
        "end",
        "words",
    ],
)
def test_a_policy_that_cannot_be_trained_is_named(
    spoil: object, words: str, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "policy"
    shutil.copytree(start, folder)
    assert callable(spoil)
    spoil(folder)
    assert words in told(command(folder, tmp_path / "out"), capsys)


def test_nothing_of_another_run_is_written_over(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(command(start, out, "--set", "checkpoint_every=9")) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    said = told(command(start, out, "--set", "gamma=0.5"), capsys)
    assert "holds a run of another configuration, with gamma 0.95 instead of 0.5" in said
    said = told(command(start, out, algorithm="ppo"), capsys)
    assert "algorithm 'capo' instead of 'ppo'" in said
    record = json.loads((out / RUN_FILE).read_text("utf-8"))
    record["tasks"]["seen"] = "sha256:of other tasks"
    whole = (out / RUN_FILE).read_bytes()
    (out / RUN_FILE).write_text(json.dumps(record), "utf-8")
    said = told(command(start, out, "--set", "checkpoint_every=9"), capsys)
    assert "holds a run on other tasks, or in another order" in said
    record = json.loads(whole)
    for name in ("task_list", "merge_append_only", "align_mode", "analyzer_max_tokens"):
        del record["configuration"]["run"][name]
    (out / RUN_FILE).write_text(json.dumps(record), "utf-8")
    assert "configuration, with gamma 0.95 instead of 0.5;" in told(
        command(start, out, "--set", "gamma=0.5", "--set", "checkpoint_every=9"), capsys
    )
    (out / RUN_FILE).write_bytes(whole)
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    forced = command(start, out, "--set", "checkpoint_every=1", "--set", "lora_rank=2", "--force")
    checkpoint = command(start, out, "--set", "checkpoint_every=1")
    assert main(checkpoint) == 0
    record = (out / "run.json").read_bytes()
    assert "is of other networks" in told(forced, capsys)
    assert record == (out / "run.json").read_bytes()
    (out / "run.json").write_text("{}", "utf-8")
    assert "is no record of a training" in told(command(start, out), capsys)


def test_other_weights_where_the_policy_or_the_teacher_lay_are_not_gone_on_with(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, teacher = tmp_path / "given", tmp_path / "teacher"
    for folder in (given, teacher):
        shutil.copytree(start, folder)
    run = command(given, tmp_path / "out", "--set", f"teacher_model={teacher}", algorithm="opd")
    assert main(run) == 0
    model, tokenizer = policy(seed=7)
    for folder, what in ((teacher, "teacher"), (given, "policy")):
        shutil.rmtree(folder)
        save_policy(folder, model, tokenizer, prompt="terse")
        assert f"holds a run with other weights of the {what}, sha256:" in told(run, capsys)
        if folder == teacher:
            shutil.rmtree(folder)
            shutil.copytree(start, folder)
            assert main(run) == 0
    assert main([*run, "--force"]) == 0
    assert main(run) == 0  # which has recorded what it went on with


def test_a_policy_where_the_result_is_written_stays(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "policy"
    shutil.copytree(start, folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert "is where this run writes what it has learned" in told(command(folder, tmp_path), capsys)
    teaching = command(start, tmp_path, "--set", f"teacher_model={folder}", algorithm="opd")
    assert "is where this run writes what it has learned" in told(teaching, capsys)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_a_start_of_other_settings_is_not_taken(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [word for word in command(start, tmp_path) if word not in ("--policy", str(start))]
    shutil.copytree(start, tmp_path / "start")
    settings = {"prompt": "compact", "horizon": 8}
    (tmp_path / START_FILE).write_text(json.dumps(settings), "utf-8")
    said = told(made, capsys)
    assert "a start that was made with prompt 'compact' instead of 'terse'; remove it" in said
    assert not (tmp_path / METRICS_FILE).exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "RANK is ''"),
        ({"RANK": "2"}, "LOCAL_RANK is ''"),
        ({"RANK": "2", "LOCAL_RANK": "2", "MASTER_PORT": "1", "MASTER_ADDR": "::1"}, "RANK is '2'"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is 'two'"),
        ({"WORLD_SIZE": "-1"}, "WORLD_SIZE is '-1'"),
    ],
)
def test_processes_that_torchrun_did_not_start_are_refused(
    given: dict[str, str],
    words: str,
    start: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RANK", "LOCAL_RANK", "MASTER_PORT", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"WORLD_SIZE": "2", **given}.items():
        monkeypatch.setenv(name, value)
    said = told(command(start, tmp_path / "out"), capsys)
    assert words in said and "start the processes by torchrun, or unset WORLD_SIZE" in said


def test_a_second_process_says_that_it_waits(
    start: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    held, told_of = threading.Event(), threading.Event()
    waits = TrainingView.waits

    def hold() -> None:
        with only_writer(out / "run", None):
            held.set()
            told_of.wait(60)

    def say(view: TrainingView, why: str) -> None:
        waits(view, why)
        told_of.set()

    monkeypatch.setattr(TrainingView, "waits", say)
    first = threading.Thread(target=hold)
    first.start()
    assert held.wait(60)
    assert main(command(start, out, "--set", "iterations=1")) == 0
    first.join()
    assert f"another process is writing {out / 'run'}; waiting" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder", "utf-8")
    for place in (tmp_path / "file", tmp_path / "file" / "inside"):
        assert f"{place} cannot be written" in told(command(start, place), capsys)

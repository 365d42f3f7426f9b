"""The ``train`` command in two processes, as ``torchrun`` starts them: one folder, one record."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.engines.loading import weights_digest
from agentgym_suite.trainers.exports import save_policy
from agentgym_suite.trainers.metrics import METRICS_FILE, read_metrics
from tests.trainers.tiny_training import policy
from tests.trainers.two_processes import start_ranks

ENV = "tests.trainers.small_registration:CountingOfOnesOwn-v0"
SMALL = (
    "unseen_split=test",
    "tasks=2",
    "rollouts=2",
    "max_new_tokens=6",
    "horizon=4",
    "most_admissible=0",
    "evaluate_tasks=2",
)
_MAIN = "import sys; from agentgym_suite.cli import main; sys.exit(main(sys.argv[1:]))"


def train(algorithm: str, folder: Path, *given: str) -> Path:
    """Run the command in two processes from a policy of random weights; the run's folder."""
    out = folder / "out"
    words = ["train", algorithm, "--preset", "tiny", "--env", ENV, "--threads", "1"]
    words += ["--policy", str(folder / "start"), "--out", str(out)]
    words += [word for one in (*SMALL, *given) for word in ("--set", one)]
    processes = start_ranks([sys.executable, "-c", _MAIN, *words])
    try:
        said = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(said)
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a policy in ``start``."""
    model, tokenizer = policy()
    save_policy(tmp_path / "start", model, tokenizer, prompt="terse")
    return tmp_path


def test_another_model_teaches_both_and_is_recorded(folder: Path) -> None:
    other, tokenizer = policy(seed=5)
    save_policy(folder / "teacher", other, tokenizer, prompt="terse")
    given = (f"teacher_model={folder / 'teacher'}", "objective=full", "iterations=1")
    out = train("opd", folder, *given)
    record = json.loads((out / "run.json").read_bytes())
    assert record["processes"] == 2
    assert record["teacher"] == {"weights": weights_digest(other)}
    first, _ = read_metrics(out / METRICS_FILE)
    assert first["teacher/coverage"] == 1.0 and first["env_steps"] == 16.0
    assert (out / "policy" / "config.json").is_file()


def test_adapters_go_on_in_two_processes_and_each_keeps_its_audit(folder: Path) -> None:
    given = ("pi_tokens=64", "lora_rank=2", "checkpoint_every=1")
    train("taspo", folder, *given, "iterations=1")
    out = train("taspo", folder, *given, "iterations=2")
    lines = read_metrics(out / METRICS_FILE)
    assert [line["iteration"] for line in lines] == [1, 2, 2]
    assert [line["env_steps"] for line in lines[:2]] == [16.0, 32.0]
    for rank in range(2):
        assert len(list((out / f"audit-{rank}").iterdir())) == 2
    assert (out / "adapter" / "adapter_config.json").is_file()

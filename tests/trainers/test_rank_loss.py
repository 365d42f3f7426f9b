"""A process that is killed: the other says so in one sentence, and the run goes on from there."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agentgym_suite.trainers.checkpoints import checkpoints
from tests.trainers.two_processes import Job, start_ranks

JOB = Job("killed", "grpo", {"epochs": 1, "checkpoint_every": 1})
_RANK = """
import sys
import torch
from pathlib import Path
from agentgym_suite.errors import AgentGymSuiteError
from agentgym_suite.trainers.fsdp import open_ranks
from tests.trainers.test_rank_loss import JOB
torch.set_num_threads(1)
try:
    with open_ranks(timeout_s=120) as ranks:
        JOB.trainer(Path(sys.argv[1]), ranks, budget_steps=10**6).run()
except AgentGymSuiteError as error:
    sys.exit(f"agentgym-suite: {error}")
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_the_others_end_with_a_sentence_and_the_run_goes_on(tmp_path: Path) -> None:
    kept, killed = start_ranks([sys.executable, "-c", _RANK, str(tmp_path)])
    try:
        while not checkpoints(tmp_path / JOB.folder / "checkpoints"):
            assert kept.poll() is None and killed.poll() is None
            time.sleep(0.05)
        killed.send_signal(signal.SIGKILL)
        _, told = kept.communicate(timeout=300)
    finally:
        for process in (kept, killed):
            process.kill()
            process.communicate()
    assert kept.returncode == 1
    (said,) = [line for line in told.splitlines() if line.startswith("agentgym-suite:")]
    assert "another process of this training has ended or does not answer" in said
    assert "Traceback" not in told
    done = int(checkpoints(tmp_path / JOB.folder / "checkpoints")[-1].name)
    resumed = JOB.trainer(tmp_path, budget_steps=1)
    assert resumed.run().iteration == done >= 1

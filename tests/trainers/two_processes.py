"""What the processes of the tests of several ranks do: small trainings that leave their weights."""

from __future__ import annotations

import os
import socket
import subprocess
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as multiprocessing
from transformers import Starcoder2Config, Starcoder2ForCausalLM

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.env import Transition
from agentgym_suite.prompts import prompt_template
from agentgym_suite.tasks import Task
from agentgym_suite.trainers.fsdp import FsdpRanks
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.privileged import plain_encode
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.ranks import ONE_PROCESS, Ranks
from agentgym_suite.trainers.reading import full
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.tiny_policy import VALUE_ROWS, build_tokenizer, random_model
from agentgym_suite.trainers.trainer import Trainer
from tests.counting import CountingEnv
from tests.trainers.tiny_training import ROOT, TASKS, configuration, counting, words

State = dict[str, torch.Tensor]


class HalfBroken(CountingEnv):
    """The tests' own game, whose second task cannot be begun."""

    def _begin(self, task: Task) -> Transition:
        if task.id == TASKS[1]:
            raise RuntimeError("this task is gone")
        return super()._begin(task)


@dataclass(frozen=True)
class Job:
    """One training: folder, algorithm, settings, source of privileged texts, another as teacher.

    Where it is ``broken``, one of the two processes has no trajectory.
    """

    folder: str
    algorithm: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    taught: bool = False
    broken: bool = False

    def trainer(self, out: Path, ranks: Ranks = ONE_PROCESS, **more: Any) -> Trainer:
        """The training at its start, in float64."""
        model, tokenizer = wide_policy()
        small = {
            "budget_steps": 1,
            "epochs": 5,
            "checkpoint_every": 100,
            "minibatch_unit": "rows",
            "minibatch_rows": 4,
            "max_new_tokens": 5,
        }
        chosen = configuration(self.algorithm, **(small | dict(self.settings) | more))
        return Trainer(
            chosen,
            model,
            tokenizer,
            Played(HalfBroken if self.broken else counting, TASKS[:2]),
            out / self.folder,
            ranks=ranks,
            teacher=wide_policy(seed=1)[0] if self.taught else None,
            privileged=self._privileged(tokenizer, chosen.run.prompt),
        )

    def _privileged(self, tokenizer: Any, prompt: str) -> Privileged | None:
        if not self.source:
            return None
        hinting = Hinting(RuleAnalyzer(), source=self.source)  # type: ignore[arg-type]
        return Privileged(
            hinting,
            TransformersChatTokenizer(tokenizer),
            plain_encode(tokenizer),
            prompt_template(prompt).reply_format,
            32,
        )


def wide_policy(seed: int = 0) -> tuple[Any, Any]:
    """Model and tokenizer; unlike Qwen's, its norms compute in float64 where its weights are."""
    tokenizer = build_tokenizer(words())
    config = Starcoder2Config(
        vocab_size=len(tokenizer) + VALUE_ROWS,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        sliding_window=None,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = random_model(Starcoder2ForCausalLM, config, tokenizer, seed=seed)
    return model.double(), tokenizer


def trained(job: Job, out: Path, ranks: Ranks = ONE_PROCESS, **more: Any) -> State:
    """The weights of all networks after a training, whole."""
    training = job.trainer(out, ranks, **more)
    training.run()
    return weights(training)


def weights(training: Trainer) -> State:
    """The weights of all networks, whole."""
    return {
        f"{name}.{place}": full(weight.detach()).clone()
        for name, learner in training.learners.items()
        for place, weight in learner.model.named_parameters()
    }


def start_ranks(command: Sequence[str]) -> list[subprocess.Popen[str]]:
    """A command in two processes of one training, as ``torchrun`` starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def in_two_processes(work: Callable[[Ranks, Path], State], out: Path) -> list[State]:
    """What ``work``, a function of a module, finds in each of two processes over gloo."""
    multiprocessing.spawn(_child, args=(work, str(out)), nprocs=2)
    return [torch.load(out / f"rank{rank}.pt") for rank in range(2)]


def _child(rank: int, work: Callable[[Ranks, Path], State], out: str) -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{out}/meeting", rank=rank, world_size=2
    )
    found = work(FsdpRanks(torch.device("cpu")), Path(out))
    torch.save(found, Path(out) / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()

"""One training from its configuration: environment, tasks, start, record of what it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from agentgym_suite.alfworld.generated_files import publish_generated
from agentgym_suite.alfworld.generator import DEFAULT_SEED
from agentgym_suite.engines.loading import load_policy
from agentgym_suite.errors import UsageError
from agentgym_suite.files import json_digest, make_folder, only_writer, write_json_atomic
from agentgym_suite.machine import git_state, package_folder, package_versions
from agentgym_suite.making import make_environment
from agentgym_suite.prompts import prompt_template
from agentgym_suite.renderers import RENDERER_FILE
from agentgym_suite.rollouts import MakeEnv
from agentgym_suite.trainers.checkpoints import Progress
from agentgym_suite.trainers.cloning import CloningSettings
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.live_view import TrainingView
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.pi_sources import PiSource
from agentgym_suite.trainers.privileged import plain_encode
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.run_settings import Configuration
from agentgym_suite.trainers.starts import StartSettings, make_start
from agentgym_suite.trainers.task_lists import Played, select_tasks
from agentgym_suite.trainers.trainer import Trainer
from agentgym_suite.versions import suite_version

_HOUSEHOLDS = 300  # of a world that lessons are given in
_LONG = CloningSettings(steps=1600, first_look=800, look_every=200)  # lessons take longer
_PACKAGES = ("torch", "transformers", "numpy", "gymnasium")


def bound_threads(threads: int) -> None:
    """Let torch use so many processor threads; for commands, it holds for the whole process.

    Raises:
        UsageError: fewer than 1.
    """
    if threads < 1:
        raise UsageError(f"threads is {threads}; give at least 1")
    torch.set_num_threads(threads)


class Training:
    """A run in its folder.

    Args:
        configuration: every setting, resolved.
        out: the folder: ``run.json``, ``metrics.jsonl``, ``checkpoints``, ``policy``.
        view: told what happens.
        tensorboard: write TensorBoard's files, too.
    """

    def __init__(
        self,
        configuration: Configuration,
        out: Path,
        view: TrainingView,
        *,
        tensorboard: bool = False,
    ) -> None:
        self._configuration = configuration
        self._out = out
        self._view = view
        self._tensorboard = tensorboard

    def run(self, *, force: bool = False) -> Progress:
        """Train to the end of the budget; see ``Trainer.run``."""
        make_folder(self._out)
        with only_writer(self._out / "run", None):
            return self._run(force)

    def _run(self, force: bool) -> Progress:
        run = self._configuration.run
        make_env = self._make_env()
        seen = select_tasks(make_env, run.split, run.most_admissible)
        unseen: list[str] = []
        if run.unseen_split:
            unseen = select_tasks(make_env, run.unseen_split, run.most_admissible)
        played = Played(make_env, tuple(seen), tuple(unseen))
        loaded = load_policy(self._start(played), device="auto")
        write_json_atomic(self._out / "run.json", self._record(played))
        trainer = Trainer(
            self._configuration,
            loaded.module,
            loaded.tokenizer,
            played,
            self._out,
            privileged=self._privileged(loaded.tokenizer),
            on_iteration=self._view.iterated,
            tensorboard=self._tensorboard,
        )
        return trainer.run(force=force)

    def _make_env(self, data: str = "") -> MakeEnv:
        run = self._configuration.run
        data = data or run.data
        arguments: dict[str, Any] = {"data": data} if data else {}
        return lambda: make_environment(run.env, arguments, max_episode_steps=run.horizon or None)

    def _start(self, played: Played) -> Path:
        run = self._configuration.run
        if run.policy:
            return Path(run.policy)
        if self._configuration.preset != "tiny":
            raise UsageError("no policy is given; name its folder with --policy")
        folder = self._out / "start"
        if not (folder / RENDERER_FILE).is_file():
            lessons = self._lessons()
            settings = StartSettings(
                env_id=run.env,
                prompt=run.prompt,
                horizon=run.horizon,
                max_new_tokens=run.max_new_tokens,
                cloning=_LONG if lessons else CloningSettings(),
            )
            make_start(played, folder, settings, self._view.cloned, lessons=lessons)
        return folder

    def _lessons(self) -> list[Played]:
        """Households of other worlds for the teacher to show."""
        run = self._configuration.run
        if run.start_worlds and run.env != "ALFWorld-v0":
            raise UsageError(
                f"start_worlds is {run.start_worlds}, and worlds are generated for ALFWorld-v0 "
                f"alone; leave it at 0 for {run.env}"
            )
        found = []
        for number in range(1, run.start_worlds + 1):
            folder = self._out / "worlds" / str(number)
            publish_generated(folder, games=_HOUSEHOLDS, seed=DEFAULT_SEED + number)
            make_env = self._make_env(str(folder))
            tasks = select_tasks(make_env, "train", run.most_admissible)
            found.append(Played(make_env, tuple(tasks)))
        return found

    def _privileged(self, tokenizer: Any) -> Privileged | None:
        run, settings = self._configuration.run, self._configuration.settings
        source: PiSource = getattr(settings, "pi_source", "none")
        if source == "none":
            return None
        from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer

        return Privileged(
            Hinting(RuleAnalyzer(), source=source, audit=self._out / "audit", seed=run.seed),
            TransformersChatTokenizer(tokenizer),
            plain_encode(tokenizer),
            prompt_template(run.prompt).reply_format,
            getattr(settings, "pi_tokens", 256),
        )

    def _record(self, played: Played) -> dict[str, Any]:
        return {
            "configuration": self._configuration.as_dict(),
            "config_digest": self._configuration.digest,
            "tasks": {"seen": json_digest(list(played.tasks)), "count": len(played.tasks)},
            "agentgym_suite": suite_version(),
            "packages": package_versions(_PACKAGES),
            "git": git_state(package_folder()),
            "threads": torch.get_num_threads(),
        }

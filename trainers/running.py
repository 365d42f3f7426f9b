"""One training from its configuration: environment, tasks, start, record of what it was made of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from agentgym_suite.alfworld.generated_files import publish_generated
from agentgym_suite.alfworld.generator import DEFAULT_SEED
from agentgym_suite.arguments import check_count
from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.loading import choose_device, load_policy
from agentgym_suite.errors import UsageError
from agentgym_suite.files import make_folder, only_writer, write_json_atomic
from agentgym_suite.prompts import prompt_template
from agentgym_suite.ray_pool import RayEnvPool
from agentgym_suite.renderers import RENDERER_FILE
from agentgym_suite.rollouts import MakeEnv
from agentgym_suite.trainers.analyzer import Analyzer
from agentgym_suite.trainers.analyzer_client import ChatAnalyzer
from agentgym_suite.trainers.checkpoints import Progress
from agentgym_suite.trainers.cloning import CloningSettings
from agentgym_suite.trainers.config import PrivilegedConfig
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.live_view import TrainingView
from agentgym_suite.trainers.models import choose_attention, set_attention
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.opd import OpdConfig
from agentgym_suite.trainers.privileged import plain_encode
from agentgym_suite.trainers.privileged_rows import Privileged
from agentgym_suite.trainers.ranks import ONE_PROCESS, Ranks
from agentgym_suite.trainers.run_checks import analyzer_settings, check_beforehand
from agentgym_suite.trainers.run_records import (
    RUN_FILE,
    START_FILE,
    refuse_other_run,
    refuse_other_start,
    refuse_other_weights,
    run_record,
)
from agentgym_suite.trainers.run_settings import Configuration, RunSettings
from agentgym_suite.trainers.starts import StartSettings, make_start
from agentgym_suite.trainers.task_lists import (
    Played,
    environments,
    read_task_list,
    select_tasks,
    spread,
)
from agentgym_suite.trainers.teachers import check_vocabulary
from agentgym_suite.trainers.trainer import RESULT, Trainer

ANALYZER_KEY = "AGENTGYM_SUITE_ANALYZER_KEY"
"""The environment variable with the bearer key of the analyzer's endpoint."""
_HOUSEHOLDS = 300  # of a world that lessons are given in
_LONG = CloningSettings(steps=1600, first_look=800, look_every=200)  # lessons take longer
_OF_START = (
    "env",
    "data",
    "kwargs",
    "split",
    "unseen_split",
    "most_admissible",
    "most_tasks",
    "horizon",
    "prompt",
    "max_new_tokens",
    "start_worlds",
)
_MOST_THREADS = 4_096


def bound_threads(threads: int) -> None:
    """Let torch use so many processor threads; for commands, it holds for the whole process.

    Raises:
        UsageError: fewer than 1, or more than any machine has.
    """
    torch.set_num_threads(check_count("threads", threads, 1, _MOST_THREADS))


def make_analyzer(run: RunSettings, cache: Path) -> Analyzer:
    """The analyzer that the settings name: a model behind an endpoint, or fixed rules.

    Args:
        run: the settings.
        cache: folder of a model's earlier answers.
    """
    if not run.analyzer_url:
        return RuleAnalyzer()
    return ChatAnalyzer(
        run.analyzer_url,
        run.analyzer_model,
        api_key=os.environ.get(ANALYZER_KEY),
        reasoning_off=run.analyzer_reasoning_off,
        max_tokens=run.analyzer_max_tokens,
        timeout_s=run.analyzer_timeout_s,
        retries=run.analyzer_retries,
        cache=cache,
    )


class Training:
    """A run in its folder.

    Args:
        configuration: every setting, resolved.
        out: the folder: ``run.json``, ``metrics.jsonl``, ``checkpoints``, ``policy``.
        view: told what happens.
        ranks: the processes that it runs in.
        tensorboard: write TensorBoard's files, too.
    """

    def __init__(
        self,
        configuration: Configuration,
        out: Path,
        view: TrainingView,
        *,
        ranks: Ranks = ONE_PROCESS,
        tensorboard: bool = False,
    ) -> None:
        self._configuration = configuration
        self._out = out
        self._view = view
        self._ranks = ranks
        self._tensorboard = tensorboard

    def run(self, *, force: bool = False) -> Progress:
        """Train to the end of the budget; see ``Trainer.run`` and ``check_beforehand``."""
        check_beforehand(self._configuration, self._ranks, tensorboard=self._tensorboard)
        if self._ranks.rank:
            self._ranks.meet()  # what lies in the folder is another run's until the first has it
            return self._run(force)
        make_folder(self._out)
        with only_writer(self._out / "run", self._view.waits):
            self._ranks.meet()
            return self._run(force)

    def start(self) -> Path:
        """The folder of the policy that the run begins with, made first where that is its part.

        Raises:
            UsageError: no policy is given, and the preset makes none.
        """
        make_folder(self._out)
        with only_writer(self._out / "run", self._view.waits):
            return self._start(self._played(), force=False)

    def _played(self) -> Played:
        run = self._configuration.run
        make_env = environments(run)

        def tasks(split: str, listed: Sequence[str] = ()) -> list[str]:
            return select_tasks(make_env, split, run.most_admissible, run.most_tasks, listed=listed)

        listed = read_task_list(Path(run.task_list)) if run.task_list else []
        seen, unseen = tasks(run.split, listed), tasks(run.unseen_split) if run.unseen_split else []
        watched, others = (spread(ids, run.evaluate_tasks) for ids in (seen, unseen))
        return Played(make_env, tuple(seen), others, watched)

    def _run(self, force: bool) -> Progress:
        run, played = self._configuration.run, self._played()
        refuse_other_run(self._out, self._configuration, played.tasks, force=force)
        self._refuse_overwriting()
        loaded = load_policy(self._start(played, force), device=self._ranks.load_device(run.device))
        if loaded.tokenizer is None:
            raise UsageError(f"{run.policy} has no tokenizer; save it beside the weights")
        dtype = getattr(torch, run.compute_dtype) if run.compute_dtype else loaded.module.dtype
        kernel = choose_attention(run.attention, choose_device(run.device), dtype)
        set_attention(loaded.module, kernel)
        teacher = self._teacher(loaded.tokenizer)
        networks = {"start": loaded.module, "teacher": teacher}
        record = run_record(self._configuration, played.tasks, networks, processes=self._ranks.size)
        refuse_other_weights(self._out, record, force=force)
        with (
            closing(make_analyzer(run, self._out / self._own("analyzer"))) as analyzer,
            self._source(played.make_env) as source,
        ):
            trainer = Trainer(
                self._configuration,
                loaded.module,
                loaded.tokenizer,
                replace(played, make_env=source),
                self._out,
                ranks=self._ranks,
                privileged=self._privileged(analyzer, loaded.tokenizer),
                teacher=teacher,
                on_iteration=self._view.iterated,
                progress=self._view.doing,
                tensorboard=self._tensorboard,
            )

            def write() -> None:  # not before: what is refused must not stand in the way of a run
                self._ranks.once(lambda: write_json_atomic(self._out / RUN_FILE, record))

            with closing(trainer):
                return trainer.run(force=force, on_begin=write)

    def _refuse_overwriting(self) -> None:
        """The result takes the place of whatever lies where it is written."""
        result = (self._out / RESULT).resolve()
        teacher = getattr(self._configuration.settings, "teacher_model", "")
        for given in filter(None, (self._configuration.run.policy, teacher)):
            if Path(given).resolve() == result:
                raise UsageError(
                    f"{given} is where this run writes what it has learned; choose another --out, "
                    "or move the folder"
                )

    def _source(self, make_env: MakeEnv) -> AbstractContextManager[MakeEnv]:
        """What makes the environments that are trained in, here or on a cluster."""
        run = self._configuration.run
        if run.runner == "local":
            return nullcontext(make_env)
        return RayEnvPool.like(make_env, run.concurrency, address=run.ray_address or None)

    def _start(self, played: Played, force: bool) -> Path:
        run = self._configuration.run
        if run.policy:
            return Path(run.policy)
        if self._configuration.preset != "tiny":
            raise UsageError(
                "no policy is given; name its folder with --policy, or take --preset tiny, which "
                "makes one"
            )
        folder = self._out / "start"
        self._ranks.once(lambda: self._make_start(folder, played, force))
        return folder

    def _make_start(self, folder: Path, played: Played, force: bool) -> None:
        settings_of_run = asdict(self._configuration.run)
        about = {name: settings_of_run[name] for name in _OF_START}
        record = self._out / START_FILE
        if (folder / RENDERER_FILE).is_file():
            if not force:
                refuse_other_start(folder, record, about)
            return
        write_json_atomic(record, about)
        run, lessons = self._configuration.run, self._lessons()
        settings = StartSettings(
            env_id=run.env,
            prompt=run.prompt,
            horizon=run.horizon,
            max_new_tokens=run.max_new_tokens,
            cloning=_LONG if lessons else CloningSettings(),
        )
        make_start(
            played,
            folder,
            settings,
            self._view.cloned,
            lessons=lessons,
            on_lesson=self._view.taught,
            progress=self._view.doing,
        )

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
            make_env = environments(replace(run, data=str(folder)))
            tasks = select_tasks(make_env, "train", run.most_admissible)
            found.append(Played(make_env, tuple(tasks)))
        return found

    def _teacher(self, tokenizer: Any) -> Any:
        """The model that ``teacher_model`` names; None for algorithms without one."""
        settings = self._configuration.settings
        if not isinstance(settings, OpdConfig):
            return None
        device = self._ranks.load_device(self._configuration.run.device)
        teacher = load_policy(settings.teacher_model, device=device)
        check_vocabulary(tokenizer, teacher.tokenizer, settings.teacher_model)
        return teacher.module

    def _privileged(self, analyzer: Analyzer, tokenizer: Any) -> Privileged | None:
        run, settings = self._configuration.run, self._configuration.settings
        if not isinstance(settings, PrivilegedConfig) or settings.pi_source == "none":
            return None
        chat, made = TransformersChatTokenizer(tokenizer), self._configuration.make_algorithm()
        hinting = Hinting(
            analyzer,
            analyzer_settings(self._configuration),
            source=settings.pi_source,
            audit=self._out / self._own("audit"),
            seed=run.seed,
        )
        return Privileged(
            hinting,
            chat,
            plain_encode(tokenizer),
            prompt_template(run.prompt).reply_format,
            settings.pi_tokens,
            settings.pi_position,
            chat.chat_ids,
            mixed_by=None if made.needs.teacher_of_uniform_groups else settings,
        )

    def _own(self, name: str) -> str:
        """A folder's name on this rank: each asks about its own groups, and keeps the answers."""
        return f"{name}-{self._ranks.rank}" if self._ranks.size > 1 else name

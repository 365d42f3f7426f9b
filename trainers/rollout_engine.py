"""Which engine samples in training, and when: what the settings of a run name."""

from __future__ import annotations

import copy
import math
import shutil
from pathlib import Path
from typing import Any

from agentgym_suite.engines.loading import LoadedPolicy, save_policy
from agentgym_suite.engines.opening import PolicyEngine
from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.files import Progress, explain_full_disk, make_folder
from agentgym_suite.trainers.algorithm import Needs
from agentgym_suite.trainers.lora import merged
from agentgym_suite.trainers.models import frozen_copy
from agentgym_suite.trainers.policy_rollouts import PolicyRollouts
from agentgym_suite.trainers.prompt_budget import fitting_prompt
from agentgym_suite.trainers.ranks import ONE_PROCESS, Ranks
from agentgym_suite.trainers.rollout_schedules import Ahead, InStep, Schedule
from agentgym_suite.trainers.run_checks import shares_weights
from agentgym_suite.trainers.run_settings import Configuration, RunSettings
from agentgym_suite.trainers.stats import Reducer
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.weight_sync import WeightSync


def _pushes(run: RunSettings, ranks: Ranks) -> bool:
    """Whether this process brings weights to its engine: to a server, the first that asks it."""
    return not run.servers or ranks.rank < len(run.servers)


def make_rollout_engine(
    run: RunSettings,
    sampled: Any,
    tokenizer: Any,
    banned_ids: tuple[int, ...],
    out: Path,
    ranks: Ranks = ONE_PROCESS,
) -> PolicyEngine:
    """The engine that the settings name.

    Args:
        run: the settings.
        sampled: the policy with whole weights; ahead of the update, a copy of it samples.
        tokenizer: of transformers.
        banned_ids: ids that training never samples.
        out: folder of the run; the policy is written there for engines that read it from a folder.
        ranks: the processes that train; each asks one of the servers.

    Raises:
        MissingExtra: the engine is not installed.
        UsageError: the engine refuses an option, or the server was started without what is needed.
        EngineError: it cannot be started.
    """
    folder = out / "engine"
    if run.servers:
        from agentgym_suite.engines.vllm_server import VllmServerEngine

        exchange = folder / "weights"

        def prepare() -> None:
            shutil.rmtree(exchange, ignore_errors=True)  # a run that was killed may leave a push
            _write(sampled, tokenizer, banned_ids, folder)

        ranks.once(prepare)
        return VllmServerEngine(
            run.servers[ranks.rank % len(run.servers)],
            folder,
            policy_version="start",
            exchange=exchange,
            concurrency=run.concurrency,
            timeout_s=run.episode_timeout_s,
            pushes=_pushes(run, ranks),
        )
    if run.engine == "vllm":
        from agentgym_suite.engines.vllm_engine import VllmEngine

        _write(sampled, tokenizer, banned_ids, folder)
        options = dict(run.engine_options)
        dtype = str(options.pop("dtype", "auto"))
        return VllmEngine(folder, policy_version="start", dtype=dtype, options=options)
    module = sampled if shares_weights(run) else frozen_copy(sampled)
    return TransformersEngine(module, tokenizer, policy_version="start", max_rows=run.concurrency)


def _write(sampled: Any, tokenizer: Any, banned_ids: tuple[int, ...], folder: Path) -> None:
    """The policy as training samples it: what an export bans besides, training does not."""
    plain, decoding = merged(sampled), sampled.generation_config
    plain.generation_config = copy.deepcopy(decoding)
    plain.generation_config.suppress_tokens = list(banned_ids) or None
    make_folder(folder)
    with explain_full_disk(folder):
        save_policy(LoadedPolicy(plain, tokenizer), folder)
    plain.generation_config = decoding


def make_rollouts(
    configuration: Configuration,
    played: Played,
    engine: PolicyEngine,
    banned_ids: tuple[int, ...],
    needs: Needs,
    *,
    hint: int,
    ranks: Ranks,
    progress: Progress | None = None,
) -> PolicyRollouts:
    """What plays with an engine as the settings want it.

    Args:
        configuration: of the run.
        played: environment and tasks.
        engine: samples.
        banned_ids: ids that training never samples.
        needs: what the algorithm wants of trajectories.
        hint: tokens of privileged information that a prompt must leave room for.
        ranks: the processes that train.
        progress: told the episodes that are over.

    Raises:
        UsageError: the policy's window has no room for a prompt.
    """
    run = configuration.run
    sampling = Sampling(
        temperature=run.temperature,
        max_new_tokens=run.max_new_tokens,
        stop_ids=engine.tokenizer.stop_ids,
        banned_ids=banned_ids,
    )
    prompt = fitting_prompt(
        run.prompt,
        engine.tokenizer,
        most_tokens=run.prompt_tokens,
        window=engine.context_window,
        beside=run.max_new_tokens + hint,
    )
    # what is exchanged in the thread of the rollouts must not meet what the update exchanges
    apart = ranks.beside() if run.max_staleness else ranks
    return PolicyRollouts(configuration, played, engine, sampling, prompt, needs, apart, progress)


def make_sync(
    run: RunSettings, rollouts: PolicyRollouts, banned_ids: tuple[int, ...]
) -> WeightSync:
    """What brings the trainer's weights to the engine of these rollouts."""
    ranks = rollouts.ranks
    return WeightSync(
        rollouts.engine,
        rollouts.sampling,
        banned_ids,
        shared=shares_weights(run),
        merged=run.engine != "transformers",
        tolerance=run.sync_tolerance,
        pushes=_pushes(run, ranks),
        meet=ranks.meet,
    )


def make_schedule(
    run: RunSettings, rollouts: PolicyRollouts, sync: WeightSync, reducer: Reducer
) -> Schedule:
    """When the settings want trajectories to be played.

    Args:
        run: the settings.
        rollouts: plays.
        sync: brings weights to the engine that it asks.
        reducer: tells what other processes have begun, in the thread that trains.
    """
    if not run.max_staleness:
        return InStep(rollouts, sync)
    last = run.iterations or math.inf
    return Ahead(rollouts, sync, run.max_staleness, last=last, reducer=reducer)

"""The start of a tiny policy: words, demonstrations, cloning, and a folder that all can load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agentgym_suite.engines.tokens import Sampling
from agentgym_suite.engines.transformers_engine import TransformersEngine
from agentgym_suite.episodes import EpisodeRequest, PlaySettings
from agentgym_suite.errors import UsageError
from agentgym_suite.files import Progress
from agentgym_suite.prompts import StepPrompt, prompt_template
from agentgym_suite.rollouts import OnEpisode
from agentgym_suite.trainers.cloning import CloningSettings, CloningStep, clone
from agentgym_suite.trainers.collector import Collector, RolloutSettings, plan_groups
from agentgym_suite.trainers.demonstrations import (
    Demonstration,
    Targets,
    cover,
    demonstrate,
    noisy_teacher,
    play_all,
)
from agentgym_suite.trainers.exports import save_policy
from agentgym_suite.trainers.hinting import Hinting
from agentgym_suite.trainers.offline_analyzers import RuleAnalyzer
from agentgym_suite.trainers.privileged import PI_FOOTER, PI_HEADER
from agentgym_suite.trainers.task_lists import Played
from agentgym_suite.trainers.tiny_policy import TinyShape, build_policy, build_tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    """How a start is made.

    Attributes:
        env_id: Gymnasium id.
        prompt: prompt template.
        horizon: most steps of an episode; 0 leaves it to the environment.
        max_new_tokens: most tokens of a reply.
        most_words: most words that the policy knows; all that it should write, then the frequent.
        noise: probability that the teacher errs at a step.
        rounds: episodes of the teacher on each task that will be trained on.
        lesson_rounds: episodes of the teacher on each task of a lesson.
        targets: what is imitated.
        skipped: actions that the teacher never errs with, since they tell nothing.
        told: share of the demonstrations that carry privileged information, as TASPO's teacher
            is told it; 0 shows none.
        cloning: how it is imitated.
        shape: size of the network.
        seed: of all chance.

    Raises:
        UsageError: the prompt asks for another reply than the bare command that is imitated.
    """

    env_id: str = "ALFWorld-v0"
    prompt: str = "terse"
    horizon: int = 20
    max_new_tokens: int = 12
    most_words: int = 2000
    noise: float = 0.4
    rounds: int = 12
    lesson_rounds: int = 2
    targets: Targets = "executed"
    skipped: frozenset[str] = frozenset(("help", "inventory", "look"))
    told: float = 0.3
    cloning: CloningSettings = field(default_factory=CloningSettings)
    shape: TinyShape = field(default_factory=TinyShape)
    seed: int = 0

    def __post_init__(self) -> None:
        if prompt_template(self.prompt).reply_format != "raw":
            raise UsageError(
                f"prompt {self.prompt!r} asks for more than the bare command that a cloned start "
                "writes; use 'terse' or 'compact', or give a policy that knows it"
            )


def make_start(
    played: Played,
    folder: Path,
    settings: StartSettings,
    on_step: Callable[[CloningStep], None] | None = None,
    *,
    lessons: Sequence[Played] = (),
    on_lesson: Callable[[int, int, int], None] | None = None,
    progress: Progress | None = None,
) -> float:
    """Build, clone and write a tiny policy.

    Args:
        played: what it will be trained on. Its words are learnt, and its tasks measured.
        folder: where the policy goes.
        settings: how.
        on_step: told each optimizer step.
        lessons: what the teacher shows besides, so that the policy reads rather than remembers.
        on_lesson: told after each list of tasks how many were shown, of how many, and the
            demonstrations so far.
        progress: told the episodes that are over.

    Returns:
        The share of the training tasks that the policy wins at temperature 1.
    """

    def told(phase: str) -> OnEpisode | None:
        return None if progress is None else partial(progress, f"start: {phase}")

    play = PlaySettings(prompt=StepPrompt(settings.prompt), max_steps=settings.horizon or None)
    shown: list[Demonstration] = []
    taught = [(played, settings.rounds), *((one, settings.lesson_rounds) for one in lessons)]
    for number, (lesson, rounds) in enumerate(taught, 1):
        heard = told(f"episodes of the teacher, lesson {number} of {len(taught)}")
        shown += _shown(lesson, play, rounds, settings, heard)
        if on_lesson is not None:
            on_lesson(number, len(taught), len(shown))
    known = (*played.tasks, *played.unseen)
    requests = [EpisodeRequest(task_id, settings.seed) for task_id in known]
    oracle, heard = noisy_teacher(0.0), told("episodes read for words")
    texts = cover(play_all(played.make_env, oracle, requests, play, on_episode=heard))
    texts += [message.content for one in shown for message in one.messages]
    texts += [PI_HEADER + one.pi + PI_FOOTER for one in shown if one.pi]
    written = (one.action for one in shown)
    tokenizer = build_tokenizer(written, largest=settings.most_words, others=texts)
    model = build_policy(tokenizer, shape=settings.shape, seed=settings.seed)
    engine = TransformersEngine(model, tokenizer, policy_version="cloning", max_rows=256)
    rollout = RolloutSettings(
        env_id=settings.env_id,
        play=play,
        sampling=Sampling(
            max_new_tokens=settings.max_new_tokens, stop_ids=engine.tokenizer.stop_ids
        ),
    )
    collector = Collector(
        played.make_env, engine, engine.tokenizer, rollout, told("episodes of the clone")
    )

    def success() -> float:
        requests = plan_groups(played.tasks, 2, seed=settings.seed, iteration=0)
        episodes = collector.collect(requests).episodes
        return sum(episode.success for episode in episodes) / len(episodes)

    won = 0.0
    for step in clone(model, tokenizer, shown, settings.cloning, success):
        won = won if step.success is None else step.success
        if on_step is not None:
            on_step(step)
    save_policy(folder, model, tokenizer, prompt=settings.prompt)
    return won


def _shown(
    lesson: Played,
    play: PlaySettings,
    rounds: int,
    settings: StartSettings,
    on_episode: OnEpisode | None,
) -> list[Demonstration]:
    return demonstrate(
        lesson.make_env,
        lesson.tasks,
        play,
        noise=settings.noise,
        rounds=rounds,
        seed=settings.seed,
        targets=settings.targets,
        skipped=settings.skipped,
        hinting=Hinting(RuleAnalyzer()) if settings.told else None,
        told=settings.told,
        on_episode=on_episode,
    )

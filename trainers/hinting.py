"""The privileged information of an iteration: episodes in, one text a trajectory out.

What a training loop calls between playing and scoring: groups are made of the episodes, analyzed,
written to the audit and counted; trajectories are named as their rows are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_suite.episodes import Episode
from agentgym_suite.errors import UsageError
from agentgym_suite.trainers.analyzer import (
    Analyzer,
    AnalyzerSettings,
    GroupAnalysis,
    analysis_metrics,
    analyze_groups,
)
from agentgym_suite.trainers.analyzer_audit import write_audit
from agentgym_suite.trainers.config import PiSource
from agentgym_suite.trainers.pi_sources import privileged_texts
from agentgym_suite.trainers.rows import trajectory_id
from agentgym_suite.trainers.trajectory_traces import TraceGroup, trace_group


@dataclass(frozen=True, slots=True)
class Hints:
    """The privileged information of an iteration.

    Attributes:
        texts: of each trajectory by its ``trajectory_id``, "" for none.
        analyses: of each group, where an analyzer was asked.
        metrics: ``coverage`` of trajectories, and the figures of the analyses.
    """

    texts: Mapping[str, str]
    analyses: tuple[GroupAnalysis, ...]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Hinting:
    """How the privileged information of an iteration is made.

    Attributes:
        analyzer: what is asked when the source is ``aligned``.
        settings: how groups are analyzed.
        source: where the texts come from.
        audit: folder of the audit; None writes none.
        seed: of the choices of ``random_success``, with the iteration's number.
        task_of: the task of an episode in words; None takes its first observation.
    """

    analyzer: Analyzer
    settings: AnalyzerSettings = AnalyzerSettings()
    source: PiSource = "aligned"
    audit: Path | None = None
    seed: int = 0
    task_of: Callable[[Episode], str] | None = None

    def hints(self, episodes: Sequence[Episode], iteration: int) -> Hints:
        """The privileged information of each trajectory of an iteration.

        Args:
            episodes: of whole groups, in any order; none that failed.
            iteration: the number of the update, for the audit.

        Raises:
            UsageError: an episode without group or two of one trial in a group.
            AnalyzerError: the analyzer failed and ``settings.required`` is set.
            DataError: the audit cannot be written.
        """
        groups = self._groups(episodes)
        aligned = self.source == "aligned"
        analyses = analyze_groups(groups, self.analyzer, self.settings) if aligned else []
        if aligned and self.audit is not None:
            write_audit(self.audit, iteration, analyses)
        texts: dict[str, str] = {}
        for number, group in enumerate(groups):
            texts |= privileged_texts(
                group,
                self.source,
                analysis=analyses[number] if aligned else None,
                seed=self.seed + iteration,
            )
        covered = sum(map(bool, texts.values()))
        metrics = analysis_metrics(analyses) if aligned else {}
        metrics["coverage"] = covered / len(texts) if texts else 0.0
        return Hints(texts, tuple(analyses), metrics)

    def _groups(self, episodes: Sequence[Episode]) -> list[TraceGroup]:
        members: defaultdict[str, list[Episode]] = defaultdict(list)
        for episode in episodes:
            if not episode.group_id:
                raise UsageError(
                    f"the episode of task {episode.task_id!r} has no group; give its request a "
                    "group_id"
                )
            members[episode.group_id].append(episode)
        return [self._group(uid, found) for uid, found in sorted(members.items())]

    def _group(self, group_uid: str, episodes: Sequence[Episode]) -> TraceGroup:
        ordered = sorted(episodes, key=lambda episode: episode.trial)
        return trace_group(
            group_uid,
            ordered,
            [trajectory_id(episode) for episode in ordered],
            task=self.task_of(ordered[0]) if self.task_of is not None else "",
        )

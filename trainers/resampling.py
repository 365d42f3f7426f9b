"""Dynamic sampling: a group whose scores are all equal teaches nothing, and another one is drawn.

Source: DAPO (arXiv 2503.14476), section 3.2. The group that takes its place is of the next task in
the order of tasks; what was played for nothing is part of the collection's environment steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from itertools import chain

from agentgym_suite.trainers.advantages import trajectory_scores
from agentgym_suite.trainers.batch import collate
from agentgym_suite.trainers.collector import Collection
from agentgym_suite.trainers.config import AlgorithmConfig
from agentgym_suite.trainers.returns import row_rewards
from agentgym_suite.trainers.rows import StepRow
from agentgym_suite.trainers.stats import GROUP_EPS, Reducer

PlayGroups = Callable[[int, int], Collection]
"""(number of the first group, how many) -> their trajectories."""


def play_groups(
    play: PlayGroups, count: int, *, rounds: int, config: AlgorithmConfig, reducer: Reducer
) -> Collection:
    """So many groups, those of equal scores drawn again.

    Args:
        play: plays groups; a number belongs to one group of the iteration alone. Those that are
            drawn again may all break, and are missing then.
        count: groups of the iteration, on all ranks.
        rounds: how often they are drawn again, at most; with 0 every group stays.
        config: makes scores of rewards.
        reducer: tells ranks of each other's groups.

    Returns:
        The groups whose scores differ, maybe fewer than ``count``. Where those of all rounds are
        equal, the last round's stay, so that there is something to go on with.
    """
    parts, drawn = [play(0, count)], count
    if not rounds:
        return replace(parts[0], groups=count)
    equal, last = set[str](), set[str]()
    for left in range(rounds, -1, -1):
        now = set(reducer.gather(sorted(equal_groups(parts[-1].rows, config))))
        equal, last = equal | now, now or last
        if not (now and left):
            break
        parts.append(play(drawn, len(now)))
        drawn += len(now)
    whole = joined(parts)
    played = reducer.gather(sorted({row.group_id for row in whole.rows}))
    gone = equal if equal < set(played) else equal - last
    return replace(without(whole, gone), groups=drawn)


def equal_groups(rows: Sequence[StepRow], config: AlgorithmConfig) -> frozenset[str]:
    """The groups in which no trajectory has another score than the others.

    Scores are the sums of rewards as the algorithm sees them, without a divergence that would
    belong into them: what it takes is known after the policy's own pass only.

    Args:
        rows: of whole groups.
        config: scale and penalties.
    """
    if not rows:
        return frozenset()
    batch = collate(rows)
    scores = trajectory_scores(batch, row_rewards(batch, replace(config, kl_coef=0.0)))
    members: defaultdict[str, list[float]] = defaultdict(list)
    for trajectory in batch.trajectories():
        row = batch.rows[trajectory[0]]
        members[row.group_id].append(scores[row.trajectory_id])
    return frozenset(group for group, line in members.items() if max(line) - min(line) < GROUP_EPS)


def joined(parts: Sequence[Collection]) -> Collection:
    """Several collections of an iteration as one."""
    return Collection(
        rows=tuple(chain.from_iterable(part.rows for part in parts)),
        episodes=tuple(chain.from_iterable(part.episodes for part in parts)),
        failures=tuple(chain.from_iterable(part.failures for part in parts)),
        filtered=tuple(chain.from_iterable(part.filtered for part in parts)),
        dropped=sum(part.dropped for part in parts),
        env_steps=sum(part.env_steps for part in parts),
    )


def without(collection: Collection, groups: Set[str]) -> Collection:
    """The collection with some groups left out of what is trained on."""
    gone = tuple(one for one in collection.episodes if one.group_id in groups)
    return replace(
        collection,
        rows=tuple(row for row in collection.rows if row.group_id not in groups),
        episodes=tuple(one for one in collection.episodes if one.group_id not in groups),
        filtered=collection.filtered + gone,
    )

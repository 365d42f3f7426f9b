"""The agent ``replay``: plays the actions that a recorded run holds, episode by episode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gymnasium as gym

from agentgym_suite.episodes import Reply, Turn
from agentgym_suite.errors import RunError, UsageError
from agentgym_suite.evaluation.episode_keys import EpisodeKey, key_of
from agentgym_suite.evaluation.run_directory import EPISODES, read_records
from agentgym_suite.evaluation.run_header import read_run, run_folder
from agentgym_suite.evaluation.settings import AgentSpec
from agentgym_suite.evaluation.unranked_agents import RECORDED_AGENT
from agentgym_suite.files import sha256_file
from agentgym_suite.game import env_id_of

Recordings = Mapping[EpisodeKey, tuple[str, ...]]


class RunReplayAgent:
    """Gives the actions that were recorded of its task and trial, one a turn."""

    def __init__(self, env: gym.Env[str, str], recordings: Recordings, run: str) -> None:
        self._env_id = env_id_of(env)
        self._recordings = recordings
        self._run = run

    def act(self, turn: Turn) -> Reply:
        """The recorded action of this step.

        Raises:
            UsageError: the episode was not recorded, or goes on after its recording's end.
        """
        key = EpisodeKey(self._env_id, turn.task.id, turn.trial)
        actions = self._recordings.get(key)
        if actions is None:
            raise UsageError(
                f"the run {self._run} has no episode {key}; replay the suite it played"
            )
        if turn.step_index >= len(actions):
            raise UsageError(
                f"the recording of {key} has {len(actions)} actions; replay it with the data and "
                "versions it was recorded with"
            )
        return Reply(actions[turn.step_index])

    def close(self) -> None:
        """Nothing is held."""


def replayed_run(folder: Path | str) -> AgentSpec:
    """The agent that plays a run again.

    Raises:
        RunError: the folder holds no run, or a damaged one, or one without episodes.
    """
    folder = run_folder(folder)
    header = read_run(folder)
    recordings = {
        key_of(record): tuple(step["parsed_action"] for step in record["steps"])
        for record in read_records(folder / EPISODES)
    }
    if not recordings:
        raise RunError(f"{folder} holds no finished episode; replay another run")
    name = f"replay:{header['agent']}"
    return AgentSpec(
        name,
        lambda env, seed: RunReplayAgent(env, recordings, header["agent"]),
        config={
            "kind": "replay",
            "run": header["config_digest"],
            RECORDED_AGENT: header["config"]["agent"],
            "episodes": f"sha256:{sha256_file(folder / EPISODES)}",
        },
    )

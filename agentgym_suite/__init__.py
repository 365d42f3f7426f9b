"""Gymnasium environments for language-model agents.

Importing this package registers the environments, and imports nothing heavy:

    import gymnasium as gym, agentgym_suite

    env = gym.make("WebShop-v0")
    observation, info = env.reset(seed=7)
    observation, reward, terminated, truncated, info = env.step("search[red running shoes]")
"""

from __future__ import annotations

from agentgym_suite.calls import ToolCall
from agentgym_suite.env import TextEnv
from agentgym_suite.episodes import (
    Agent,
    AgentFactory,
    Episode,
    EpisodeRequest,
    Failure,
    PlaySettings,
    Reply,
    Step,
    Timings,
    TokenTrace,
    Turn,
)
from agentgym_suite.errors import AgentGymSuiteError, MissingExtra, UsageError
from agentgym_suite.playing import run_episode
from agentgym_suite.prompts import Message, StepPrompt
from agentgym_suite.registry import ENV_IDS, register_environments
from agentgym_suite.replies import ParsedAction, parse_reply
from agentgym_suite.rewards import RewardPreset, reward_preset
from agentgym_suite.rollouts import run_episodes
from agentgym_suite.spaces import UnicodeText
from agentgym_suite.tasks import Task, TaskSet
from agentgym_suite.usage import Usage
from agentgym_suite.versions import suite_version

__all__ = [
    "Agent",
    "AgentFactory",
    "AgentGymSuiteError",
    "ENV_IDS",
    "Episode",
    "EpisodeRequest",
    "Failure",
    "Message",
    "MissingExtra",
    "ParsedAction",
    "PlaySettings",
    "Reply",
    "RewardPreset",
    "Step",
    "StepPrompt",
    "Task",
    "TaskSet",
    "TextEnv",
    "Timings",
    "TokenTrace",
    "ToolCall",
    "Turn",
    "UnicodeText",
    "Usage",
    "UsageError",
    "__version__",
    "parse_reply",
    "register_environments",
    "reward_preset",
    "run_episode",
    "run_episodes",
    "suite_version",
]

__version__ = suite_version()

register_environments()

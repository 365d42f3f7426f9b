"""An agent loop of veRL that plays any registered environment through the suite's own episodes.

One output is one step: its prompt as the environment's renderer wrote it, and its reply as the
server sampled it. veRL knows the score of a trajectory alone, so every output carries that; rewards
of steps and their places lie in ``extra_fields``.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
)

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.tokens import Generated
from agentgym_suite.episodes import Episode, EpisodeRequest
from agentgym_suite.errors import EngineError, EnvError, UsageError
from agentgym_suite.rollouts import run_episodes
from agentgym_suite.trainers.action_span import ACTION_RULES, step_action_mask
from agentgym_suite.trainers.collector import PolicyPlayer, derived_seed
from agentgym_suite.trainers.privileged import plain_encode
from agentgym_suite.trainers.rows import StepRow, episode_rows
from agentgym_suite.trainers.task_lists import environments
from agentgym_suite.trainers.verl_rows import EPISODE, FIELD, row_fields
from agentgym_suite.trainers.verl_settings import play_settings, verl_configuration


class ServerReplies:
    """Replies of veRL's servers, as a player asks for them.

    Args:
        server: veRL's client.
        sampling: its parameters.
        stop_ids: each ends a reply.
        step: the trainer's step, for a server that does not tell its weights' version.
    """

    def __init__(
        self, server: Any, sampling: dict[str, Any], stop_ids: Sequence[int], step: int
    ) -> None:
        self._server = server
        self._sampling = sampling
        self._stop_ids = frozenset(stop_ids)
        self._step = step
        self._request_id = uuid4().hex  # one a trajectory: it stays at one server's cache
        self.versions: list[int] = []

    async def reply(self, episode: int, prompt: Sequence[int], seed: int) -> Generated:
        """The reply to an episode's next prompt; the seeds are the server's own.

        Raises:
            EngineError: nothing was sampled.
            UsageError: the server gives no log-probabilities.
        """
        said = await self._server.generate(
            request_id=self._request_id,
            prompt_ids=list(prompt),
            sampling_params=dict(self._sampling),
        )
        ids = tuple(said.token_ids)
        if not ids:
            raise EngineError(f"the server sampled nothing ({said.stop_reason})")
        if not said.log_probs:
            raise UsageError(
                "the server gives no log-probabilities; set "
                "actor_rollout_ref.rollout.calculate_log_probs=True"
            )
        extra = said.extra_fields
        for name in ("min_global_steps", "max_global_steps", "global_steps"):
            if extra.get(name) is not None:
                self.versions.append(int(extra[name]))
        return Generated(
            ids,
            tuple(said.log_probs),
            "stop" if ids[-1] in self._stop_ids else "length",
            str(self.versions[-1] if self.versions else self._step),
        )

    def leave(self, episode: int) -> None:
        """Nobody waits for an episode here."""


class EpisodeLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays one trajectory; the section ``algorithm.agentgym`` says of what and how."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        """One output a step, in the order of time.

        Args:
            sampling_params: veRL's.
            kwargs: the row of the data set, with ``extra_info.task_id``; ``uid`` names the group.

        Raises:
            UsageError: the row names no task, or a setting is wrong.
            EnvError: the trajectory broke in every attempt; veRL drops its group.
        """
        configuration = verl_configuration(self.config.algorithm)
        run = configuration.run
        tokenizer = TransformersChatTokenizer(self.tokenizer)
        play = play_settings(run, self.tokenizer)
        request, step = _request(kwargs, run.seed), int(kwargs.get("global_steps", 0))
        why = ""
        for attempt in range(run.attempts):
            replies = ServerReplies(self.server_manager, sampling_params, tokenizer.stop_ids, step)

            def player(env: Any, seed: int, replies: ServerReplies = replies) -> PolicyPlayer:
                return PolicyPlayer(replies, tokenizer, seed)

            again = derived_seed(request.agent_seed or 0, "attempt", attempt)
            async for episode in run_episodes(
                environments(run),
                player,
                [replace(request, agent_seed=again)],
                settings=play,
                concurrency=1,
                timeout_s=run.episode_timeout_s,
            ):
                if episode.failure is None:
                    told = configuration.make_algorithm().needs.teacher == "privileged"
                    rows = episode_rows(episode, env_id=run.env)
                    if told:
                        rows = self._masked(episode, rows, play.reply_format)
                    return _outputs(episode, rows, replies.versions or [step], told)
                why = episode.failure.message
        raise EnvError(f"task {request.task_id!r} broke {run.attempts} times, the last with: {why}")

    def _masked(
        self, episode: Episode, rows: Sequence[StepRow], reply_format: str
    ) -> tuple[StepRow, ...]:
        """The rows with the mask of the executable action."""
        tokenizer = TransformersChatTokenizer(self.tokenizer)
        encode = plain_encode(self.tokenizer)
        return tuple(
            replace(
                row,
                action_mask=step_action_mask(
                    step,
                    ACTION_RULES[reply_format],
                    decode=tokenizer.text,
                    encode=encode,
                    end_ids=tokenizer.stop_ids,
                ),
            )
            for row, step in zip(rows, episode.steps, strict=True)
        )


def _request(row: dict[str, Any], seed: int) -> EpisodeRequest:
    """The episode of a row: one environment seed a group, one agent seed a trajectory."""
    task = (row.get("extra_info") or {}).get("task_id")
    if task is None:
        raise UsageError("a row of the data names no extra_info.task_id; write it by task_rows")
    place = (int(row.get("global_steps", 0)), int(row.get("index", 0)))
    trial = int(row.get("session_id", 0))
    return EpisodeRequest(
        str(task),
        derived_seed(seed, "environment", *place) >> 32,
        trial=trial,
        group_id=str(row["uid"]),
        agent_seed=derived_seed(seed, "agent", *place, trial),
    )


def _outputs(
    episode: Episode, rows: Sequence[StepRow], versions: Sequence[int], told: bool
) -> list[AgentLoopOutput]:
    score = sum(row.reward for row in rows)
    info = {"success": float(episode.success), "score": episode.score, "steps": len(rows)}
    outputs = [
        AgentLoopOutput(
            prompt_ids=list(row.prompt_ids),
            response_ids=list(row.response_ids),
            response_mask=list(row.response_mask),
            response_logprobs=list(row.rollout_logprobs),
            reward_score=score,
            num_turns=2 * len(rows),
            metrics=AgentLoopMetrics(
                generate_sequences=step.reply.latency_s, tool_calls=step.timings.env_s
            ),
            extra_fields={
                FIELD: row_fields(row),
                EPISODE: None,
                "reward_extra_info": info,
                "min_global_steps": min(versions),
                "max_global_steps": max(versions),
                "turn_scores": [],
                "tool_rewards": [],
            },
        )
        for row, step in zip(rows, episode.steps, strict=True)
    ]
    if told:
        outputs[-1].extra_fields[EPISODE] = pickle.dumps(episode)  # veRL makes a dict of an object
    return outputs

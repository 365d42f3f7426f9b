"""``MultiHopQAEnv``: searching for an answer as a Gymnasium environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from agentgym_suite.arguments import check_data, check_split, offers, refuse_unknown, shown
from agentgym_suite.call_results import Played, results_json
from agentgym_suite.data import canonical_json
from agentgym_suite.env import TextEnv, Transition
from agentgym_suite.errors import DataDamaged, UsageError
from agentgym_suite.game import Policy
from agentgym_suite.indexes.passages import PassageIndex
from agentgym_suite.multihop_qa import policies
from agentgym_suite.multihop_qa.actions import ANSWER, CODEC, SEARCH
from agentgym_suite.multihop_qa.episode import QAEpisode
from agentgym_suite.multihop_qa.observations import (
    WHOLE_STATE,
    Ahead,
    Layout,
    ObservationFormat,
    write_observation,
)
from agentgym_suite.multihop_qa.question_set import QuestionSet, open_question_set
from agentgym_suite.multihop_qa.questions import Question
from agentgym_suite.multihop_qa.reward import PassagePolicy, QAReward, find_preset
from agentgym_suite.multihop_qa.searching import check_index, open_passages, told_index
from agentgym_suite.multihop_qa.settings import choose_settings
from agentgym_suite.multihop_qa.state import QAState
from agentgym_suite.tasks import Task, TaskSet

_BESIDE_PASSAGES = 32_768  # characters of the question, the earlier searches and the feedback


class MultiHopQAEnv(TextEnv):
    """Answer a question whose facts lie in several passages, found by searching.

    Description:
        Question answering over a corpus of passages, as search agents are trained and measured:
        HotpotQA, 2WikiMultihopQA, MuSiQue and the open-domain sets of Search-R1. A step may hold
        several searches, which are carried out in the order they are written; one answer ends the
        episode.

    Action Space:
        ``UnicodeText``. One call a line: ``search[query]``, at most ``max_calls`` of them a step,
        and ``answer[short answer]``. Names in any case; the argument runs from the first ``[`` to
        the last ``]``. A malformed line, a search over the limit, a query asked before and a line
        behind the answer are refused with feedback, one by one, and told in ``calls``. An action
        without any call that is carried out is invalid: it changes nothing but the feedback. At
        most 16,384 characters a step.

    Observation Space:
        ``UnicodeText``. ``state``: the complete state, so that the last observation is enough:
        question, earlier searches, numbered passages with the query that found them first,
        feedback on the last action, legal calls and steps left. Where the passages are longer than
        ``observation_chars``, older ones give way. ``steppo``: the same under that project's
        headers, for the prompt template of that name. ``search_r1``, ``verl``, ``skyrl``: the bare
        results of the last step as these projects show them; at reset the question.

    Rewards:
        The sum over the calls of a step, each told in ``calls``:

        ========================  =======================  ==================  ==================
        preset                    ``paper``                ``steppo``          ``search_r1``
        ========================  =======================  ==================  ==================
        answer, exact match       1.0                      1.0                 1.0
        compared with             all accepted answers     the first one       all accepted ones
        search carried out        0.1, at most 0.5         0                   0
        wrong answer              0                        0                   0
        malformed, refused        0                        0                   0
        query asked before        refused                  searched again      refused
        action without a call     malformed                **is the answer**   malformed
        last step                 any call                 any call            answer only
        top_k, max_calls          5, 4                     5, 4                3, 1
        question searched first   no                       yes                 no
        passages too long         newest kept              first kept          newest kept
        ========================  =======================  ==================  ==================

        The hole of ``steppo`` is the published code's: text without a call ends the episode and is
        paid as the answer (the last ``<answer>`` in it, else all of it). CAPO's paper gives no
        number for the format reward: 0.1 and its bound are ours. The verl-agent line of Search-R1
        plays 4 steps and lets the last one search: ``QAReward(format_reward=0.0)`` with ``top_k=3,
        max_calls=1, max_episode_steps=4``.

    Starting State:
        A question drawn uniformly from the split, no passages.

    Episode End:
        ``terminated`` by ``answer[…]``, right or wrong. ``truncated`` by the time limit, 5 steps
        unless given; an episode without an answer scores 0.

    Arguments:
        ``reward`` sets what is in its column of the table; ``top_k``, ``max_calls``,
        ``first_search`` and ``passage_policy`` override it. ``scorer`` names the official script
        whose exact match is the score: hotpot, 2wiki, musique, search_r1; they differ in F1.

    Information:
        Beside the common keys: ``question``; ``calls``, JSON list of what each line of the action
        did (line, name, argument, status, reward, new_ids, message); ``last_results``, JSON list
        with one list of ``{id, title, score}`` for each search of the step; ``answer`` ("" until
        given); ``answered``; ``golds``, JSON list of the accepted answers once the episode is over,
        before that "". ``metrics``: em, f1, search_calls, valid_calls, repeated_calls,
        malformed_calls, refused_calls, format_reward, answer_reward, passages, support_recall (part
        of the supporting titles among the passages; 0.0 unless support_known), hops (of the
        question, 0.0 unknown).

    Data:
        ``data=None`` plays the embedded encyclopedia, generated at first use. The name of a data
        set of ``agentgym-suite data list``, a folder that ``data import`` made, or official files
        (HotpotQA, 2Wiki, MuSiQue, FlashRAG and Search-R1 rows) play those. Task ids are
        ``<dataset>/<split>/<official id>``. Data without passages of their own need ``index``.

    Version History:
        v0: first version.

    Args:
        data: what to play; None for the embedded encyclopedia.
        split: split that a reset without a task draws from: train, dev, test; None is dev, or the
            one that results are reported on where the data have no dev.
        index: ``"fts5"`` (None), ``"dense"`` or ``"hybrid"`` over the data's own passages, built at
            first use; the folder of an index; or the address of a retrieval server.
        reward: ``"paper"``, ``"steppo"``, ``"search_r1"``, or a ``QAReward``.
        scorer: ``"hotpot"``, ``"2wiki"``, ``"musique"`` or ``"search_r1"``.
        top_k: passages of one search; None as the reward's preset.
        max_calls: searches of one step; None as the preset.
        first_search: whether the question itself is searched at reset; None as the preset.
        passage_policy: ``"keep_newest"`` or ``"keep_first"``; None as the preset.
        passage_chars: most characters shown of a passage.
        observation_chars: most characters shown of all passages.
        observation_format: ``"state"``, ``"steppo"``, ``"search_r1"``, ``"verl"`` or ``"skyrl"``.
        questions: open questions to play, instead of opening ``data``.
        passages: an open index to search, instead of opening ``index``; the caller closes it.
        render_mode: None or ``"ansi"``.

    Raises:
        UsageError: an argument or a value is unknown; the sentence names those there are.
    """

    codec = CODEC
    remote_kwargs: ClassVar[tuple[str, ...]] = (
        *TextEnv.remote_kwargs,
        "reward",
        "scorer",
        "top_k",
        "max_calls",
        "first_search",
        "passage_policy",
        "passage_chars",
        "observation_chars",
        "observation_format",
    )
    goal_key: ClassVar[str] = "question"
    detail_keys: ClassVar[tuple[str, ...]] = (
        "question",
        "calls",
        "last_results",
        "answer",
        "answered",
        "golds",
    )
    policies: ClassVar[Mapping[str, Callable[[Any], Policy]]] = {
        "oracle": lambda env: policies.OraclePolicy(lambda: env.state),
        "scripted": lambda env: policies.ScriptedPolicy(),
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Name the arguments there are for one that does not exist, before anything is made."""
        refuse_unknown(kwargs, *(c.__init__ for c in cls.__mro__ if issubclass(c, MultiHopQAEnv)))
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        data: str | Path | Sequence[str | Path] | None = None,
        *,
        split: str | None = None,
        index: str | Path | None = None,
        reward: str | QAReward = "paper",
        scorer: str = "hotpot",
        top_k: int | None = None,
        max_calls: int | None = None,
        first_search: bool | None = None,
        passage_policy: PassagePolicy | None = None,
        passage_chars: int = 1200,
        observation_chars: int = 32768,
        observation_format: ObservationFormat = "state",
        questions: QuestionSet | None = None,
        passages: PassageIndex | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._settings = choose_settings(
            reward, scorer, top_k=top_k, max_calls=max_calls, first_search=first_search
        )
        self._layout = Layout(
            observation_format,
            passage_chars,
            observation_chars,
            find_preset(reward)[1].passage_policy if passage_policy is None else passage_policy,
        )
        if self._settings.first_search and observation_format not in WHOLE_STATE:
            raise UsageError(
                f"observation_format {observation_format!r} shows the question at reset, not what "
                "it finds; give first_search=False with it"
            )
        super().__init__(
            split=check_split(split),
            render_mode=render_mode,
            observation_length=_BESIDE_PASSAGES + observation_chars,
            example_actions=policies.EXAMPLES,
        )
        self._data = check_data(data)
        self._index_name = check_index(index)
        if not isinstance(questions, QuestionSet | None):
            raise UsageError(f"questions is {shown(questions)}; give an open QuestionSet, or None")
        if passages is not None and not offers(passages, PassageIndex):
            raise UsageError(f"passages is {shown(passages)}; give an open PassageIndex, or None")
        self._questions = questions
        self._given_passages = passages
        self._passages: PassageIndex | None = None
        self._episode: QAEpisode | None = None

    # ------------------------------------------------------------- public API

    @property
    def questions(self) -> QuestionSet:
        """The questions of the data, opened at first use."""
        if self._questions is None:
            self._questions = open_question_set(self._data)
        return self._questions

    @property
    def passages(self) -> PassageIndex:
        """The index that searches go to, opened at first use."""
        if self._given_passages is not None:
            return self._given_passages
        if self._passages is None:
            self._passages = open_passages(self.questions, self._index_name)
        return self._passages

    @property
    def state(self) -> QAState:
        """The running episode, with its question and golds; privileged.

        Raises:
            UsageError: before the first reset.
        """
        if self._episode is None:
            raise UsageError("there is no question before the first reset; call reset()")
        return self._episode.state

    def random_action(self, rng: np.random.Generator) -> str:
        """A uniform draw from the examples, without searches that would be refused."""
        searching = self._next_max_calls(self._steps) > 0
        queries = policies.EXAMPLE_QUERIES if searching else ()
        actions = [
            *(f"{SEARCH}[{query}]" for query in queries if not self.state.was_searched(query)),
            *(f"{ANSWER}[{answer}]" for answer in policies.EXAMPLE_ANSWERS),
        ]
        return actions[int(rng.integers(len(actions)))]

    def close(self) -> None:
        """End the episode and close the index; may be called any number of times."""
        super().close()
        if self._passages is not None:
            self._passages.close()
            self._passages = None

    # ------------------------------------------------------------------ hooks

    def _load_tasks(self) -> TaskSet:
        tasks = self.questions.tasks
        default = "dev" if "dev" in tasks.splits else self.questions.evaluation_split
        self._split = self._split or default
        return tasks

    def _begin(self, task: Task) -> Transition:
        self._episode = None  # a question that cannot be asked leaves none behind
        question = self.questions.question(task.index)
        if not question.question.strip():
            raise DataDamaged(f"task {task.id} has an empty question; leave that row out")
        self._episode = QAEpisode(question, self.passages, self._settings)
        return Transition(self._observe(0, first=True))

    def _play(self, action: str) -> Transition:
        last = self.horizon is not None and self._steps + 1 >= self.horizon
        return self._tell(self._episode_now().play(action, last_step=last))

    def _refuse(self, action: str, error: str) -> Transition:
        return self._tell(self._episode_now().refuse(action, error))

    def _episode_now(self) -> QAEpisode:
        if self._episode is None:
            raise UsageError("there is no question before the first reset; call reset()")
        return self._episode

    def _tell(self, played: Played) -> Transition:
        return Transition(
            self._observe(self._steps + 1, first=False),
            played.reward,
            self.state.answered,
            played.error,
            played.parsed_action,
        )

    def _observe(self, steps: int, *, first: bool) -> str:
        left = None if self.horizon is None else max(0, self.horizon - steps)
        over = self.state.answered or left == 0
        ahead = Ahead(left, self._next_max_calls(steps), over)
        return write_observation(self.state, self._layout, ahead, first=first)

    def _next_max_calls(self, steps: int) -> int:
        """How many searches the step after so many takes."""
        last = self.horizon is not None and steps + 1 >= self.horizon
        return 0 if last and self._settings.reward.final_answer_only else self._settings.max_calls

    def _admissible_actions(self) -> tuple[str, ...]:
        return ()

    def _score(self) -> tuple[float, bool]:
        em = self.state.score.em
        return em, em == 1.0

    def _metrics(self) -> dict[str, float]:
        return self.state.metrics()

    def _details(self) -> dict[str, Any]:
        state = self.state
        over = state.answered or (self.horizon is not None and self._steps >= self.horizon)
        return {
            "question": state.question.question,
            "calls": results_json(state.results),
            "last_results": _results_json(state),
            "answer": state.answer,
            "answered": state.answered,
            "golds": _golds_json(state.question) if over else "",
        }

    def _state(self) -> str:
        state = self.state
        return canonical_json(
            {
                "task": self._task.id,
                "step": self._steps,
                "history": state.queries,
                "passages": [seen.passage.id for seen in state.passages],
                "answer": state.answer if state.answered else None,
            }
        )

    def _provenance(self) -> Mapping[str, Any]:
        index = told_index(self.passages)
        return {
            "dataset": self.questions.dataset,
            "split": self._task.split,
            "data_digest": self.questions.digest,
            "task_digest": self.tasks.digest,
            "index": index,
            "index_digest": index["digest"],
            "encoder": index["encoder"],
            **self._settings.told(),
            **self._layout.told(),
        }


def _results_json(state: QAState) -> str:
    return json.dumps(
        [
            [
                {"id": one.passage.id, "title": one.passage.title, "score": float(one.score)}
                for one in found
            ]
            for found in state.found
        ],
        ensure_ascii=False,
    )


def _golds_json(question: Question) -> str:
    return json.dumps(question.golds, ensure_ascii=False)

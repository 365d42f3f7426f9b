"""``PaperSearchEnv``: looking for papers as a Gymnasium environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from agentgym_suite.arguments import check_choice, check_data, check_split, refuse_unknown
from agentgym_suite.call_results import Played
from agentgym_suite.data import canonical_json
from agentgym_suite.env import TextEnv, Transition
from agentgym_suite.errors import DataDamaged, UsageError
from agentgym_suite.game import Policy
from agentgym_suite.paper_search import policies
from agentgym_suite.paper_search.actions import CODEC
from agentgym_suite.paper_search.annotated import Annotated
from agentgym_suite.paper_search.episode import PaperEpisode
from agentgym_suite.paper_search.judging import (
    check_selector,
    check_words_counted,
    judge_for,
    told_selector,
)
from agentgym_suite.paper_search.observations import (
    Ahead,
    Layout,
    ObservationFormat,
    write_observation,
)
from agentgym_suite.paper_search.paper_sources import RETRIEVALS, PaperSource
from agentgym_suite.paper_search.pool import PoolOrder
from agentgym_suite.paper_search.query_set import QuerySet, check_queries, open_query_set
from agentgym_suite.paper_search.reward import PaperReward, find_preset
from agentgym_suite.paper_search.searching import (
    check_index,
    check_papers,
    encoder_of,
    open_source,
    told_source,
)
from agentgym_suite.paper_search.settings import CUTOFF_OF_QUERY, PaperSettings
from agentgym_suite.paper_search.state import PaperState
from agentgym_suite.tasks import Task, TaskSet

if TYPE_CHECKING:
    from agentgym_suite.indexes.selectors import Selector

_OBSERVATION_LENGTH = 1 << 17  # twenty abstracts of 400 words, and the queries of an episode


class PaperSearchEnv(TextEnv):
    """Find the papers that answer a research question, by searching and along citations.

    Description:
        Academic paper search, as CAPO, StepPO, PaperScout and PaSa train and measure it. Papers
        that a search or an expansion brings are judged by a selector and enter a pool; what is in
        the pool with a high score is the result, measured against annotated papers. A step may
        hold several calls, which are carried out in the order they are written; what one finds the
        next may expand.

    Action Space:
        ``UnicodeText``. One call a line, searches and expansions together at most ``max_calls`` a
        step: ``search[query]``; ``expand[paper_id]``, which adds the papers that cite a paper of
        the pool and those that it cites; ``finish[]``. Names in any case; the argument runs from
        the first ``[`` to the last ``]``; an id may be written with version, prefix, in brackets
        or as an address. At most 16,384 characters a step. A malformed line, a call over the
        limit, a query or an expansion made before, an id that is not in the pool and a line behind
        the end are refused with feedback and told in ``calls``. An action without any call that is
        carried out is invalid: it changes nothing but the feedback.

    Observation Space:
        ``UnicodeText``. ``state``: the complete state, so that the last observation is enough:
        query, earlier calls, the pool (the ten best expanded and the ten best other papers, each
        with id, score, mark, title and 400 words of its abstract), feedback on the last action,
        legal calls and steps left. ``steppo``: the same under that project's headers, for the
        prompt template of that name.

    Rewards:
        The sum over the calls of a step, each told in ``calls`` with its parts:

        =========================  ==================  ==================  ==================
        preset                     ``paper``           ``steppo``          ``paperscout``
        =========================  ==================  ==================  ==================
        new papers of a call       best 3 scores       best 3 scores       best 3, 1 from 0.4
        cost of a search           0                   0                   0.1
        cost of an expansion       0                   0                   0.05
        call carried out           0.1, at most 0.5    0                   0
        query used before          -0.5                -0.5, same text     -0.5
        expanded before            -0.5                -0.5                -0.5
        expanded id not in pool    -0.5                -0.5                -0.5
        malformed line             -0.5                0                   0
        refused over the limit     0                   0                   0
        action without a call      malformed           ends the episode    malformed
        selector fails             error               score 0             score 0
        index fails                error               nothing found       nothing found
        equal scores shown by      id                  expanded, id down   id
        =========================  ==================  ==================  ==================

        A call that adds no paper costs nothing. New papers below a score of 0.01 are dropped. At
        most ``max_calls`` calls of a step are punished, so that no step of ``paper`` is below
        -2.5. CAPO's paper gives no number for the format reward: 0.1 and its bound are ours. It
        says that the best three are paid for each step, its code pays them for each call, and so
        do we; ``PaperReward(top_k_scope="step")`` is the other reading. What was published trains
        without dates: ``date_cutoff=None`` does.

    Starting State:
        A query drawn uniformly from the split, an empty pool.

    Episode End:
        ``terminated`` by ``finish[]``. ``truncated`` by the time limit, 5 steps unless given; the
        result is then the pool as it is.

    Arguments:
        ``score`` is F1@all: precision and recall of the papers with a selector score of at least
        ``deliver_threshold`` against the annotated ones; ``success`` means at least
        ``success_f1``. Papers of the cut-off's day and later are invisible in searches and
        expansions alike; a paper of which only month or year is known must be of an earlier one.

    Information:
        Beside the common keys: ``query``; ``calls``, JSON list of what each line of the action did
        (line, name, argument, status, reward, new_ids, message, and parts: papers, cost, format,
        penalty); ``pool``, JSON list of ``{id, score}``, best first; ``date_cutoff``, "" for none;
        ``golds``, JSON list of the annotated ids once the episode is over, before that "".
        ``metrics``: f1_all, recall_all, precision_all (at the threshold), f1_all_t0,
        recall_all_t0 (at 0.0), crawler_recall (the whole pool), recall_20, recall_50, recall_100,
        search_calls, expand_calls, repeated_calls, malformed_calls, refused_calls,
        invalid_expands, pool_size, new_papers (those not expanded), expanded.

    Data:
        ``data=None`` plays the embedded literature, generated at first use. The name of a data set
        of ``agentgym-suite data list``, a folder that ``data import`` made, or official files
        (PaSa, LitSearch, ScholarGym) play those. Task ids are ``<source>/<split>/<official id>``.
        Data without papers of their own need ``index``.

    Version History:
        v0: first version.

    Args:
        data: what to play; None for the embedded literature.
        split: split that a reset without a task draws from; None is test, or the one that results
            are reported on where the data have no test: real, dev, train.
        index: None for the papers of the data, which become a store at first use; the folder of a
            store; or the address of a paper API.
        retrieval: ``"sparse"``, ``"dense"`` or ``"hybrid"``. None: ``hybrid`` for a folder with
            vectors whose extra is installed, else ``sparse``; which one is told in provenance.
        selector: what judges relevance: ``"lexical"`` (not with an address as ``index``),
            ``"oracle"`` (the annotation itself, for upper bounds), the name of another selector,
            or a ``Selector``.
        reward: ``"paper"``, ``"steppo"``, ``"paperscout"``, or a ``PaperReward``.
        max_calls: searches and expansions of one step.
        search_top_k: papers of one search.
        citations_limit: citing papers of one expansion.
        references_limit: cited papers of one expansion.
        date_cutoff: ``"query"`` for each query's own date, None for none, or a date for all.
        deliver_threshold: least selector score of the papers that are scored.
        success_f1: F1 from which an episode is a success.
        pool_threshold: least score of the papers that are shown.
        pool_order: ``"id"`` or ``"steppo"``, the order of equal scores; None as the preset.
        observation_format: ``"state"`` or ``"steppo"``.
        queries: open queries to play, instead of opening ``data``.
        papers: an open source to search, instead of opening ``index``; the caller closes it.
        render_mode: None or ``"ansi"``.

    Raises:
        UsageError: an argument or a value is unknown, the sentence names those there are; or the
            selector ``lexical`` has no store here whose words it could weigh.
    """

    codec = CODEC
    remote_kwargs: ClassVar[tuple[str, ...]] = (
        *TextEnv.remote_kwargs,
        "reward",
        "max_calls",
        "search_top_k",
        "citations_limit",
        "references_limit",
        "date_cutoff",
        "deliver_threshold",
        "success_f1",
        "pool_threshold",
        "pool_order",
        "observation_format",
    )
    goal_key: ClassVar[str] = "query"
    detail_keys: ClassVar[tuple[str, ...]] = ("query", "calls", "pool", "date_cutoff", "golds")
    policies: ClassVar[Mapping[str, Callable[[Any], Policy]]] = {
        "oracle": lambda env: policies.OraclePolicy(lambda: env.episode),
        "scripted": lambda env: policies.ScriptedPolicy(env.settings.max_calls),
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Name the arguments there are for one that does not exist, before anything is made."""
        refuse_unknown(kwargs, *(c.__init__ for c in cls.__mro__ if issubclass(c, PaperSearchEnv)))
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        data: str | Path | Sequence[str | Path] | None = None,
        *,
        split: str | None = None,
        index: str | Path | None = None,
        retrieval: str | None = None,
        selector: str | Selector = "lexical",
        reward: str | PaperReward = "paper",
        max_calls: int = 5,
        search_top_k: int = 10,
        citations_limit: int = 30,
        references_limit: int = 99,
        date_cutoff: str | int | None = CUTOFF_OF_QUERY,
        deliver_threshold: float = 0.5,
        success_f1: float = 0.5,
        pool_threshold: float = 0.0,
        pool_order: PoolOrder | None = None,
        observation_format: ObservationFormat = "state",
        queries: QuerySet | None = None,
        papers: PaperSource | None = None,
        render_mode: str | None = None,
    ) -> None:
        name, preset = find_preset(reward)
        self.settings = PaperSettings(
            name,
            preset.reward,
            max_calls=max_calls,
            search_top_k=search_top_k,
            citations_limit=citations_limit,
            references_limit=references_limit,
            date_cutoff=date_cutoff,
            deliver_threshold=deliver_threshold,
            success_f1=success_f1,
        )
        order = preset.pool_order if pool_order is None else pool_order
        self._layout = Layout(observation_format, pool_threshold, order)
        if retrieval is not None:
            check_choice("retrieval", retrieval, RETRIEVALS)
        super().__init__(
            split=check_split(split),
            render_mode=render_mode,
            observation_length=_OBSERVATION_LENGTH,
            example_actions=policies.EXAMPLES,
        )
        self._data = check_data(data)
        self._index = check_index(index)
        self._retrieval = retrieval
        self._selector = check_selector(selector)
        self._queries = check_queries(queries)
        self._given_papers = check_papers(papers)
        check_words_counted(self._selector, self._index, self._given_papers)
        self._papers: PaperSource | None = None
        self._judge: Selector | None = None
        self._episode: PaperEpisode | None = None
        self._measured: dict[str, float] = {}

    # ------------------------------------------------------------- public API

    @property
    def queries(self) -> QuerySet:
        """The queries of the data, opened at first use."""
        if self._queries is None:
            self._queries = open_query_set(self._data)
        return self._queries

    @property
    def papers(self) -> PaperSource:
        """What searches and expansions go to, opened at first use."""
        if self._given_papers is not None:
            return self._given_papers
        if self._papers is None:
            self._papers = open_source(self.queries, self._index, self._retrieval)
        return self._papers

    @property
    def episode(self) -> PaperEpisode:
        """The running episode, with its annotated papers; privileged.

        Raises:
            UsageError: before the first reset.
        """
        if self._episode is None:
            raise UsageError("there is no query before the first reset; call reset()")
        return self._episode

    @property
    def state(self) -> PaperState:
        """The state of the running episode; privileged. Raises as ``episode`` does."""
        return self.episode.state

    def random_action(self, rng: np.random.Generator) -> str:
        """A uniform draw from searches, expansions of shown papers and the end, none refused."""
        actions = policies.accepted_actions(self.state, self._observation)
        return actions[int(rng.integers(len(actions)))]

    def close(self) -> None:
        """End the episode, close store and selector; may be called any number of times."""
        super().close()
        if self._judge is not None and isinstance(self._selector, str):
            self._judge.close()
        self._judge = None
        if self._papers is not None:
            self._papers.close()
            self._papers = None

    # ------------------------------------------------------------------ hooks

    def _load_tasks(self) -> TaskSet:
        self._split = self._split or self.queries.evaluation_split
        return self.queries.tasks

    def _begin(self, task: Task) -> Transition:
        self._episode = None  # a query that cannot be played leaves none behind
        query = self.queries.query(task.index)
        if not query.query.strip():
            raise DataDamaged(f"task {task.id} has an empty query; leave that row out")
        papers = self.papers
        annotated = Annotated(query, papers.locate)
        self._judge = judge_for(self._selector, annotated, papers, self._judge)
        self._episode = PaperEpisode(query, annotated, papers, self._judge, self.settings)
        self._measure()
        return Transition(self._observe(0))

    def _play(self, action: str) -> Transition:
        return self._tell(self.episode.play(action))

    def _refuse(self, action: str, error: str) -> Transition:
        return self._tell(self.episode.refuse(action, error))

    def _tell(self, played: Played) -> Transition:
        self._measure()
        return Transition(
            self._observe(self._steps + 1),
            played.reward,
            self.state.finished,
            played.error,
            played.parsed_action,
        )

    def _measure(self) -> None:
        self._measured = self.state.metrics(self.settings.deliver_threshold)

    def _observe(self, steps: int) -> str:
        left = None if self.horizon is None else max(0, self.horizon - steps)
        over = self.state.finished or left == 0
        return write_observation(
            self.state, self._layout, Ahead(left, self.settings.max_calls, over)
        )

    def _admissible_actions(self) -> tuple[str, ...]:
        return ()

    def _score(self) -> tuple[float, bool]:
        score = self._measured["f1_all"]
        return score, score >= self.settings.success_f1

    def _metrics(self) -> dict[str, float]:
        return dict(self._measured)

    def _details(self) -> dict[str, Any]:
        state = self.state
        over = state.finished or (self.horizon is not None and self._steps >= self.horizon)
        pool = [{"id": entry.id, "score": round(entry.score, 4)} for entry in state.pool.ranked()]
        calls = [
            asdict(result) | {"parts": asdict(payment)}
            for result, payment in zip(state.results, state.payments, strict=True)
        ]
        return {
            "query": state.query.query,
            "calls": canonical_json(calls),
            "pool": json.dumps(pool, ensure_ascii=False),
            "date_cutoff": self.settings.cutoff_of(state.query),
            "golds": json.dumps(state.annotated.ids, ensure_ascii=False) if over else "",
        }

    def _state(self) -> str:
        return canonical_json(
            {"task": self._task.id, "step": self._steps, **self.state.canonical()}
        )

    def _provenance(self) -> Mapping[str, Any]:
        told = told_source(self.papers)
        return {
            "dataset": self.queries.dataset,
            "split": self._task.split,
            "data_digest": self.queries.digest,
            "task_digest": self.tasks.digest,
            "index": told,
            "index_digest": told["digest"],
            "retrieval": self.papers.retrieval,
            "encoder": encoder_of(told),
            "selector": told_selector(self._judge),
            **self.settings.told(),
            **self._layout.told(),
        }

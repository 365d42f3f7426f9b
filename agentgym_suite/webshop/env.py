"""``WebShopEnv``: the shop as a Gymnasium environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from agentgym_suite.arguments import check_count, check_flag, refuse_unknown, shown
from agentgym_suite.data import canonical_json
from agentgym_suite.env import TextEnv, Transition
from agentgym_suite.errors import UnknownSplit, UsageError
from agentgym_suite.game import Policy
from agentgym_suite.tasks import NumberedIds, Task, TaskSet
from agentgym_suite.webshop import policies
from agentgym_suite.webshop.actions import CODEC, parse_action
from agentgym_suite.webshop.catalogue import Catalogue, CatalogueChoice, open_chosen
from agentgym_suite.webshop.controls import SEARCH_TEMPLATE
from agentgym_suite.webshop.goals import SPLITS, Goal, GoalKind
from agentgym_suite.webshop.history import History, Past
from agentgym_suite.webshop.html import HtmlPages
from agentgym_suite.webshop.matching import MATCH_ABOVE
from agentgym_suite.webshop.observations import ObservationMode, Observer, check_mode
from agentgym_suite.webshop.reward import NOTHING_BOUGHT
from agentgym_suite.webshop.session import ShopSession, ShopState, json_object
from agentgym_suite.webshop.store_folder import choose_store

_EXAMPLE_ACTIONS = ("search[red running shoes]", "click[buy now]", "click[back to search]")


@dataclass(frozen=True, slots=True)
class EpisodeSnapshot:
    """A point of an episode to come back to; small, and independent of the environment."""

    task: Task
    seed: int
    steps: int
    invalid_actions: int
    cut_characters: int
    running: bool
    observation: str
    state: ShopState
    past: Past


class WebShopEnv(TextEnv):
    """Buy the product that a customer describes.

    Description:
        A shop with full-text search, product pages, options and a Buy Now button (Yao et al.,
        "WebShop", NeurIPS 2022). The customer's instruction names a product, attributes, options
        and a price bound; one purchase ends the episode.

    Action Space:
        ``UnicodeText``. ``search[keywords]`` on any page, ``click[element]`` for an element of the
        current page, lower case; at most 16,384 characters. Anything else changes nothing: the
        step counts, ``action_valid`` is False and ``action_error`` says why.

    Observation Space:
        ``UnicodeText``. ``text``: visible text nodes joined by `` [SEP] ``. ``text_rich``: one line
        per node with ``[button] … [button_]`` marks. ``html``: the page. ``url``: its address.

    Rewards:
        0.0 until Buy Now, then ``(attributes met + options met + price within bound) /
        (attributes + options + 1) * r_type``, 0.0 to 1.0; all parts are in ``reward_parts``.
        Attributes and options match fuzzily (token set ratio above 85), so large passes for
        x-large; ``r_option_exact`` reports the share of options chosen exactly.

    Starting State:
        The search page with the instruction of a goal, drawn from the split by goal weight.

    Episode End:
        ``terminated`` after Buy Now. ``truncated`` by the time limit, 15 steps unless given.

    Arguments:
        ``strict=True`` keeps the original's observations, transitions and rewards. ``False`` mends:

        ==  ==============================================  =====================================
        1   chosen options do not show in text              ``Selected: group: value`` shows
        2   a value of two groups sets the last group       ``click[group: value]``; the plain
                                                            value sets the first group unset
        3   an option named like a button shadows it        the button wins
        4   ``next >`` never ends                           only if a next page exists
        5   words such as search_results in the search      the page is state
            make ``< prev`` turn to Page 0
        6   brackets in an argument break the action        first ``[`` to last ``]``
        7   outer blanks, case of the name: no action       ignored
        8   ``click[search]`` is listed, does nothing       not listed
        9   values with quotes or accents never show        shown
            as clicked in text_rich
        10  quoted search words fake a click                state decides
        11  an invalid action is answered silently          ``Invalid action: …`` and what is legal
        12  ``search[ ]`` finds nothing                     invalid
        13  empty bullets give empty segments               dropped
        14  addresses are not encoded                       percent-encoded JSON
        15  search works on every page                      kept: agents rely on it
        16  options match fuzzily, and the pairs of         kept: it defines the score, so that
            synthetic goals in Python's notation:           the very product wanted may score
            ``('color', 'red')`` against ``red``            below 1; see ``r_option_exact``
        ==  ==============================================  =====================================

        The original's special keywords (``<r>``, ``<c>``, ``<q>``, ``<a>``) are ordinary words
        unless ``special_queries``.

    Information:
        Beside the common keys: ``goal_index``, ``instruction``, ``page`` (index, results, item,
        sub page, done), ``has_search_bar``, ``clickables``, ``asin``, ``options`` (JSON object),
        ``keywords``, ``page_number``, ``total_results``, ``reward_parts`` (JSON object, ``{}``
        before the purchase), ``target`` (JSON of the goal, ``""`` unless ``reveal_goal``).

    Data:
        ``data=None`` plays the embedded catalogue. ``"webshop-small"``, or another name of
        ``agentgym-suite data list``, plays what ``data download`` or ``data import`` has put into
        the data home; a path plays a folder of official files or a store that was built of them.

    Version History:
        v0: first version; parity with princeton-nlp/WebShop at 64fa2a5.

    Args:
        data: name of a data set of the data home, or a folder; None for the embedded catalogue.
        split: split that a reset without a task draws from: train, eval, test (or train500).
        goals: human or synthetic; None takes human ones where there are 100 of them, or no others.
        observation_mode: text, text_rich, html or url.
        search: ``"bm25"``, or ``"lucene"`` through the extra of that name.
        strict: keep the original's faults.
        show_attrs: products have an attributes page.
        num_products: use only the first so many products of the files.
        num_prev_obs: earlier observations put before the current one.
        num_prev_actions: earlier actions put before the current observation.
        filter_goals: keeps the goals for which it is true; called with (index, goal).
        limit_goals: keep so many goals, drawn by weight.
        special_queries: enable the original's special first keywords.
        reveal_goal: put the target into ``info``.
        legacy_price_seed: seed of the original's price draws, for recorded episodes.
        nouns: file of title nouns to use instead of extracting them.
        catalogue: an open catalogue to play in, instead of opening ``data``.
        render_mode: None or ``"ansi"``.

    Raises:
        DataMissing: there is no such data set or folder.
        UsageError: an argument or a value is unknown; the sentence names those there are.
    """

    codec = CODEC
    remote_kwargs: ClassVar[tuple[str, ...]] = (
        *TextEnv.remote_kwargs,
        "goals",
        "observation_mode",
        "strict",
        "show_attrs",
        "num_prev_obs",
        "num_prev_actions",
    )
    detail_keys: ClassVar[tuple[str, ...]] = (
        "goal_index",
        "instruction",
        "page",
        "has_search_bar",
        "clickables",
        "asin",
        "options",
        "keywords",
        "page_number",
        "total_results",
        "reward_parts",
        "target",
    )
    goal_key: ClassVar[str] = "instruction"
    policies: ClassVar[Mapping[str, Callable[[Any], Policy]]] = {
        "oracle": lambda env: lambda observation, info: policies.oracle_action(env.session),
        "scripted": lambda env: lambda observation, info: policies.rule_action(info),
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Name the nearest argument for one that does not exist, before anything is made."""
        refuse_unknown(kwargs, *(c.__init__ for c in cls.__mro__ if issubclass(c, WebShopEnv)))
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        split: str = "train",
        goals: GoalKind | None = None,
        observation_mode: ObservationMode = "text",
        search: Literal["bm25", "lucene"] = "bm25",
        strict: bool = True,
        show_attrs: bool = False,
        num_products: int | None = None,
        num_prev_obs: int = 0,
        num_prev_actions: int = 0,
        filter_goals: Callable[[int, Goal], bool] | None = None,
        limit_goals: int | None = None,
        special_queries: bool = False,
        reveal_goal: bool = False,
        legacy_price_seed: int | None = None,
        nouns: str | Path | None = None,
        catalogue: Catalogue | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_count("num_prev_obs", num_prev_obs, 0)
        check_count("num_prev_actions", num_prev_actions, 0)
        if catalogue is not None and not hasattr(catalogue, "goals"):
            raise UsageError(f"catalogue is {shown(catalogue)}; give what open_catalogue returns")
        splits = SPLITS if catalogue is None else tuple(catalogue.goals.splits)
        if not isinstance(split, str) or split not in splits:
            raise UnknownSplit(f"split {shown(split)} does not exist; choose {', '.join(splits)}")
        super().__init__(
            split=split,
            render_mode=render_mode,
            example_actions=_EXAMPLE_ACTIONS,
        )
        self._choice = CatalogueChoice(
            choose_store(data, num_products, legacy_price_seed, nouns),
            goals,
            search,
            filter_goals,
            limit_goals,
            check_flag("special_queries", special_queries),
        )
        self._mode = check_mode(observation_mode)
        self._html = HtmlPages() if self._mode == "html" else None
        self._strict = check_flag("strict", strict)
        self._show_attrs = check_flag("show_attrs", show_attrs)
        self._reveal_goal = check_flag("reveal_goal", reveal_goal)
        self._history = History(num_prev_obs, num_prev_actions)
        self._catalogue = catalogue
        self._session: ShopSession | None = None
        self._observer: Observer | None = None

    # ------------------------------------------------------------- public API

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue, opened at first use."""
        if self._catalogue is None:
            self._catalogue = open_chosen(self._choice)
        return self._catalogue

    @property
    def session(self) -> ShopSession:
        """The current visit, with its goal; privileged.

        Raises:
            UsageError: before the first reset.
        """
        if self._session is None:
            raise UsageError("there is no visit before the first reset; call reset()")
        return self._session

    def random_action(self, rng: np.random.Generator) -> str:
        """A uniform draw from the admissible actions; a search is for the instruction."""
        action = super().random_action(rng)
        if action == SEARCH_TEMPLATE:
            return policies.search_action(self.session.goal.instruction)
        return action

    def snapshot(self) -> EpisodeSnapshot:
        """The current point of the episode."""
        return EpisodeSnapshot(
            task=self._task,
            seed=self._seed,
            steps=self._steps,
            invalid_actions=self._invalid_actions,
            cut_characters=self._cut_characters,
            running=self._running,
            observation=self._observation,
            state=self.session.snapshot(),
            past=self._history.past,
        )

    def restore(self, snapshot: EpisodeSnapshot) -> None:
        """Go on from a snapshot of this or another environment with the same arguments."""
        self._visit(snapshot.task.index)
        self.session.restore(snapshot.state)
        self._task, self._seed = snapshot.task, snapshot.seed
        self._steps, self._running = snapshot.steps, snapshot.running
        self._invalid_actions = snapshot.invalid_actions
        self._cut_characters = snapshot.cut_characters
        self._observation = snapshot.observation
        self._history.past = snapshot.past

    # ------------------------------------------------------------------ hooks

    def _load_tasks(self) -> TaskSet:
        goals = self.catalogue.goals
        return TaskSet(
            NumberedIds(goals.kind, len(goals)),
            goals.splits,
            digest=goals.digest,
            family=lambda index: goals[index].category,
        )

    def _choose(self, split: str, members: Sequence[int], u: float) -> int:
        return self.catalogue.goals.draw(u, members)

    def _begin(self, task: Task) -> Transition:
        return Transition(self._history.start(self._visit(task.index).observe()))

    def _visit(self, index: int) -> Observer:
        self._session = ShopSession(
            self.catalogue,
            self.catalogue.goals[index],
            strict=self._strict,
            show_attrs=self._show_attrs,
        )
        self._observer = Observer(self._session, self._mode, self._html)
        return self._observer

    def _play(self, action: str) -> Transition:
        call = parse_action(action, strict=self._strict)
        session = self.session
        error = session.play(call)
        if error:
            return self._refuse(action, error, call.text if call.name else action)
        reward = session.state.reward
        return Transition(
            self._tell(action),
            reward=0.0 if reward is None else reward.total,
            terminated=reward is not None,
            parsed_action=action if self._history.tells_actions else call.text,
        )

    def _refuse(self, action: str, error: str, parsed_action: str = "") -> Transition:
        feedback = ""
        if not self._strict:
            legal = ", ".join(self.session.controls.admissible)
            feedback = f"Invalid action: {error}. Legal actions: {legal}"
        # with actions in the history, only the raw text gives the same observation again
        played = action if self._history.tells_actions else parsed_action or action
        return Transition(self._tell(action, feedback), error=error, parsed_action=played)

    def _tell(self, action: str, feedback: str = "") -> str:
        if self._observer is None:
            raise UsageError("there is no visit before the first reset; call reset()")
        told = self._observer.observe(feedback)
        return self._history.tell(action, told) if self._history.active else told

    def _admissible_actions(self) -> tuple[str, ...]:
        return self.session.controls.admissible

    def _score(self) -> tuple[float, bool]:
        reward = self.session.state.reward
        return (0.0, False) if reward is None else (reward.total, reward.success)

    def _metrics(self) -> dict[str, float]:
        state = self.session.state
        metrics = (state.reward or NOTHING_BOUGHT).metrics()
        tally = state.tally
        metrics["purchases"] = 0.0 if state.reward is None else 1.0
        metrics["searches"] = float(tally.searches)
        metrics["page_turns"] = float(tally.page_turns)
        metrics["item_views"] = float(tally.item_views)
        metrics["option_clicks"] = float(tally.option_clicks)
        metrics["sub_page_views"] = float(tally.sub_page_views)
        metrics["options_asked"] = float(bool(self.session.goal.options))
        return metrics

    def _details(self) -> dict[str, Any]:
        session = self.session
        state, controls, goal = session.state, session.controls, session.goal
        return {
            "goal_index": goal.index,
            "instruction": goal.instruction,
            "page": state.page,
            "has_search_bar": controls.has_search_bar,
            "clickables": controls.clickables,
            "asin": state.asin,
            "options": json_object(state.options),
            "keywords": state.keywords or (),
            "page_number": state.page_number,
            "total_results": len(state.results),
            "reward_parts": self._reward_parts(),
            "target": canonical_json(asdict(goal)) if self._reveal_goal else "",
        }

    def _reward_parts(self) -> str:
        reward = self.session.state.reward
        if reward is None:
            return "{}"
        return json.dumps({**reward.details(), "r_option_exact": reward.r_option_exact})

    def _state(self) -> str:
        visit = self.session.canonical_state()
        if not self._history.active:
            return visit
        return f'{{"past":{self._history.canonical_state()},"visit":{visit}}}'

    def _provenance(self) -> Mapping[str, Any]:
        return {
            **self.catalogue.provenance(),
            "strict": self._strict,
            "observation_mode": self._mode,
            "match_above": MATCH_ABOVE,
        }

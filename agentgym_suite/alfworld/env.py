"""``ALFWorldEnv``: the household as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from agentgym_suite.alfworld.arguments import check_families, check_places
from agentgym_suite.alfworld.backends import Backend, LoadedGame, PlayedGame
from agentgym_suite.alfworld.commands import CODEC, NOTHING_HAPPENS, find_command
from agentgym_suite.alfworld.game import CompiledGame
from agentgym_suite.alfworld.game_files import read_game
from agentgym_suite.alfworld.game_index import GameRecord
from agentgym_suite.alfworld.games import GameLibrary, GameTasks, open_library
from agentgym_suite.alfworld.native_backend import NativeBackend, renumbered, shown_facts
from agentgym_suite.alfworld.play import Play
from agentgym_suite.alfworld.rule_policy import RulePolicy
from agentgym_suite.arguments import check_choice, check_flag, shown
from agentgym_suite.data import canonical_json
from agentgym_suite.env import TextEnv, Transition
from agentgym_suite.errors import UsageError
from agentgym_suite.game import Policy
from agentgym_suite.tasks import Task, TaskSet

BackendName = Literal["native", "textworld"]


def _oracle(env: ALFWorldEnv) -> Policy:
    # imported here: most environments never plan
    from agentgym_suite.alfworld.oracle import OraclePolicy

    return OraclePolicy(lambda: env.play)


class ALFWorldEnv(TextEnv):
    """Do a chore in a household: find, open, take, clean, heat, cool, look, put away.

    Description:
        The text games of ALFWorld (Shridhar et al., ICLR 2021): a room with receptacles and
        objects, and a goal of one of six families. Every game file brings its own rules (PDDL)
        and its own words (TWL2); the engine interprets both, so its observations, admissible
        commands and wins are those of TextWorld, whatever the version of the data.

    Action Space:
        ``UnicodeText``. One command, such as ``go to desk 1``, ``open drawer 2``, ``take mug 1
        from desk 1``, ``move mug 1 to shelf 3`` (``put mug 1 in/on shelf 3`` in old data),
        ``clean``, ``heat`` and ``cool X with R``, ``use desklamp 1``, ``slice X with K``,
        ``examine X``, ``look``, ``inventory``, ``help``; at most 16,384 characters. Outer white
        space aside, a command must be in ``admissible_actions`` letter by letter; any other
        changes nothing, is answered ``Nothing happens.``, counts as a step and is explained in
        ``action_error``.

    Observation Space:
        ``UnicodeText``. At reset the room and ``Your task is to: …``, then the reply.

    Rewards:
        1.0 on the step after which the goal holds, 0.0 on every other. Shaping is outside, by
        the named presets of ``agentgym_suite.rewards``.

    Starting State:
        The start of a game, drawn uniformly from the split's sorted games; ``task_id`` takes an
        id ``<split>/<task folder>/<trial>`` (the split may be left out), a number within the
        split, or the path of a game file of the data.

    Episode End:
        ``terminated`` when the goal holds after a step. ``truncated`` by the time limit, 50
        steps unless given. A game that is won at reset says so in ``won`` and ends with the
        first step after which it is still won.

    Arguments:
        ``data``: None, a name of ``agentgym-suite data list``, a tree in ALFWorld's layout (the
        folder of ``json_2.1.1`` or that folder), one game's folder, one ``.tw-pddl`` file, or a
        list of these. ``split``: train, valid_seen,
        valid_unseen (or alfworld's eval_in_distribution, eval_out_of_distribution), and any other
        folder there is; ``named`` holds games that were named one by one.

    Information:
        Beside the common keys: ``won``, ``goal`` (the sentence without its prefix),
        ``task_type`` (long name, as in ``task_family``), ``game_id``, ``game_file``, ``object``,
        ``receptacle`` (the lamp in the Look family), ``scene``, ``data_version``;
        ``walkthrough`` and ``facts``, empty tuples unless asked for.

    Data:
        ``data=None`` plays the embedded households, generated at first use. The official games
        (3,553 / 140 / 134) come by ``agentgym-suite data download alfworld`` or ``import``.

    Version History:
        v0: first version; parity with TextWorld 1.7.0 and alfworld 0.4.2.

    Args:
        data: what to play; None for the embedded households.
        split: split that a reset without a task draws from; None is train, or named for games
            that were named one by one.
        task_types: families to keep, by number, long name or label (``Pick``); None keeps all.
        backend: ``"native"``, or ``"textworld"`` through the extra of that name.
        accept_put_alias: where the command is not admissible, also try the other wordings of
            putting down: ``move X to R``, ``put X in/on R``, ``put X in R``, ``put X on R``.
        normalise: where the command is not admissible, also try it in lower case, with single
            blanks and without one final full stop or exclamation mark.
        shuffle_numbers: permute the numbers within each name by the episode's generator.
        walkthrough: put the stored solution into ``info``.
        facts: put the facts of the state into ``info``.
        library: an open library to play from, instead of opening ``data``.
        render_mode: None or ``"ansi"``.

    Raises:
        UsageError: an argument or a value is unknown or of another kind.
    """

    codec = CODEC
    remote_kwargs: ClassVar[tuple[str, ...]] = (
        *TextEnv.remote_kwargs,
        "task_types",
        "accept_put_alias",
        "normalise",
        "shuffle_numbers",
    )
    goal_key: ClassVar[str] = "goal"
    detail_keys: ClassVar[tuple[str, ...]] = (
        "won",
        "goal",
        "task_type",
        "game_id",
        "game_file",
        "object",
        "receptacle",
        "scene",
        "data_version",
        "walkthrough",
        "facts",
    )
    policies: ClassVar[Mapping[str, Callable[[Any], Policy]]] = {
        "oracle": _oracle,
        "scripted": lambda env: RulePolicy(),
    }

    def __init__(
        self,
        data: str | Path | Sequence[str | Path] | None = None,
        *,
        split: str | None = None,
        task_types: Sequence[str | int] | str | int | None = None,
        backend: BackendName = "native",
        accept_put_alias: bool = False,
        normalise: bool = False,
        shuffle_numbers: bool = False,
        walkthrough: bool = False,
        facts: bool = False,
        library: GameLibrary | None = None,
        render_mode: str | None = None,
    ) -> None:
        if split is not None and not (isinstance(split, str) and split):
            raise UsageError(f"split is {shown(split)}; give the name of a split, or None")
        if not isinstance(library, GameLibrary | None):
            raise UsageError(f"library is {shown(library)}; give what open_library returns")
        super().__init__(
            split=split or "",
            render_mode=render_mode,
            example_actions=("look", "inventory", "go to desk 1"),
        )
        self._places = None if data is None else check_places(data)
        self._families = check_families(task_types)
        self._backend_name = check_choice("backend", backend, ("native", "textworld"))
        self._put_alias = check_flag("accept_put_alias", accept_put_alias)
        self._normalise = check_flag("normalise", normalise)
        self._shuffle = check_flag("shuffle_numbers", shuffle_numbers)
        self._show_walkthrough = check_flag("walkthrough", walkthrough)
        self._show_facts = check_flag("facts", facts)
        if self._backend_name == "textworld" and (self._shuffle or self._show_facts):
            raise UsageError(
                "backend 'textworld' cannot shuffle numbers or show facts; use 'native'"
            )
        self._library = library
        self._backend: Backend | None = None
        self._record: GameRecord | None = None
        self._game: LoadedGame | None = None
        self._play_now: PlayedGame | None = None
        self._walkthrough: tuple[str, ...] = ()
        self._identity = ""

    # ------------------------------------------------------------- public API

    @property
    def library(self) -> GameLibrary:
        """The games of the data, opened at first use and shared with other environments."""
        if self._library is None:
            if self._places is None:
                from agentgym_suite.alfworld.generated_files import embedded_folder

                self._library = open_library(embedded_folder())
            else:
                self._library = open_library(self._places)
        return self._library

    @property
    def play(self) -> PlayedGame:
        """The running game; privileged.

        Raises:
            UsageError: before the first reset.
        """
        if self._play_now is None:
            raise UsageError("there is no game before the first reset; call reset()")
        return self._play_now

    def close(self) -> None:
        """End the episode and the engine; may be called any number of times."""
        super().close()
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    # ------------------------------------------------------------------ hooks

    @property
    def _games(self) -> GameTasks:
        tasks = self.tasks
        if not isinstance(tasks, GameTasks):
            raise UsageError(f"the tasks are {type(tasks).__name__}; report this as a bug")
        return tasks

    def _load_tasks(self) -> TaskSet:
        tasks = self.library.tasks(self._families)
        self._split = self._split or tasks.default_split
        return tasks

    def _pick(self, seed: int | None, options: Mapping[str, Any]) -> Task:
        games = self._games
        if options.get("task_id") is not None:
            key = games.locate(options["task_id"], options.get("split", self._split))
            options = {**options, "task_id": key}
        return super()._pick(seed, options)

    def _begin(self, task: Task) -> Transition:
        self._play_now = None  # a game that cannot be loaded leaves none behind
        record = self._games.games[task.index]
        if self._backend is None:
            self._backend = self._open_backend()
        self._record = record
        self._game = self._backend.load(record)
        self._play_now = self._game.start(self.np_random if self._shuffle else None)
        self._walkthrough = self._read_walkthrough(record) if self._show_walkthrough else ()
        names = self._play_now.names if isinstance(self._play_now, Play) and self._shuffle else ()
        self._identity = canonical_json([record.sha256, *names])
        return Transition(self._play_now.observation)

    def _read_walkthrough(self, record: GameRecord) -> tuple[str, ...]:
        commands = read_game(record.path, record.id, record.sha256).walkthrough or ()
        game, play = self._game, self.play
        if isinstance(game, CompiledGame) and isinstance(play, Play):
            return renumbered(commands, game, play)
        return commands

    def _facts(self) -> tuple[str, ...]:
        play = self.play
        return shown_facts(play) if self._show_facts and isinstance(play, Play) else ()

    def _open_backend(self) -> Backend:
        if self._backend_name == "textworld":
            from agentgym_suite.alfworld.textworld_backend import TextWorldBackend

            return TextWorldBackend()
        return NativeBackend(self.library)

    def _play(self, action: str) -> Transition:
        play = self.play
        command = find_command(
            action, play.admissible, normalised=self._normalise, put_alias=self._put_alias
        )
        reply, executed = play.step(command)
        error = "" if executed else play.why_not(command)
        return self._told(reply, error, command.strip() if executed else action)

    def _refuse(self, action: str, error: str) -> Transition:
        return self._told(NOTHING_HAPPENS, error, action)

    def _told(self, reply: str, error: str, parsed_action: str) -> Transition:
        # the goal is judged after every step, also one that did nothing: a game can begin won
        won = self.play.won
        return Transition(reply, float(won), won, error, parsed_action)

    def _admissible_actions(self) -> tuple[str, ...]:
        return self.play.admissible

    def _score(self) -> tuple[float, bool]:
        won = self.play.won
        return float(won), won

    def _metrics(self) -> dict[str, float]:
        stored = 0 if self._record is None else self._record.walkthrough_length
        return {"won": float(self.play.won), "walkthrough_steps": float(stored)}

    def _details(self) -> dict[str, Any]:
        record, game, play = self._record, self._game, self.play
        if record is None or game is None:
            raise UsageError("there is no game before the first reset; call reset()")
        return {
            "won": play.won,
            "goal": game.goal,
            "task_type": record.task_type,
            "game_id": record.id,
            "game_file": record.path,
            "object": record.object,
            "receptacle": record.receptacle,
            "scene": record.scene,
            "data_version": game.data_version,
            "walkthrough": self._walkthrough,
            "facts": self._facts(),
        }

    def _state(self) -> str:
        return f"[{self._identity},{self.play.canonical_state()}]"

    def _provenance(self) -> Mapping[str, Any]:
        return {
            "data_digest": self.library.index.digest,
            "task_digest": self.tasks.digest,
            "backend": self._backend_name,
            "backend_version": "" if self._backend is None else self._backend.version,
            "task_types": list(self._families),
            "accept_put_alias": self._put_alias,
            "normalise": self._normalise,
            "shuffle_numbers": self._shuffle,
        }

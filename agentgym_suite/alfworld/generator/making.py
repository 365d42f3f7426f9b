"""One game of a generated world, made from its number alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentgym_suite.alfworld.game_files import GameFile
from agentgym_suite.alfworld.generator.identity import DEFAULT_SEED, GENERATOR_VERSION
from agentgym_suite.alfworld.generator.layout import Layout, lay_out
from agentgym_suite.alfworld.generator.naming import display_names
from agentgym_suite.alfworld.generator.placement import place_objects
from agentgym_suite.alfworld.generator.problem import write_problem
from agentgym_suite.alfworld.generator.quirks import LIKE_THE_OFFICIAL_GAMES, Quirks
from agentgym_suite.alfworld.generator.rules import load_rules
from agentgym_suite.alfworld.generator.tables import SIZES, load_tables
from agentgym_suite.alfworld.generator.tasks import FAMILIES, Family, Task, draw_task
from agentgym_suite.alfworld.generator.walkthrough import solve
from agentgym_suite.dice import Dice
from agentgym_suite.errors import DataError

SPLITS = ("train", "valid_seen", "valid_unseen")

# Every so many scenes of a kind of room, one is kept for the split of unseen rooms.
_UNSEEN_SCENE_STRIDE = 10
_ATTEMPTS = 50
# The families in turn, about as often as in the official games.
_TURN = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_two_obj_and_place",
    "pick_heat_then_place_in_recep",
    "pick_and_place_simple",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """What the number of a game decides: its family, the kind of its room, and the size."""

    family: Family
    room: str
    size: str


@dataclass(frozen=True, slots=True)
class MadeGame:
    """One generated game.

    Attributes:
        folder: ``<split>/<task dir>/<trial>``, which is also its id.
        cell: family, room and size.
        domain: the PDDL domain.
        grammar: the TWL2 grammar.
        problem: the PDDL problem.
        walkthrough: commands that win it with the last one.
        traj_data: what goes into its traj_data.json.
    """

    folder: str
    cell: Cell
    domain: str
    grammar: str
    problem: str
    walkthrough: tuple[str, ...]
    traj_data: dict[str, Any]

    @property
    def game_file(self) -> GameFile:
        """The same game as the loader reads it."""
        return GameFile(
            game_id=self.folder,
            domain=self.domain,
            grammar=self.grammar,
            problem=self.problem,
            solvable=True,
            walkthrough=self.walkthrough,
            path="",
        )


def cycle() -> list[Cell]:
    """The cells that games take in turn: every family in every room it fits and every size."""
    seen = dict.fromkeys(FAMILIES, 0)
    cells = []
    for _ in range(6):
        for name in _TURN:
            family, turn = FAMILIES[name], seen[name]
            seen[name] += 1
            row, column = divmod(turn, len(family.rooms))
            cells.append(Cell(family, family.rooms[column], SIZES[(row + column) % len(SIZES)]))
    return cells


class GameMaker:
    """Makes any game of a world by split and number.

    Args:
        seed: which world.
        quirks: how often it has the oddities of the official games.
        wording: one of ``rules.WORDINGS``.
        accept: says whether a finished game is kept; the next sub-seed is tried if not.
    """

    def __init__(
        self,
        seed: int = DEFAULT_SEED,
        *,
        quirks: Quirks = LIKE_THE_OFFICIAL_GAMES,
        wording: str = "move+help",
        accept: Callable[[GameFile], bool] | None = None,
    ) -> None:
        self._seed = seed
        self._quirks = quirks
        self._accept = accept
        self._rules = load_rules(wording)
        self._tables = load_tables()
        self._cycle = cycle()
        self._layouts: dict[int, Layout] = {}

    def game(self, split: str, number: int) -> MadeGame:
        """The game of that number, the same whenever and wherever it is made.

        Raises:
            DataError: no attempt gave a game that can be won.
        """
        place = number % len(self._cycle)
        cell = self._cycle[place]
        layout = self._layout(cell, split, place + number // len(self._cycle))
        for attempt in range(_ATTEMPTS):
            made = self._attempt(split, number, cell, layout, attempt)
            if made is not None and (self._accept is None or self._accept(made.game_file)):
                return made
        raise DataError(
            f"no game {number} of {split} could be won in {_ATTEMPTS} attempts with seed "
            f"{self._seed}: generate with another seed"
        )

    def _layout(self, cell: Cell, split: str, turn: int) -> Layout:
        room = self._tables.rooms[cell.room]
        size = SIZES.index(cell.size)
        unseen = split == "valid_unseen"
        scenes = [
            scene
            for scene in room.scenes
            if scene % len(SIZES) == size and (scene % _UNSEEN_SCENE_STRIDE == 0) is unseen
        ]
        scene = scenes[turn % len(scenes)]
        if scene not in self._layouts:
            dice = Dice(GENERATOR_VERSION, self._seed, "scene", scene)
            self._layouts[scene] = lay_out(self._tables, room, scene, cell.size, self._quirks, dice)
        return self._layouts[scene]

    def _attempt(
        self, split: str, number: int, cell: Cell, layout: Layout, attempt: int
    ) -> MadeGame | None:
        dice = Dice(GENERATOR_VERSION, self._seed, split, number, attempt)
        task = draw_task(self._tables, layout, cell.family, dice)
        placement = place_objects(self._tables, layout, task, self._quirks, dice)
        names = display_names(
            [*(r.id for r in layout.receptacles), *(thing.id for thing in placement.things)]
        )
        walkthrough = solve(layout, placement, task, names, self._rules.put_command)
        if walkthrough is None:
            return None
        # the split's letter keeps trials apart whose rooms are shared by two splits
        letter = split.removeprefix("valid_")[0]
        trial = f"trial_{letter.upper()}{self._seed}_{number:06d}"
        folder = f"{cell.family.name}-{task.thing}-None-{task.place}-{layout.scene}"
        return MadeGame(
            folder=f"{split}/{folder}/{trial}",
            cell=cell,
            domain=self._rules.domain,
            grammar=self._rules.grammar_for(task.sentence),
            problem=write_problem(trial, layout, placement, task, self._quirks, dice),
            walkthrough=walkthrough,
            traj_data=_traj_data(trial, task, layout),
        )


def _traj_data(trial: str, task: Task, layout: Layout) -> dict[str, Any]:
    lamp = task.family.needs_lamp
    return {
        "task_id": trial,
        "task_type": task.family.name,
        "pddl_params": {
            "object_target": task.thing,
            "parent_target": "" if lamp else task.place,
            "mrecep_target": "",
            "toggle_target": task.place if lamp else "",
            "object_sliced": False,
        },
        "scene": {"floor_plan": f"FloorPlan{layout.scene}", "scene_num": layout.scene},
        "turk_annotations": {"anns": [{"task_desc": task.description}]},
    }

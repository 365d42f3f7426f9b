"""The engine against TextWorld where the official games do not reach: see small_variants."""

from __future__ import annotations

import json
import lzma
from typing import Any

import pytest

from tests.alfworld.small_game import small_game
from tests.alfworld.small_variants import RECORDING, VARIANTS


def recorded() -> list[dict[str, Any]]:
    with lzma.open(RECORDING, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_every_variant_is_recorded() -> None:
    assert [episode["variant"] for episode in recorded()] == list(VARIANTS)


@pytest.mark.parametrize("episode", recorded(), ids=lambda episode: str(episode["variant"]))
def test_texts_commands_and_wins_are_those_of_textworld(episode: dict[str, Any]) -> None:
    play = small_game(**VARIANTS[episode["variant"]]).start()
    for number, step in enumerate(episode["steps"]):
        if step["action"] is not None:
            play.step(step["action"])
        ours = {
            "observation": play.observation,
            "admissible": list(play.admissible),
            "won": play.won,
        }
        theirs = {key: step[key] for key in ours}
        assert ours == theirs, f"step {number}: {step['action']}"

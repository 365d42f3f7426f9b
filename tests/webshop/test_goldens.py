"""The recorded episodes and rewards of the original, through the environment: no difference."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agentgym_suite  # noqa: F401
from agentgym_suite.webshop.catalogue import Catalogue, open_catalogue
from agentgym_suite.webshop.pages import page_segments
from agentgym_suite.webshop.reward import Judge
from agentgym_suite.webshop.segments import Heads
from tests.webshop.parsed_pages import ParsedPage

PRICE_SEED = 20240
KINDS = {"synth": "synthetic", "human": "human"}
STEPS = {"synth": 537, "human": 81}
REWARDS = {"synth": 779, "human": 603}


@pytest.fixture(scope="module")
def webshop(shared: Path) -> Path:
    return shared / "data" / "webshop"


@pytest.fixture(scope="module")
def catalogues(
    webshop: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Catalogue]]:
    """The official 1,000 products with the recorded prices and title nouns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_SUITE_HOME", str(tmp_path_factory.mktemp("home")))
        yield {
            name: open_catalogue(
                webshop,
                goals=kind,  # type: ignore[arg-type]
                legacy_price_seed=PRICE_SEED,
                nouns=webshop / "golden" / "title_nouns_sm360.jsonl.xz",
            )
            for name, kind in KINDS.items()
        }


def lines(webshop: Path, name: str) -> list[Any]:
    with lzma.open(webshop / "golden" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["text", "text_rich", "url"])
def test_every_recorded_step_is_equal(
    kind: str, mode: str, webshop: Path, catalogues: dict[str, Catalogue]
) -> None:
    env = gym.make("WebShop-v0", catalogue=catalogues[kind], observation_mode=mode)
    steps = 0
    for episode in lines(webshop, f"episodes_{kind}"):
        observation, info = env.reset(options={"task_id": episode["goal_idx"]})
        first = episode["first"]
        assert observation == first[mode]
        assert _available(info) == first["available"]
        for step in episode["steps"]:
            observation, reward, terminated, _, info = env.step(step["action"])
            assert observation == step[mode], step["action"]
            assert (reward, terminated) == (step["reward"], step["done"])
            assert _available(info) == step["available"]
            parts = json.loads(info["reward_parts"])
            parts.pop("r_option_exact", None)
            assert parts == step.get("info", {})
            steps += 1
    assert steps == STEPS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_page_has_its_text_in_html(
    kind: str, webshop: Path, catalogues: dict[str, Catalogue]
) -> None:
    env = gym.make("WebShop-v0", catalogue=catalogues[kind], observation_mode="html")
    session_of: Any = env.unwrapped
    for episode in lines(webshop, f"episodes_{kind}")[:20]:
        html, info = env.reset(options={"task_id": episode["goal_idx"]})
        for step in (episode["first"], *episode["steps"]):
            if "action" in step:
                html, *_, info = env.step(step["action"])
            texts = ParsedPage(html).texts
            assert " [SEP] ".join(text.strip() for text in texts) == step["text"]
            session = session_of.session
            segments = page_segments(session, Heads(session.goal.instruction))
            assert texts == [node.text for segment in segments for node in segment.nodes]


@pytest.mark.parametrize("kind", KINDS)
def test_every_recorded_reward_is_equal(
    kind: str, webshop: Path, catalogues: dict[str, Catalogue]
) -> None:
    catalogue, judge = catalogues[kind], Judge()
    cases = lines(webshop, f"rewards_{kind}")
    for case in cases:
        product = catalogue.product(case["asin"])
        assert product is not None
        goal = catalogue.goals[case["goal_idx"]]
        parts = judge.score(goal, product, case["price"], case["options"])
        assert parts.total == pytest.approx(case["reward"], abs=1e-12)
        assert parts.details() == case["info"]
    assert len(cases) == REWARDS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_buys_what_was_asked_for(kind: str, catalogues: dict[str, Catalogue]) -> None:
    env = gym.make("WebShop-v0", catalogue=catalogues[kind])
    unwrapped: Any = env.unwrapped
    count = min(13, len(catalogues[kind].goals))
    scores = []
    for task in range(count):
        observation, info = env.reset(options={"task_id": task})
        policy, over = unwrapped.policy("oracle"), False
        while not over:
            observation, _, terminated, truncated, info = env.step(policy(observation, info))
            over = terminated or truncated
        scores.append(info["score"])
        assert info["metrics"]["purchases"] == 1.0
    assert sum(score == 1.0 for score in scores) >= 0.9 * count, scores


def _available(info: dict[str, Any]) -> dict[str, Any]:
    return {"has_search_bar": info["has_search_bar"], "clickables": list(info["clickables"])}

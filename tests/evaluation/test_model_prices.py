"""What the model calls of an episode cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym_suite.errors import UsageError
from agentgym_suite.evaluation.prices import Price, PriceTable
from agentgym_suite.evaluation.verify import verify_run
from agentgym_suite.usage import Usage
from tests.chat_server import Answer, chat_server, completion
from tests.evaluation.model_runs import ENV, calls, openai, records, run, thinks


def test_the_price_of_a_call() -> None:
    price = Price(input=2.0, output=8.0, cached_input=0.5)
    assert price.usd(Usage(1000, 20, 600)) == pytest.approx((400 * 2 + 600 * 0.5 + 20 * 8) / 1e6)
    assert price.usd(Usage(10, 0, 99)) == pytest.approx(10 * 0.5 / 1e6)


def test_an_episode_costs_what_its_calls_cost(counting_env: str, tmp_path: Path) -> None:
    with chat_server(calls) as server:
        run(openai(server.url, "gpt-4.1"), tmp_path / "known")
        run(openai(server.url), tmp_path / "unknown")
    shipped = PriceTable.read()
    each = shipped.models["gpt-4.1"].usd(Usage(1000, 20, 600))
    for record in records(tmp_path / "known"):
        assert record["cost"]["usd"] == pytest.approx(record["n_steps"] * each)
        assert record["cost"]["price_table"] == shipped.name
    assert records(tmp_path / "unknown")[0]["cost"] == {"usd": None, "price_table": shipped.name}


def test_a_price_table_of_one_s_own(counting_env: str, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('as_of = "today"\n[models]\ntiny = { input = 1, output = 2.0 }\n')
    with chat_server(thinks) as server:
        run(openai(server.url, prompting="reflexion", price_table=own), tmp_path / "run")
    for record in records(tmp_path / "run"):  # every round and reflection costs
        answered = record["n_steps"] + 2
        assert record["cost"] == {
            "usd": pytest.approx(answered * (11 * 1 + 3 * 2) / 1e6),
            "price_table": "own.toml of today",
        }


@pytest.mark.parametrize(
    ("usage", "usd"), [({"prompt_tokens": 1000, "completion_tokens": 99}, 1), ({}, None)]
)
def test_a_reply_that_says_nothing_costs_its_tokens(
    counting_env: str, tmp_path: Path, usage: dict[str, int], usd: int | None
) -> None:
    cut_off = Answer(completion("", finish_reason="length", usage=usage))
    with chat_server([cut_off]) as server:
        results = run(openai(server.url, "gpt-4.1"), tmp_path)
    each = PriceTable.read().models["gpt-4.1"].usd(Usage(1000, 99))
    for record in records(tmp_path):
        assert record["cost"]["usd"] == (usd and pytest.approx(each))
        assert record["failure"]["tokens"] == {
            "prompt": usage.get("prompt_tokens", 0),
            "completion": usage.get("completion_tokens", 0),
            "cached": 0,
        }
    assert results.envs[ENV].tokens.prompt == 6 * usage.get("prompt_tokens", 0)
    assert verify_run(tmp_path).verdict == "verified"


def test_usage_that_is_not_told_makes_the_price_unknown(counting_env: str, tmp_path: Path) -> None:
    def silent(request: dict[str, Any]) -> Answer:
        return Answer({**calls(request).body, "usage": None})

    with chat_server(silent) as server:
        run(openai(server.url, "gpt-4.1"), tmp_path)
    assert {record["cost"]["usd"] for record in records(tmp_path)} == {None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "is not TOML"),
        ('as_of = "t"\n[models]\nm = 3\n', "is no table"),
        ('as_of = "t"\n[models]\nm = { input = 1 }\n', "output"),
        ('as_of = "t"\n[models]\nm = { input = -1, output = 1 }\n', "number from 0"),
        ('as_of = "t"\n[models]\nm = { input = 1, output = 1, out = 1 }\n', "out"),
        ("[models]\n", "as_of"),
    ],
)
def test_what_is_no_price_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        PriceTable.read(path)

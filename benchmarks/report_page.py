"""How long the report of 1,000 episodes takes to open in a real browser, and how large it is.

    python benchmarks/report_page.py [--episodes N] [--env ID] [--times N]

Chromium opens the page from the disk, each time in a browser of its own, until the first episode
stands there and the browser has drawn it; then one goes through its steps and filters the list by
keyboard. Figures are wall-clock medians.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from agentgym_suite.evaluation.agent_runs import run_agents
from agentgym_suite.evaluation.open_suites import ad_hoc_suite
from agentgym_suite.evaluation.report import write_report
from agentgym_suite.evaluation.scored_runs import load_runs
from agentgym_suite.evaluation.settings import named_agent

BOUND_S = 2.0
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def made_report(folder: Path, env_id: str, episodes: int) -> tuple[Path, int, float]:
    """The page, the episodes in it and the CPU seconds that writing it took."""
    tasks = len(ad_hoc_suite(env_id).suite.envs[0].tasks)
    trials = max(1, round(episodes / tasks))
    opened = ad_hoc_suite(env_id, trials=trials, episodes=min(tasks, episodes))
    run_agents(opened, [named_agent("random")], folder)
    started = time.process_time()
    page = write_report(folder, load_runs([folder]))
    return page, opened.suite.planned, time.process_time() - started


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def opened_page(browser: Any, path: Path, figures: dict[str, list[float]]) -> None:
    """Open the page, step and filter, and keep the times."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})

    def open_it() -> None:
        page.goto(path.as_uri())
        page.wait_for_function("document.getElementById('task').textContent !== ''")
        page.evaluate(DRAWN)

    def press(key: str) -> None:
        page.keyboard.press(key)
        page.evaluate(DRAWN)

    figures["open"].append(seconds(open_it))
    page.focus("#list")
    figures["step"].append(seconds(lambda: press("ArrowRight")))
    figures["episode"].append(seconds(lambda: press("ArrowDown")))
    press("/")
    figures["filter"].append(seconds(lambda: press("7")))
    page.close()


def main() -> int:
    """Measure; 1 if opening takes two seconds or more."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--env", default="WebShop-v0")
    parser.add_argument("--times", type=int, default=9)
    args = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium on this machine; install one", file=sys.stderr)
        return 2
    figures: dict[str, list[float]] = {name: [] for name in ("open", "step", "episode", "filter")}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path, episodes, cpu_s = made_report(Path(folder), args.env, args.episodes)
        for _ in range(args.times):
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            opened_page(browser, path, figures)
            browser.close()
        size = path.stat().st_size / 1e6
    medians = {name: statistics.median(values) for name, values in figures.items()}
    print(f"{args.env}: {episodes:,} episodes, {size:.1f} MB, written in {cpu_s:.1f} s CPU")
    print(f"opened and drawn: {medians['open']:.2f} s (slowest {max(figures['open']):.2f} s)")
    for name in ("step", "episode", "filter"):
        print(f"{name}: {1000 * medians[name]:.0f} ms")
    return 0 if medians["open"] < BOUND_S else 1


if __name__ == "__main__":
    sys.exit(main())

"""Every way into training without torch: one sentence, with the line that installs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import agentgym_suite.trainers

BLOCKED = "import sys; sys.modules['torch'] = None\n"
SENTENCE = (
    "training needs the optional dependencies of 'train': pip install 'agentgym-suite[train]'"
)


def told(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=False
    )


def test_every_module_of_the_trainers_says_what_to_install() -> None:
    folder = Path(agentgym_suite.trainers.__file__).parent
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    assert {"registry", "trainer", "batch", "rows", "hinting"} <= set(names)
    code = f"""
import importlib
from agentgym_suite.errors import MissingExtra
for name in {names}:
    try:
        importlib.import_module(f"agentgym_suite.trainers.{{name}}")
    except MissingExtra as error:
        assert str(error) == {SENTENCE!r}, error
    else:
        raise AssertionError(name)
"""
    found = told(code)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_command_says_it_too_and_the_others_work(tmp_path: Path) -> None:
    run = "from agentgym_suite.cli import main; raise SystemExit(main({}))"
    found = told(run.format(["train", "capo", "--out", str(tmp_path / "run")]))
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"agentgym-suite: {SENTENCE}\n"
    assert not (tmp_path / "run").exists()
    assert told(run.format(["train", "--help"])).returncode == 0
    assert told(run.format(["list"])).returncode == 0

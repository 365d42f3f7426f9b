"""What is installed is what is in the tree, built from the tree or from the sdist alike."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OUTER = ("indexes", "servers", "trainers", "evaluation")
KEPT = {
    ".md",
    ".txt",
    ".csv",
    ".pddl",
    ".twl2",
    ".py",
    ".toml",
    ".html",
    ".css",
    ".json",
    ".typed",
    ".js",
}


def tree_files() -> set[str]:
    files = set()
    for folder in ("agentgym_suite", *OUTER):
        for path in (ROOT / folder).rglob("*"):
            if (
                path.is_file()
                and (path.suffix in KEPT or path.name == "py.typed")
                and "__pycache__" not in path.parts
            ):
                name = path.relative_to(ROOT).as_posix()
                files.add(f"agentgym_suite/{name}" if folder in OUTER else name)
    return files


def wheel_files(wheel: Path) -> set[str]:
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(wheel from the tree, wheel from the sdist)."""
    folder = tmp_path_factory.mktemp("dist")
    tree = folder / "tree"  # a copy, so that nothing built earlier slips in
    skipped = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "runs")
    shutil.copytree(ROOT, tree, ignore=skipped)
    build = [sys.executable, "-m", "build", "--no-isolation", str(tree), "--outdir"]
    steps = ([*build, str(folder / "one"), "--wheel"], [*build, str(folder / "both")])
    for command in steps:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return next((folder / "one").glob("*.whl")), next((folder / "both").glob("*.whl"))


def test_the_wheel_holds_every_file_of_the_tree(built: tuple[Path, Path]) -> None:
    assert wheel_files(built[0]) == tree_files()


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_tree(built: tuple[Path, Path]) -> None:
    assert wheel_files(built[1]) == wheel_files(built[0])


def test_the_plugins_of_the_wheel_are_modules_of_it(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/entry_points.txt"))
        told = configparser.ConfigParser()
        told.read_string(wheel.read(name).decode())
    plugins = dict(told["verl.plugins"])
    assert plugins
    assert {f"{module.replace('.', '/')}.py" for module in plugins.values()} <= tree_files()


def test_the_core_asks_for_nothing_heavy(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = wheel.read(name).decode()
    core = [
        line.removeprefix("Requires-Dist: ").split(">")[0].strip()
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert sorted(core) == sorted(
        ["gymnasium", "numpy", "httpx", "starlette", "uvicorn", "jinja2", "platformdirs", "rich",
         "prometheus-client", "filelock"]
    )  # fmt: skip
